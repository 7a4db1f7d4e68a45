/* SPDX-License-Identifier: MIT */
/* Run times for modes perf and tune: by the clock of the device, else by the host's, which counts what the
   host needs to queue a run and to learn of its end. */
#include "copse/device/function.h"
#include "prover/conformance/modes/modes.h"

static copse_status run_turns(const struct copse_timed *t, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++)
        COPSE_TRY(t->f ? copse_function_run(t->f) : copse__queue_encode(t->q, &t->c));
    return COPSE_OK;
}

/* COPSE_ERR_UNSUPPORTED before anything is queued, or after all of it has run. */
static copse_status run_stamped(const struct copse_timed *t, uint32_t turns, double *seconds)
{
    copse_queue *q = t->f ? copse_function_queue(t->f) : t->q;
    uint64_t from, to;
    COPSE_TRY(copse_queue_stamp(q, &from));
    COPSE_TRY(run_turns(t, turns));
    COPSE_TRY(copse_queue_stamp(q, &to));
    COPSE_TRY(copse_queue_finish(q));
    COPSE_TRY(copse_queue_elapsed(q, from, to, seconds));
    return *seconds > 0 ? COPSE_OK : COPSE_ERR_UNSUPPORTED;
}

static copse_status run_batch(const struct copse_timed *t, uint32_t turns, double *seconds)
{
    const copse_status s = run_stamped(t, turns, seconds);
    if (s != COPSE_ERR_UNSUPPORTED)
        return s;
    const uint64_t start = copse__now_ns();
    COPSE_TRY(run_turns(t, turns));
    COPSE_TRY(t->f ? copse_function_wait(t->f) : copse_queue_finish(t->q));
    *seconds = (double)(copse__now_ns() - start) * 1e-9;
    return COPSE_OK;
}

copse_status copse__conform_time(const struct copse_timed *t, double enough, double *best)
{
    double seconds, sum = 0.0;
    uint32_t turns = 1;
    COPSE_TRY(run_batch(t, 1, &seconds)); /* compiled, paged in */
    *best = seconds;
    for (int batches = 0; batches < 3 || sum < enough;) {
        COPSE_TRY(run_batch(t, turns, &seconds));
        sum += seconds;
        *best = COPSE_MIN(*best, seconds / turns);
        if (seconds < enough / 16 && turns < 1024)
            turns *= 2;
        else
            batches++;
    }
    return COPSE_OK;
}
