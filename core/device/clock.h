/* SPDX-License-Identifier: MIT */
/* The clock of a device: stamps that its queues take between commands. The first stamp of a queue makes
   what it needs; a queue without stamps has no clock and no cost. */
#ifndef COPSE_CLOCK_H
#define COPSE_CLOCK_H

#include "core/device/backend.h"

enum copse_stamp_kind {
    COPSE_STAMP_BEGIN,   /* before the first command of a submission */
    COPSE_STAMP_SEGMENT, /* after a replay */
    COPSE_STAMP_END,     /* after the last command of a submission */
    COPSE_STAMP_USER,    /* of copse_queue_stamp */
};

/* For the trace, which is on: append a stamp. Where the device has no clock, or all stamps are in use,
   nothing happens; the former is logged once for a device. */
void copse__clock_note(copse_queue *q, enum copse_stamp_kind kind);
/* Read the stamps of submissions up to `ticket`, which is reached; spans of them go to the trace. */
void copse__clock_collect(copse_queue *q, uint64_t ticket);
/* Whether the spans of the queue come from its device. */
bool copse__clock_works(const copse_queue *q);
void copse__clock_release(copse_queue *q);

/* For copse_queue_stamp: whether a stamp can be appended, then append it, when the queue has begun; and the
   time between two. */
copse_status copse__clock_open(copse_queue *q);
copse_status copse__clock_stamp(copse_queue *q, uint64_t *stamp);
copse_status copse__clock_elapsed(copse_queue *q, uint64_t from, uint64_t to, double *seconds);

#endif
