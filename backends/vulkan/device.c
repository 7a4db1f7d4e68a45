/* SPDX-License-Identifier: MIT */
/* Vulkan devices: list, open, close, and the backend table. Each open device has its own instance,
   because drivers on a CPU share threads among the devices of one instance. A device lent by an
   application uses the application's instance. */
#include "vk_internal.h"

#include <stdio.h>

static copse_status list_devices(struct vk_device *vd, struct copse_device_sink *sink)
{
    VkPhysicalDevice *physical;
    uint32_t count;
    VkResult r = copse_vk_physical_devices(vd, &physical, &count);
    if (r == VK_ERROR_OUT_OF_HOST_MEMORY)
        return copse_vk_fail(r, "list devices");
    if (r != VK_SUCCESS) {
        snprintf(sink->detail, sizeof sink->detail, "the Vulkan driver lists no devices: %s",
                 copse_vk_result_name(r));
        return COPSE_OK;
    }
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < count && s == COPSE_OK; i++) {
        struct copse_device_info info;
        struct vk_traits traits;
        s = copse_vk_describe(vd, physical[i], &info, &traits);
        if (s == COPSE_OK)
            s = sink->add(sink, &info);
    }
    copse__free(&vd->base->mem, physical);
    return s;
}

static copse_status device_list(struct copse_device_sink *sink)
{
    struct vk_device vd = { .base = sink->base };
    copse_status s = COPSE_OK;
    const bool is_open = copse_vk_instance_open(&vd, sink->detail, sizeof sink->detail);
    sink->is_loaded = vd.library != NULL;
    if (is_open)
        s = list_devices(&vd, sink);
    else if (vd.is_refused) /* a warning: there may be devices */
        s = copse_fail(COPSE_ERR_NO_DEVICE, "%s", sink->detail);
    copse_vk_instance_close(&vd);
    return s;
}

/* The physical device that `list` reported as dev->index. */
static copse_status find_physical(copse_device *dev, struct vk_device *vd)
{
    VkPhysicalDevice *physical;
    uint32_t count;
    VkResult r = copse_vk_physical_devices(vd, &physical, &count);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "list devices");
    copse_status s = COPSE_OK;
    struct copse_device_info info = { 0 };
    if (dev->index < count) {
        vd->physical = physical[dev->index];
        s = copse_vk_describe(vd, vd->physical, &info, &vd->traits);
    }
    copse__free(&vd->base->mem, physical);
    if (s == COPSE_OK && (!info.is_usable || strcmp(info.name, dev->info.name) ||
                          memcmp(info.uuid, dev->info.uuid, sizeof info.uuid)))
        s = copse_fail(COPSE_ERR_NO_DEVICE,
                       "vulkan: the devices have changed since they were listed and %s is not in "
                       "its place any more; create a new context",
                       dev->info.name);
    return s;
}

static VkResult device_create(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    const struct vk_traits *t = &vd->traits;
    const char *extensions[5 + COPSE_VK_MATRIX_EXTENSIONS];
    struct copse_vk_cooperative_features matrices;
    struct copse_vk_occupancy_features occupancy;
    uint32_t count = 0;
    if (t->import_alignment)
        extensions[count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    if (t->has_portability_subset)
        extensions[count++] = "VK_KHR_portability_subset";
    count += copse_vk_matrix_extensions(t, extensions + count);
    if (copse_vk_wants_global_priority(dev))
        extensions[count++] = t->global_priority;
    if (copse_vk_wants_occupancy(dev))
        extensions[count++] = COPSE_VK_OCCUPANCY;
    if (t->has_memory_priority)
        extensions[count++] = VK_EXT_MEMORY_PRIORITY_EXTENSION_NAME;
    copse_vk_cooperative_chain(&matrices, &t->matrices, true);
    void *chain = t->matrices.units ? &matrices : NULL;
    copse_vk_occupancy_chain(&occupancy, chain, true);

    if (copse_vk_wants_occupancy(dev))
        chain = &occupancy;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        .pNext = chain,
        .timelineSemaphore = VK_TRUE,
    };
    if (t->has_transfer_lane)
        chain = &timeline;
    VkPhysicalDeviceMemoryPriorityFeaturesEXT of_memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT,
        .pNext = chain,
        .memoryPriority = VK_TRUE,
    };
    VkPhysicalDevice16BitStorageFeatures f16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .pNext = t->has_memory_priority ? &of_memory : chain,
        .storageBuffer16BitAccess = t->has_f16_storage,
    };
    const VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &f16,
        .features.shaderFloat64 = t->has_f64,
    };
    const VkDeviceQueueGlobalPriorityCreateInfoEXT among_processes = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_EXT,
        .globalPriority = copse_vk_global_priority(dev->priority),
    };
    const float priorities[] = { 1.0f, 1.0f };
    const bool has_second = t->has_transfer_lane && t->transfer_family == t->family;
    VkDeviceQueueCreateInfo queues[2] = { {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .pNext = copse_vk_wants_global_priority(dev) ? &among_processes : NULL,
        .queueFamilyIndex = t->family,
        .queueCount = has_second ? 2 : 1,
        .pQueuePriorities = priorities,
    } };
    queues[1] = queues[0];
    queues[1].pNext = NULL; /* a copy engine may have no priorities */
    queues[1].queueFamilyIndex = t->transfer_family;
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = t->has_transfer_lane && !has_second ? 2 : 1,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = count,
        .ppEnabledExtensionNames = extensions,
    };
    return vd->vk.CreateDevice(vd->physical, &info, NULL, &vd->device);
}

