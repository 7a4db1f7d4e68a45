/* SPDX-License-Identifier: MIT */
/* The micro-batch at hand: see micro_batch.h. */
#include "core/train/micro_batch.h"

#include "core/base/half.h"

/* ---- accumulation ---- */

copse_status copse__accumulation_check(const struct copse_accumulation *a)
{
    const struct copse_trained *v = a->trained;
    for (size_t i = 0; a->strategy->store->accumulators > 0 && i < v->count; i++)
        if (v->at[i]->accumulator && v->at[i]->accumulator != a->owner)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "trainer: another trainer gathers gradients of '%s'; "
                              "let it finish, or flush it",
                              v->at[i]->name);
    return COPSE_OK;
}

static void set_accumulator(const struct copse_accumulation *a, const void *owner)
{
    for (size_t i = 0; i < a->trained->count; i++)
        a->trained->at[i]->accumulator = owner;
}

enum copse_pass copse__accumulation_pass(const struct copse_accumulation *a, uint32_t ahead)
{
    return (a->parts + ahead) % a->every == 0 ? COPSE_PASS_TRAIN : COPSE_PASS_ADD;
}

void copse__accumulation_drop(struct copse_accumulation *a)
{
    if (a->parts > 0) {
        a->strategy->store->accumulators--;
        set_accumulator(a, NULL);
    }
    a->parts = 0;
    a->examples = a->first_examples = 0;
}

void copse__accumulation_add(struct copse_accumulation *a, size_t examples)
{
    if (a->parts == 0) {
        a->examples = 0;
        a->first_examples = examples;
    }
    a->examples += examples;
}

bool copse__accumulation_next(struct copse_accumulation *a)
{
    const bool is_last = a->parts + 1 == a->every;
    if (is_last) {
        copse__accumulation_drop(a);
    } else if (a->parts++ == 0) {
        a->strategy->store->accumulators++;
        set_accumulator(a, a->owner);
    }
    return is_last;
}

/* ---- step words ---- */

/* A micro-batch weights its gradients by the examples of the first one, which are known while it is
   computed. The scale of the update makes these the weights among all examples. */
static uint32_t scale_of(const struct copse_step_words *w, const struct copse_accumulation *a)
{
    double scale = 1.0 / (double)copse__scaling_of(w->optimizer);
    if (w->params->reduction != COPSE_LOSS_SUM)
        scale *= (double)a->first_examples / (double)a->examples;
    return copse__bits_of((float)scale);
}

copse_status copse__words_begin(const struct copse_step_words *w, bool is_training, uint64_t step,
                                const struct copse_accumulation *a, uint32_t epoch, uint32_t *words)
{
    if (!is_training || a->parts == 0) {
        memset(words, 0, sizeof w->newest);
        if (is_training)
            COPSE_TRY(copse__optimizer_words(w->optimizer, w->owner, step, words));
    }
    words[COPSE_STEP_NUMBER] = (uint32_t)step;
    words[COPSE_STEP_SEED_LO] = (uint32_t)w->params->seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(w->params->seed >> 32);
    words[COPSE_STEP_EPOCH] = epoch;
    words[COPSE_STEP_SCALE] = is_training ? scale_of(w, a) : copse__bits_of(1.0f);
    return COPSE_OK;
}

void copse__words_shard(const struct copse_step_words *w, const struct copse_host_batch *batch,
                        const struct copse_shard *shard, size_t first_examples, uint32_t *words)
{
    const double n = (double)shard->count;
    double scale = (double)copse__scaling_of(w->optimizer);
    if (w->params->reduction != COPSE_LOSS_SUM)
        scale *= n / (double)first_examples;
    words[COPSE_STEP_FIRST_EXAMPLE] = (uint32_t)(batch->first + shard->first);
    words[COPSE_STEP_SHARE] = copse__bits_of((float)scale);
    words[COPSE_STEP_IS_FIRST] =
        copse__bits_of(shard->count > 0 && shard->first == 0 ? 1.0f : 0.0f);
    words[COPSE_STEP_PART] = copse__bits_of((float)(n / (double)batch->count));
}

void copse__words_scale(const struct copse_step_words *w, const struct copse_accumulation *a,
                        uint32_t *words)
{
    words[COPSE_STEP_SCALE] = scale_of(w, a);
}
