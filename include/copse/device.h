/* SPDX-License-Identifier: MIT */
/** @file
 * Devices: what was found, what was rejected and why, limits. device/open.h opens one.
 */
#ifndef COPSE_PUBLIC_DEVICE_H
#define COPSE_PUBLIC_DEVICE_H

#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Kind of a processor. */
typedef enum copse_device_kind {
    COPSE_DEVICE_REFERENCE,  /**< `host:0`: slow and exact, in double precision */
    COPSE_DEVICE_CPU,        /**< a CPU behind a driver (PoCL, lavapipe) */
    COPSE_DEVICE_INTEGRATED, /**< a GPU that shares the host's memory */
    COPSE_DEVICE_DISCRETE,   /**< a GPU with memory of its own */
    COPSE_DEVICE_OTHER,      /**< an accelerator or a virtual GPU */
} copse_device_kind;

/** Limits of a device, after the library's own caps. 0 = unsupported. */
struct copse_limits {
    uint64_t max_buffer_bytes;      /**< largest buffer */
    uint64_t max_binding_bytes;     /**< largest range of one kernel argument */
    uint32_t offset_alignment;      /**< of binding offsets [bytes, <= 512] */
    uint32_t max_group_size;        /**< invocations in a group */
    uint32_t max_group_count;       /**< groups along one axis */
    uint32_t group_memory_bytes;    /**< memory shared by a group */
    uint32_t max_bindings;          /**< buffers per kernel */
    uint32_t max_param_bytes;       /**< parameter bytes per kernel */
    uint32_t subgroup_size;         /**< invocations in lock step, 0 = unknown */
    uint32_t compute_units;         /**< processors that run groups; 0 = not known, of a GPU */
    uint32_t host_import_alignment; /**< of host memory that can be bound */
    uint64_t max_texel_elements;    /**< of a formatted read-only view */
    bool has_unified_memory;        /**< device memory is host memory */
    bool has_group_base;            /**< a kernel can be split into several dispatches */
    bool has_wide_vectors;          /**< 16-wide float vectors are fast */
    bool has_fast_texels;           /**< formatted loads are much faster */
    bool has_library_gemm;          /**< a vendor matrix product (CLBlast) */
    bool has_f64;                   /**< double precision in kernels */
    bool has_f16_storage;           /**< 16-bit floats in buffers */
    bool rounds_to_nearest;         /**< + - * round to nearest even; by the driver's report */
    bool keeps_denormals;           /**< of f32, likewise */
    uint8_t cooperative_shape[3];   /**< m, n, k of f16 matrices, f32 sums */
    bool is_gpu;                    /**< by the driver; chooses kernels */
    uint8_t matrix_units;           /**< device/choice.h: enum copse_matrix_unit */
    uint64_t reserved[8];
};

/** One device as found. */
struct copse_device_info {
    char id[32];          /**< "opencl:0", "vulkan:1", "host:0": for copse_device_open */
    char backend[16];     /**< "opencl", "vulkan", "host" */
    char name[192];       /**< by the driver */
    char driver[192];     /**< driver name and version */
    char api_version[32]; /**< of OpenCL or Vulkan */
    uint32_t vendor_id;   /**< PCI vendor, 0 = unknown */
    uint32_t pci[4];      /**< domain, bus, device, function; valid when `has_pci` */
    uint8_t uuid[16];     /**< valid when `has_uuid` */
    bool has_pci, has_uuid;
    copse_device_kind kind;
    uint64_t memory_bytes; /**< of its main memory, 0 = unknown */
    bool is_usable;        /**< false: see `reason` */
    char reason[192];      /**< why it was rejected */
    /** index of an earlier entry for the same physical device, -1 = none */
    int same_as;
    struct copse_limits limits; /**< zero when not usable */
    uint64_t reserved[8];
};

/** The devices found when the context was made, usable or not, in a fixed order; borrowed. */
COPSE_API void copse_context_devices(copse_context *ctx, const struct copse_device_info **list,
                                     size_t *count);

/**
 * Choose devices by a selector and list their ids.
 *
 * "auto": the discrete GPUs, else the next kind: device/choice.h. "all": every usable device but
 * `host`. "opencl", "vulkan", "host": every usable device of that backend. All of these take a
 * physical device once. Or a list of ids: "opencl:0,vulkan:0"; an id may occur several times.
 * @param selector  NULL or "": auto.
 * @param ids       Receives up to `room` ids; NULL when `room` is 0.
 * @param count     Number of ids.
 * @retval COPSE_ERR_ARGUMENT   The selector cannot be read.
 * @retval COPSE_ERR_NO_DEVICE  Nothing matches; the text says what was found and what to install.
 */
COPSE_API COPSE_CHECKED copse_status copse_select_devices(copse_context *ctx, const char *selector,
                                                          char (*ids)[32], size_t room,
                                                          size_t *count);

#if defined(__cplusplus)
}
#endif
#endif
