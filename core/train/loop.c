/* SPDX-License-Identifier: MIT */
/* Runs of several steps: batches and step words stand on the devices before the loop begins; each step
   takes its own from there, and leaves its reports in the outfeed, which is read behind the last. Where all
   replicas have one queue nothing is submitted before that. */
#include <stdio.h>

#include "copse/distribute/accelerator.h"
#include "core/train/execution.h"

#define WORD_BYTES ((size_t)4 * COPSE_STEP_WORDS)

/* ---- memory ---- */

static copse_status make_outfeed(copse_trainer *t, uint32_t r)
{
    const struct copse_replica *rep = &t->strategy->replicas[r];
    const size_t bytes = t->slots->stride;
    COPSE_TRY(copse_buffer_create(rep->dev, &(struct copse_buffer_params){ .size = bytes },
                                  &t->outfeed[r]));
    return copse_queue_fill(rep->queue, t->outfeed[r], 0, bytes, 0);
}

copse_status copse__infeed_init(copse_trainer *t)
{
    const copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_infeed *in = &t->infeed;
    if (st->accelerator.steps_per_run == 0)
        return COPSE_OK;
    const size_t room = st->accelerator.steps_per_run;
    in->shares = copse__alloc(mem, 1, sizeof *in->shares);
    in->places = copse__alloc(mem, room, sizeof *in->places);
    in->words = copse__alloc(mem, room * st->replica_count, WORD_BYTES);
    if (!in->shares || !in->places || !in->words)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory for runs of %zu steps", room);
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_note(make_outfeed(t, r), "while making memory for the results of runs"));
    in->room = st->accelerator.steps_per_run;
    return COPSE_OK;
}

void copse__infeed_fini(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_buffer_release(&t->infeed.buffers[r]);
        copse_buffer_release(&t->outfeed[r]);
    }
    copse__free(mem, t->infeed.shares);
    copse__free(mem, t->infeed.places);
    copse__free(mem, t->infeed.words);
}

/* ---- the infeed ---- */

/* Of one batch of a run. */
static size_t slot_bytes(const copse_trainer *t, uint32_t r)
{
    return copse__feed_bytes(t->infeed.shares->recordings[r]);
}

static size_t slot_at(const copse_trainer *t, uint32_t r, uint32_t k)
{
    return copse__round_up(t->infeed.room * WORD_BYTES, COPSE_ALIGNMENT) + k * slot_bytes(t, r);
}

static copse_status make_room(copse_trainer *t)
{
    struct copse_infeed *in = &t->infeed;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        size_t all;
        if (!copse__mul(slot_bytes(t, r) + WORD_BYTES + COPSE_ALIGNMENT, in->room, &all)) /* no sum above is larger */
            return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: %u batches are too large", in->room);
        const size_t bytes = slot_at(t, r, in->room);
        if (copse_buffer_size(in->buffers[r]) >= bytes)
            continue;
        copse_buffer_release(&in->buffers[r]);
        COPSE_TRY(copse_note(copse_buffer_create(t->strategy->replicas[r].dev,
                                                 &(struct copse_buffer_params){ .size = bytes },
                                                 &in->buffers[r]),
                             "while making memory for the batches of %u steps; fewer steps_per_run "
                             "need less", in->room));
    }
    return COPSE_OK;
}

/* Nothing is queued before all of a batch is known to be right. */
static copse_status check_batch(const copse_trainer *t, const struct copse_host_batch *batch)
{
    const struct copse_infeed *in = &t->infeed;
    COPSE_TRY(copse_need("trainer", batch));
    if (batch->count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch holds 1 to 2^32-1 examples");
    if (in->count == in->room)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a run has %u steps, there is no room for one more",
                          in->room);
    if (in->count > 0 && batch->count != in->kind.batch.count)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch of %zu examples in a run of batches of %zu; "
                                              "shapes within a run are static: leave the last batch of "
                                              "an epoch out (drop_last), or run it alone",
                          batch->count, in->kind.batch.count);
    if (in->count > 0 && !copse__batch_kind_is(&in->kind, batch))
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch of other inputs in a run; all batches of a run have the "
                                              "same names, types and shapes");
    return COPSE_OK;
}

