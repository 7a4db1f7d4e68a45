/* SPDX-License-Identifier: MIT */
/* A batch of matrix products as launches: what matmul and dense have in common. */
#ifndef COPSE_PRODUCT_H
#define COPSE_PRODUCT_H

#include "copse/matmul.h"
#include "core/graph/op.h"

/* c[batch, m, n] = activation(op(a) op(b) + bias) */
struct copse_product {
    const copse_tensor *a, *b, *bias, *c; /* bias: NULL = none */
    uint32_t batch, m, n, k;
    bool a_transposed, b_transposed;
    copse_activation activation; /* up to COPSE_TANH */
};

/* f(z) in double, for references. */
double copse__activate(int32_t activation, double z);

/* Launch it by the variant that was chosen for "matmul", or by the one that fits the device. */
copse_status copse__lower_product(struct copse_lowering *l, const struct copse_product *p);

/* Products of similar sizes are taken to have the same fastest variant: each of m, n and k counts as one of
   these; see copse__size_class. */
#define COPSE_PRODUCT_SIZES { 32, 128, 512 }
#define COPSE_PRODUCT_CLASS 24 /* bytes of its name: "nt-32-128-512" */
void copse__product_class(uint32_t m, uint32_t n, uint32_t k, bool a_transposed, bool b_transposed,
                          char name[COPSE_PRODUCT_CLASS]);

#endif
