/* SPDX-License-Identifier: MIT */
/* Steps in slices. The execution of a step is kept between calls; a call executes units of it
   (execution.h) while their measured times fit into its budget, and waits for the devices, which is
   how units are measured. */
#include "copse/train/advance.h"

#include "core/base/trace.h"
#include "core/train/advancing.h"
#include "core/train/execution.h"

/* Nanoseconds of a unit; 0: not measured. */
struct unit_times {
    uint64_t *at;
    size_t count, room;
    bool is_whole; /* a batch was executed to its end */
};

struct copse_advancing {
    bool is_begun;
    struct copse_step_run run;
    uint32_t unit, units; /* next one; of the whole batch */
    /* [whether it adds to gradients][whether it ends an update]: which units a batch has depends on
       these */
    struct unit_times times[2][2];
    bool has_warned;
};

/* ---- recordings in slices ---- */

copse_status copse__slices_begin(copse_trainer *t)
{
    const copse_strategy *st = t->strategy;
    if (st->group.workers > 1 || t->optimizer->table->is_sharing)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "trainer: a step in slices is for one process with its devices; with the "
                          "%s strategy other processes would wait within the step: use "
                          "copse_trainer_step",
                          copse_strategy_name(st));
    if (t->advancing)
        return COPSE_OK;
    COPSE_TRY(copse__audit_settle(t)); /* it reads recordings */
    t->advancing = copse__alloc(&st->ctx->base.mem, 1, sizeof *t->advancing);
    COPSE_TRY(copse_need_memory(t->advancing, "trainer"));
    t->recordings.is_sliced = true;
    if (t->feed.slots.count > 0) { /* they need their recordings */
        copse__log(&st->ctx->base.log, COPSE_LOG_WARN,
                   "trainer: %u batches are fed, and what is recorded for them is not divided into "
                   "slices; call copse_trainer_prepare with `advances` before you feed",
                   t->feed.slots.count);
        return COPSE_OK;
    }
    t->recordings.outputs.is_newest = false; /* they are in recordings */
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse__recordings_fini(&t->recordings.of[r]);
    return COPSE_OK;
}

/* Of the batch that was begun last. */
static struct unit_times *times_of(const copse_trainer *t)
{
    const struct copse_step_run *run = &t->advancing->run;
    return &t->advancing->times[run->execution.part > 0][run->is_last];
}

static copse_status reserve_times(copse_trainer *t, struct unit_times *times, uint32_t units)
{
    if (!COPSE_RESERVE(&t->strategy->ctx->base.mem, times, units))
        return copse_no_memory("trainer");
    if (times->count != units) {
        memset(times->at, 0, units * sizeof *times->at);
        times->is_whole = false;
    }
    times->count = units;
    return COPSE_OK;
}

copse_status copse__advancing_reserve(copse_trainer *t, enum copse_pass pass,
                                      const struct copse_shards *s)
{
    const struct copse_execution e = { .t = t, .layout = &t->recordings.layouts[1], .shards = s };
    for (int is_last = 0; is_last < 2; is_last++)
        COPSE_TRY(reserve_times(t, &t->advancing->times[pass == COPSE_PASS_ADD][is_last],
                                copse__execution_units(&e)));
    return COPSE_OK;
}

/* ---- the end of a batch ---- */

static copse_status end_batch(copse_trainer *t, copse_status s)
{
    struct copse_advancing *a = t->advancing;
    a->is_begun = false;
    t->strategy->begun.finish = NULL;
    return copse__workers_report(&t->workers, copse__step_end(t, &a->run, s));
}

static copse_status finish_batch(void *trainer)
{
    copse_trainer *t = trainer;
    t->strategy->begun.finish = NULL; /* what follows may settle the strategy */
    const copse_status s = copse__execute(&t->advancing->run.execution);
    return copse_note(end_batch(t, s),
                      "while finishing a step that copse_trainer_advance had begun");
}

void copse__advancing_free(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    struct copse_advancing *a = t->advancing;
    if (!a)
        return;
    if (a->is_begun && finish_batch(t) != COPSE_OK)
        copse__log(&t->strategy->ctx->base.log, COPSE_LOG_WARN, "trainer: released: %s",
                   copse_last_error());
    for (int i = 0; i < 4; i++)
        copse__free(mem, a->times[i / 2][i % 2].at);
    copse__free(mem, a);
    t->advancing = NULL;
}

/* ---- units ---- */

static copse_status begin_batch(copse_trainer *t, const struct copse_host_batch *batch)
{
    struct copse_advancing *a = t->advancing;
    COPSE_TRY(copse__step_begin(t, batch, &a->run));
    struct copse_execution *e = &a->run.execution;
    e->is_sliced = true;
    a->unit = 0;
    a->units = copse__execution_units(e);
    const copse_status s = reserve_times(t, times_of(t), a->units);
    if (s != COPSE_OK)
        return copse__step_end(t, &a->run, s);
    a->is_begun = true;
    t->strategy->begun.finish = finish_batch;
    t->strategy->begun.user = t;
    return COPSE_OK;
}

/* Wait for all that is queued. A request to cancel ends the wait while nothing has changed. */
static copse_status await_queues(copse_trainer *t)
{
    const struct copse_execution *e = &t->advancing->run.execution;
    uint64_t tickets[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_queue *q = t->strategy->replicas[r].queue;
        tickets[r] = q->submitted;
        if (q->has_open_work)
            COPSE_TRY(copse_queue_submit(q, &tickets[r]));
    }
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(e->bucket > 0 ? copse__queue_await(t->strategy->replicas[r].queue, tickets[r])
                                : copse__trainer_wait(t, r, tickets[r]));
    return COPSE_OK;
}

