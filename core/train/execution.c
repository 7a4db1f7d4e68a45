/* SPDX-License-Identifier: MIT */
/* The execution of one (micro-)batch: its segments are queued; all-reduces and buckets are
   exchanged while the devices compute later segments; checks are done before the first update. */
#include <math.h>

#include "core/base/trace.h"
#include "core/train/execution.h"

struct copse_execution copse__execution_begin(copse_trainer *t, const struct copse_shards *s)
{
    struct copse_step_slot *slot = copse__slot_of(&t->ring, t->step);
    const uint32_t part = t->accumulation.parts;
    slot->step = t->step + 1;
    if (s)
        copse__slot_note(&t->ring, slot, part, s->of_all);
    return (struct copse_execution){ .t = t,
                                     .layout = &t->recordings.layouts[1],
                                     .shards = s,
                                     .slot = slot,
                                     .part = part,
                                     .is_training = true,
                                     .is_updating = part + 1 == t->params.accumulate,
                                     .since = copse__group_sequence(&t->strategy->group) };
}

static uint32_t next_all_reduce(const struct copse_layout *l, uint32_t from)
{
    while (from < l->events.count && l->events.at[from] == COPSE_NO_ALL_REDUCE)
        from++;
    return from;
}

static copse_status read_reports(const struct copse_execution *e, uint32_t r)
{
    copse_trainer *t = e->t;
    const size_t row = (size_t)e->part * t->strategy->replica_count + r;
    if (e->keeps_reports)
        return copse_queue_copy(
            t->strategy->replicas[r].queue, t->recordings.reports.buffers[r], 0, t->ring.outfeed[r],
            (size_t)(copse__slot_row(e->slot, e->part * e->slot->replicas) - t->ring.landing),
            (1 + t->recordings.reports.count) * COPSE_REPORT_STRIDE);
    return copse_queue_read(t->strategy->replicas[r].queue, t->recordings.reports.buffers[r], 0,
                            copse__slot_row(e->slot, row),
                            (1 + t->recordings.reports.count) * COPSE_REPORT_STRIDE);
}

/* A replica without examples adds nothing, but takes part in every exchange: zeros for the operand
   of the all-reduce behind segment `i`, or for the gradients of the next bucket. A pass that adds
   to gradients leaves them as they are. */
static copse_status queue_zeros(const struct copse_execution *e,
                                const struct copse_step_recording *rec, uint32_t i)
{
    const copse_trainer *t = e->t;
    copse_queue *q = t->strategy->replicas[rec->replica].queue;
    const struct copse_layout *l = e->layout;
    if (l->events.at[i] != COPSE_NO_ALL_REDUCE) {
        const struct copse_graph_all_reduce *c = &l->all_reduces.at[l->events.at[i]];
        const struct copse_binding at =
            copse__exchange_gradients(t->strategy->store->exchange, c->piece, rec->replica);
        return copse_queue_fill(q, at.buffer, at.offset,
                                (size_t)copse__elements(c->shape) * copse__type_bytes(COPSE_F32),
                                0);
    }
    for (size_t v = 0; rec->pass == COPSE_PASS_TRAIN && v < t->trained.count; v++) {
        if (t->trained.at[v]->is_sparse ||
            copse__optimizer_bucket(t->optimizer, t->trained.at[v]) != e->ended)
            continue;
        const struct copse_binding at = copse__variable_gradient(t->trained.at[v], rec->replica);
        COPSE_TRY(copse_queue_fill(q, at.buffer, at.offset, at.size, 0));
    }
    return COPSE_OK;
}

