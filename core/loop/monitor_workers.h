/* SPDX-License-Identifier: MIT */
/* What the first worker's monitor decides for the monitors of all: it alone sees the files and the clock. */
#ifndef COPSE_MONITOR_ACROSS_H
#define COPSE_MONITOR_ACROSS_H

#include "core/comm/cluster.h"

struct copse_monitor_word {
    uint32_t status; /* other than COPSE_OK: why the first worker cannot go on */
    uint32_t is_due; /* a checkpoint */
    uint64_t completed, look;
    char path[1024]; /* of a checkpoint; "" for none; cut short where it is longer */
    char text[512];  /* of the status */
};

/* Whether there are others, in step. */
bool copse__monitor_is_shared(const copse_cluster *c);
/* Whether this worker is beside the chief of a job with parameter servers, which alone saves and restores. */
bool copse__monitor_is_non_chief(const copse_cluster *c);
/* Whether this worker has the files. */
bool copse__monitor_is_first(const copse_cluster *c);
/* The first worker's word for all; nothing to do for one that is alone. Gives its status. */
copse_status copse__monitor_tell(copse_cluster *c, copse_status mine, struct copse_monitor_word *w);
/* Steps until the clock is looked at again, when `steps` took `elapsed` and the whole time is `every`. */
uint64_t copse__monitor_next_look(uint64_t steps, uint64_t elapsed, uint64_t every);

#endif
