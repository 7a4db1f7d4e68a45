/* SPDX-License-Identifier: MIT */
/* Functions of one tensor, the rows of kernels/elementwise/unary.def, as launches. */
#ifndef COPSE_CORE_OPS_UNARY_H
#define COPSE_CORE_OPS_UNARY_H

#include "core/graph/op.h"

struct copse_unary_attr {
    int32_t id; /* the number of the row */
    float alpha, beta;
};

/* Elements that an invocation of a kernel for wide vectors computes: a multiple of 16. */
#define COPSE_UNARY_EACH 2048u

copse_status copse__unary_infer(const copse_tensor *y, copse_shape *shape, copse_type *type);
copse_status copse__unary_lower(struct copse_lowering *l, const copse_tensor *y);
/* dy times the derivative at x. */
copse_status copse__unary_grad(copse_graph *g, const struct copse_unary_attr *a, copse_tensor *x, copse_tensor *dy,
                               copse_tensor **out);

#endif
