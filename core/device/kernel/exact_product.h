/* SPDX-License-Identifier: MIT */
/* Checks every element of a product of matrices of whole numbers, at the cost of reading it. */
#ifndef COPSE_CORE_EXACT_PRODUCT_H
#define COPSE_CORE_EXACT_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

/* C[m,n] = A[m,k] B[k,n], row-major; a transposed one is stored [k,m] or [n,k]. All numbers are
   whole, and every sum of magnitudes is below 2^24, so that the result is exact in any order. */
struct copse_exact_product {
    size_t m, n, k;
    bool a_transposed, b_transposed;
    const float *a, *b, *c;
};

/* Position in c of a wrong element, and its right value; m * n if all are right. `scratch` has
   space for 2 k doubles. */
size_t copse__exact_product_wrong(const struct copse_exact_product *p, double *scratch,
                                  double *expected);

#endif
