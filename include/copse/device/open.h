/* SPDX-License-Identifier: MIT */
/** @file
 * Opening a device, and the backends. Strategies open the devices of their replicas themselves.
 */
#ifndef COPSE_PUBLIC_DEVICE_OPEN_H
#define COPSE_PUBLIC_DEVICE_OPEN_H

#include "copse/device.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_device copse_device;

/** "reference", "CPU", "integrated GPU", "discrete GPU", "accelerator"; never NULL. */
COPSE_API const char *copse_device_kind_name(copse_device_kind kind);

/** How to open a device. */
struct copse_device_params {
    uint32_t part;        /**< which part of the device, < parts */
    uint32_t parts;       /**< parts of an OpenCL CPU (sub-devices)  [0 = 1] */
    bool is_portable;     /**< bits that no driver decides: distribute/portable.h */
    uint64_t reserved[3]; /**< 0 */
};

/**
 * Open a device. Each call makes a driver context of its own, so that replicas on one physical
 * device run in parallel. Ids of lent devices (device/vulkan.h, device/opencl.h) give the
 * application's device.
 * @param params  NULL: the whole device.
 * @retval COPSE_ERR_NO_DEVICE  No device has this id, or it was rejected.
 * Blocks while the driver starts.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_open(copse_context *ctx, const char *id,
                                                       const struct copse_device_params *params,
                                                       copse_device **out);
COPSE_API copse_device *copse_device_retain(copse_device *dev);
COPSE_API void copse_device_release(copse_device **dev);

/** Description of an open device, borrowed. */
COPSE_API const struct copse_device_info *copse_device_describe(const copse_device *dev);

/** Free and total device memory [bytes], 0 = unknown. */
COPSE_API COPSE_CHECKED copse_status copse_device_memory(copse_device *dev, uint64_t *free_bytes,
                                                         uint64_t *total_bytes);

/** How the driver chooses between work of several programs, or of several devices opened here. */
typedef enum copse_priority {
    COPSE_PRIORITY_NORMAL, /**< as other programs */
    COPSE_PRIORITY_LOW,    /**< training gives way to what draws or answers */
    COPSE_PRIORITY_HIGH,   /**< drivers may ask for a right: CAP_SYS_NICE on Linux */
} copse_priority;

/**
 * Set the priority of devices that are opened from now on, by strategies too
 * [COPSE_PRIORITY_NORMAL]. Vulkan: VK_KHR_global_priority or VK_EXT_global_priority, and
 * VK_NV_compute_occupancy_priority; OpenCL: cl_khr_priority_hints with
 * cl_khr_create_command_queue. A device that has none of them, or whose driver refuses, is opened
 * with normal priority, and a line of the log (COPSE_LOG_WARN) says so once. A lent device keeps
 * the priority that the application gave it. No result depends on it.
 * @retval COPSE_ERR_ARGUMENT  No such priority.
 * Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_context_prioritize(copse_context *ctx,
                                                              copse_priority priority);
/** The priority that an open device has; COPSE_PRIORITY_NORMAL where it got no other. */
COPSE_API copse_priority copse_device_priority(const copse_device *dev);

/** One backend as found. */
struct copse_backend_info {
    char name[16];        /**< "opencl" */
    bool is_loaded;       /**< its loader was opened */
    char detail[192];     /**< where the loader is, or what to install */
    uint64_t reserved[4]; /**< 0 */
};

/** The backends of this build, loaded or not; borrowed. */
COPSE_API void copse_context_backends(copse_context *ctx, const struct copse_backend_info **list,
                                      size_t *count);

#if defined(__cplusplus)
}
#endif
#endif
