/* SPDX-License-Identifier: MIT */
/** @file
 * Devices: what was found, what was rejected and why, limits; opening one.
 */
#ifndef COPSE_PUBLIC_DEVICE_H
#define COPSE_PUBLIC_DEVICE_H

#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_device copse_device;

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
 * application lends (copse/device/vulkan.h, copse/device/opencl.h) are taken as well; all that is opened by one uses
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

#if defined(__cplusplus)
}
#endif
#endif
