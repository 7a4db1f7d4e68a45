/* SPDX-License-Identifier: MIT */
/* Pooling as launches. */
#ifndef COPSE_CORE_OPS_POOL_H
#define COPSE_CORE_OPS_POOL_H

#include "core/ops/conv/conv.h"

enum { COPSE_POOL_LARGEST, COPSE_POOL_MEAN }; /* KIND of the kernels */

/* Windows over images or sequences of this shape. */
struct copse_pool_attr {
    struct copse_window h, w;
    int32_t kind;
    bool counts_padding;
};

/* Of the gradient ops: the pooling, and the shape of x. */
struct copse_pool_grad_attr {
    struct copse_pool_attr of;
    copse_shape shape;
};

struct copse_pool {
    int32_t kind;
    /* divisor: of each mean; 0 = the elements of the window that are inside of the image */
    uint32_t images, channels, divisor;
    struct copse_conv_axis h, w;
    /* dy: of the gradient. Tensors that the kernel does not read are NULL */
    const copse_tensor *x, *dy, *to;
};

/* The windows of y, or of its gradient, on x; COPSE_ERR_SHAPE in the name of y
   (pool_grad_variants.c). */
copse_status copse__pool_work(const copse_tensor *y, const struct copse_pool_attr *a, copse_shape x,
                              struct copse_pool *out);

/* The mean of windows, with any settings (pool_variants.c). */
copse_tensor *copse__pool_mean(copse_graph *g, const struct copse_pool_attr *a, copse_tensor *x);

/* Add dx from dy and, for the largest element, x (pool_grad_variants.c). */
extern const struct copse_op copse_op_pool_gradient;
copse_tensor *copse__pool_gradient(copse_graph *g, const struct copse_pool_attr *a, copse_tensor *x,
                                   copse_tensor *dy);

/* Parameters of the kernels; the first one counts results, or lines of them. */
#define COPSE_POOL_PARAMS(count_, of)                                                             \
    {                                                                                             \
        count_, (of)->channels, (of)->h.in, (of)->w.in, (of)->h.out, (of)->w.out, (of)->h.stride, \
            (of)->w.stride, (uint32_t)(of)->h.step, (uint32_t)(of)->w.step,                       \
            (uint32_t) - (of)->h.first, (uint32_t) - (of)->w.first, (of)->divisor                 \
    }

/* The kernels for wide vectors process 16 channels at a time. */
static inline bool copse__pool_fits_wide(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct copse_pool *)work)->channels >= 16;
}

/* Tuning: classes by channels, and windows of 2 x 2 on 8 images of 14 x 14. The job's in[0] is
   x; the derivative adds dy. */
#define COPSE_POOL_SIZES 8, 64
bool copse__pool_size(const void *work, struct copse_size *out);
void copse__pool_job(const struct copse_size *at, struct copse_tune_job *j);

#endif
