/* SPDX-License-Identifier: MIT */
/** @file
 * Buffers and queues of a device: memory and transfers without graphs.
 */
#ifndef COPSE_PUBLIC_DEVICE_QUEUE_H
#define COPSE_PUBLIC_DEVICE_QUEUE_H

#include "copse/device/open.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_queue copse_queue;
typedef struct copse_buffer copse_buffer;

/** How to make a buffer. */
struct copse_buffer_params {
    size_t size;          /**< bytes, > 0, rounded up to a multiple of 4 */
    void *host;           /**< use this host memory itself: aligned and sized in multiples of
                       `host_import_alignment`, alive longer than the buffer       [NULL] */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make a buffer. Its content is undefined.
 *
 * @retval COPSE_ERR_ARGUMENT          Size 0, larger than `max_buffer_bytes`, or bad alignment.
 * @retval COPSE_ERR_UNSUPPORTED       `host` is given and the device cannot import it.
 * @retval COPSE_ERR_NO_DEVICE_MEMORY
 *
 * Lifetime: retains the device; may be released while queued work still uses it.
 * Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_buffer_create(copse_device *dev,
                                                         const struct copse_buffer_params *params,
                                                         copse_buffer **out);
COPSE_API copse_buffer *copse_buffer_retain(copse_buffer *buf);
COPSE_API void copse_buffer_release(copse_buffer **buf);
COPSE_API size_t copse_buffer_size(const copse_buffer *buf);

/**
 * Make an in-order queue: commands run one after the other, memory effects included.
 * Lifetime: retains the device. Thread-safety: one thread at a time per queue.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_create(copse_device *dev, copse_queue **out);
COPSE_API copse_queue *copse_queue_retain(copse_queue *queue);
/** Drop a reference; the last one waits for queued work. */
COPSE_API void copse_queue_release(copse_queue **queue);

/**
 * Copy host memory into a buffer. The bytes have been taken when this returns.
 *
 * @param offset  Start inside `dst` [bytes, multiple of 4].
 * @param size    Length [bytes, multiple of 4; 0 is legal and does nothing].
 *
 * @retval COPSE_ERR_ARGUMENT     A rule is broken; nothing was queued.
 * @retval COPSE_ERR_DEVICE_LOST
 *
 * Blocking: only while the staging memory is full.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_write(copse_queue *queue, copse_buffer *dst,
                                                       size_t offset, const void *src, size_t size);

/** Copy a buffer's bytes to host memory; `dst` is filled when the ticket of the next submit is
    reached and must stay until then, after COPSE_ERR_TIMEOUT too. After another failure of a call
    on the queue no earlier read writes to its `dst` any more. */
COPSE_API COPSE_CHECKED copse_status copse_queue_read(copse_queue *queue, copse_buffer *src,
                                                      size_t offset, void *dst, size_t size);

/** Copy between buffers of the same device; ranges of the same buffer must not overlap. */
COPSE_API COPSE_CHECKED copse_status copse_queue_copy(copse_queue *queue, copse_buffer *src,
                                                      size_t src_offset, copse_buffer *dst,
                                                      size_t dst_offset, size_t size);

/** Repeat one 32-bit word. */
COPSE_API COPSE_CHECKED copse_status copse_queue_fill(copse_queue *queue, copse_buffer *dst,
                                                      size_t offset, size_t size, uint32_t word);

/** Start everything queued. `ticket` receives a number that grows with each submit; NULL to
    skip. */
COPSE_API COPSE_CHECKED copse_status copse_queue_submit(copse_queue *queue, uint64_t *ticket);

/**
 * Submissions so far: how often the host started work. Transfers for which a backend's staging
 * memory is too small (16 MiB on Vulkan, 8 MiB on OpenCL) start piece by piece, which is not
 * counted.
 */
COPSE_API uint64_t copse_queue_submissions(const copse_queue *queue);

/**
 * Queue a stamp: the device notes when all earlier commands of the queue are complete. The first one
 * of a queue makes what stamps need; queues without stamps have no cost.
 * @param stamp  Receives a number for copse_queue_elapsed.
 * @retval COPSE_ERR_UNSUPPORTED  The device or its driver has no clock that queues can read.
 * @retval COPSE_ERR_ARGUMENT     256 stamps were queued since the last wait.
 * The thread that uses the queue.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_stamp(copse_queue *queue, uint64_t *stamp);
/**
 * The time between two stamps of a queue by the clock of its device, after copse_queue_wait or
 * copse_queue_finish has told that both are complete.
 * @param seconds  Receives it; at least 0. What the device waits for the host between the two counts.
 * @retval COPSE_ERR_ARGUMENT     A stamp is not complete, or more than 255 stamps came after it.
 * @retval COPSE_ERR_UNSUPPORTED  The driver did not tell the times.
 * The thread that uses the queue.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_elapsed(copse_queue *queue, uint64_t from,
                                                         uint64_t to, double *seconds);

/**
 * Wait until a ticket is reached.
 *
 * @param timeout_ns  Longest wait, without time in which the process was stopped (SIGSTOP); 0 only
 *                    asks.
 *
 * @retval COPSE_ERR_TIMEOUT      Not yet reached; or a call has failed, and the device may still
 *                                write to host memory.
 * @retval COPSE_ERR_DEVICE_LOST  The device failed; so will every later call on it.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_wait(copse_queue *queue, uint64_t ticket,
                                                      uint64_t timeout_ns);

/**
 * Submit and wait for everything, with the library's deadline: 120 s, and 600 s on a device for
 * which a kernel was compiled less than 600 s ago, since drivers finish that when it first runs.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_finish(copse_queue *queue);

#if defined(__cplusplus)
}
#endif
#endif
