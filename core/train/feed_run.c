/* SPDX-License-Identifier: MIT */
/* The feed of an accelerator strategy: runs of several steps. Batches and step words are on the
   devices before the run begins. Each step copies its own from there, and leaves its reports in the
   outfeed, which is read behind the last step. Where all replicas have one queue a run is one
   submission. */
#include <stdio.h>

#include "core/train/execution.h"

#define WORD_BYTES ((size_t)4 * COPSE_STEP_WORDS)

/* ---- memory ---- */

static copse_status feed_run_init(copse_trainer *t)
{
    const copse_strategy *st = t->strategy;
    t->feed.words = copse__alloc(&st->ctx->base.mem,
                                 (size_t)t->feed.slots.depth * st->replica_count, WORD_BYTES);
    if (!t->feed.words)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory for runs of %u steps",
                          t->feed.slots.depth);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_replica *rep = &st->replicas[r];
        COPSE_TRY(
            copse__replica_buffer(rep, t->feed.slots.depth * WORD_BYTES, &t->feed.step_words[r]));
        COPSE_TRY(copse_note(copse__replica_buffer(rep, t->ring.at->stride, &t->ring.outfeed[r]),
                             "while making memory for the results of runs"));
    }
    return COPSE_OK;
}

static void feed_run_fini(copse_trainer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_buffer_release(&t->feed.step_words[r]);
        copse_buffer_release(&t->ring.outfeed[r]);
    }
    copse__free(&t->strategy->ctx->base.mem, t->feed.words);
}

/* ---- feeding ---- */

/* All batches of a run have the shards and the columns of the first. */
static copse_status check_batch(const struct copse_batch_slots *f,
                                const struct copse_host_batch *batch)
{
    const struct copse_batch_slot *first = &f->at[0];
    COPSE_TRY(copse__batch_check(batch));
    if (f->count > 0 && batch->count != first->batch.count)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: a batch of %zu examples in a run of batches of %zu; "
                          "shapes within a run are static: leave the last batch of "
                          "an epoch out (drop_last), or run it alone",
                          batch->count, first->batch.count);
    if (f->count > 0 && !copse__batch_has_columns(batch, first->columns, first->batch.column_count))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "trainer: a batch of other inputs in a run; all batches of a run have the "
            "same names, types and shapes");
    return COPSE_OK;
}

/* The shards of the first batch are those of all. */
static copse_status feed_run_plan(copse_trainer *t, const struct copse_host_batch *batch,
                                  struct copse_shards *s)
{
    const struct copse_batch_slots *f = &t->feed.slots;
    const enum copse_pass pass = copse__accumulation_pass(&t->accumulation, f->count);
    COPSE_TRY(check_batch(f, batch));
    if (f->count == 0)
        return copse__trainer_take(t, batch, pass, true, s);
    copse__shards_copy(&f->at[0].shards, s);
    COPSE_TRY(copse__shards_record(&t->recordings, batch, pass, s));
    return copse__shards_check(s, t->strategy->replica_count, batch);
}

/* ---- the run ---- */

struct run {
    copse_trainer *t;
    /* with the recordings of the first micro-batch of an update, and of others */
    struct copse_shards shards[2];
    bool is_resident, keeps_reports;
    uint64_t first_step; /* updates before */
    size_t first_row;    /* of the outfeed */
    uint32_t done;       /* batches */
};

static uint32_t *words_of(const struct copse_feed *f, uint32_t r, uint32_t i)
{
    return f->words + ((size_t)r * f->slots.depth + i) * COPSE_STEP_WORDS;
}

/* Step words of `count` batches from number `first` on, the next to be trained, as single steps
   would have them. */
