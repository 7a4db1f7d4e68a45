/* SPDX-License-Identifier: MIT */
/* Batches that are uploaded ahead of their steps, where a strategy trains step by step: a ring of places in
   device memory, written on each replica's transfer queue while its own queue computes. A step begins with a
   copy on the device, from the place to where the recordings read. */
#include "core/train/execution.h"

/* ---- memory ---- */

copse_status copse__ahead_init(copse_trainer *t)
{
    const copse_strategy *st = t->strategy;
    const uint32_t room = t->params.prefetch;
    if (room == 0)
        return COPSE_OK;
    if (st->accelerator.steps_per_run > 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: prefetch is %u, and an accelerator takes whole runs of "
                                              "batches ahead: leave it 0", room);
    t->infeed.ring = copse__alloc(&st->ctx->base.mem, room, sizeof *t->infeed.ring);
    if (!t->infeed.ring)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory to take %u batches ahead", room);
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_note(copse__replica_transfer(&t->strategy->replicas[r]),
                             "while making a queue to upload batches ahead"));
    t->infeed.room = room;
    return COPSE_OK;
}

void copse__ahead_fini(copse_trainer *t)
{
    struct copse_infeed *in = &t->infeed;
    for (uint32_t i = 0; in->ring && i < t->params.prefetch; i++)
        for (uint32_t r = 0; r < t->strategy->replica_count; r++)
            copse_buffer_release(&in->ring[i].buffers[r]);
    copse__free(&t->strategy->ctx->base.mem, in->ring);
}

static copse_status make_room(copse_trainer *t, uint32_t r, size_t bytes, struct copse_ahead *a)
{
    if (copse_buffer_size(a->buffers[r]) >= bytes)
        return COPSE_OK;
    copse_buffer_release(&a->buffers[r]);
    return copse_note(copse_buffer_create(t->strategy->replicas[r].dev,
                                          &(struct copse_buffer_params){ .size = bytes },
                                          &a->buffers[r]),
                      "while making memory for a batch ahead; a smaller prefetch needs less");
}

/* ---- upload ---- */

/* The step that read the place last may still be under way. */
static copse_status wait_for_reader(const struct copse_replica *rep, uint64_t ticket)
{
    if (ticket > copse_queue_submissions(rep->queue)) /* a step that failed is not started yet */
        COPSE_TRY(copse_queue_submit(rep->queue, NULL));
    return copse__queue_wait_for(rep->transfer, rep->queue, ticket);
}

static copse_status upload(copse_trainer *t, const struct copse_host_batch *batch,
                           const struct copse_shares *s, uint32_t r, struct copse_ahead *a)
{
    const struct copse_replica *rep = &t->strategy->replicas[r];
    COPSE_TRY(make_room(t, r, copse__feed_bytes(s->recordings[r]), a));
    COPSE_TRY(wait_for_reader(rep, a->read[r]));
    COPSE_TRY(copse__feed_write(rep->transfer, s->recordings[r], batch, &s->at[r], a->buffers[r], 0));
    return copse_queue_submit(rep->transfer, &a->written[r]);
}

static copse_status put(copse_trainer *t, const struct copse_host_batch *batch,
                        const struct copse_shares *s, struct copse_ahead *a)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        if (s->at[r].count > 0)
            COPSE_TRY(copse_note(upload(t, batch, s, r, a),
                                 "while uploading replica %u's part of a batch ahead", r));
    a->shares = *s;
    copse__batch_kind_take(&a->kind, batch, s, t->strategy->replica_count);
    return COPSE_OK;
}

static struct copse_ahead *place(copse_trainer *t, uint32_t ahead)
{
    return &t->infeed.ring[(t->infeed.first + ahead) % t->infeed.room];
}

copse_status copse__ahead_feed(copse_trainer *t, const struct copse_host_batch *batch)
{
    struct copse_infeed *in = &t->infeed;
    struct copse_shares s;
    COPSE_TRY(copse__trainer_check(t));
    if (in->count == in->room)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: %u batches are fed, there is no room for one more: "
                                              "prefetch is %u", in->count, in->room);
    const bool is_first = (t->gathered + in->count) % t->params.accumulate == 0;
    COPSE_TRY(copse__shares_plan(t, batch, is_first ? COPSE_PASS_TRAIN : COPSE_PASS_ADD, &s));
    COPSE_TRY(put(t, batch, &s, place(t, in->count)));
    in->count++;
    return COPSE_OK;
}

/* ---- the step's side ---- */

/* What copse__shares_prepare does for a batch in host memory. */
static copse_status prepare_fed(copse_trainer *t, enum copse_pass pass, const struct copse_ahead *a,
                                struct copse_shares *s)
{
    COPSE_TRY(copse__holders_check(t));
    copse__recordings_begin(t);
    *s = a->shares;
    s->at = s->of_all + t->strategy->group.first;
    if (t->gathered == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_STEP));
    /* They may have moved, and those of another pass after a flush. */
    return copse__recordings_find(t, &a->kind.batch, pass, s);
}

copse_status copse__ahead_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                  enum copse_pass pass, struct copse_shares *s,
                                  struct copse_ahead **out)
{
    struct copse_infeed *in = &t->infeed;
    *out = NULL;
    if (!batch && in->ring && in->count > 0) {
        COPSE_TRY(prepare_fed(t, pass, place(t, 0), s));
        *out = place(t, 0);
        in->count--;
    } else {
        COPSE_TRY(copse__shares_prepare(t, batch, pass, s));
        if (!in->ring || in->count > 0) /* those that are fed keep their places */
            return COPSE_OK;
        COPSE_TRY(put(t, batch, s, place(t, 0)));
        *out = place(t, 0);
    }
    in->first = (in->first + 1) % in->room;
    return COPSE_OK;
}

copse_status copse__ahead_take(copse_trainer *t, struct copse_ahead *a, const struct copse_step_recording *rec)
{
    const uint32_t r = rec->replica;
    const struct copse_replica *rep = &t->strategy->replicas[r];
    if (rec->examples == 0)
        return COPSE_OK;
    COPSE_TRY(copse_note(copse__queue_wait_for(rep->queue, rep->transfer, a->written[r]),
                         "while waiting for the upload of replica %u's part of the batch", r));
    a->read[r] = copse__queue_next(rep->queue);
    return copse__feed_take(rep->queue, rec, a->buffers[r], 0);
}
