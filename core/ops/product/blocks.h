/* SPDX-License-Identifier: MIT */
/* Matrices of blocks: their form, and a product as launches. */
#ifndef COPSE_CORE_OPS_BLOCKS_H
#define COPSE_CORE_OPS_BLOCKS_H

#include "copse/ops/blocks.h"
#include "core/graph/op.h"

/* Sizes of a matrix of blocks, from its tensors. */
struct copse_blocks_form {
    uint32_t rows, columns;
    uint32_t bits, log_group; /* a group has 1 << log_group numbers */
};
#define COPSE_BLOCKS_LOG_GROUP_MIN 4u
#define COPSE_BLOCKS_LOG_GROUP_MAX 8u

/* c[m, n] = a op(b) */
struct copse_blocks_product {
    struct copse_operand a, c;
    const copse_tensor *words, *scales, *offsets; /* offsets: NULL = none */
    struct copse_blocks_form form;
    uint32_t m, n, k;
    bool b_transposed;
};

#define COPSE_BLOCKS_ONE_MOST 65536u /* terms of blocks_one: some drivers leave longer loops */

/* FORM of blocks_tile: a tile of matmul_tile.h; whether the rows of A are whole quads. */
#define COPSE_BLOCKS_FORM(shape, in_quads) ((int32_t)(shape) + 4 * (in_quads))
#define COPSE_BLOCKS_SHAPE(form)           ((enum copse_tile_shape)((form) % 4))
#define COPSE_BLOCKS_IN_QUADS(form)        ((form) / 4 != 0)

#endif
