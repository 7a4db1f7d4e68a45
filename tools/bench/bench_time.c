/* SPDX-License-Identifier: MIT */
/* Timing with the monotonic clock: warm-up, samples of a suitable length, best and median. */
#include <stdlib.h>

#include "tools/bench/bench.h"

enum { MOST_SAMPLES = 256, LEAST_SAMPLES = 3 };

void bench_pause(void)
{
    system_sleep_ns(80 * 1000 * 1000);
}

static int bench_time_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static copse_status time_once(work_fn *work, void *user, unsigned count, double *spent)
{
    const double start = system_now();
    COPSE_TRY(work(user, count));
    *spent = system_now() - start;
    return COPSE_OK;
}

copse_status bench_time(work_fn *work, void *user, double sample_seconds, double seconds,
                        struct timing *out)
{
    double samples[MOST_SAMPLES];
    unsigned count = 1, taken = 0;
    COPSE_TRY(work(user, 1)); /* compiles, allocates, fills caches */
    for (;;) {
        double once, again;
        COPSE_TRY(time_once(work, user, count, &once));
        COPSE_TRY(time_once(work, user, count, &again)); /* one sample may have been interrupted */
        const double spent = once < again ? once : again;
        if (spent >= sample_seconds || count >= 1u << 20)
            break;
        const double more = spent > 0.0 ? 1.2 * sample_seconds / spent : 8.0;
        count = more < 8.0 ? (unsigned)((double)count * more) + 1 : 8 * count;
    }
    const double end = system_now() + seconds;
    while (taken < LEAST_SAMPLES || (taken < MOST_SAMPLES && system_now() < end)) {
        COPSE_TRY(time_once(work, user, count, &samples[taken]));
        samples[taken++] /= count;
    }
    qsort(samples, taken, sizeof *samples, bench_time_compare);
    *out = (struct timing){ .best = samples[0], .median = samples[taken / 2], .samples = taken };
    return COPSE_OK;
}