static copse_status write_words(copse_trainer *t, uint32_t first, uint32_t count)
{
    const struct copse_feed *f = &t->feed;
    const uint32_t replicas = t->strategy->replica_count;
    struct copse_accumulation a = t->accumulation;
    uint64_t step = t->step + 1;
    uint32_t words[COPSE_STEP_WORDS];
    memcpy(words, t->words.newest, sizeof words);
    for (uint32_t i = first; i < first + count; i++) {
        const struct copse_batch_slot *slot = copse__batch_slot(&f->slots, i);
        copse__accumulation_add(&a, slot->batch.count);
        COPSE_TRY(copse__words_begin(&t->words, true, step, &a, slot->batch.epoch, words));
        for (uint32_t r = 0; r < replicas; r++) {
            copse__words_shard(&t->words, &slot->batch, &slot->shards.at[r], a.first_examples,
                               words);
            memcpy(words_of(f, r, i), words, sizeof words);
        }
        if (++a.parts == t->params.accumulate) {
            a.parts = 0;
            step++;
        }
    }
    for (uint32_t r = 0; r < replicas; r++)
        COPSE_TRY(copse_queue_write(t->strategy->replicas[r].queue, f->step_words[r],
                                    first * WORD_BYTES, words_of(f, r, first), count * WORD_BYTES));
    return COPSE_OK;
}

/* Batch `i` and its words go where the recordings read them. */
static copse_status copy_in(const struct copse_feed *f, const struct copse_shards *s, uint32_t i)
{
    const copse_strategy *st = f->slots.strategy;
    const struct copse_batch_slot *slot = copse__batch_slot(&f->slots, i);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_replica *rep = &st->replicas[r];
        COPSE_TRY(copse_queue_copy(rep->queue, f->step_words[r], i * WORD_BYTES, rep->step, 0,
                                   WORD_BYTES));
        COPSE_TRY(copse__batch_slot_copy(rep->queue, s->recordings[r], &slot->at[r]));
    }
    return COPSE_OK;
}

static copse_status run_batch(struct run *run)
{
    copse_trainer *t = run->t;
    const uint32_t last = t->strategy->replica_count - 1;
    const struct copse_shards *s = &run->shards[t->accumulation.parts > 0];
    struct copse_execution e = copse__execution_begin(t, s);
    e.is_resident = run->is_resident;
    e.keeps_reports = run->keeps_reports;
    if (t->optimizer->scaling.scale > 0.0f) /* the scale depends on the steps before */
        COPSE_TRY(write_words(t, run->done, 1));
    copse__accumulation_add(&t->accumulation, t->feed.slots.at[0].batch.count);
    memcpy(t->words.newest, words_of(&t->feed, last, run->done), sizeof t->words.newest);
    COPSE_TRY(copy_in(&t->feed, s, run->done));
    const copse_status executed = copse__execute(&e);
    if (executed != COPSE_OK) {
        copse__verify_drop(&t->verifier, t->step + 1);
        return executed;
    }
    t->step += copse__accumulation_next(&t->accumulation);
    run->done++;
    return COPSE_OK;
}

/* Rows of the outfeed to where the slots read them: a ring, so there may be two parts. */
static copse_status read_outfeed(const struct run *run, uint32_t r)
{
    const copse_trainer *t = run->t;
    const size_t rows = (size_t)t->ring.count * t->params.accumulate;
    const size_t ahead = COPSE_MIN(run->done, rows - run->first_row);
    unsigned char *to = t->ring.landing + r * t->ring.at->stride;
    copse_queue *q = t->strategy->replicas[r].queue;
    COPSE_TRY(copse_queue_read(q, t->ring.outfeed[r], run->first_row * COPSE_REPORT_BYTES,
                               to + run->first_row * COPSE_REPORT_BYTES,
                               ahead * COPSE_REPORT_BYTES));
    return copse_queue_read(q, t->ring.outfeed[r], 0, to, (run->done - ahead) * COPSE_REPORT_BYTES);
}

