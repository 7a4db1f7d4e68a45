/* SPDX-License-Identifier: MIT */
/* Steps of a trainer: a batch is prepared, its inputs and step words are queued, and its recordings
   are executed. After warm-up a step allocates nothing. */
#include "core/base/trace.h"
#include "core/train/execution.h"

copse_status copse__queue_inputs(copse_trainer *t, bool is_training,
                                 const struct copse_host_batch *batch,
                                 struct copse_batch_slot *slot, const struct copse_shards *s,
                                 const struct copse_accumulation *a)
{
    uint32_t *words = t->words.newest;
    COPSE_TRY(copse__words_begin(&t->words, is_training, t->step + 1, a, batch->epoch, words));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        copse__words_shard(&t->words, batch, &s->at[r], a->first_examples, words);
        COPSE_TRY(
            slot ? t->feed.table->take(rep, slot, s->recordings[r])
                 : copse__shard_write(rep->queue, &s->recordings[r]->base, batch, &s->at[r], NULL));
        COPSE_TRY(copse_queue_write(rep->queue, rep->step, 0, words, 4 * COPSE_STEP_WORDS));
    }
    return COPSE_OK;
}

/* Before anything is queued. The accumulated gradients are dropped, as on the other workers. */
static copse_status trainer_step_refuse(copse_trainer *t, copse_status why)
{
    why = copse__workers_refuse(&t->workers, why);
    copse__accumulation_drop(&t->accumulation);
    return why;
}

/* The inputs of a micro-batch, and all that its execution needs. */
static copse_status queue_batch(copse_trainer *t, const struct copse_host_batch *batch,
                                struct copse_batch_slot *from, struct copse_step_run *run)
{
    run->execution = copse__execution_begin(t, &run->shards);
    const uint64_t label[] = { run->execution.slot->step, batch->count, batch->first,
                               batch->epoch };
    t->next = (struct copse_position){ batch->epoch, batch->index + 1 };
    copse__accumulation_add(&t->accumulation, batch->count);
    const struct copse_span span = copse__span_begin(&t->strategy->ctx->base);
    COPSE_TRY(
        copse__span_end(span, COPSE_SPAN_UPLOAD, "inputs",
                        copse__queue_inputs(t, true, batch, from, &run->shards, &t->accumulation)));
    copse__group_note(&t->strategy->group,
                      (uint32_t)copse__hash(COPSE_HASH_START, label, sizeof label));
    return COPSE_OK;
}

copse_status copse__step_begin(copse_trainer *t, const struct copse_host_batch *batch,
                               struct copse_step_run *run)
{
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__average_refuse(t));
    if (copse__group_is_evaluator(&t->strategy->group))
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: an evaluator trains nothing");
    if (copse__is_cancelled(t))
        return trainer_step_refuse(t, copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled"));
    copse_status room = copse__trainer_make_room(t, t->step + 1);
    if (room == COPSE_OK)
        room = copse__trainer_keep_budget(t);
    /* a result that the application has not taken may be of a loss that is not finite */
    if (room != COPSE_OK)
        return trainer_step_refuse(t, room);
    struct copse_batch_slot *from = NULL;
    const enum copse_pass pass = copse__accumulation_pass(&t->accumulation, 0);
    const struct copse_span span = copse__span_begin(&t->strategy->ctx->base);
    const copse_status can = copse__span_end(
        span, COPSE_SPAN_COMPILE, "prepare",
        t->feed.table->prepare ? t->feed.table->prepare(t, batch, pass, &run->shards, &from)
                               : copse__trainer_take(t, batch, pass, true, &run->shards));
    if (can != COPSE_OK)
        return trainer_step_refuse(t, can);
    run->is_last = t->accumulation.parts + 1 == t->params.accumulate;
    run->since = copse__group_sequence(&t->strategy->group);
    const copse_status s = queue_batch(t, from ? &from->batch : batch, from, run);
    return s ? copse__step_end(t, run, s) : COPSE_OK;
}

copse_status copse__step_end(copse_trainer *t, const struct copse_step_run *run, copse_status s)
{
    if (s != COPSE_OK) {
        copse__verify_drop(&t->verifier, t->step + 1);
        s = copse__workers_notify(&t->workers, run->since, s);
        copse__accumulation_drop(&t->accumulation); /* the gradients are mixed with what failed */
        return copse_note(s, "in step %llu", (unsigned long long)t->step + 1);
    }
    struct copse_step_slot *slot = copse__slot_of(&t->ring, t->step);
    t->step += copse__accumulation_next(&t->accumulation);
    return run->is_last
               ? copse__workers_notify(&t->workers, run->since, copse__workers_send(&t->ring, slot))
               : COPSE_OK;
}

static copse_status step_batch(copse_trainer *t, const struct copse_host_batch *batch)
{
    struct copse_step_run run;
    COPSE_TRY(copse__step_begin(t, batch, &run));
    return copse__step_end(t, &run, copse__execute(&run.execution));
}

/* Returns `why`. If the trainer cannot go on, tells the other workers. */
static copse_status report_step(const copse_trainer *t, copse_status why)
{
    return t ? copse__workers_report(&t->workers, why) : why;
}

