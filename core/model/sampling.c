/* SPDX-License-Identifier: MIT */
/* Drawing a token: temperature, the k most likely tokens, the nucleus (Holtzman et al., 2020).
   Softmax in double. */
#include "core/model/sampling.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/base/random.h"

#define STREAM 0x544b4e31u /* separates these numbers from others of the same seed */

copse_status copse__sampling_check(const struct copse_generate_params *how)
{
    if (!isfinite(how->temperature) || how->temperature < 0.0f)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "generate: the temperature is %g; it must be a finite number from 0",
                          (double)how->temperature);
    if (!(how->top_p >= 0.0f && how->top_p <= 1.0f))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "generate: top_p is %g; it must be a number from 0 to 1",
                          (double)how->top_p);
    return COPSE_OK;
}

/* The token with the largest output, the first of equal ones. */
static copse_status find_largest(const float *outputs, uint32_t count, uint32_t *best)
{
    *best = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(outputs[i]) || outputs[i] == INFINITY)
            return copse_fail(
                COPSE_ERR_NONFINITE,
                "generate: the network's output for token %u is %s: its weights are damaged, "
                "or the training diverged",
                i, isnan(outputs[i]) ? "NaN" : "infinite");
        *best = outputs[i] > outputs[*best] ? i : *best;
    }
    return outputs[*best] > -INFINITY
               ? COPSE_OK
               : copse_fail(COPSE_ERR_NONFINITE,
                            "generate: all outputs of the network are -infinity");
}

/* Larger outputs first, of equal ones the smaller token: a total order, so qsort gives one
   result. */
static int by_rank(const void *left, const void *right)
{
    const struct copse_candidate *a = left, *b = right;
    if (a->output != b->output)
        return a->output > b->output ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

/* [0, 1) in steps of 2^-53 */
static double sampling_uniform(uint64_t seed, uint64_t draw)
{
    const uint32_t counter[4] = { (uint32_t)draw, (uint32_t)(draw >> 32), 0, STREAM };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t random[4];
    copse__philox(counter, key, random);
    return ((double)(random[0] >> 5) * 0x1p26 + (double)(random[1] >> 6)) * 0x1p-53;
}

/* The candidates in order of probability; returns how many of them the two limits keep. */
static uint32_t sampling_rank(const float *outputs, uint32_t count, float largest,
                              const struct copse_generate_params *how, struct copse_candidate *list)
{
    double sum = 0.0, reached = 0.0;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct copse_candidate){ .output = outputs[i], .token = i };
    qsort(list, count, sizeof *list, by_rank);
    const uint32_t most = how->top_k > 0 ? COPSE_MIN(how->top_k, count) : count;
    for (uint32_t i = 0; i < most; i++)
        sum += list[i].weight =
            exp(((double)list[i].output - (double)largest) / (double)how->temperature);
    const double wanted = (how->top_p > 0.0f ? (double)how->top_p : 1.0) * sum;
    uint32_t kept = 0;
    while (kept < most && reached < wanted)
        reached += list[kept++].weight;
    return kept;
}

copse_status copse__sample(const float *outputs, uint32_t count,
                           const struct copse_generate_params *how, uint64_t draw,
                           struct copse_candidate *list, uint32_t *token)
{
    double sum = 0.0, reached = 0.0;
    COPSE_TRY(find_largest(outputs, count, token));
    if (how->temperature == 0.0f)
        return COPSE_OK;
    const uint32_t kept = sampling_rank(outputs, count, outputs[*token], how, list);
    for (uint32_t i = 0; i < kept; i++)
        sum += list[i].weight;
    const double target = sampling_uniform(how->seed, draw) * sum;
    for (uint32_t i = 0; i < kept && list[i].weight > 0.0; i++) {
        *token = list[i].token;
        reached += list[i].weight;
        if (target < reached)
            break;
    }
    return COPSE_OK;
}