/* After the next segment of every replica: queue what is read back, and submit. */
static copse_status end_segment(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    const uint32_t i = e->queued;
    const bool is_last = i + 1 == e->layout->events.count,
               is_bucket = e->layout->events.at[i] == COPSE_NO_ALL_REDUCE;
    const bool has_rows = is_bucket && e->is_training && t->optimizer->buckets.at[e->ended].rows;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_step_recording *rec = e->shards->recordings[r];
        if (!rec->base.program)
            COPSE_TRY(queue_zeros(e, rec, i));
        if (has_rows)
            COPSE_TRY(copse__rows_give(rec, e->ended));
        if (i == e->report && rec->base.program)
            COPSE_TRY(read_reports(e, r));
        COPSE_TRY(copse__verify_segment(&t->verifier, &e->verified, r, i));
        if (is_last && e->is_training && copse__trainer_watches(t))
            COPSE_TRY(copse__watches_read(&t->recordings.watches, r, e->shards->at[r].count > 0));
        if (!e->is_resident)
            COPSE_TRY(copse_queue_submit(t->strategy->replicas[r].queue,
                                         &copse__ready_of(&t->recordings, i)[r]));
    }
    e->queued++;
    e->ended += is_bucket;
    e->slice = 0;
    return COPSE_OK;
}

/* Queue the next segment of every replica. */
static copse_status queue_segment(struct copse_execution *e)
{
    for (uint32_t r = 0; r < e->t->strategy->replica_count; r++) {
        copse_program *p = e->shards->recordings[r]->base.program;
        if (p)
            COPSE_TRY(copse__program_replay(p, e->queued));
    }
    return end_segment(e);
}

/* The most slices that a replica has of segment `i`, at least 1. */
static uint32_t count_slices(const struct copse_execution *e, uint32_t i)
{
    uint32_t count = 1;
    for (uint32_t r = 0; r < e->t->strategy->replica_count; r++) {
        const copse_program *p = e->shards->recordings[r]->base.program;
        count = COPSE_MAX(count, p ? copse__program_slices(p, i) : 1);
    }
    return count;
}

static copse_status queue_slice(struct copse_execution *e)
{
    for (uint32_t r = 0; r < e->t->strategy->replica_count; r++) {
        copse_program *p = e->shards->recordings[r]->base.program;
        if (p && e->slice < copse__program_slices(p, e->queued))
            COPSE_TRY(copse__program_replay_slice(p, e->queued, e->slice));
    }
    return ++e->slice < count_slices(e, e->queued) ? COPSE_OK : end_segment(e);
}

/* While the host waits for a bucket, the devices compute up to two later segments. None of these
   segments reads a weight of the bucket. */
static copse_status keep_busy(void *user)
{
    struct copse_execution *e = user;
    return !e->is_sliced && e->queued < e->layout->events.count && e->queued < e->exchanged + 3 &&
                   e->queued <= e->barrier
               ? queue_segment(e)
               : COPSE_OK;
}

/* A request to cancel ends the waits up to the first bucket. No parameter has changed then. */
static const atomic_bool *stop_of(const struct copse_execution *e, bool is_first)
{
    return is_first && e->is_training ? &e->t->is_cancelled : NULL;
}

/* Until segment `i` of all replicas is done. */
static copse_status await_segment(copse_trainer *t, uint32_t i)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_note(copse__trainer_wait(t, r, copse__ready_of(&t->recordings, i)[r]),
                             "while waiting for what replica %u gives to a sum", r));
    return COPSE_OK;
}

/* Whether the application's operations do all-reduce `number`. The value of the first replica is
   no sum: the other operands are zeros. */
static bool has_own_sum(const struct copse_execution *e, uint32_t number)
{
    const struct copse_layout *l = e->layout;
    if (!copse__strategy_has_own_sums(e->t->strategy))
        return false;
    for (size_t i = 0; i < l->updates.count; i++)
        if (l->updates.at[i].is_shared && l->updates.at[i].all_reduce == number &&
            l->updates.at[i].variable->aggregation == COPSE_AGGREGATION_ONLY_FIRST_REPLICA)
            return false;
    return true;
}

