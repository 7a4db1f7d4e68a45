/* SPDX-License-Identifier: MIT */
/* All that a step of a trainer needs is made before the step: recordings, kernels, cross-checks. */
#include "copse/train/advance.h"

#include "core/train/advancing.h"
#include "core/train/execution.h"

/* The launches of the recordings, which leave gradients that the next step overwrites. Only a
   driver learns something by it. */
static copse_status replay_once(const copse_trainer *t, const struct copse_shards *s)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_program *p = s->recordings[r]->base.program;
        for (uint32_t i = 0; p && i < copse__program_segments(p); i++)
            COPSE_TRY(copse__program_replay(p, i));
        COPSE_TRY(copse_queue_submit(t->strategy->replicas[r].queue, NULL));
    }
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_queue_finish(t->strategy->replicas[r].queue));
    return COPSE_OK;
}

/* The inputs of a pass and its step words, which the trainer does not keep. */
static copse_status queue_pass(copse_trainer *t, const struct copse_host_batch *batch,
                               const struct copse_shards *s, bool is_training)
{
    const struct copse_accumulation alone = { .examples = batch->count,
                                              .first_examples = batch->count };
    uint32_t words[COPSE_STEP_WORDS];
    memcpy(words, t->words.newest, sizeof words);
    const copse_status status = copse__queue_inputs(t, is_training, batch, NULL, s, &alone);
    memcpy(t->words.newest, words, sizeof words);
    return status;
}

static copse_status prepare_pass(copse_trainer *t, const struct copse_host_batch *batch,
                                 enum copse_pass pass, struct copse_shards *s)
{
    struct copse_step_slot none = { .step = t->step + 1 };
    COPSE_TRY(copse__shards_record(&t->recordings, batch, pass, s));
    COPSE_TRY(copse__shards_check(s, t->strategy->replica_count, batch));
    COPSE_TRY(queue_pass(t, batch, s, pass != COPSE_PASS_EVALUATE));
    if (pass == COPSE_PASS_TRAIN) { /* as in a step, its first micro-batch is checked */
        struct copse_execution e = {
            .t = t, .layout = &t->recordings.layouts[1], .shards = s, .slot = &none
        };
        if (atomic_load(&t->is_cancelled))
            return copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
        COPSE_TRY(copse__execution_check(&e));
    }
    if (t->advancing && pass != COPSE_PASS_EVALUATE)
        COPSE_TRY(copse__advancing_reserve(t, pass, s));
    return replay_once(t, s);
}

static copse_status prepare_all(copse_trainer *t, const struct copse_host_batch *batch,
                                const struct copse_prepare_params *params)
{
    struct copse_shards s;
    copse__recordings_begin(t);
    COPSE_TRY(copse__shards_split(&t->split, &t->recordings, batch, &s));
    if (params->evaluates)
        COPSE_TRY(prepare_pass(t, batch, COPSE_PASS_EVALUATE, &s));
    COPSE_TRY(prepare_pass(t, batch, COPSE_PASS_TRAIN, &s));
    return t->params.accumulate > 1 ? prepare_pass(t, batch, COPSE_PASS_ADD, &s) : COPSE_OK;
}

copse_status copse_trainer_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   const struct copse_prepare_params *params)
{
    const struct copse_prepare_params none = { .advances = false };
    params = params ? params : &none;
    COPSE_TRY(copse_need("trainer", t, batch));
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse_no_reserved(copse_prepare_params, params));
    COPSE_TRY(copse__require_no_replica("copse_trainer_prepare", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__average_refuse(t));
    COPSE_TRY(copse__batch_check(batch));
    if (t->strategy->store->accumulators > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: gradients of micro-batches are accumulated, which the "
                          "preparation would overwrite: finish the update, or call "
                          "copse_trainer_flush");
    if (copse__is_cancelled(t))
        return copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
    if (params->advances)
        COPSE_TRY(copse__slices_begin(t));
    t->recordings.stop = &t->is_cancelled;
    const copse_status s = prepare_all(t, batch, params);
    t->recordings.stop = NULL;
    return copse_note(copse__note_cancelled(t, s), "while preparing steps");
}
