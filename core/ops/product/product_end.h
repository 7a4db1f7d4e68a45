/* SPDX-License-Identifier: MIT */
/* Ends of products: a function of one tensor that reads a product, or a derivative that takes one as
   its slope, computed by the launch of the product. Such an end is a number, one of those below and a
   function of kernels/elementwise/unary.def or, for the last one, an activation: the constant
   ACTIVATION of kernels/product/ends.clh. */
#ifndef COPSE_PRODUCT_END_H
#define COPSE_PRODUCT_END_H

#include "core/ops/product/product.h"

enum copse_product_end {
    COPSE_END_VALUE = 64,      /* f(sum), with the bias in the sum */
    COPSE_END_KEEPS = 128,     /* the same, and the sum goes to z */
    COPSE_END_SLOPE = 256,     /* the sum times f' at z */
    COPSE_END_SLOPE_BY_Y = 512 /* the sum times the derivative of the activation whose value is z */
};

/* ---- launches ---- */

/* The constant. */
static inline int32_t copse__end_of(const struct copse_product *p)
{
    return p->end ? p->end : (int32_t)p->activation;
}
/* The buffer `bias` of a kernel, and `z` of one with ends: what it does not use is another operand,
   or a word that nothing writes. */
struct copse_operand copse__bias_of(const struct copse_product *p);
copse_status copse__kept_of(struct copse_lowering *l, const struct copse_product *p,
                            struct copse_operand *z);

/* ---- fusions, for ops whose launch is the product p of node y ---- */

/* For `fuse`, if the chosen kernel has ends. */
bool copse__end_fuse(struct copse_lowering *l, const copse_tensor *y, const struct copse_product *p,
                     uint32_t turn, struct copse_fused *out);
void copse__end_set(const struct copse_fused *f, struct copse_product *p);

/* ---- laws of kernels whose second constant is an end ---- */

static inline bool copse__end_keeps(const int32_t *spec)
{
    return spec[1] / COPSE_END_KEEPS == 1;
}
static inline bool copse__end_has_z(const int32_t *spec)
{
    return spec[1] >= COPSE_END_SLOPE;
}
/* What becomes of the sum of element i of `count`, with its bias: word i of the last two buffers,
   z and c, which follow `bias`. Of `at`: element i of z, if sums are kept, or of c. */
void copse__end_store(const int32_t *spec, double sum, const struct copse_host_arg *bias, size_t i);
double copse__end_at(const int32_t *spec, double sum, const struct copse_host_arg *bias,
                     size_t count, size_t i);
uint32_t copse__end_results(const int32_t *spec);
void copse__end_magnitudes(int32_t *spec);
void copse__end_limit(const void *params, const int32_t *spec, struct copse_limit *limit);

#endif