/* All recordings that a run needs, and memory. */
static copse_status begin_feed(copse_trainer *t, const struct copse_host_batch *batch)
{
    struct copse_infeed *in = &t->infeed;
    COPSE_TRY(copse__shares_prepare(t, batch, COPSE_PASS_TRAIN, in->shares));
    if (t->params.accumulate > 1)
        COPSE_TRY(copse__recordings_find(t, batch, COPSE_PASS_ADD, in->shares));
    copse__batch_kind_take(&in->kind, batch, in->shares, t->strategy->replica_count);
    return make_room(t);
}

static copse_status upload(copse_trainer *t, const struct copse_host_batch *batch, uint32_t k)
{
    const struct copse_infeed *in = &t->infeed;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse__feed_write(t->strategy->replicas[r].queue, in->shares->recordings[r], batch, &in->shares->at[r],
                                    in->buffers[r], slot_at(t, r, k)));
    return COPSE_OK;
}

static copse_status check_fed(copse_trainer *t)
{
    COPSE_TRY(copse__trainer_check(t));
    return t->infeed.room > 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_UNSUPPORTED, "trainer: runs of several steps need an accelerator "
                                                   "strategy, its strategy is %s; to take batches ahead of "
                                                   "its steps set `prefetch`",
                            copse_strategy_name(t->strategy));
}

copse_status copse_trainer_feed(copse_trainer *t, const struct copse_host_batch *batch)
{
    struct copse_infeed *in;
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__callback_check("copse_trainer_feed", t));
    if (t->infeed.ring)
        return copse__ahead_feed(t, batch);
    COPSE_TRY(copse_need("trainer", batch));
    COPSE_TRY(check_fed(t));
    in = &t->infeed;
    COPSE_TRY(check_batch(t, batch));
    if (in->count == 0)
        COPSE_TRY(begin_feed(t, batch));
    COPSE_TRY(copse__recordings_find(t, batch, COPSE_PASS_TRAIN, in->shares));
    COPSE_TRY(copse__feed_check(t, in->shares, batch));
    COPSE_TRY(copse_note(upload(t, batch, in->count), "while feeding batch %u of a run", in->count));
    in->places[in->count++] =
        (struct copse_batch_place){ batch->epoch, batch->first, batch->count };
    return COPSE_OK;
}

uint32_t copse_trainer_fed(const copse_trainer *t)
{
    return t ? t->infeed.count : 0;
}

void copse_trainer_unfeed(copse_trainer *t)
{
    if (t && copse__callback_allows(&t->strategy->ctx->base.log, "copse_trainer_unfeed", t))
        t->infeed.count = 0;
}

/* ---- the loop ---- */

static uint32_t *words_of(const copse_trainer *t, uint32_t r, uint32_t k)
{
    return t->infeed.words + ((size_t)r * t->infeed.room + k) * COPSE_STEP_WORDS;
}

/* Step words of `count` batches from number `first` on, the next to be trained, as single steps would have them. */
static copse_status write_words(copse_trainer *t, uint32_t first, uint32_t count)
{
    const struct copse_infeed *in = &t->infeed;
    const uint32_t replicas = t->strategy->replica_count;
    struct copse_gathered g = { t->step + 1, t->gathered, t->gathered_examples, t->first_examples };
    uint32_t words[COPSE_STEP_WORDS];
    memcpy(words, t->words, sizeof words);
    for (uint32_t k = first; k < first + count; k++) {
        if (g.part == 0) {
            g.first_examples = in->kind.batch.count;
            g.examples = 0;
        }
        g.examples += in->kind.batch.count;
        COPSE_TRY(copse__words_begin(t, true, &g, in->places[k].epoch, words));
        for (uint32_t r = 0; r < replicas; r++) {
            copse__words_share(t, &in->places[k], &in->shares->at[r], g.first_examples, words);
            memcpy(words_of(t, r, k), words, sizeof words);
        }
        if (++g.part == t->params.accumulate) {
            g.part = 0;
            g.step++;
        }
    }
    for (uint32_t r = 0; r < replicas; r++)
        COPSE_TRY(copse_queue_write(t->strategy->replicas[r].queue, in->buffers[r], first * WORD_BYTES,
                                    words_of(t, r, first), count * WORD_BYTES));
    return COPSE_OK;
}

