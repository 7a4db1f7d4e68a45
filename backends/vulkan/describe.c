/* SPDX-License-Identifier: MIT */
/* Describes a physical device: converts properties and features to info and limits. */
#include "vk_internal.h"

#include <stdio.h>

/* A literal, because only the beta header defines it. */
#define PORTABILITY_SUBSET "VK_KHR_portability_subset"

struct extensions {
    VkExtensionProperties *at;
    uint32_t count;
};

static copse_status extensions_get(struct vk_device *vd, VkPhysicalDevice physical,
                                   struct extensions *e)
{
    *e = (struct extensions){ 0 };
    uint32_t count = 0;
    VkResult r = vd->vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    if (r != VK_SUCCESS)
        return COPSE_OK; /* then none is usable */
    e->at = copse__alloc(&vd->base->mem, count, sizeof *e->at);
    if (!e->at)
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory to list extensions");
    if (vd->vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, e->at) >= 0)
        e->count = count;
    return COPSE_OK;
}

static bool describe_has(const struct extensions *e, const char *name)
{
    for (uint32_t i = 0; i < e->count; i++)
        if (!strcmp(e->at[i].extensionName, name))
            return true;
    return false;
}

/* A compute family without graphics keeps long kernels from blocking the desktop. */
static bool find_family(struct vk_device *vd, VkPhysicalDevice physical, uint32_t *family)
{
    VkQueueFamilyProperties list[VK_FAMILIES];
    uint32_t count = COPSE_COUNT(list);
    bool found = false;
    vd->vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, list);
    for (uint32_t i = 0; i < count; i++) {
        if (!(list[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || list[i].queueCount == 0)
            continue;
        const bool is_pure = !(list[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
        if (!found || is_pure)
            *family = i;
        found = true;
        if (is_pure)
            break;
    }
    return found;
}

static copse_device_kind kind_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return COPSE_DEVICE_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return COPSE_DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return COPSE_DEVICE_CPU;
    default:
        return COPSE_DEVICE_OTHER;
    }
}

static bool is_gpu(VkPhysicalDeviceType type)
{
    return type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
           type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
}

static bool is_unified(copse_device_kind kind, const VkPhysicalDeviceMemoryProperties *m)
{
    if (kind == COPSE_DEVICE_DISCRETE)
        return false; /* there, host-visible device memory is a window over the bus */
    const VkMemoryPropertyFlags want =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++)
        if ((m->memoryTypes[i].propertyFlags & want) == want)
            return true;
    return false;
}

static bool can_import(struct vk_device *vd, VkPhysicalDevice physical, bool has_texels)
{
    const VkPhysicalDeviceExternalBufferInfo ask = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = copse_vk_buffer_usage(has_texels),
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
    };
    VkExternalBufferProperties answer = { .sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES };
    vd->vk.GetPhysicalDeviceExternalBufferProperties(physical, &ask, &answer);
    return answer.externalMemoryProperties.externalMemoryFeatures &
           VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

static uint32_t describe_min3(uint32_t a, uint32_t b, uint32_t c)
{
    return COPSE_MIN(a, COPSE_MIN(b, c));
}

/* Everything beyond Vulkan 1.0; the device supports at least 1.1. */
static void describe_rest(struct vk_device *vd, VkPhysicalDevice physical,
                          const struct extensions *e, struct copse_device_info *info,
                          struct vk_traits *t)
{
    VkPhysicalDeviceIDProperties id = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES };
    VkPhysicalDeviceMaintenance3Properties m3 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES
    };
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES
    };
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES
    };
    VkPhysicalDeviceFloatControlsProperties floats = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES
    };
    VkPhysicalDeviceMaintenance4Properties m4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES
    };
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT
    };
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT import = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT
    };
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV
    };
    VkPhysicalDeviceShaderCoreProperties2AMD cores = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD
    };
    VkPhysicalDeviceProperties2 props = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
