/* SPDX-License-Identifier: MIT */
/** @file
 * Mixed precision: products read operands of 16 bits and add in f32. docs/half-precision.md.
 */
#ifndef COPSE_PUBLIC_PRECISION_H
#define COPSE_PUBLIC_PRECISION_H

#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Let copse_matmul, copse_dense, the convolutions and attentions that are added to `g` from now on
 * convert f32 operands to `type`. Results, biases and derivatives stay f32; derivatives of products
 * are rounded to the type of the operands before they are multiplied. A trainer's `precision` sets
 * it before it calls the loss function.
 * @param type  COPSE_F16, COPSE_BF16, or COPSE_F32: operands are used as they are.
 * @retval COPSE_ERR_ARGUMENT  `g` is NULL, or another type.
 */
COPSE_API void copse_set_precision(copse_graph *g, copse_type type);

#if defined(__cplusplus)
}
#endif
#endif