copse_status copse_trainer_step(copse_trainer *t, const struct copse_host_batch *batch)
{
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__require_no_replica("copse_trainer_step", t));
    if (!t)
        return step_batch(t, batch);
    const struct copse_base *base = &t->strategy->ctx->base;
    const struct copse_span span = copse__span_begin(base);
    copse__trace_step(base, t->step + 1);
    return copse__span_end(span, COPSE_SPAN_STEP, "step", report_step(t, step_batch(t, batch)));
}

static copse_status trainer_step_flush(copse_trainer *t)
{
    const struct copse_layout *l = &t->recordings.layouts[1];
    const uint32_t replicas = t->strategy->replica_count, last = (uint32_t)l->events.count - 1;
    struct copse_step_slot *slot = copse__slot_of(&t->ring, t->step);
    copse__words_scale(&t->words, &t->accumulation, t->words.newest);
    for (uint32_t r = 0; r < replicas; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        COPSE_TRY(
            copse_queue_write(rep->queue, rep->step, 0, t->words.newest, 4 * COPSE_STEP_WORDS));
        COPSE_TRY(copse_queue_submit(rep->queue, &copse__ready_of(&t->recordings, last)[r]));
        for (uint32_t i = 0; i < last; i++)
            copse__ready_of(&t->recordings, i)[r] = copse__ready_of(&t->recordings, last)[r];
    }
    COPSE_TRY(
        copse_note(copse__execute_update(t), "in step %llu", (unsigned long long)t->step + 1));
    copse__accumulation_drop(&t->accumulation);
    t->step++;
    return copse__workers_send(&t->ring, slot);
}

copse_status copse_trainer_flush(copse_trainer *t)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_flush", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__average_refuse(t));
    if (t->accumulation.parts == 0)
        return COPSE_OK;
    const uint64_t since = copse__group_sequence(&t->strategy->group);
    const copse_status s = copse__workers_notify(&t->workers, since, trainer_step_flush(t));
    if (s &&
        copse__strategy_has_own_sums(t->strategy)) /* on some workers they may be sums already */
        copse__accumulation_drop(&t->accumulation);
    return report_step(t, s);
}

static copse_status trainer_step_evaluate(copse_trainer *t, const struct copse_host_batch *batch,
                                          struct copse_step_result *out)
{
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse_need("trainer", out));
    COPSE_TRY(copse__batch_check(batch));
    struct copse_shards s;
    uint32_t words[COPSE_STEP_WORDS]; /* of the update that accumulates */
    copse__recordings_begin(t);
    COPSE_TRY(copse__shards_split(&t->split, NULL, batch, &s));
    /* else an update accumulates, and keeps the values that it began with */
    if (t->strategy->store->accumulators == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_EVALUATE));
    const uint64_t since = copse__group_sequence(&t->strategy->group);
    copse_status status = copse__shards_record(&t->recordings, batch, COPSE_PASS_EVALUATE, &s);
    if (status == COPSE_OK)
        status = copse__shards_check(&s, t->strategy->replica_count, batch);
    /* this worker's alone, and the others wait */
    if (status == COPSE_ERR_NO_MEMORY || status == COPSE_ERR_TIMEOUT)
        return copse__workers_abort(&t->workers, since, status);
    COPSE_TRY(status);
    struct copse_execution e = {
        .t = t, .layout = &t->recordings.layouts[0], .shards = &s, .slot = &t->ring.evaluation
    };
    t->ring.evaluation.step = t->step;
    copse__slot_note(&t->ring, &t->ring.evaluation, 0, s.of_all);
    memcpy(words, t->words.newest, sizeof words);
    const struct copse_accumulation alone = { .examples = batch->count,
                                              .first_examples = batch->count };
    status = copse__queue_inputs(t, false, batch, NULL, &s, &alone);
    memcpy(t->words.newest, words, sizeof words);
    /* the same on all workers; else they wait for this one's results */
    if (status == COPSE_ERR_ARGUMENT)
        return status;
    if (!status)
        status = copse__execute(&e);
    if (!status)
        status = copse__slot_wait(&t->ring, &t->ring.evaluation, true);
    if (!status)
        status = copse__workers_send(&t->ring, &t->ring.evaluation);
    if (!status)
        status = copse__workers_receive(&t->ring, &t->ring.evaluation, true);
    if (!status)
        copse__slot_result(&t->ring, &t->recordings.reports, &t->ring.evaluation, out);
    return copse__workers_abort(&t->workers, since, status);
}

copse_status copse_trainer_evaluate(copse_trainer *t, const struct copse_host_batch *batch,
                                    struct copse_step_result *out)
{
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__require_no_replica("copse_trainer_evaluate", t));
    if (!t)
        return trainer_step_evaluate(t, batch, out);
    const struct copse_span span = copse__span_begin(&t->strategy->ctx->base);
    return copse__span_end(span, COPSE_SPAN_HOST, "evaluate",
                           report_step(t, trainer_step_evaluate(t, batch, out)));
}
