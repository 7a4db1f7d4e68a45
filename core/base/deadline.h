/* SPDX-License-Identifier: MIT */
/* Deadlines of waits. Only time counts in which the process could run: a process that is stopped
   (SIGSTOP, Ctrl-Z, a frozen container) longer than its deadline waits on when it continues,
   because what it waits for may have been stopped with it. A waiter waits in ticks, and a tick
   counts with its own length at most, however long it took. */
#ifndef COPSE_DEADLINE_H
#define COPSE_DEADLINE_H

#include "core/base/base.h"
#include "core/base/platform.h"

struct copse_deadline {
    uint64_t seen_ns; /* of copse__now_ns */
    uint64_t left_ns;
    uint64_t tick_ns;
};

/* Begin a wait of at most `most_ns`; UINT64_MAX: without an end. */
COPSE_PRIVATE struct copse_deadline copse__deadline(uint64_t most_ns);
/* Count the time since the last call, at most a tick. Returns what is left, 0: the wait is over. */
COPSE_PRIVATE uint64_t copse__deadline_left(struct copse_deadline *d);
/* How long to wait until the next look, without counting. */
static inline uint64_t copse__deadline_tick(const struct copse_deadline *d)
{
    return COPSE_MIN(d->left_ns, d->tick_ns);
}
/* A tick has been waited, however long that took. Returns what is left. */
static inline uint64_t copse__deadline_spend(struct copse_deadline *d)
{
    if (d->left_ns != UINT64_MAX)
        d->left_ns -= copse__deadline_tick(d);
    return d->left_ns;
}

#endif
