/* SPDX-License-Identifier: MIT */
/* Monitors of several workers: the first worker broadcasts its decision. */
#include "core/loop/monitor_workers.h"

#include <stdio.h>

#include "copse/distribute/cluster.h"

#define POLL_MOST ((uint64_t)1 << 20)

bool copse__monitor_is_shared(const copse_cluster *c)
{
    return c && copse_cluster_size(c) > 1 && copse_cluster_servers(c) == 0;
}

bool copse__monitor_is_non_chief(const copse_cluster *c)
{
    return c && copse_cluster_servers(c) > 0 && !copse_cluster_is_chief(c);
}

bool copse__monitor_is_first(const copse_cluster *c)
{
    return !c || copse_cluster_rank(c) == 0;
}

copse_status copse__monitor_broadcast(copse_cluster *c, copse_status mine,
                                      struct copse_monitor_decision *w)
{
    if (!copse__monitor_is_shared(c))
        return mine;
    if (copse__monitor_is_first(c)) {
        w->status = (uint32_t)mine;
        snprintf(w->text, sizeof w->text, "%s", mine ? copse_last_error() : "");
    }
    COPSE_TRY(copse__cluster_broadcast(c, w, sizeof *w, "the first worker's monitor"));
    w->path[sizeof w->path - 1] = w->text[sizeof w->text - 1] = '\0';
    if (w->status)
        copse__fail_again(w->text);
    return (copse_status)w->status;
}

/* Half of the estimated rest. So a checkpoint costs a few broadcasts, and is at most a few steps
   late. */
uint64_t copse__monitor_next_check(uint64_t steps, uint64_t elapsed, uint64_t every)
{
    const uint64_t left = every > elapsed ? every - elapsed : 0;
    const double next = (double)left / 2.0 * (double)steps / (double)COPSE_MAX(elapsed, 1);
    return next < 1.0 ? 1 : next > (double)POLL_MOST ? POLL_MOST : (uint64_t)next;
}
