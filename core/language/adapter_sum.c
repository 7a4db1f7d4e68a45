/* SPDX-License-Identifier: MIT */
/* The sum of several adapters is one of the sum of their ranks: s1 B1 A1 + s2 B2 A2 is
   [s1 B1, s2 B2] times A1 above A2. */
#include "core/language/adapter_file.h"

/* Zeros at first: weights that one adapter has and another has not. */
static copse_status sum_room(struct copse_adapter_values *sum, size_t place, size_t count)
{
    if (!sum->at[place])
        sum->at[place] = copse__alloc(sum->mem, count, sizeof **sum->at);
    return copse_need_memory(sum->at[place], "adapter");
}

static copse_status sum_weight(struct copse_adapter_values *sum,
                               const struct copse_adapter_values *v, uint32_t layer,
                               enum copse_part part, uint32_t first, double factor)
{
    uint32_t shape[2];
    const uint32_t all = sum->is.rank, rank = v->is.rank;
    const size_t a = copse__adapter_place(sum->l, layer, part, COPSE_ADAPTER_A),
                 b = copse__adapter_place(sum->l, layer, part, COPSE_ADAPTER_B);
    COPSE_TRY(sum_room(sum, a, copse__adapter_shape(sum->l, part, COPSE_ADAPTER_A, all, shape)));
    memcpy(sum->at[a] + (size_t)first * shape[1], v->at[a],
           (size_t)rank * shape[1] * sizeof **v->at);
    COPSE_TRY(sum_room(sum, b, copse__adapter_shape(sum->l, part, COPSE_ADAPTER_B, all, shape)));
    for (size_t row = 0; row < shape[0]; row++)
        for (uint32_t k = 0; k < rank; k++)
            sum->at[b][row * all + first + k] = (float)(factor * (double)v->at[b][row * rank + k]);
    return COPSE_OK;
}

copse_status copse__adapter_sum_add(struct copse_adapter_values *sum, uint32_t rank,
                                    const struct copse_adapter_values *v, double factor)
{
    const uint32_t first = sum->ranks;
    sum->is.rank = rank;
    sum->is.alpha = (float)rank; /* the scale is 1: factors are in B */
    sum->is.scale = 1.0f;
    for (uint32_t layer = 0; layer < sum->l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            if (v->at[copse__adapter_place(v->l, layer, (enum copse_part)part, COPSE_ADAPTER_A)])
                COPSE_TRY(sum_weight(sum, v, layer, (enum copse_part)part, first,
                                     factor * (double)v->is.scale));
    sum->ranks += v->is.rank;
    return COPSE_OK;
}
