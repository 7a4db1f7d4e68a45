/* SPDX-License-Identifier: MIT */
/* Devices lent by applications: the handles are checked once, and only enabled features are
   used. */
#include "copse/device/vulkan.h"
#include "vk_internal.h"

/* The backend's copy of copse_vulkan_handles. */
struct vk_lent {
    PFN_vkGetInstanceProcAddr get_proc_addr;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family, api_version;
    bool has_f64, has_f16_storage, has_host_import; /* enabled */
    struct copse_vk_matrices matrices;              /* likewise */
};

/* ---- the public handles ---- */

static bool import_lists(const struct copse_vulkan_handles *h, const char *extension)
{
    for (uint32_t i = 0; i < h->extension_count; i++)
        if (h->extensions[i] && !strcmp(h->extensions[i], extension))
            return true;
    return false;
}

static bool has_f16_storage(const VkPhysicalDeviceFeatures2 *features)
{
    for (const VkBaseInStructure *s = (const void *)features; s; s = s->pNext) {
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES &&
            ((const VkPhysicalDevice16BitStorageFeatures *)s)->storageBuffer16BitAccess)
            return true;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES &&
            ((const VkPhysicalDeviceVulkan11Features *)s)->storageBuffer16BitAccess)
            return true;
    }
    return false;
}

static copse_status take_handles(const struct copse_vulkan_handles *h, struct vk_lent *out)
{
    const char *missing = !h->get_proc_addr                      ? "get_proc_addr"
                          : !h->instance                         ? "instance"
                          : !h->physical_device                  ? "physical_device"
                          : !h->device                           ? "device"
                          : !h->queue                            ? "queue"
                          : h->extension_count && !h->extensions ? "extensions"
                                                                 : NULL;
    if (missing)
        return copse_fail(COPSE_ERR_ARGUMENT, "vulkan: import: %s is missing", missing);
    if (h->features && h->features->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "vulkan: import: features.sType is %d, not that of "
                          "VkPhysicalDeviceFeatures2",
                          (int)h->features->sType);
    if (h->api_version < VK_API_VERSION_1_1)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "vulkan: import: the instance was made for Vulkan %u.%u, 1.1 is needed; set "
            "VkApplicationInfo.apiVersion, and api_version to the same",
            VK_API_VERSION_MAJOR(h->api_version), VK_API_VERSION_MINOR(h->api_version));
    *out = (struct vk_lent){
        .get_proc_addr = h->get_proc_addr,
        .instance = h->instance,
        .physical = h->physical_device,
        .device = h->device,
        .queue = h->queue,
        .family = h->queue_family,
        .api_version = h->api_version,
        .has_f64 = h->features && h->features->features.shaderFloat64,
        .has_f16_storage = has_f16_storage(h->features),
        .has_host_import = import_lists(h, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME),
    };
    copse_vk_matrices_enabled(h->features, import_lists(h, COPSE_VK_COOPERATIVE_MATRIX),
                              import_lists(h, COPSE_VK_BFLOAT), &out->matrices);
    return COPSE_OK;
}

copse_status copse_vulkan_import(copse_context *ctx, const struct copse_vulkan_handles *handles,
                                 copse_device **out)
{
    struct vk_lent lent;
    COPSE_TRY(copse_need("vulkan: import", ctx, handles, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_vulkan_handles, handles));
    COPSE_TRY(take_handles(handles, &lent));
    const struct copse_foreign_device foreign = {
        .handles = &lent,
        .handles_size = sizeof lent,
        .guard = { handles->lock_queue, handles->unlock_queue, handles->user },
        .memory_limit = handles->memory_limit,
    };
    return copse__device_import(ctx, &copse_backend_vulkan, &foreign, out);
}

/* ---- the device of the application's handles ---- */

static copse_status check_physical(struct vk_device *vd)
{
    VkPhysicalDevice *list;
    uint32_t count;
    VkResult r = copse_vk_physical_devices(vd, &list, &count);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "list the devices of the application's instance");
    bool is_found = false;
    for (uint32_t i = 0; i < count; i++)
        is_found = is_found || list[i] == vd->physical;
    copse__free(&vd->base->mem, list);
    return is_found
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "vulkan: import: physical_device is none of the instance's %u", count);
}