/* Batch k and its words go where the recordings read them. */
static copse_status take(const copse_trainer *t, const struct copse_shares *s, uint32_t k)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        const struct copse_step_recording *rec = s->recordings[r];
        copse_buffer *from = t->infeed.buffers[r];
        COPSE_TRY(copse_queue_copy(rep->queue, from, k * WORD_BYTES, rep->step, 0, WORD_BYTES));
        COPSE_TRY(copse__feed_take(rep->queue, rec, from, slot_at(t, r, k)));
    }
    return COPSE_OK;
}

struct loop {
    copse_trainer *t;
    struct copse_shares shares[2]; /* with the recordings of the first micro-batch, and of others */
    bool is_resident, keeps_reports;
    uint64_t first_step; /* updates before */
    size_t first_row;    /* of the outfeed */
    uint32_t done;       /* batches */
};

static copse_status run_batch(struct loop *l)
{
    copse_trainer *t = l->t;
    const uint32_t last = t->strategy->replica_count - 1;
    const struct copse_shares *s = &l->shares[t->gathered > 0];
    struct copse_step_slot *slot = copse__slot_of(t, t->step);
    struct copse_flight f = { .t = t, .layout = &t->layouts[1], .shares = s, .slot = slot,
                              .part = t->gathered, .is_training = true,
                              .is_updating = t->gathered + 1 == t->params.accumulate,
                              .is_resident = l->is_resident, .keeps_reports = l->keeps_reports };
    slot->step = t->step + 1;
    copse__slot_note(t, slot, t->gathered, s);
    if (t->optimizer->scaling.scale > 0.0f) /* they depend on the steps before */
        COPSE_TRY(write_words(t, l->done, 1));
    (void)copse__gathered_add(t, t->infeed.kind.batch.count);
    memcpy(t->words, words_of(t, last, l->done), sizeof t->words);
    COPSE_TRY(take(t, s, l->done));
    COPSE_TRY(copse__fly(&f));
    copse__gathered_next(t);
    l->done++;
    return COPSE_OK;
}

/* Rows of the outfeed to where the slots look for them: a ring, so there may be two parts. */
static copse_status read_outfeed(const struct loop *l, uint32_t r)
{
    const copse_trainer *t = l->t;
    const size_t rows = (size_t)t->ring * t->params.accumulate;
    const size_t ahead = COPSE_MIN(l->done, rows - l->first_row);
    unsigned char *to = t->landing + r * t->slots->stride;
    copse_queue *q = t->strategy->replicas[r].queue;
    COPSE_TRY(copse_queue_read(q, t->outfeed[r], l->first_row * COPSE_REPORT_BYTES,
                               to + l->first_row * COPSE_REPORT_BYTES, ahead * COPSE_REPORT_BYTES));
    return copse_queue_read(q, t->outfeed[r], 0, to, (l->done - ahead) * COPSE_REPORT_BYTES);
}

