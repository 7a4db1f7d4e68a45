/* SPDX-License-Identifier: MIT */
/* See deadline.h. */
#include "core/base/deadline.h"

#define LONGEST_NS  1000000000u
#define SHORTEST_NS 10000000u /* a look has a cost */
#define TICKS       16

struct copse_deadline copse__deadline(uint64_t most_ns)
{
    const uint64_t tick = COPSE_MAX(most_ns / TICKS, SHORTEST_NS);
    return (struct copse_deadline){ copse__now_ns(), most_ns, COPSE_MIN(tick, LONGEST_NS) };
}

uint64_t copse__deadline_left(struct copse_deadline *d)
{
    const uint64_t now = copse__now_ns(), passed = COPSE_MIN(now - d->seen_ns, d->tick_ns);
    d->seen_ns = now;
    if (d->left_ns != UINT64_MAX)
        d->left_ns -= COPSE_MIN(passed, d->left_ns);
    return d->left_ns;
}
