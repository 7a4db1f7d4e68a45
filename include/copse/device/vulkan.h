/* SPDX-License-Identifier: MIT */
/** @file
 * An application's own Vulkan device, lent to Copse. Not part of copse/copse.h: it needs Vulkan's
 * headers. Only in builds with the Vulkan backend. See docs/embedding.md.
 */
#ifndef COPSE_PUBLIC_DEVICE_VULKAN_H
#define COPSE_PUBLIC_DEVICE_VULKAN_H

#include <vulkan/vulkan_core.h>

#include "copse/device/open.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What the application lends. A zeroed member means the value in brackets; a member without
    brackets is required. */
struct copse_vulkan_handles {
    /** the application's; no loader is opened beside it */
    PFN_vkGetInstanceProcAddr get_proc_addr;
    VkInstance instance;
    uint32_t api_version; /**< `VkApplicationInfo.apiVersion` of the instance: VK_API_VERSION_1_1 or
                               later; nothing newer than this is used */
    VkPhysicalDevice physical_device;
    VkDevice device;
    uint32_t queue_family; /**< of `queue`; must be able to compute */
    VkQueue queue;         /**< made without flags (no protected queue) */

    /** As given to vkCreateDevice. What is not listed here is not used, though the driver may have
        it: VK_EXT_external_memory_host (buffers in host memory), `shaderFloat64`,
        `storageBuffer16BitAccess`. None of them is needed. Read during the call only. */
    const char *const *extensions; /**< enabled on `device`              [NULL = none] */
    uint32_t extension_count;
    const VkPhysicalDeviceFeatures2 *features; /**< the whole chain      [NULL = none enabled] */

    /** Called around every vkQueueSubmit, by any thread that works with Copse, in pairs, never one
        pair inside another. They must not call Copse. Both or none [NULL = the application does not
        use the queue while the device is lent] */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *user; /**< passed to both */

    uint64_t memory_limit; /**< most bytes of buffers on this device, over all that is made from it
                                [0 = what the driver gives] */
    uint64_t reserved[4];  /**< 0 */
};

/**
 * Make a device of one that the application made.
 *
 * The description of the result carries an id of its own, "import:0", which every function that
 * takes a device id accepts in this context, for as long as any device of that import is open:
 * replicas of a strategy, conformance runs, further `copse_device_open`. All of them submit to
 * `queue`. It is not in the list of `copse_context_devices`, and `auto` or `all` never mean it.
 *
 * Copse creates objects of its own on the device and destroys all of them; it never destroys the
 * handles, waits for the queue or device to be idle, or submits without the lock. Work is waited
 * for by fences of its own.
 *
 * @param handles  Copied. The Vulkan objects must live until the device and all that was made from
 *                 its id is released.
 * @param out      Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_ARGUMENT     A handle is missing, they do not belong together as far as that
 *                                can be seen, only one of the two lock functions is given.
 * @retval COPSE_ERR_UNSUPPORTED  Instance or device are older than Vulkan 1.1, the family cannot
 *                                compute, a limit is too small; the text says which.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Thread-safety: any. Blocking: no.
 */
COPSE_API COPSE_CHECKED copse_status copse_vulkan_import(copse_context *ctx,
                                                         const struct copse_vulkan_handles *handles,
                                                         copse_device **out);

#if defined(__cplusplus)
}
#endif
#endif