/* All-reduce `number`, after segment `i`. */
static copse_status run_all_reduce(struct copse_execution *e, uint32_t i, uint32_t number)
{
    const struct copse_graph_all_reduce *c = &e->layout->all_reduces.at[number];
    copse_exchange *x = e->t->strategy->store->exchange;
    const uint32_t bucket = c->bucket;
    if (e->is_resident)
        return copse__exchange_queue(x, bucket);
    if (has_own_sum(e, number)) {
        if (e->is_training && e->t->strategy->group.workers == 1)
            COPSE_TRY(await_segment(e->t, i));
        return copse__sum_all_reduce(e->t, c);
    }
    copse__exchange_stop_by(x, stop_of(e, e->bucket == 0));
    const copse_status s =
        copse__exchange_run(x, bucket, copse__ready_of(&e->t->recordings, i), keep_busy, e);
    copse__exchange_stop_by(x, NULL);
    return copse__note_cancelled(e->t, s);
}

static copse_status check_loss(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        if (e->shards->at[r].count == 0)
            continue;
        COPSE_TRY(keep_busy(e));
        COPSE_TRY(
            copse_note(copse__trainer_wait(t, r, copse__ready_of(&t->recordings, e->report)[r]),
                       "while waiting for the loss of replica %u", r));
        const size_t row = (size_t)e->part * t->strategy->replica_count + r;
        const float loss = copse__slot_value(e->slot, row, 0);
        if (!isfinite(loss))
            return copse_fail(COPSE_ERR_NONFINITE,
                              "the loss of replica %u is %s; nothing was changed", r,
                              isnan(loss) ? "NaN" : "infinite");
    }
    return COPSE_OK;
}

/* Wait for all replicas' watches, and fail where an element of a gradient is not finite. */
static copse_status check_gradients(copse_trainer *t)
{
    const uint32_t last = (uint32_t)t->recordings.layouts[1].events.count - 1;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        COPSE_TRY(copse_note(copse__trainer_wait(t, r, copse__ready_of(&t->recordings, last)[r]),
                             "while waiting for the gradients of replica %u", r));
        if (t->params.check_gradients)
            COPSE_TRY(copse__watches_check(&t->recordings.watches, r));
    }
    return COPSE_OK;
}

/* The checks before the first update. No parameter has changed yet. */
static copse_status may_update(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    if (t->params.check_numerics)
        COPSE_TRY(check_loss(e));
    if (copse__trainer_watches(t) && e->queued == e->layout->events.count)
        COPSE_TRY(check_gradients(t));
    return copse__is_cancelled(t) ? copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled")
                                  : COPSE_OK;
}

static copse_status begin_update(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    const bool sums = e->is_updating && copse__strategy_has_own_sums(t->strategy);
    copse_status can = may_update(e);
    if (can == COPSE_OK && sums)
        can = await_segment(t, (uint32_t)e->layout->events.count - 1);
    if (can != COPSE_OK)
        return copse__workers_refuse(&t->workers, can);
    if (sums)
        COPSE_TRY(copse__sum_gradients(t));
    if (sums && t->strategy->group.workers == 1 && copse__is_cancelled(t))
        return copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
    t->is_failed = e->is_updating; /* until the whole update is queued */
    return COPSE_OK;
}

/* Segment `i` has the last gradient of the next bucket. */
static copse_status update_bucket(struct copse_execution *e, uint32_t i)
{
    copse_trainer *t = e->t;
    struct copse_optimizer *o = t->optimizer;
    const uint32_t b = e->bucket++;
    const struct copse_optimizer_ready ready = { copse__ready_of(&t->recordings, i), keep_busy, e,
                                                 stop_of(e, b == 0) };
    const struct copse_span span = copse__span_begin(&t->strategy->ctx->base);
    const copse_status s =
        copse__span_end(span, COPSE_SPAN_UPDATE, "update",
                        e->is_resident ? o->table->queue(o, b)
                                       : copse__note_cancelled(t, o->table->apply(o, b, &ready)));
    const struct copse_group *g = &t->strategy->group;
    if (s && b == 0 &&
        (copse__group_is_whole(g, e->since) || (s == COPSE_ERR_CANCELLED && g->workers == 1)))
        /* a worker refused, or the step was cancelled: no parameter has changed */
        t->is_failed = false;
    return s;
}

/* All gradients are needed before the first bucket is exchanged. Until then only all-reduces are
   done. */
