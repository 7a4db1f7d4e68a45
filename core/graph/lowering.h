/* SPDX-License-Identifier: MIT */
/* The target of an op's `lower`: either a recorder that collects launches for a device, or the
   evaluator that runs the kernels' references at once in double precision. */
#ifndef COPSE_LOWERING_H
#define COPSE_LOWERING_H

#include "core/graph/graph.h"

#define COPSE_ROUND_SCRATCH 8

struct copse_lowering {
    const struct copse_limits *limits;
    const struct copse_choice *choices;
    size_t choice_count;
    const copse_device *dev; /* NULL: the evaluator, which has the shared kernels only */
    copse_status (*scratch)(struct copse_lowering *l, uint64_t words, struct copse_operand *out);
    copse_status (*launch)(struct copse_lowering *l, enum copse_kernel_id id, const int32_t *spec,
                           const void *params, uint64_t groups, const struct copse_operand *args,
                           uint32_t arg_count);
    copse_status (*copy)(struct copse_lowering *l, struct copse_operand from,
                         struct copse_operand to, uint64_t count);
    copse_status (*gemm)(struct copse_lowering *l, const struct copse_command *shape,
                         const struct copse_operand *args); /* NULL if there is no library */
    const copse_tensor *(*reader)(const struct copse_lowering *l, const copse_tensor *t,
                                  uint32_t i);
    /* Scratch of the rounds of a loop (copse__scratch_round): the first `used` blocks are in
       use. */
    struct {
        bool is_on;
        uint32_t count, used;
        uint64_t words[COPSE_ROUND_SCRATCH];
        struct copse_operand at[COPSE_ROUND_SCRATCH];
    } round;
};

#endif
