/* SPDX-License-Identifier: MIT */
/* Functions of two tensors, the rows of kernels/elementwise/binary.def: the node of a derivative. */
#ifndef COPSE_CORE_OPS_BINARY_H
#define COPSE_CORE_OPS_BINARY_H

#include "core/graph/op.h"

struct copse_binary_attr {
    int32_t id;   /* the number of the row */
    int32_t side; /* of derivatives: 0 = with respect to the first operand */
};

/* dy times the derivative by one operand, of a, b and dy; it has the shape of dy. */
extern const struct copse_op copse_op_binary_grad;

/* Whether t is the sum of two different tensors, both of its shape (copse_add). */
bool copse__is_sum_of_two(const copse_tensor *t);

#endif