struct turn {
    uint64_t start, budget; /* ns */
    uint32_t done;          /* units */
};

/* The units [first, a->unit) took so long together. */
static void note_times(struct copse_advancing *a, struct unit_times *times, uint32_t first,
                       uint64_t ns)
{
    uint64_t sum = 0;
    for (uint32_t i = first; i < a->unit; i++)
        sum += times->at[i];
    for (uint32_t i = first; i < a->unit; i++) {
        const double share =
            sum > 0 ? (double)times->at[i] / (double)sum : 1.0 / (double)(a->unit - first);
        const double now = (double)ns * share;
        times->at[i] =
            times->at[i] > 0 ? (uint64_t)((double)times->at[i] / 2 + now / 2) : (uint64_t)now;
        times->at[i] = COPSE_MAX(times->at[i], 1);
    }
}

/* A unit that is longer than the budget whenever it is executed. */
static void warn_once(copse_trainer *t, uint64_t ns, const struct turn *turn)
{
    struct copse_advancing *a = t->advancing;
    if (a->has_warned || turn->budget == 0 || ns <= turn->budget)
        return;
    a->has_warned = true;
    copse__log(&t->strategy->ctx->base.log, COPSE_LOG_WARN,
               "trainer: one slice of a step takes %llu us, and copse_trainer_advance has %llu us: "
               "the call takes longer; smaller batches make shorter launches",
               (unsigned long long)(ns / 1000), (unsigned long long)(turn->budget / 1000));
}

/* Execute the next unit, and the later slices that fit as well. */
static copse_status run_units(copse_trainer *t, struct turn *turn)
{
    struct copse_advancing *a = t->advancing;
    struct copse_execution *e = &a->run.execution;
    struct unit_times *times = times_of(t);
    const uint64_t start = copse__now_ns();
    const uint32_t first = a->unit;
    const uint64_t before = times->at[first];
    uint64_t left = turn->start + turn->budget > start ? turn->start + turn->budget - start : 0;
    bool more;
    do {
        const bool is_slice = copse__execution_has_slice(e);
        left -= COPSE_MIN(left, times->at[a->unit]);
        COPSE_TRY(copse__execute_next(e));
        a->unit++;
        turn->done++;
        more = is_slice && before > 0 && !e->is_done && copse__execution_has_slice(e) &&
               times->at[a->unit] > 0 && times->at[a->unit] <= left;
    } while (more);
    COPSE_TRY(await_queues(t));
    const uint64_t ns = copse__now_ns() - start;
    if (a->unit - first == 1 && before > 0)
        warn_once(t, COPSE_MIN(ns, before), turn);
    note_times(a, times, first, ns);
    return COPSE_OK;
}

/* Whether the next unit is begun in this call. */
static bool may_go_on(copse_trainer *t, const struct turn *turn)
{
    const struct copse_advancing *a = t->advancing;
    const uint64_t used = copse__now_ns() - turn->start;
    const uint64_t next = times_of(t)->at[a->unit];
    return turn->done == 0 || (used < turn->budget && next <= turn->budget - used);
}

static copse_status advance_batch(copse_trainer *t, const struct copse_host_batch *batch,
                                  struct turn *turn)
{
    struct copse_advancing *a = t->advancing;
    copse_status s = COPSE_OK;
    if (!a->is_begun)
        COPSE_TRY(copse__workers_report(&t->workers, begin_batch(t, batch)));
    if (a->run.execution.bucket == 0 && copse__is_cancelled(t))
        s = copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
    while (s == COPSE_OK && !a->run.execution.is_done && may_go_on(t, turn))
        s = run_units(t, turn);
    times_of(t)->is_whole |= a->run.execution.is_done;
    return s != COPSE_OK || a->run.execution.is_done ? end_batch(t, s) : COPSE_OK;
}

/* ---- public ---- */

static void describe_advance(copse_trainer *t, const struct turn *turn, struct copse_advance *out)
{
    const struct copse_advancing *a = t->advancing;
    const struct unit_times *times = times_of(t);
    uint64_t left = 0;
    for (size_t i = a->is_begun ? a->unit : 0; times->is_whole && i < times->count; i++)
        left += times->at[i];
    *out = (struct copse_advance){ .is_step_done = !a->is_begun,
                                   .is_in_progress = a->is_begun,
                                   .slices = turn->done,
                                   .used_us = (copse__now_ns() - turn->start) / 1000,
                                   .next_us = a->is_begun ? times->at[a->unit] / 1000 : 0,
                                   .left_us = left / 1000 };
}

copse_status copse_trainer_advance(copse_trainer *t, const struct copse_host_batch *batch,
                                   uint64_t microseconds, struct copse_advance *out)
{
    struct turn turn = { .start = copse__now_ns(),
                         .budget = COPSE_MIN(microseconds, UINT64_MAX / 2000) * 1000 };
    if (out)
        *out = (struct copse_advance){ .slices = 0 };
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(batch ? copse_no_reserved(copse_host_batch, batch) : COPSE_OK);
    COPSE_TRY(copse__require_no_replica("copse_trainer_advance", t));
    if (!t->advancing || !t->advancing->is_begun) {
        COPSE_TRY(copse__trainer_check(t));
        COPSE_TRY(copse__slices_begin(t));
    }
    const struct copse_base *base = &t->strategy->ctx->base;
    const struct copse_span span = copse__span_begin(base);
    copse__trace_step(base, t->step + 1);
    COPSE_TRY(copse__span_end(span, COPSE_SPAN_STEP, "slice", advance_batch(t, batch, &turn)));
    if (out)
        describe_advance(t, &turn, out);
    return COPSE_OK;
}