/* Start what is queued. The results of the run's steps are there when this is done. */
static copse_status start(const struct loop *l)
{
    copse_trainer *t = l->t;
    uint64_t tickets[COPSE_MAX_REPLICAS];
    const uint32_t replicas = t->strategy->replica_count;
    for (uint32_t r = 0; l->keeps_reports && r < replicas; r++)
        COPSE_TRY(read_outfeed(l, r));
    for (uint32_t r = 0; r < replicas; r++) {
        copse_queue *q = t->strategy->replicas[r].queue;
        uint32_t twin = 0;
        while (t->strategy->replicas[twin].queue != q)
            twin++;
        if (twin == r)
            COPSE_TRY(copse_queue_submit(q, &tickets[r]));
        tickets[r] = tickets[twin];
    }
    for (uint64_t step = l->first_step; l->keeps_reports && step < t->step + (t->gathered > 0); step++)
        memcpy(copse__slot_of(t, step)->tickets, tickets, replicas * sizeof *tickets);
    return COPSE_OK;
}

static copse_status begin_run(struct loop *l)
{
    copse_trainer *t = l->t;
    const struct copse_infeed *in = &t->infeed;
    const uint64_t last = t->step + (t->gathered + in->count - 1) / t->params.accumulate;
    COPSE_TRY(copse__holders_check(t));
    copse__recordings_begin(t);
    COPSE_TRY(copse__trainer_make_room(t, last + 1));
    for (int i = 0; i < 2; i++) {
        l->shares[i] = *in->shares;
        l->shares[i].at = in->shares->at;
        if (i == 0 || t->params.accumulate > 1)
            COPSE_TRY(copse__recordings_find(t, &in->kind.batch, i == 0 ? COPSE_PASS_TRAIN : COPSE_PASS_ADD,
                                             &l->shares[i]));
    }
    l->keeps_reports = !t->params.check_numerics;
    l->is_resident = copse_accelerator_is_resident(t->strategy) && l->keeps_reports &&
                     !copse__trainer_watches(t) && !t->optimizer->rule.measures;
    l->first_step = t->step;
    l->first_row = (size_t)(t->step % t->ring) * t->params.accumulate + t->gathered;
    return t->optimizer->scaling.scale > 0.0f ? COPSE_OK : write_words(t, 0, in->count);
}

/* An update that is queued counts as cut short until it is started, too. */
static copse_status end_run(struct loop *l, copse_status status)
{
    copse_trainer *t = l->t;
    const bool is_torn = t->is_failed;
    char text[COPSE_ERROR_BYTES];
    if (status != COPSE_OK) {
        snprintf(text, sizeof text, "%s", copse_last_error());
        copse__gathered_drop(t); /* the gradients are mixed with what failed */
    }
    t->is_failed = true;
    const copse_status started = start(l);
    t->is_failed = is_torn || started != COPSE_OK;
    if (status == COPSE_OK || l->done > 0)
        t->infeed.count = 0;
    return status != COPSE_OK ? copse_fail(status, "%s", text) : started;
}

/* Each is a step of its own. */
static copse_status run_ahead(copse_trainer *t, uint32_t *done)
{
    copse_status s = copse__trainer_check(t);
    for (*done = 0; s == COPSE_OK && t->infeed.count > 0; *done += s == COPSE_OK)
        s = copse_trainer_step(t, NULL);
    if (s != COPSE_OK && *done > 0)
        t->infeed.count = 0;
    return s;
}

copse_status copse__trainer_run(copse_trainer *t, uint32_t *done)
{
    struct loop l = { .t = t };
    *done = 0;
    if (t && t->infeed.ring)
        return run_ahead(t, done);
    COPSE_TRY(check_fed(t));
    if (t->infeed.count == 0)
        return COPSE_OK;
    COPSE_TRY(begin_run(&l));
    copse_status s = COPSE_OK;
    while (s == COPSE_OK && l.done < t->infeed.count)
        s = copse_note(run_batch(&l), "in step %llu, number %u of a run",
                       (unsigned long long)t->step + 1, l.done);
    s = end_run(&l, s);
    *done = l.done;
    return s;
}

copse_status copse_trainer_run(copse_trainer *t)
{
    COPSE_TRY(copse__callback_check("copse_trainer_run", t));
    uint32_t done;
    return copse__trainer_run(t, &done);
}
