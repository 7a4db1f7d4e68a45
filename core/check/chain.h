/* SPDX-License-Identifier: MIT */
/* A chain: the launches of segments, one after the other, each with a probe and a wait. Launches of
   kernels that an earlier chain of the device compared, of other sizes, are compared in part. */
#ifndef COPSE_CHAIN_H
#define COPSE_CHAIN_H

#include "core/check/probe.h"

struct copse_chain {
    struct copse_probe probe;
    /* work of a launch (bound.h); launches with more are compared in part (sample.h, part.h) */
    uint64_t most;
    /* launches get made-up numbers, and memory is restored; those not compared are not executed */
    bool restores;
    unsigned number;   /* of the chains of a device; 0: it has not begun */
    bool is_torn;      /* it failed, and memory could not be restored */
    bool lacks_memory; /* the host had none to compare the newest launch */
    uint64_t work; /* of the launches that were compared as a whole and could have been in part */
    /* launches: compared, those of them in part, and not compared */
    size_t compared, sampled, skipped;
    /* of the first launch that is wrong, probe.command: the chain ends with it */
    struct copse_probe_fault fault;
};

/* The largest limit for which all launches of these segments that are within it have at most
   `budget` work together. */
uint64_t copse__chain_most(struct copse_segment *const *segments, uint32_t count, uint64_t budget);
/* Execute the launches of a segment. */
copse_status copse__chain_run(struct copse_chain *c, const struct copse_segment *segment);

#endif
