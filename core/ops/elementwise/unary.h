/* SPDX-License-Identifier: MIT */
/* Functions of one tensor, the rows of kernels/elementwise/unary.def, as launches. */
#ifndef COPSE_CORE_OPS_UNARY_H
#define COPSE_CORE_OPS_UNARY_H

#include "core/graph/variant.h"

/* The largest errors of a function and of its derivative, in ULPs. False: no row has this
   number. */
struct copse_unary_ulps {
    double ulp, ulp_grad;
};
bool copse__unary_ulps(int32_t number, struct copse_unary_ulps *out);
/* The limit of a derivative that is 0 between numbers: so much times |dy| times the sum of the
   magnitudes of the terms of f'(x). Both are 0 for other functions. */
double copse__slope_ratio(int32_t number);
double copse__slope_size(int32_t number, double x);
/* f(x), and dy f'(x), of a row without settings; x and dy where no row has this number. */
double copse__unary_value(int32_t number, double x);
double copse__unary_slope(int32_t number, double x, double dy);

struct copse_unary_attr {
    int32_t id; /* the number of the row */
    float alpha, beta;
};

/* Elements that an invocation of a kernel for wide vectors computes: a multiple of 16. */
#define COPSE_UNARY_EACH 2048u

/* A launch: values, and the tensors of its buffers. */
struct copse_unary_work {
    struct copse_unary_attr of;
    uint32_t n;
    const copse_tensor *x, *dy, *y; /* dy: NULL for the function; y: its result, or dx */
};

struct copse_unary_work copse__unary_work(const copse_tensor *y);

/* For struct copse_family. A job is "WHAT of N", with one input of N values. */
#define COPSE_UNARY_SIZES 4096, 1u << 18
bool copse__unary_size(const void *work, struct copse_size *out);
void copse__unary_job(const struct copse_size *at, const char *what, struct copse_tune_job *j);

/* y = -x, which is exact on every device (negate.c); and elements of a group of it. */
COPSE_PRIVATE copse_status copse__negate_command(copse_device *dev, struct copse_binding x,
                                                 struct copse_binding y, uint64_t count,
                                                 struct copse_command *out);
COPSE_PRIVATE uint64_t copse__negate_group(const struct copse_limits *limits);

copse_status copse__unary_infer(const copse_tensor *y, copse_shape *shape, copse_type *type);
copse_status copse__unary_lower(struct copse_lowering *l, const copse_tensor *y);
/* Whether t is relu of a tensor. */
bool copse__is_relu(const copse_tensor *t);
/* dy times the derivative at x, of x and dy. */
extern const struct copse_op copse_op_unary_grad;
copse_tensor *copse__unary_grad(copse_graph *g, const struct copse_unary_attr *a, copse_tensor *x,
                                copse_tensor *dy);

#endif
