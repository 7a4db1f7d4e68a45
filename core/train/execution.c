/* SPDX-License-Identifier: MIT */
/* A (micro-)batch under way: its segments are queued, crossings and buckets are exchanged while later ones are still
   being computed, and what must hold before an update is looked at. */
#include <math.h>

#include "core/train/execution.h"

static uint32_t next_crossing(const struct copse_layout *l, uint32_t from)
{
    while (from < l->events.count && l->events.at[from] == COPSE_NO_CROSSING)
        from++;
    return from;
}

static copse_status read_reports(const struct copse_flight *f, uint32_t r)
{
    copse_trainer *t = f->t;
    const size_t row = (size_t)f->part * t->strategy->replica_count + r;
    if (f->keeps_reports)
        return copse_queue_copy(t->strategy->replicas[r].queue, t->reports[r], 0, t->outfeed[r],
                                (size_t)(copse__slot_row(f->slot, f->part * f->slot->replicas) -
                                         t->landing),
                                (1 + t->report_count) * COPSE_REPORT_STRIDE);
    return copse_queue_read(t->strategy->replicas[r].queue, t->reports[r], 0,
                            copse__slot_row(f->slot, row), COPSE_REPORT_BYTES);
}

/* Queue the next segment of every replica, and what is read back behind it. */
static copse_status queue_segment(struct copse_flight *f)
{
    copse_trainer *t = f->t;
    const uint32_t i = f->queued;
    const bool is_last = i + 1 == f->layout->events.count;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_step_recording *rec = f->shares->recordings[r];
        if (rec->base.program)
            COPSE_TRY(copse__program_replay(rec->base.program, i));
        else if (rec->zeros && rec->zeros[i])
            COPSE_TRY(copse__segment_replay(rec->zeros[i]));
        if (i == f->report && rec->base.program)
            COPSE_TRY(read_reports(f, r));
        if (is_last && f->is_training && copse__trainer_watches(t))
            COPSE_TRY(copse__watches_read(t, f->shares, r));
        if (!f->is_resident)
            COPSE_TRY(copse_queue_submit(t->strategy->replicas[r].queue, &copse__ready_of(t, i)[r]));
    }
    f->queued++;
    return COPSE_OK;
}

/* While the host waits for a bucket, the devices have up to two later segments to compute: what
   reads a weight of the bucket stands in none of them. */
static copse_status keep_busy(void *user)
{
    struct copse_flight *f = user;
    return f->queued < f->layout->events.count && f->queued < f->exchanged + 3 &&
                   f->queued <= f->barrier
               ? queue_segment(f)
               : COPSE_OK;
}

/* A request ends the wait for the first bucket, and for what is before it: nothing that counts has changed yet. */
static const atomic_bool *stop_of(const struct copse_flight *f, bool is_first)
{
    return is_first && f->is_training ? &f->t->is_cancelled : NULL;
}

static copse_status cross(struct copse_flight *f, uint32_t i, uint32_t bucket)
{
    copse_exchange *x = f->t->strategy->store->exchange;
    if (f->is_resident)
        return copse__exchange_queue(x, bucket);
    copse__exchange_stop_by(x, stop_of(f, f->bucket == 0));
    const copse_status s = copse__exchange_run(x, bucket, copse__ready_of(f->t, i), keep_busy, f);
    copse__exchange_stop_by(x, NULL);
    return copse__note_cancelled(f->t, s);
}

/* Segment `i` has the last gradient of bucket `b`. */
static copse_status apply(struct copse_flight *f, uint32_t i, uint32_t b)
{
    struct copse_optimizer *o = f->t->optimizer;
    const struct copse_optimizer_ready ready = { copse__ready_of(f->t, i), keep_busy, f, stop_of(f, b == 0) };
    return f->is_resident ? o->table->queue(o, b) : copse__note_cancelled(f->t, o->table->apply(o, b, &ready));
}

static copse_status check_loss(struct copse_flight *f)
{
    copse_trainer *t = f->t;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        if (f->shares->at[r].count == 0)
            continue;
        COPSE_TRY(keep_busy(f));
        COPSE_TRY(copse_note(copse__trainer_wait(t, r, copse__ready_of(t, f->report)[r]),
                             "while waiting for the loss of replica %u", r));
        const size_t row = (size_t)f->part * t->strategy->replica_count + r;
        const float loss = copse__slot_value(f->slot, row, 0);
        if (!isfinite(loss))
            return copse_fail(COPSE_ERR_NONFINITE, "the loss of replica %u is %s; nothing was changed",
                              r, isnan(loss) ? "NaN" : "infinite");
    }
    return COPSE_OK;
}