#define CHAIN(s) ((s).pNext = props.pNext, props.pNext = &(s))
    CHAIN(id);
    CHAIN(m3);
    CHAIN(subgroup);
    if (t->version >= VK_API_VERSION_1_2 ||
        describe_has(e, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        CHAIN(driver);
    if (t->version >= VK_API_VERSION_1_2 ||
        describe_has(e, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME))
        CHAIN(floats);
    if (t->version >= VK_API_VERSION_1_3 || describe_has(e, VK_KHR_MAINTENANCE_4_EXTENSION_NAME))
        CHAIN(m4);
    if (describe_has(e, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) {
        CHAIN(pci);
        info->has_pci = true;
    }
    if (describe_has(e, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
        CHAIN(import);
    if (describe_has(e, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        CHAIN(sm);
    if (describe_has(e, VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME))
        CHAIN(cores);
#undef CHAIN
    vd->vk.GetPhysicalDeviceProperties2(physical, &props);
    const VkPhysicalDeviceLimits *l = &props.properties.limits;

    VkPhysicalDevice16BitStorageFeatures f16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES
    };
    struct copse_vk_occupancy_features occupancy;
    copse_vk_occupancy_chain(&occupancy, NULL, false);
    if (describe_has(e, COPSE_VK_OCCUPANCY))
        f16.pNext = &occupancy;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        .pNext = f16.pNext,
    };
    if (t->version >= VK_API_VERSION_1_2)
        f16.pNext = &timeline;
    VkPhysicalDeviceMemoryPriorityFeaturesEXT priority = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT,
        .pNext = f16.pNext,
    };
    if (describe_has(e, VK_EXT_MEMORY_PRIORITY_EXTENSION_NAME))
        f16.pNext = &priority;
    VkPhysicalDeviceFeatures2 features = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                           .pNext = &f16 };
    vd->vk.GetPhysicalDeviceFeatures2(physical, &features);
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
    };
    vd->vk.GetPhysicalDeviceMemoryProperties2(physical, &memory);
    VkFormatProperties format = { 0 };
    vd->vk.GetPhysicalDeviceFormatProperties(physical, VK_FORMAT_R32G32B32A32_SFLOAT, &format);

    /* Known properties hold for a driver version, which SwiftShader does not report as text. */
    char version[40];
    snprintf(version, sizeof version, "%u.%u.%u", VK_API_VERSION_MAJOR(t->driver),
             VK_API_VERSION_MINOR(t->driver), VK_API_VERSION_PATCH(t->driver));
    if (driver.driverName[0])
        snprintf(info->driver, sizeof info->driver, "%.80s %.100s", driver.driverName,
                 driver.driverInfo[0] ? driver.driverInfo : version);
    memcpy(info->uuid, id.deviceUUID, sizeof info->uuid);
    info->has_uuid = !is_zero(info->uuid, sizeof info->uuid);
    if (info->has_pci) {
        info->pci[0] = pci.pciDomain;
        info->pci[1] = pci.pciBus;
        info->pci[2] = pci.pciDevice;
        info->pci[3] = pci.pciFunction;
    }
    const uint64_t heap =
        memory.memoryProperties.memoryHeaps[copse_vk_main_heap(&memory.memoryProperties)].size;
    info->memory_bytes = heap;

    struct copse_limits *out = &info->limits;
    out->has_unified_memory = is_unified(info->kind, &memory.memoryProperties);
    if (!out->has_unified_memory && timeline.timelineSemaphore)
        copse_vk_lane_find(vd, physical, t);
    t->atom = l->nonCoherentAtomSize;
    t->has_budget = describe_has(e, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    t->has_memory_priority = priority.memoryPriority;
    t->global_priority = describe_has(e, COPSE_VK_GLOBAL_PRIORITY) ? COPSE_VK_GLOBAL_PRIORITY
                         : describe_has(e, VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME)
                             ? VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME
                             : NULL;
    t->has_occupancy = occupancy.has_priority;
    t->has_portability_subset = describe_has(e, PORTABILITY_SUBSET);
    t->has_f64 = features.features.shaderFloat64;
    t->has_f16_storage = f16.storageBuffer16BitAccess;
    if (format.bufferFeatures & VK_FORMAT_FEATURE_STORAGE_TEXEL_BUFFER_BIT)
        t->max_texel_args = l->maxPerStageDescriptorStorageImages;
    if (out->has_unified_memory && import.minImportedHostPointerAlignment <= UINT32_MAX &&
        import.minImportedHostPointerAlignment && can_import(vd, physical, t->max_texel_args > 0))
        t->import_alignment = import.minImportedHostPointerAlignment;

    const uint64_t align = COPSE_MAX(
        COPSE_MAX(l->minStorageBufferOffsetAlignment, l->minTexelBufferOffsetAlignment), 16);
    out->max_buffer_bytes = COPSE_MIN(heap, m3.maxMemoryAllocationSize);
    if (m4.maxBufferSize)
        out->max_buffer_bytes = COPSE_MIN(out->max_buffer_bytes, m4.maxBufferSize);
    out->max_binding_bytes = l->maxStorageBufferRange;
    out->offset_alignment = (uint32_t)align;
    out->max_group_size =
        describe_min3(l->maxComputeWorkGroupInvocations, l->maxComputeWorkGroupSize[0],
                      l->maxComputeWorkGroupSize[1]);
    out->max_group_count =
        COPSE_MIN(l->maxComputeWorkGroupCount[0], l->maxComputeWorkGroupCount[1]);
    out->group_memory_bytes = l->maxComputeSharedMemorySize;
    out->max_bindings = describe_min3(l->maxPerStageDescriptorStorageBuffers,
                                      l->maxDescriptorSetStorageBuffers, l->maxPerStageResources);
    out->max_param_bytes = 128; /* the guaranteed minimum */
    out->subgroup_size = subgroup.subgroupSize;
    out->compute_units = sm.shaderSMCount ? sm.shaderSMCount : cores.activeComputeUnitCount;
    if (info->kind == COPSE_DEVICE_CPU)
        out->compute_units = copse__cpu_count();
    out->host_import_alignment = (uint32_t)t->import_alignment;
    out->max_texel_elements = t->max_texel_args ? l->maxTexelBufferElements : 0;
    /* Shaders run on a CPU: plain loads are done lane by lane there. */
    out->has_fast_texels = out->max_texel_elements && info->kind == COPSE_DEVICE_CPU;
    out->has_group_base = true;
    out->has_f64 = t->has_f64;
    out->has_f16_storage = t->has_f16_storage;
    out->rounds_to_nearest = floats.shaderRoundingModeRTEFloat32;
    if (t->version >= VK_API_VERSION_1_2)
        t->float_modes =
            (uint8_t)((floats.shaderDenormPreserveFloat32 ? COPSE_VK_KEEPS_DENORMALS : 0) |
                      (floats.shaderSignedZeroInfNanPreserveFloat32 ? COPSE_VK_KEEPS_ZEROS : 0) |
                      (floats.shaderRoundingModeRTEFloat32 ? COPSE_VK_ROUNDS_TO_EVEN : 0));
    /* Each shader must request to preserve subnormals, which not every device allows. Our shaders
       do not, so drivers may flush even where they could preserve. */
    out->keeps_denormals = false;
}

/* Kernels with cooperative matrices use Vulkan 1.2. */
static copse_status describe_matrices(struct vk_device *vd, VkPhysicalDevice physical,
                                      const struct extensions *e, struct copse_limits *out,
                                      struct vk_traits *t)
{
    const bool is_new = t->version >= VK_API_VERSION_1_3;
    struct copse_vk_matrix_facts f = {
        .vendor = t->vendor,
        .subgroup = out->subgroup_size,
        .has_sizes = is_new || describe_has(e, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME),
        .has_dot = is_new || describe_has(e, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME),
        .has_bfloat = describe_has(e, COPSE_VK_BFLOAT),
    };
    if (t->version >= VK_API_VERSION_1_2 && describe_has(e, COPSE_VK_COOPERATIVE_MATRIX))
        COPSE_TRY(copse_vk_matrices_describe(vd, physical, &f, &t->matrices));
    memcpy(out->cooperative_shape, t->matrices.shape, sizeof out->cooperative_shape);
    out->matrix_units = t->matrices.units;
    return COPSE_OK;
}

copse_status copse_vk_describe(struct vk_device *vd, VkPhysicalDevice physical,
                               struct copse_device_info *info, struct vk_traits *t)
{
    *info = (struct copse_device_info){ .same_as = -1 };
    *t = (struct vk_traits){ 0 };
    VkPhysicalDeviceProperties p;
    vd->vk.GetPhysicalDeviceProperties(physical, &p);
    t->version = describe_min3(p.apiVersion, VK_API_VERSION_1_3, vd->api_version);
    t->vendor = p.vendorID;
    t->device = p.deviceID;
    t->driver = p.driverVersion;
    memcpy(t->cache_uuid, p.pipelineCacheUUID, sizeof t->cache_uuid);
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, p.deviceName);
    snprintf(info->driver, sizeof info->driver, "driver 0x%08x", (unsigned)p.driverVersion);
    snprintf(info->api_version, sizeof info->api_version, "%u.%u.%u",
             VK_API_VERSION_MAJOR(p.apiVersion), VK_API_VERSION_MINOR(p.apiVersion),
             VK_API_VERSION_PATCH(p.apiVersion));
    info->vendor_id = p.vendorID;
    info->kind = kind_of(p.deviceType);
    info->limits.is_gpu = is_gpu(p.deviceType);
    if (p.apiVersion < VK_API_VERSION_1_1) {
        snprintf(info->reason, sizeof info->reason, "speaks Vulkan %s, 1.1 is needed",
                 info->api_version);
        return COPSE_OK;
    }
    if (!find_family(vd, physical, &t->family)) {
        snprintf(info->reason, sizeof info->reason, "has no queue that can compute");
        return COPSE_OK;
    }
    struct extensions e;
    COPSE_TRY(extensions_get(vd, physical, &e));
    describe_rest(vd, physical, &e, info, t);
    const copse_status s = describe_matrices(vd, physical, &e, &info->limits, t);
    copse__free(&vd->base->mem, e.at);
    info->is_usable = s == COPSE_OK;
    return s;
}