static bool is_gated(const struct copse_execution *e)
{
    return !e->is_updating || e->t->params.gating == COPSE_GATE_GRAPH ||
           copse__trainer_watches(e->t) || copse__strategy_has_own_sums(e->t->strategy);
}

/* The next event whose bucket waits for all gradients; the number of events: there is none. */
static uint32_t next_gated(const struct copse_execution *e)
{
    const uint32_t count = (uint32_t)e->layout->events.count;
    uint32_t i = e->gate;
    while (i < count && e->layout->events.at[i] != COPSE_NO_ALL_REDUCE)
        i++;
    return e->is_updating ? i : count;
}

/* The update of its bucket. The checks belong to the first one: a step cannot stop between them. */
static copse_status update_gated(struct copse_execution *e, uint32_t i)
{
    if (e->is_training && e->bucket == 0)
        COPSE_TRY(begin_update(e));
    e->gate = i + 1;
    return update_bucket(e, i);
}

static copse_status execution_commit(const struct copse_execution *e)
{
    copse_trainer *t = e->t;
    const struct copse_optimizer_commit c = {
        .words = t->words.newest,
        .progress = { .steps = t->step + 1, .batch = t->next.batch, .epoch = t->next.epoch },
        .is_unchecked = t->verifier.audit.params.is_cross_check_off,
    };
    e->slot->loss_scale = t->optimizer->scaling.scale;
    COPSE_TRY(t->optimizer->table->commit(t->optimizer, &c));
    e->slot->is_skipped = t->optimizer->scaling.is_skipped;
    return COPSE_OK;
}

copse_status copse__execute_update(copse_trainer *t)
{
    struct copse_execution e = copse__execution_begin(t, NULL);
    e.is_training = false; /* no check, and no cancellation */
    if (copse__strategy_has_own_sums(t->strategy))
        COPSE_TRY(copse__sum_gradients(t));
    e.is_updating = t->is_failed = true;
    e.queued = e.exchanged = (uint32_t)e.layout->events.count;
    for (uint32_t i = next_gated(&e); i < e.layout->events.count; i = next_gated(&e))
        COPSE_TRY(update_gated(&e, i));
    COPSE_TRY(execution_commit(&e));
    t->is_failed = false;
    return COPSE_OK;
}

/* What is verified of a micro-batch. */
static void describe_verified(struct copse_execution *e)
{
    struct copse_verified *m = &e->verified;
    *m = (struct copse_verified){ .step = e->slot->step,
                                  .seed = e->t->params.seed,
                                  .segments = (uint32_t)e->layout->events.count,
                                  .report_names = e->t->recordings.reports.names,
                                  .report_count = e->t->recordings.reports.count };
    for (uint32_t r = 0; r < e->t->strategy->replica_count; r++) {
        struct copse_step_recording *rec = e->shards->recordings[r];
        m->programs[r] = rec->base.program;
        m->is_checked[r] = &rec->is_checked;
        m->rows[r] = rec->rows.at;
        m->row_counts[r] = rec->rows.count;
    }
}

copse_status copse__execution_check(struct copse_execution *e)
{
    describe_verified(e);
    const copse_status s = copse__verify_first(&e->t->verifier, &e->verified);
    e->t->is_failed |= e->t->verifier.is_torn;
    return s;
}

/* The first micro-batch of a step is verified, before it is queued. Not audited: a loss function
   that all-reduces, which takes part in exchanges. */
static copse_status execution_verify(struct copse_execution *e)
{
    COPSE_TRY(copse__execution_check(e));
    if (e->t->uses.hashes.launches_of == e->slot->step)
        COPSE_TRY(copse__hashes_launch(&e->t->uses.hashes, e->t->strategy, e->verified.programs));
    return copse__verify_begin(&e->t->verifier, &e->verified,
                               !e->is_resident && e->layout->all_reduces.count == 0);
}

