/* SPDX-License-Identifier: MIT */
/* An application with its own device, created with Vulkan or OpenCL calls. It lends the device to
   the library, continues to use it from another thread, and monitors the library's calls. */
#ifndef COPSE_TESTS_APP_H
#define COPSE_TESTS_APP_H

#include "copse/copse.h"
#include "core/base/base.h"
#include "core/base/platform.h"

/* ---- app.c: the lock of its queue ---- */

struct app_lock {
    copse_mutex mutex;
    _Atomic(const char *) holder;
    atomic_uint taken;              /* not counting the application's own thread */
    atomic_uint nested, unbalanced; /* misuse */
    atomic_uint unlocked;           /* uses of the queue without the lock */
    atomic_uint submitted;          /* uses of the queue by the library */
};
void app_lock_init(struct app_lock *l);
void app_lock_fini(struct app_lock *l);
void app_lock_take(void *lock);
void app_lock_give(void *lock);
/* The library uses the queue. */
void app_lock_check(struct app_lock *l);
/* Whether there was no misuse. */
bool app_lock_is_fine(const struct app_lock *l);

/* ---- a thread that does the application's own work, round after round ---- */

struct app_worker {
    bool (*work)(void *app, uint32_t round); /* false: the result is wrong */
    void *app;
    copse_thread thread;
    atomic_bool is_over, has_failed;
    atomic_uint rounds;
};
/* Returns after the first round. */
void app_worker_start(struct app_worker *w);
/* False when a round failed. */
bool app_worker_stop(struct app_worker *w);

#if defined(COPSE_HAVE_VULKAN)

#    define VK_NO_PROTOTYPES
#    include "copse/device/vulkan.h"

/* How the application creates its device. */
struct app_vulkan_how {
    uint32_t api_version; /* of the instance */
    bool has_everything;  /* enable all features that the library can use */
};

struct app_vulkan {
    PFN_vkGetInstanceProcAddr get_proc_addr;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family, api_version;
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceVulkan11Features features11;
    const char *extensions[4];
    uint32_t extension_count;
    VkBuffer buffer; /* for the application's work */
    VkDeviceMemory memory;
    uint32_t *map;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    struct app_worker worker;
};
extern struct app_lock app_vulkan_lock;
/* Calls that the library must not make on objects of the application. */
extern atomic_uint app_vulkan_forbidden;

/* NULL, or the reason why there is none: on a machine with Vulkan it is never skipped. */
const char *app_vulkan_open(struct app_vulkan *a, const struct app_vulkan_how *how);
/* The lent handles; get_proc_addr intercepts vkQueueSubmit. */
struct copse_vulkan_handles app_vulkan_handles(struct app_vulkan *a);
bool app_vulkan_work(void *app, uint32_t round);
void app_vulkan_close(struct app_vulkan *a);

#endif
#if defined(COPSE_HAVE_OPENCL)

#    define CL_TARGET_OPENCL_VERSION 120
#    include "copse/device/opencl.h"

struct app_opencl {
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    struct app_worker worker;
};
extern struct app_lock app_opencl_lock;
/* References of the library to the newest application's context and queue. */
extern atomic_int app_opencl_held;

const char *app_opencl_open(struct app_opencl *a, cl_command_queue_properties properties);
/* The lent handles; get_proc intercepts commands for the queue. */
struct copse_opencl_handles app_opencl_handles(struct app_opencl *a);
bool app_opencl_work(void *app, uint32_t round);
/* Another context on the same device, with a queue. */
void app_opencl_another(const struct app_opencl *a, struct app_opencl *out);
void app_opencl_close(struct app_opencl *a);

#endif
#endif
