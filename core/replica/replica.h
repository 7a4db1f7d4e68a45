/* SPDX-License-Identifier: MIT */
/* A replica: a device with a queue. */
#ifndef COPSE_CORE_REPLICA_H
#define COPSE_CORE_REPLICA_H

#include "core/device/device.h"

struct copse_replica {
    copse_device *dev;
    copse_queue *queue;
    /* another queue of the device, for uploads ahead of steps; NULL until the first one */
    copse_queue *transfer;
    copse_buffer *step; /* COPSE_STEP_WORDS words: what changes from step to step */
};

/* Open the devices in this order, each with a queue and a step buffer. Replicas of a strategy that
   shares devices share the device that they name and its queue; else each has a part of the device.
   On failure those that were opened stay until copse__replicas_close. */
copse_status copse__replicas_open(copse_strategy *st, const char *const *devices, size_t count);
void copse__replicas_close(copse_strategy *st);

/* Make the replica's transfer queue, if it has none. */
copse_status copse__replica_transfer(struct copse_replica *r);

/* A buffer of the replica, filled with zeros. */
copse_status copse__replica_buffer(const struct copse_replica *r, size_t bytes, copse_buffer **out);

/* The smallest range that all replicas of this worker can bind, bytes. */
uint64_t copse__replicas_binding_bytes(const copse_strategy *st);

#endif
