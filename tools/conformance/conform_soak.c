/* SPDX-License-Identifier: MIT */
/* copse conformance --budget: runs with new seeds until the time is over or one of them fails. */
#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "tools/conformance/conform.h"

int conform_soak(struct conform_settings *s, const char *action, double seconds, int argc,
                 char **argv)
{
    const double until = system_now() + seconds, limit = s->job.seconds;
    const uint64_t first = s->job.seed ? s->job.seed : (uint64_t)time(NULL);
    uint64_t runs = 0;
    int code;
    s->is_quiet = true;
    do {
        const double left = fmax(until - system_now(), 0.001);
        s->job.seed = first + runs++;
        s->job.seconds = limit > 0.0 ? fmin(limit, left) : left;
        if (!s->is_json)
            printf("seed %" PRIu64 ": ", s->job.seed);
        fflush(stdout);
        code = conform_run(s, action, argc, argv);
    } while ((code == EXIT_DONE || code == EXIT_INCOMPLETE) && system_now() < until);
    if (!s->is_json && code != EXIT_BAD_INPUT)
        printf("%" PRIu64 " run%s, seeds %" PRIu64 " to %" PRIu64 ": %s\n", runs,
               runs == 1 ? "" : "s", first, s->job.seed,
               code == EXIT_FAILED ? "the last one failed" : "no failure");
    return code == EXIT_INCOMPLETE ? EXIT_DONE : code;
}
