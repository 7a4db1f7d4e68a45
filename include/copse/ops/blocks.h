/* SPDX-License-Identifier: MIT */
/** @file
 * Products with quantised matrices, which stay quantised in the memory of the device: an element is
 * computed when a kernel loads it. They are constants: no gradient, no slot of an optimizer and no
 * f32 copy of them exists. copse_language_open makes them of GGUF files: docs/language-models.md.
 * The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_BLOCKS_H
#define COPSE_PUBLIC_OPS_BLOCKS_H

#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * A matrix [rows, columns] of whole numbers with one scale, and perhaps one offset, for each group
 * of neighbours in a row. The element of a number q is scale q + offset in f32: product and sum are
 * each rounded to nearest.
 */
struct copse_blocks {
    /** i32 [rows, columns bits / 32]: number c of a row is in word c bits / 32, the first one in
        the lowest bits. With offsets it is q, 0 to 2^bits - 1; else q + 2^(bits - 1) */
    copse_tensor *words;
    /** f32 [rows, columns / group]; a group has 16, 32, 64, 128 or 256 numbers */
    copse_tensor *scales;
    copse_tensor *offsets; /**< f32, the shape of scales, or NULL: none */
    uint32_t bits;         /**< 4 or 8 */
};

/**
 * x op(w) for a matrix w of blocks, op(w) = w^T if `transpose`. Only x has a derivative, not
 * scales and offsets. Sums are added as copse_matmul adds them.
 * @param x  f32 [.., columns] if `transpose`, else [.., rows]. At least one axis.
 * @param y  f32 [.., rows] if `transpose`, else [.., columns].
 * @retval COPSE_ERR_SHAPE        The shapes or types do not fit.
 * @retval COPSE_ERR_ARGUMENT     `bits` is neither 4 nor 8.
 * @retval COPSE_ERR_UNSUPPORTED  Scales or offsets are trained.
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_matmul_blocks(copse_graph *g, copse_tensor *x, const struct copse_blocks *w, bool transpose);

/**
 * Rows of a matrix of blocks by index, as f32. No derivative.
 * @param indices  i32, any shape. An index out of range gives NaN.
 * @param y        f32 [indices..., columns].
 * Errors are the same as for copse_matmul_blocks.
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_gather_blocks(copse_graph *g, const struct copse_blocks *table, copse_tensor *indices);

#if defined(__cplusplus)
}
#endif
#endif
