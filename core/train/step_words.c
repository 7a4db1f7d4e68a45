/* SPDX-License-Identifier: MIT */
/* The step words: what the kernels of a recording read of the step at hand. */
#include "core/base/half.h"
#include "core/train/trainer.h"

/* A micro-batch weights its gradients by the examples of the first one, which are known while it is
   computed. The scale of the update makes these the weights among all examples. */
static uint32_t scale_of(const copse_trainer *t, const struct copse_accumulation *a)
{
    double scale = 1.0 / (double)copse__scaling_of(t->optimizer);
    if (t->params.reduction != COPSE_LOSS_SUM)
        scale *= (double)a->first_examples / (double)a->examples;
    return copse__bits_of((float)scale);
}

copse_status copse__words_begin(copse_trainer *t, bool is_training, uint64_t step,
                                const struct copse_accumulation *a, uint32_t epoch, uint32_t *words)
{
    if (!is_training || a->parts == 0) {
        memset(words, 0, sizeof t->words);
        if (is_training)
            COPSE_TRY(copse__optimizer_words(t->optimizer, t, step, words));
    }
    words[COPSE_STEP_NUMBER] = (uint32_t)step;
    words[COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32);
    words[COPSE_STEP_EPOCH] = epoch;
    words[COPSE_STEP_SCALE] = is_training ? scale_of(t, a) : copse__bits_of(1.0f);
    return COPSE_OK;
}

void copse__words_shard(const copse_trainer *t, const struct copse_host_batch *batch,
                        const struct copse_shard *shard, size_t first_examples, uint32_t *words)
{
    const double n = (double)shard->count;
    double scale = (double)copse__scaling_of(t->optimizer);
    if (t->params.reduction != COPSE_LOSS_SUM)
        scale *= n / (double)first_examples;
    words[COPSE_STEP_FIRST_EXAMPLE] = (uint32_t)(batch->first + shard->first);
    words[COPSE_STEP_SHARE] = copse__bits_of((float)scale);
    words[COPSE_STEP_IS_FIRST] =
        copse__bits_of(shard->count > 0 && shard->first == 0 ? 1.0f : 0.0f);
    words[COPSE_STEP_PART] = copse__bits_of((float)(n / (double)batch->count));
}

void copse__words_scale(const copse_trainer *t, uint32_t *words)
{
    words[COPSE_STEP_SCALE] = scale_of(t, &t->accumulation);
}
