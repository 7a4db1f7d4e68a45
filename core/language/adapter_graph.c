/* SPDX-License-Identifier: MIT */
/* What an adapter makes of the product of an adapted weight. */
#include "copse/ops.h"
#include "core/language/adapter.h"
#include "core/ops/ops.h"

/* An adapted weight in a graph. */
struct adapted {
    const copse_language *l;
    copse_graph *g;
    uint32_t layer;
    enum copse_part part;
};

static copse_tensor *adapted_matrix(const struct adapted *w, int matrix)
{
    return copse_variable_tensor(copse__adapter_matrix(w->l, w->layer, w->part, matrix));
}

/* s B (A x) */
static copse_tensor *adapted_low(const struct adapted *w, copse_tensor *x)
{
    x = copse_matmul(w->g, x, adapted_matrix(w, COPSE_ADAPTER_A), false, true);
    x = copse_multiply_by(w->g, x, w->l->adapter.scale);
    return copse_matmul(w->g, x, adapted_matrix(w, COPSE_ADAPTER_B), false, true);
}

/* Magnitudes by lengths of the rows of V = W + s B A, [outputs]. W is not computed: a row has the
   squared length |w|^2 + s b . (2 A w + s A A^T b). The length has no derivative. A row of zeros
   stays one. */
static copse_tensor *dora_factors(const struct adapted *w)
{
    static const uint32_t swapped[] = { 1, 0 }, last[] = { 1 };
    copse_graph *g = w->g;
    const float s = w->l->adapter.scale;
    copse_tensor *a = copse__detach(g, adapted_matrix(w, COPSE_ADAPTER_A)),
                 *b = copse__detach(g, adapted_matrix(w, COPSE_ADAPTER_B));
    copse_tensor *aw = copse__language_product(w->l, g, a, w->layer, w->part), /* [rank, outputs] */
        *aab = copse_matmul(g, b, copse_matmul(g, a, a, false, true), false, false);
    copse_tensor *sum = copse_add(g, copse_multiply_by(g, copse_transpose(g, aw, swapped), 2.0f),
                                  copse_multiply_by(g, aab, s));
    sum = copse_multiply_by(g, copse_sum(g, copse_mul(g, b, sum), last, 1, false), s);
    sum = copse_add(g, sum, adapted_matrix(w, COPSE_ADAPTER_SQUARES));
    sum = copse_sqrt(g, copse_clip(g, sum, 1e-30f, 3e38f));
    return copse_div(g, adapted_matrix(w, COPSE_ADAPTER_MAGNITUDES), sum);
}

copse_tensor *copse__adapter_add(const copse_language *l, copse_graph *g, uint32_t layer,
                                 enum copse_part part, copse_tensor *x, copse_tensor *y,
                                 bool is_training)
{
    const struct adapted w = { l, g, layer, part };
    if (!copse__adapter_matrix(l, layer, part, COPSE_ADAPTER_A))
        return y;
    const bool drops = is_training && l->adapter.dropout > 0.0f;
    x = copse_dropout(g, x, l->adapter.dropout, is_training);
    if (!l->adapter.is_dora)
        return copse_add(g, y, adapted_low(&w, x));
    copse_tensor *factors = dora_factors(&w);
    if (!drops)
        return copse_mul(g, copse_add(g, y, adapted_low(&w, x)), factors);
    /* y is W x without dropout, which changes what is added: as in PEFT */
    copse_tensor *dropped = copse__language_product(l, g, x, layer, part);
    copse_tensor *v = copse_add(g, dropped, adapted_low(&w, x));
    return copse_add(g, y, copse_sub(g, copse_mul(g, v, factors), dropped));
}