static copse_status execution_start(struct copse_execution *e)
{
    const struct copse_layout *l = e->layout;
    const uint32_t count = (uint32_t)l->events.count;
    e->has_begun = true;
    e->waits = is_gated(e);
    if (e->is_training)
        e->t->recordings.outputs.is_newest = false; /* it overwrites those of the step before */
    e->report = count - 1;
    for (uint32_t i = 0; e->is_training && e->t->params.check_numerics && i < count; i++)
        /* the loss is complete when the first bucket is */
        if (l->events.at[i] == COPSE_NO_ALL_REDUCE) {
            e->report = i;
            break;
        }
    e->barrier = next_all_reduce(l, 0);
    return e->is_training && e->part == 0 ? execution_verify(e) : COPSE_OK;
}

/* What follows a segment that is queued. */
static copse_status exchange_segment(struct copse_execution *e)
{
    const uint32_t i = e->exchanged, all_reduce = e->layout->events.at[i];
    if (all_reduce != COPSE_NO_ALL_REDUCE) {
        const struct copse_span span = copse__span_begin(&e->t->strategy->ctx->base);
        const copse_status s = copse__span_end(span, COPSE_SPAN_EXCHANGE, "all_reduce",
                                               run_all_reduce(e, i, all_reduce));
        COPSE_TRY(copse_note(s, "in all_reduce %u", all_reduce));
        e->barrier = next_all_reduce(e->layout, i + 1);
    } else if (!e->waits) {
        if (e->bucket == 0)
            COPSE_TRY(begin_update(e));
        COPSE_TRY(update_bucket(e, i));
    }
    e->exchanged = i + 1;
    return COPSE_OK;
}

static copse_status execution_end(struct copse_execution *e)
{
    const struct copse_layout *l = e->layout;
    if (e->is_updating)
        COPSE_TRY(execution_commit(e));
    if (e->is_training && l->updates.count > 0 && !(e->is_updating && e->slot->is_skipped))
        COPSE_TRY(copse_note(
            copse__updates_commit(&e->t->recordings.layouts[1], e->t->strategy, e->shards->at),
            "while assigning to updated variables"));
    if (e->is_updating)
        e->t->is_failed = false;
    if (e->is_training)
        copse__loss_outputs_end(&e->t->recordings, e->shards->recordings);
    if (!e->is_resident)
        memcpy(e->slot->tickets, copse__ready_of(&e->t->recordings, (uint32_t)l->events.count - 1),
               e->t->strategy->replica_count * sizeof *e->slot->tickets);
    e->is_done = true;
    return COPSE_OK;
}

bool copse__execution_has_slice(const struct copse_execution *e)
{
    return e->has_begun && e->queued == e->exchanged && e->queued < e->layout->events.count;
}

uint32_t copse__execution_units(const struct copse_execution *e)
{
    const uint32_t count = (uint32_t)e->layout->events.count;
    uint32_t units = 3 + 2 * count; /* the beginning, the check of the gate, the commit */
    for (uint32_t i = 0; i < count; i++)
        units += count_slices(e, i);
    return units;
}

copse_status copse__execute_next(struct copse_execution *e)
{
    if (!e->has_begun)
        return execution_start(e);
    if (copse__execution_has_slice(e)) {
        COPSE_TRY(e->is_sliced ? queue_slice(e) : queue_segment(e));
        const bool is_gradient = e->layout->events.at[e->exchanged] == COPSE_NO_ALL_REDUCE;
        return e->waits && is_gradient && e->queued > e->exchanged ? exchange_segment(e) : COPSE_OK;
    }
    if (e->exchanged < e->layout->events.count)
        return exchange_segment(e);
    if (e->waits && e->is_training && !e->is_updating && !e->is_checked) {
        e->is_checked = true;
        return begin_update(e);
    }
    const uint32_t i = e->waits ? next_gated(e) : (uint32_t)e->layout->events.count;
    return i < e->layout->events.count ? update_gated(e, i) : execution_end(e);
}

copse_status copse__execute(struct copse_execution *e)
{
    while (!e->is_done)
        COPSE_TRY(copse__execute_next(e));
    return COPSE_OK;
}
