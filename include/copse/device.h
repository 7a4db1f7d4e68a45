/* SPDX-License-Identifier: MIT */
/** @file
 * Devices: what was found, what was rejected and why, limits; opening one; buffers and queues.
 */
#ifndef COPSE_DEVICE_H
#define COPSE_DEVICE_H

#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_device copse_device;
typedef struct copse_queue copse_queue;
typedef struct copse_buffer copse_buffer;

/** What kind of processor a device is. */
typedef enum copse_device_kind {
    COPSE_DEVICE_REFERENCE,  /**< `host:0`, the double-precision references */
    COPSE_DEVICE_CPU,        /**< a CPU behind a driver (PoCL, lavapipe) */
    COPSE_DEVICE_INTEGRATED, /**< a GPU that shares the host's memory */
    COPSE_DEVICE_DISCRETE,   /**< a GPU with memory of its own */
    COPSE_DEVICE_OTHER,      /**< an accelerator or a virtual GPU */
} copse_device_kind;

/** Limits of a device, after the library's own caps. 0 means unsupported. */
struct copse_limits {
    uint64_t max_buffer_bytes;  /**< largest buffer */
    uint64_t max_binding_bytes; /**< largest range that a kernel may see through one argument */
    uint32_t offset_alignment;  /**< binding offsets are multiples of this [bytes, <= 512] */
    uint32_t max_group_size;    /**< most invocations in a group */
    uint32_t max_group_count;   /**< most groups along one axis */
    uint32_t group_memory_bytes; /**< memory shared by a group */
    uint32_t max_bindings;      /**< buffers per kernel */
    uint32_t max_param_bytes;   /**< parameter bytes per kernel */
    uint32_t subgroup_size;     /**< invocations in lock step, as far as known */
    uint32_t compute_units;     /**< processors that run groups side by side */
    uint32_t host_import_alignment; /**< alignment of host memory that can be bound [0 = cannot] */
    uint64_t max_texel_elements; /**< elements of a formatted read-only view [0 = none] */
    bool has_unified_memory;    /**< device memory is host memory */
    bool has_group_base;        /**< a kernel can be cut into several dispatches */
    bool has_wide_vectors;      /**< 16-wide float vectors in one invocation are fast */
    bool has_fast_texels;       /**< formatted loads are much faster than plain ones */
    bool has_library_gemm;      /**< a vendor matrix product can be called (CLBlast) */
    bool has_f64;               /**< double precision in kernels */
    bool has_f16_storage;       /**< 16-bit floats in buffers */
    bool rounds_to_nearest;     /**< + - * round to nearest even, as far as the driver reports */
    bool keeps_denormals;       /**< the driver promises to keep single denormals */
};

/** One device as found. */
struct copse_device_info {
    char id[32];             /**< "opencl:0", "vulkan:1", "host:0": what `copse_device_open` takes */
    char backend[16];        /**< "opencl", "vulkan", "host" */
    char name[192];          /**< the driver's name of the device */
    char driver[192];        /**< driver name and version */
    char api_version[32];    /**< version of the API it speaks */
    uint32_t vendor_id;      /**< PCI vendor, 0 = unknown */
    uint32_t pci[4];         /**< domain, bus, device, function; valid when `has_pci` */
    uint8_t uuid[16];        /**< valid when `has_uuid` */
    bool has_pci, has_uuid;
    copse_device_kind kind;
    uint64_t memory_bytes;   /**< size of the memory it mainly uses, 0 = unknown */
    bool is_usable;          /**< false: see `reason` */
    char reason[192];        /**< why it was rejected */
    int same_as;             /**< index of the same physical device met earlier, -1 = none */
    struct copse_limits limits; /**< zero when not usable */
};

/** One backend as found. */
struct copse_backend_info {
    char name[16];      /**< "opencl" */
    bool is_loaded;     /**< its loader was opened */
    char detail[192];   /**< where the loader was found, or why it was not and what to install */
};

/**
 * The devices found when the context was made, usable or not, in a fixed order.
 * Lifetime: that of the context. Thread-safety: any.
 */
COPSE_API void copse_context_devices(copse_context *ctx, const struct copse_device_info **list,
                                     size_t *count);

/** The backends of this build, loaded or not. Lifetime: that of the context. Thread-safety: any. */
COPSE_API void copse_context_backends(copse_context *ctx, const struct copse_backend_info **list,
                                      size_t *count);

