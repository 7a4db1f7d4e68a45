/* SPDX-License-Identifier: MIT */
/* The reference implementation as a device: kernels are their double-precision host functions over
   float buffers, and every command has completed when the call that appends it returns. */
#ifndef COPSE_HOST_INTERNAL_H
#define COPSE_HOST_INTERNAL_H

#include "copse/device/queue.h"

#include "core/device/backend.h"

struct host_buffer {
    unsigned char *bytes;
};

struct host_queue {
    uint64_t stamps[COPSE_STAMPS]; /* of copse__now_ns */
};

/* device.c */
copse_status copse_host_list(struct copse_device_sink *sink);
copse_status copse_host_open(copse_device *dev);
void copse_host_close(copse_device *dev);
copse_status copse_host_check(copse_device *dev);

/* memory.c */
copse_status copse_host_memory(copse_device *dev, struct copse_device_memory *out);
copse_status copse_host_buffer_init(copse_buffer *buf);
void copse_host_buffer_fini(copse_buffer *buf);
/* First byte of a range. */
unsigned char *copse_host_at(const struct copse_binding *b);

/* kernel.c */
bool copse_host_has_kernel(const copse_device *dev, const struct copse_kernel_row *row);
copse_status copse_host_kernel_init(struct copse_kernel *k);
void copse_host_kernel_fini(struct copse_kernel *k);
void copse_host_dispatch(const struct copse_command *c);

/* queue.c */
copse_status copse_host_queue_init(copse_queue *q);
void copse_host_queue_fini(copse_queue *q);
copse_status copse_host_write(copse_queue *q, const struct copse_binding *dst, const void *src);
copse_status copse_host_read(copse_queue *q, const struct copse_binding *src, void *dst);
copse_status copse_host_encode(copse_queue *q, const struct copse_command *c);
copse_status copse_host_submit(copse_queue *q, uint64_t *ticket);
copse_status copse_host_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns);
copse_status copse_host_wait_queue(copse_queue *q, copse_queue *other, uint64_t ticket);
copse_status copse_host_stamp(copse_queue *q, uint32_t slot);
copse_status copse_host_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns);

/* segment.c */
copse_status copse_host_segment_init(struct copse_segment *seg);
void copse_host_segment_fini(struct copse_segment *seg);
copse_status copse_host_replay(struct copse_segment *seg);

#endif
