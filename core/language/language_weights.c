/* SPDX-License-Identifier: MIT */
/* Weights of a language model in a graph; they may be quantised. */
#include "core/language/language.h"

#include "copse/ops.h"
#include "copse/ops/blocks.h"

static struct copse_blocks weight_blocks(const struct copse_language_weight *w)
{
    return (struct copse_blocks){ copse_variable_tensor(w->values),
                                  copse_variable_tensor(w->scales),
                                  w->offsets ? copse_variable_tensor(w->offsets) : NULL, w->bits };
}

copse_tensor *copse__language_product(const copse_language *l, copse_graph *g, copse_tensor *x,
                                      uint32_t layer, enum copse_part part)
{
    const struct copse_language_weight *w = copse__language_weight(l, layer, part);
    if (w->bits == 0)
        return copse_matmul(g, x, copse_variable_tensor(w->values), false, true);
    const struct copse_blocks blocks = weight_blocks(w);
    return copse_matmul_blocks(g, x, &blocks, true);
}

copse_tensor *copse__language_rows(const copse_language *l, copse_graph *g, copse_tensor *tokens)
{
    const struct copse_language_weight *w = copse__language_weight(l, 0, COPSE_PART_EMBEDDING);
    if (w->bits == 0)
        return copse_gather(g, copse_variable_tensor(w->values), tokens);
    const struct copse_blocks blocks = weight_blocks(w);
    return copse_gather_blocks(g, &blocks, tokens);
}
