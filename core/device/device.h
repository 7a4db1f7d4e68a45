/* SPDX-License-Identifier: MIT */
/* The device layer as the layers above see it: context internals, kernels, dispatches, recorded
   segments, pooled buffers. Nothing here names an API. */
#ifndef COPSE_CORE_DEVICE_H
#define COPSE_CORE_DEVICE_H

#include "core/device/backend.h"
#include "kernel_ids.h" /* generated: enum copse_kernel_id, struct copse_params_<kernel> */

struct copse_context {
    copse_refs refs;
    struct copse_base base;
    struct copse_device_info *devices;
    size_t device_count;
    struct copse_backend_info *backends;
    size_t backend_count;
    copse_mutex lock;
    struct copse_cache_entry *cache; /* in-memory kernel cache, when the application gives none */
};

/* registry.c: the only file that names backends. NULL-terminated. */
extern const struct copse_backend *const copse_backends[];

/* A kernel for this device, compiled on first use and kept until the device closes.
   `spec` has row->spec_count entries, NULL = all zero. COPSE_ERR_UNSUPPORTED names the limit. */
copse_status copse__kernel_get(copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                               struct copse_kernel **out);
/* Whether the kernel can run there at all (embedded form, bindings, group memory). */
bool copse__kernel_fits(const copse_device *dev, enum copse_kernel_id id);

/* Fill a dispatch command: fold `groups` (flat count) into x and y, append group_base.
   groups 0 makes a command with groups_x 0, which everybody drops. */
copse_status copse__dispatch_init(struct copse_command *c, struct copse_kernel *k,
                                  const struct copse_binding *bindings, size_t binding_count,
                                  const void *params, uint64_t groups, uint32_t group_base);

/* Append a command to a queue now. Zero-sized commands are dropped. */
copse_status copse__queue_encode(copse_queue *q, const struct copse_command *c);

/* Record commands (copied; zero-sized ones dropped) for replay on `q`. Retains their buffers. */
copse_status copse__segment_create(copse_queue *q, const struct copse_command *commands,
                                   size_t count, struct copse_segment **out);
void copse__segment_release(struct copse_segment **seg); /* waits for its replays */
copse_status copse__segment_replay(struct copse_segment *seg);

/* A buffer of at least `size` bytes from the pool; released with copse_buffer_release. */
copse_status copse__buffer_acquire(copse_device *dev, size_t size, copse_buffer **out);

/* Sticky error of a lost device. */
copse_status copse__device_check(copse_device *dev);

/* Deadline of every wait that has none of its own. */
#define COPSE_WAIT_NS (120ull * 1000000000ull)

#endif