/* Start what is queued. The results of the run's steps are there when this is done. */
static copse_status feed_run_start(const struct run *run)
{
    copse_trainer *t = run->t;
    uint64_t tickets[COPSE_MAX_REPLICAS];
    const uint32_t replicas = t->strategy->replica_count;
    for (uint32_t r = 0; run->keeps_reports && r < replicas; r++)
        COPSE_TRY(read_outfeed(run, r));
    for (uint32_t r = 0; r < replicas; r++) {
        copse_queue *q = t->strategy->replicas[r].queue;
        uint32_t twin = 0;
        while (t->strategy->replicas[twin].queue != q)
            twin++;
        if (twin == r)
            COPSE_TRY(copse_queue_submit(q, &tickets[r]));
        tickets[r] = tickets[twin];
    }
    const uint64_t end = t->step + (t->accumulation.parts > 0);
    for (uint64_t step = run->first_step; run->keeps_reports && step < end; step++)
        memcpy(copse__slot_of(&t->ring, step)->tickets, tickets, replicas * sizeof *tickets);
    return COPSE_OK;
}

static copse_status begin_run(struct run *run)
{
    copse_trainer *t = run->t;
    const uint64_t last =
        t->step + (t->accumulation.parts + t->feed.slots.count - 1) / t->params.accumulate;
    COPSE_TRY(copse__accumulation_check(&t->accumulation));
    copse__recordings_begin(t);
    COPSE_TRY(copse__trainer_make_room(t, last + 1));
    for (int i = 0; i < 2; i++) {
        copse__shards_copy(&t->feed.slots.at[0].shards, &run->shards[i]);
        if (i == 0 || t->params.accumulate > 1)
            COPSE_TRY(copse__shards_record(&t->recordings, &t->feed.slots.at[0].batch,
                                           i == 0 ? COPSE_PASS_TRAIN : COPSE_PASS_ADD,
                                           &run->shards[i]));
    }
    run->keeps_reports = !t->params.check_numerics;
    run->is_resident = copse__strategy_has_one_queue(t->strategy) && run->keeps_reports &&
                       !copse__trainer_watches(t) && !t->optimizer->rule.measures &&
                       !copse__strategy_has_own_sums(t->strategy);
    run->first_step = t->step;
    run->first_row =
        (size_t)(t->step % t->ring.count) * t->params.accumulate + t->accumulation.parts;
    return t->optimizer->scaling.scale > 0.0f ? COPSE_OK : write_words(t, 0, t->feed.slots.count);
}

/* An update that is queued counts as cut short until it is started, too. */
static copse_status end_run(struct run *run, copse_status status)
{
    copse_trainer *t = run->t;
    const bool is_torn = t->is_failed;
    char text[COPSE_ERROR_BYTES];
    if (status != COPSE_OK) {
        snprintf(text, sizeof text, "%s", copse_last_error());
        copse__accumulation_drop(&t->accumulation); /* the gradients are mixed with what failed */
    }
    t->is_failed = true;
    const copse_status started = feed_run_start(run);
    t->is_failed = is_torn || started != COPSE_OK;
    if (status == COPSE_OK || run->done > 0)
        t->feed.slots.count = 0;
    return status != COPSE_OK ? copse_fail(status, "%s", text) : started;
}

static copse_status run_all(copse_trainer *t, uint32_t *done)
{
    struct run run = { .t = t };
    if (t->feed.slots.count == 0)
        return COPSE_OK;
    COPSE_TRY(begin_run(&run));
    copse_status s = COPSE_OK;
    while (s == COPSE_OK && run.done < t->feed.slots.count)
        s = copse_note(run_batch(&run), "in step %llu, number %u of a run",
                       (unsigned long long)t->step + 1, run.done);
    s = end_run(&run, s);
    *done = run.done;
    return s;
}

const struct copse_feed_table copse__feed_run = {
    .setting = "steps_per_run",
    .init = feed_run_init,
    .fini = feed_run_fini,
    .plan = feed_run_plan,
    .run = run_all,
};