static copse_status check_family(struct vk_device *vd, uint32_t family)
{
    VkQueueFamilyProperties list[32];
    uint32_t count = COPSE_COUNT(list);
    vd->vk.GetPhysicalDeviceQueueFamilyProperties(vd->physical, &count, list);
    if (family >= count)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "vulkan: import: queue_family is %u, the device has %u families", family,
                          count);
    if (!(list[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "vulkan: import: queue family %u cannot compute; lend a queue of one with "
            "VK_QUEUE_COMPUTE_BIT",
            family);
    return COPSE_OK;
}

/* A feature that the driver has but the application did not enable is treated as absent. */
static void keep_enabled(const struct vk_lent *h, struct copse_device_info *info,
                         struct vk_traits *t)
{
    t->family = h->family;
    t->has_transfer_lane = t->has_memory_priority = false;
    t->has_f64 = t->has_f64 && h->has_f64;
    t->has_f16_storage = t->has_f16_storage && h->has_f16_storage;
    t->import_alignment = h->has_host_import ? t->import_alignment : 0;
    info->limits.has_f64 = t->has_f64;
    info->limits.has_f16_storage = t->has_f16_storage;
    info->limits.host_import_alignment = (uint32_t)t->import_alignment;
    copse_vk_matrices_keep(&h->matrices, info->limits.subgroup_size, &t->matrices);
    memcpy(info->limits.cooperative_shape, t->matrices.shape, sizeof t->matrices.shape);
    info->limits.matrix_units = t->matrices.units;
}

copse_status copse_vk_attach(struct vk_device *vd, const struct copse_foreign_device *foreign,
                             struct copse_device_info *info)
{
    const struct vk_lent *h = foreign->handles;
    vd->vk.GetInstanceProcAddr = h->get_proc_addr;
    vd->version = vd->api_version = h->api_version;
    vd->instance = h->instance;
    vd->physical = h->physical;
    vd->device = h->device;
    const char *missing = copse_vk_instance_entries(vd);
    if (missing)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "vulkan: import: get_proc_addr does not know %s for this instance",
                          missing);
    COPSE_TRY(check_physical(vd));
    COPSE_TRY(check_family(vd, h->family));
    COPSE_TRY(copse_vk_describe(vd, vd->physical, info, &vd->traits));
    if (!info->is_usable)
        return COPSE_OK; /* `info` has the reason */
    keep_enabled(h, info, &vd->traits);
    missing = copse_vk_device_entries(vd);
    if (missing)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "vulkan: import: the device lacks %s", missing);
    return copse_vk_lanes_init(vd, h->queue);
}

copse_status copse_vk_import(struct copse_base *base, const struct copse_foreign_device *foreign,
                             struct copse_device_info *info)
{
    struct vk_device vd = { .base = base };
    return copse_vk_attach(&vd, foreign, info);
}

/* ---- our own device as an application's ---- */

copse_status copse_vk_lend(copse_queue *q, const struct copse_queue_guard *guard,
                           copse_device **out)
{
    struct vk_device *vd = q->dev->priv;
    const struct vk_traits *t = &vd->traits;
    const char *extensions[1 + COPSE_VK_MATRIX_EXTENSIONS];
    uint32_t extension_count = 0;
    struct copse_vk_cooperative_features matrices;
    VkPhysicalDevice16BitStorageFeatures f16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .pNext = t->matrices.units ? &matrices : NULL,
        .storageBuffer16BitAccess = t->has_f16_storage,
    };
    const VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &f16,
        .features.shaderFloat64 = t->has_f64,
    };
    copse_vk_cooperative_chain(&matrices, &t->matrices, true);
    if (t->import_alignment)
        extensions[extension_count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    extension_count += copse_vk_matrix_extensions(t, extensions + extension_count);
    vd->guard = *guard;
    return copse_vulkan_import(q->dev->ctx,
                               &(struct copse_vulkan_handles){
                                   .get_proc_addr = vd->vk.GetInstanceProcAddr,
                                   .instance = vd->instance,
                                   .api_version = vd->api_version,
                                   .physical_device = vd->physical,
                                   .device = vd->device,
                                   .queue_family = t->family,
                                   .queue = vd->lanes[0].queue,
                                   .extensions = extensions,
                                   .extension_count = extension_count,
                                   .features = &features,
                                   .lock_queue = guard->lock,
                                   .unlock_queue = guard->unlock,
                                   .user = guard->user,
                               },
                               out);
}
