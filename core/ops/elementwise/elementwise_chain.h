/* SPDX-License-Identifier: MIT */
/* Chains: up to four elementwise nodes in one launch. Each node is the only reader of the one before. */
#ifndef COPSE_CORE_OPS_CHAIN_H
#define COPSE_CORE_OPS_CHAIN_H

#include "core/graph/op.h"

/* A link of kernels/elementwise/chain.cl: a function, a mode times 16, and 64 where the value is the
   second operand. */
#define COPSE_MOST_LINKS 4
enum copse_link_function {
    COPSE_LINK_ADD = 1,
    COPSE_LINK_SUB,
    COPSE_LINK_MUL,
    COPSE_LINK_SLOPE, /* of relu: the value where the operand is above 0 */
    COPSE_LINK_RELU,  /* from here on without an operand */
    COPSE_LINK_SCALE,
    COPSE_LINK_SQUARE
};
enum copse_link_mode { COPSE_LINK_EACH, COPSE_LINK_ONE, COPSE_LINK_PERIOD };
#define COPSE_LINK_MODE  16
#define COPSE_LINK_SWAPS 64

/* `fuse` and `lower_fused` of ops with `chain`. */
bool copse__chain_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                       struct copse_fused *out);
copse_status copse__chain_lower(struct copse_lowering *l, const struct copse_fused *f);

#endif
