/* SPDX-License-Identifier: MIT */
/* Timing with the monotonic clock: warm-up, samples of a suitable length, best and median; and of the
   same work with the clock of the device. */
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

static copse_status time_on_host(work_fn *work, void *user, double sample_seconds, double seconds,
                                 struct timing *out, unsigned *count_out)
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
    *count_out = count;
    *out = (struct timing){ .best = samples[0], .median = samples[taken / 2], .samples = taken };
    return COPSE_OK;
}

copse_status bench_time(work_fn *work, void *user, double sample_seconds, double seconds,
                        struct timing *out)
{
    unsigned count;
    return time_on_host(work, user, sample_seconds, seconds, out, &count);
}

struct queued {
    work_fn *work;
    void *user;
    copse_queue *queue;
};

static copse_status finish_work(void *user, unsigned count)
{
    const struct queued *w = user;
    COPSE_TRY(w->work(w->user, count));
    return copse_queue_finish(w->queue);
}

static copse_status sample_device(const struct queued *w, unsigned count, double *spent)
{
    uint64_t from, to;
    COPSE_TRY(copse_queue_stamp(w->queue, &from));
    COPSE_TRY(w->work(w->user, count));
    COPSE_TRY(copse_queue_stamp(w->queue, &to));
    COPSE_TRY(copse_queue_finish(w->queue));
    return copse_queue_elapsed(w->queue, from, to, spent);
}

copse_status bench_time_queue(work_fn *work, void *user, copse_queue *queue, double sample_seconds,
                              double seconds, struct timing *out)
{
    struct queued w = { work, user, queue };
    unsigned count;
    COPSE_TRY(time_on_host(finish_work, &w, sample_seconds, seconds, out, &count));
    for (unsigned i = 0; i < LEAST_SAMPLES; i++) {
        double spent;
        const copse_status s = sample_device(&w, count, &spent);
        if (s == COPSE_ERR_UNSUPPORTED)
            break; /* out->device is 0 */
        COPSE_TRY(s);
        spent /= count;
        out->device = i > 0 && out->device < spent ? out->device : spent;
    }
    return COPSE_OK;
}