/* Up to here nothing has changed that counts. */
static copse_status may_update(struct copse_flight *f)
{
    copse_trainer *t = f->t;
    if (t->params.check_numerics)
        COPSE_TRY(check_loss(f));
    if (copse__trainer_watches(t) && f->queued == f->layout->events.count)
        COPSE_TRY(copse__watches_check(t));
    return copse__is_cancelled(t) ? copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled") : COPSE_OK;
}

static copse_status begin_update(struct copse_flight *f)
{
    copse_trainer *t = f->t;
    const copse_status can = may_update(f);
    if (can != COPSE_OK)
        return copse__workers_refuse(t, can);
    t->is_failed = f->is_updating; /* until the whole update is queued */
    return COPSE_OK;
}

static copse_status update_bucket(struct copse_flight *f, uint32_t i)
{
    copse_trainer *t = f->t;
    const uint32_t b = f->bucket++;
    const copse_status s = apply(f, i, b);
    if (s && b == 0 &&
        (copse__workers_are_whole(t, f->since) || (s == COPSE_ERR_CANCELLED && t->strategy->group.workers == 1)))
        t->is_failed = false; /* a worker could not take part, or it was cancelled: nothing was changed */
    return s;
}

/* Gradients that are all needed before the first is used: exchange crossings only. */
static bool is_gated(const struct copse_flight *f)
{
    return !f->is_updating || f->t->params.gating == COPSE_GATE_GRAPH ||
           copse__trainer_watches(f->t);
}

static copse_status update_gated(struct copse_flight *f)
{
    if (f->is_training)
        COPSE_TRY(begin_update(f));
    for (uint32_t i = 0; f->is_updating && i < f->layout->events.count; i++)
        if (f->layout->events.at[i] == COPSE_NO_CROSSING)
            COPSE_TRY(update_bucket(f, i));
    return COPSE_OK;
}

copse_status copse__trainer_commit(copse_trainer *t, struct copse_step_slot *slot)
{
    const struct copse_optimizer_commit c = {
        .words = t->words,
        .progress = { .steps = t->step + 1, .batch = t->next.batch, .epoch = t->next.epoch },
    };
    slot->loss_scale = t->optimizer->scaling.scale;
    COPSE_TRY(t->optimizer->table->commit(t->optimizer, &c));
    slot->is_skipped = t->optimizer->scaling.is_skipped;
    return COPSE_OK;
}

copse_status copse__fly(struct copse_flight *f)
{
    const struct copse_layout *l = f->layout;
    const uint32_t count = (uint32_t)l->events.count, last = count - 1;
    const bool waits = is_gated(f);
    if (f->is_training)
        copse__loss_outputs_begin(f->t);
    f->report = last;
    for (uint32_t i = 0; f->is_training && f->t->params.check_numerics && i < count; i++)
        if (l->events.at[i] == COPSE_NO_CROSSING) { /* the loss is there when the first bucket is */
            f->report = i;
            break;
        }
    f->barrier = next_crossing(l, 0);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t crossing = l->events.at[i];
        if (f->queued == i)
            COPSE_TRY(queue_segment(f));
        if (crossing != COPSE_NO_CROSSING) {
            COPSE_TRY(copse_note(cross(f, i, l->crossings.at[crossing].bucket),
                                 "in all_reduce %u", crossing));
            f->barrier = next_crossing(l, i + 1);
        } else if (!waits) {
            if (f->bucket == 0)
                COPSE_TRY(begin_update(f));
            COPSE_TRY(update_bucket(f, i));
        }
        f->exchanged = i + 1;
    }
    if (waits)
        COPSE_TRY(update_gated(f));
    if (f->is_updating)
        COPSE_TRY(copse__trainer_commit(f->t, f->slot));
    if (f->is_training && l->updates.count > 0 && !(f->is_updating && f->slot->is_skipped))
        COPSE_TRY(copse_note(copse__updates_commit(f->t, f->shares), "while assigning to updated variables"));
    if (f->is_updating)
        f->t->is_failed = false;
    if (f->is_training)
        copse__loss_outputs_end(f->t, f->shares);
    if (!f->is_resident)
        memcpy(f->slot->tickets, copse__ready_of(f->t, last),
               f->t->strategy->replica_count * sizeof *f->slot->tickets);
    return COPSE_OK;
}
