/* SPDX-License-Identifier: MIT */
/** @file
 * Matrix products and dense layers. The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_MATMUL_H
#define COPSE_PUBLIC_MATMUL_H

#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Function at the end of a dense layer; see copse/elementwise.h. */
typedef enum copse_activation {
    COPSE_LINEAR, /**< none */
    COPSE_RELU,
    COPSE_SIGMOID,
    COPSE_TANH,
    COPSE_GELU,
    COPSE_SILU,
} copse_activation;

/**
 * Matrix product op(a) op(b), where op transposes the last two axes or does nothing.
 *
 * @param a  f32 [.., m, k], or [.., k, m] when `transpose_a`.
 * @param b  f32 [.., k, n], or [.., n, k] when `transpose_b`.
 * @param y  [.., m, n]; zeros where k is 0. Leading axes broadcast by NumPy's rule.
 *
 * The error is at most n u/(1-n u) sum |a||b|: u = 2^-24, n =
 * min(k,256)+min((k-1)/256,255)+(k-1)/8192, rounded down. docs/internals/conformance.md, "Sums of
 * products", has exceptions.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_matmul(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                                   bool transpose_a, bool transpose_b);

/**
 * Dense layer: activation(x w + bias).
 *
 * @param x     f32 [.., k], rank 1 or more.
 * @param w     f32 [k, n].
 * @param bias  f32 [n], or NULL for none.
 * @param y     [.., n].
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_dense(copse_graph *g, copse_tensor *x, copse_tensor *w,
                                                  copse_tensor *bias, copse_activation activation);

#if defined(__cplusplus)
}
#endif
#endif
