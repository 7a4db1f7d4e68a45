/* SPDX-License-Identifier: MIT */
/* Decisions of the first worker's monitor for all workers: it alone reads the files and the
   clock. */
#ifndef COPSE_MONITOR_WORKERS_H
#define COPSE_MONITOR_WORKERS_H

#include "core/comm/cluster.h"

struct copse_monitor_decision {
    uint32_t status; /* other than COPSE_OK: why the first worker cannot go on */
    uint32_t is_due; /* a checkpoint */
    uint64_t completed, next_check;
    char path[1024]; /* of a checkpoint; "" for none; cut short where it is longer */
    char text[512];  /* of the status */
};

/* Whether there are other workers in step. */
bool copse__monitor_is_shared(const copse_cluster *c);
/* Whether this is a non-chief worker of a job with parameter servers. The chief alone saves and
   restores. */
bool copse__monitor_is_non_chief(const copse_cluster *c);
/* Whether this worker has the files. */
bool copse__monitor_is_first(const copse_cluster *c);
/* Broadcast the first worker's decision, and return its status. Nothing to do with one worker. */
copse_status copse__monitor_broadcast(copse_cluster *c, copse_status mine,
                                      struct copse_monitor_decision *w);
/* Steps until the clock is read again, when `steps` took `elapsed` and the whole time is
   `every`. */
uint64_t copse__monitor_next_check(uint64_t steps, uint64_t elapsed, uint64_t every);

#endif
