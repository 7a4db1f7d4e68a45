/* SPDX-License-Identifier: MIT */
/* The step words: what the kernels of a recording read of the step at hand. */
#include "core/train/execution.h"

static uint32_t float_bits(double value)
{
    const float f = (float)value;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Gradients are weighted by what is known while they are computed, the examples of the first
   micro-batch; this makes the weights those of all of them. */
static double scale_of(const copse_trainer *t, size_t first_examples, size_t examples)
{
    const double scale = 1.0 / (double)copse__scaling_of(t->optimizer);
    return t->params.reduction == COPSE_LOSS_SUM ? scale
                                                 : scale * ((double)first_examples / (double)examples);
}

copse_status copse__words_begin(copse_trainer *t, bool is_training, const struct copse_gathered *g,
                                uint32_t epoch, uint32_t *words)
{
    if (!is_training || g->part == 0) { /* the schedule is asked once a step */
        memset(words, 0, sizeof t->words);
        if (is_training)
            COPSE_TRY(copse__optimizer_words(t->optimizer, t, g->step, words));
    }
    words[COPSE_STEP_NUMBER] = (uint32_t)g->step;
    words[COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32);
    words[COPSE_STEP_EPOCH] = epoch;
    words[COPSE_STEP_SCALE] =
        float_bits(is_training ? scale_of(t, g->first_examples, g->examples) : 1.0);
    return COPSE_OK;
}

void copse__words_share(const copse_trainer *t, const struct copse_batch_place *batch,
                        const struct copse_shard *share, size_t first_examples, uint32_t *words)
{
    const double n = (double)share->count, scale = (double)copse__scaling_of(t->optimizer);
    words[COPSE_STEP_FIRST_EXAMPLE] = (uint32_t)(batch->first + share->first);
    words[COPSE_STEP_SHARE] =
        float_bits(t->params.reduction == COPSE_LOSS_SUM ? scale : scale * (n / (double)first_examples));
    words[COPSE_STEP_IS_FIRST] = float_bits(share->count > 0 && share->first == 0 ? 1.0 : 0.0);
    words[COPSE_STEP_PART] = float_bits(n / (double)batch->count);
}

void copse__words_scale(const copse_trainer *t, uint32_t *words)
{
    words[COPSE_STEP_SCALE] = float_bits(scale_of(t, t->first_examples, t->gathered_examples));
}
