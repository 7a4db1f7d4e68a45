/* SPDX-License-Identifier: MIT */
/* Run times on the host's clock, for modes perf and tune. */
#include "copse/device/function.h"
#include "prover/conformance/modes/modes.h"

static copse_status run_batch(const struct copse_timed *t, uint32_t turns, double *seconds)
{
    const uint64_t start = copse__now_ns();
    for (uint32_t i = 0; i < turns; i++)
        COPSE_TRY(t->f ? copse_function_run(t->f) : copse__queue_encode(t->q, &t->c));
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