/**
 * Choose devices by a selector and list their ids.
 *
 * `auto`: each distinct GPU once, CPU drivers only where there is no GPU, `host:0` only where there
 * is nothing else. `all`: every usable device except `host`. `opencl`, `vulkan`, `host`: every
 * usable device of that backend. Or a list of ids, `opencl:0,vulkan:0`; an id may stand several
 * times: several replicas on one device.
 *
 * @param selector  NULL or "" means auto.
 * @param ids       Receives up to `room` ids; NULL when `room` is 0.
 * @param count     Receives the number of ids.
 *
 * @retval COPSE_ERR_ARGUMENT   The selector cannot be read.
 * @retval COPSE_ERR_NO_DEVICE  Nothing matches; the text says what was found and what to install.
 */
COPSE_API COPSE_CHECKED copse_status copse_select_devices(copse_context *ctx, const char *selector,
                                                          char (*ids)[32], size_t room,
                                                          size_t *count);

/** How to open a device. A zeroed struct, or NULL, means the whole device. */
struct copse_device_params {
    uint32_t share;  /**< which part, when several replicas share the device; < shares */
    uint32_t shares; /**< how many parts: sub-devices of an OpenCL CPU     [0 = 1] */
};

/**
 * Open a device for work. Each call makes a device of its own with its own driver context, so
 * that several replicas on one physical device run side by side. The ids of devices that an
 * application lends (copse/vulkan.h, copse/opencl.h) are taken as well; all that is opened by one uses
 * the application's device.
 *
 * @retval COPSE_ERR_NO_DEVICE    No device has this id, or it was rejected.
 * @retval COPSE_ERR_NO_MEMORY, COPSE_ERR_NO_DEVICE_MEMORY, COPSE_ERR_DEVICE_LOST
 *
 * Thread-safety: any. Blocking: while the driver starts.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_open(copse_context *ctx, const char *id,
                                                       const struct copse_device_params *params,
                                                       copse_device **out);
COPSE_API copse_device *copse_device_retain(copse_device *dev);
COPSE_API void copse_device_release(copse_device **dev);

/** Description of an open device. Lifetime: that of the device. Thread-safety: any. */
COPSE_API const struct copse_device_info *copse_device_describe(const copse_device *dev);

/** Free and total device memory [bytes], best effort, 0 = unknown. Thread-safety: any. */
COPSE_API COPSE_CHECKED copse_status copse_device_memory(copse_device *dev, uint64_t *free_bytes,
                                                         uint64_t *total_bytes);

/** How to make a buffer. */
struct copse_buffer_params {
    size_t size;  /**< bytes, > 0, rounded up to a multiple of 4 */
    void *host;   /**< use this host memory itself: aligned and sized in multiples of
                       `host_import_alignment`, alive longer than the buffer       [NULL] */
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

/** Copy a buffer's bytes to host memory; `dst` is filled when the ticket of the next submit is reached
    and must stay until then, after COPSE_ERR_TIMEOUT too. */
COPSE_API COPSE_CHECKED copse_status copse_queue_read(copse_queue *queue, copse_buffer *src,
                                                      size_t offset, void *dst, size_t size);

/** Copy between buffers of the same device; ranges of the same buffer must not overlap. */
COPSE_API COPSE_CHECKED copse_status copse_queue_copy(copse_queue *queue, copse_buffer *src,
                                                      size_t src_offset, copse_buffer *dst,
                                                      size_t dst_offset, size_t size);

/** Repeat one 32-bit word. */
COPSE_API COPSE_CHECKED copse_status copse_queue_fill(copse_queue *queue, copse_buffer *dst,
                                                      size_t offset, size_t size, uint32_t word);

/** Start everything queued. `ticket` receives a number that grows with each submit; NULL to skip. */
COPSE_API COPSE_CHECKED copse_status copse_queue_submit(copse_queue *queue, uint64_t *ticket);

/**
 * Submissions so far: how often the host started work. Transfers for which a backend's staging memory is
 * too small (16 MiB on Vulkan, 8 MiB on OpenCL) start piece by piece, which is not counted.
 */
COPSE_API uint64_t copse_queue_submissions(const copse_queue *queue);

/**
 * Wait until a ticket is reached.
 *
 * @param timeout_ns  Longest wait; 0 only asks.
 *
 * @retval COPSE_ERR_TIMEOUT      Not yet reached.
 * @retval COPSE_ERR_DEVICE_LOST  The device failed; so will every later call on it.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_wait(copse_queue *queue, uint64_t ticket,
                                                      uint64_t timeout_ns);

/**
 * Submit and wait for everything, with the library's deadline: 120 s, and 600 s on a device for which a kernel was
 * compiled less than 600 s ago, since drivers finish that when it first runs.
 */
COPSE_API COPSE_CHECKED copse_status copse_queue_finish(copse_queue *queue);

#if defined(__cplusplus)
}
#endif
#endif
