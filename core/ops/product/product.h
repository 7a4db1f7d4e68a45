/* SPDX-License-Identifier: MIT */
/* A batch of matrix products as launches, shared by matmul and dense. */
#ifndef COPSE_PRODUCT_H
#define COPSE_PRODUCT_H

#include "copse/matmul.h"
#include "core/graph/op.h"

/* The matrices of an operand in a batch of products: product `item` reads matrix item / each %
   count. */
struct copse_product_items {
    uint32_t each, count;
};

/* c[batch, m, n] = activation(op(a) op(b) + bias), or another end of it (product_end.h) */
struct copse_product {
    struct copse_operand a, b; /* f32, or tensors of 16 bits */
    /* of both operands; COPSE_F32 if they differ. copse__lower_product sets it */
    copse_type type;
    int32_t end;           /* 0: the activation; else there is none, and no bias with a slope */
    const copse_tensor *z; /* of the end [NULL: it has none] */
    struct copse_operand c;
    const copse_tensor *bias; /* NULL = none */
    uint32_t batch, m, n, k;
    struct copse_product_items of_a, of_b; /* a zeroed one = a matrix for each product */
    bool a_transposed, b_transposed;
    copse_activation activation; /* up to COPSE_TANH */
    /* copse__product_share sets them: b as the chosen kernel reads it */
    struct copse_operand panels;
    bool has_panels;
};

/* The content of a buffer of a self-test: multiples of 1/16, so that sums are in the non-flat range
   of activations and still exact. */
struct copse_self_test;
void copse__matmul_soften(struct copse_self_test *t, uint32_t buffer, int32_t activation);
/* Numbers of 16 bits, two in a word: whole ones from -4 to 4, divided by `by`. */
void copse__matmul_halves(struct copse_self_test *t, uint32_t buffer, float by, bool is_bfloat);

/* f(z) in double, for references. */
double copse__activate(int32_t activation, double z);

/* dz = dy f'(z) from y = f(z), f up to COPSE_TANH; dy itself for COPSE_LINEAR (dense.c). */
copse_tensor *copse__activation_gradient(copse_graph *g, copse_activation activation,
                                         copse_tensor *y, copse_tensor *dy);

/* Whether t is such a node. */
bool copse__is_activation_gradient(const copse_tensor *t, copse_activation *out);
/* dy f'(z) in double, and the error of a device. */
double copse__activation_slope(copse_activation activation, double y, double dy);
double copse__activation_slope_ulp(copse_activation activation);

/* Before several products of these shapes with the same b: if the chosen kernel is matmul_wide and b
   is f32, copy b once into scratch memory in the panels that it reads, also where one product would
   read b in place; else nothing. Not within a round of a loop. */
copse_status copse__product_share(struct copse_lowering *l, struct copse_product *p);

/* The row of a vendor's library (matmul_library.c). */
bool copse__library_fits(const struct copse_limits *limits, const void *work);
copse_status copse__library_lower(struct copse_lowering *l, const void *work);
bool copse__library_leads(const copse_device *dev, const void *work);

/* The row `chunk` (matmul_chunk.c); operands of f32. */
bool copse__chunk_fits(const struct copse_limits *limits, const void *work);
copse_status copse__lower_chunk(struct copse_lowering *l, const struct copse_product *p);

/* Whether the kernel that would be chosen has ends. */
bool copse__product_may_end(struct copse_lowering *l, const struct copse_product *p);

/* Launch it with a variant of the family matmul. */
copse_status copse__lower_product(struct copse_lowering *l, const struct copse_product *p);

#endif
