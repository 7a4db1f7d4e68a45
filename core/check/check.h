/* SPDX-License-Identifier: MIT */
/* The cross-check of a program: its launches are compared with the host, once on a device and
   driver. */
#ifndef COPSE_CHECK_H
#define COPSE_CHECK_H

#include "core/check/chain.h"

#define COPSE_CHECK_BUDGET ((uint64_t)1 << 23) /* work of the host for one program (bound.h) */

/* A zeroed struct with `queue` is one. */
struct copse_check {
    copse_queue *queue; /* of the launches; not a reference */
    struct copse_chain chain;
    uint64_t hash; /* of all launches; 0: none yet */
};

/* ADVICE of an error text takes the device's id. */
#define COPSE_CHECK_ADVICE \
    "Nothing was changed. Use another device, or check this one: copse conformance --device %s"

/* Whether a device is checked at all: not host:0, which is the reference. */
bool copse__check_needs(const copse_queue *q);
/* Add the launches of a segment to the hash. */
void copse__check_hash(struct copse_check *k, const struct copse_segment *segment);
/* Unless a program with this hash has passed before: run, log, and note or clear the list of the
   device. `run` returns COPSE_ERR_UNRELIABLE where a launch is wrong. Waits for the queue. Frees
   the chain's memory. */
copse_status copse__check_once(struct copse_check *k, const char *what,
                               copse_status (*run)(void *user), void *user);
/* Compare the launches of an update with the host, with made-up numbers; then the memory is as
   before. The fault of the first wrong launch is in k->chain.fault. */
copse_status copse__check_update(struct copse_check *k, const struct copse_segment *segment);

/* "0.5, the host 0.25 (tolerance 1e-08)". Returns `text`. */
#define COPSE_FAULT_NUMBERS 128
const char *copse__fault_numbers(const struct copse_probe_fault *f, char text[COPSE_FAULT_NUMBERS]);

#endif