static copse_status make_device(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    VkResult r = device_create(dev);
    while (r != VK_SUCCESS && copse_vk_priority_refused(dev, r))
        r = device_create(dev);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a device");
    vd->owns_device = true;
    const char *missing = copse_vk_device_entries(vd);
    if (missing)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "vulkan: the driver lacks %s; install a newer driver", missing);
    copse_vk_priority_given(dev);
    if (vd->traits.has_transfer_lane)
        copse__log(
            &dev->base->log, COPSE_LOG_INFO,
            "vulkan: uploads ahead of their steps to %s use a queue of family %u, kernels one "
            "of family %u",
            dev->info.id, (unsigned)vd->traits.transfer_family, (unsigned)vd->traits.family);
    return copse_vk_lanes_init(vd, VK_NULL_HANDLE);
}

static void lock_queue(void *user)
{
    copse__mutex_lock(&((struct vk_device *)user)->queue_lock);
}

static void unlock_queue(void *user)
{
    copse__mutex_unlock(&((struct vk_device *)user)->queue_lock);
}

static copse_status open_own(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    char why[192];
    vd->guard = (struct copse_queue_guard){ lock_queue, unlock_queue, vd };
    if (!copse_vk_instance_open(vd, why, sizeof why))
        return copse_fail(COPSE_ERR_NO_DEVICE, "vulkan: %s", why);
    COPSE_TRY(find_physical(dev, vd));
    return make_device(dev);
}

static copse_status open_foreign(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    struct copse_device_info info;
    vd->guard = dev->foreign->guard;
    return copse_vk_attach(vd, dev->foreign, &info);
}

static copse_status open_device(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    vd->base = dev->base;
    COPSE_TRY(copse__mutex_init(&vd->memory_lock));
    copse_status s = copse__mutex_init(&vd->queue_lock);
    if (s != COPSE_OK) {
        copse__mutex_fini(&vd->memory_lock);
        return s;
    }
    vd->has_locks = true;
    COPSE_TRY(dev->foreign ? open_foreign(dev) : open_own(dev));
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
    };
    vd->vk.GetPhysicalDeviceMemoryProperties2(vd->physical, &memory);
    vd->memory = memory.memoryProperties;
    return COPSE_OK;
}

static void close_device(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    copse_vk_memory_fini(vd);
    /* The driver still runs abandoned work, so its device must not be destroyed. */
    if (!atomic_load(&vd->is_abandoned)) {
        copse_vk_lanes_fini(vd);
        if (vd->owns_device && vd->vk.DestroyDevice)
            vd->vk.DestroyDevice(vd->device, NULL);
        copse_vk_instance_close(vd);
    }
    if (vd->has_locks) {
        copse__mutex_fini(&vd->memory_lock);
        copse__mutex_fini(&vd->queue_lock);
    }
}

static bool has_kernel(const copse_device *dev, const struct copse_kernel_row *row)
{
    (void)dev;
    return row->spirv != NULL;
}

static const char *const variables[] = {
    "VK_",  "VULKAN_", "DISABLE_", "ENABLE_", "MESA_",   "GALLIUM_", "LP_", "RADV_",
    "ACO_", "AMD_",    "ANV_",     "INTEL_",  "NVIDIA_", "__GL_",    NULL,
};

const struct copse_backend copse_backend_vulkan = {
    .name = "vulkan",
    .overlaps = true,
    .device_priv = sizeof(struct vk_device),
    .buffer_priv = sizeof(struct vk_buffer),
    .kernel_priv = sizeof(struct vk_kernel),
    .queue_priv = sizeof(struct vk_queue),
    .segment_priv = sizeof(struct vk_segment),
    .variables = variables,
    .list = device_list,
    .facts = copse_vk_facts,
    .import = copse_vk_import,
    .lend = copse_vk_lend,
    .open = open_device,
    .close = close_device,
    .memory = copse_vk_memory,
    .buffer_init = copse_vk_buffer_init,
    .buffer_fini = copse_vk_buffer_fini,
    .has_kernel = has_kernel,
    .kernel_init = copse_vk_kernel_init,
    .kernel_fini = copse_vk_kernel_fini,
    .is_stored = copse_vk_is_stored,
    .queue_init = copse_vk_queue_init,
    .queue_fini = copse_vk_queue_fini,
    .write = copse_vk_write,
    .read = copse_vk_read,
    .encode = copse_vk_encode,
    .segment_init = copse_vk_segment_init,
    .segment_fini = copse_vk_segment_fini,
    .replay = copse_vk_replay,
    .submit = copse_vk_submit,
    .wait = copse_vk_wait,
    .settle = copse_vk_settle,
    .wait_queue = copse_vk_wait_queue,
    .stamp = copse_vk_stamp,
    .stamp_read = copse_vk_stamp_read,
};
