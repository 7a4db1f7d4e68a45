/* SPDX-License-Identifier: MIT */
/* What a Vulkan driver says of a device, in Vulkan's names. */
#include "vk_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- limits ---- */

/* Numbers of 32 or 64 bits. */
/* clang-format off */
#define LIMITS(X) \
    X(maxUniformBufferRange) X(maxStorageBufferRange) X(maxPushConstantsSize) \
    X(maxMemoryAllocationCount) X(maxTexelBufferElements) X(bufferImageGranularity) \
    X(sparseAddressSpaceSize) X(maxBoundDescriptorSets) X(maxPerStageDescriptorUniformBuffers) \
    X(maxPerStageDescriptorStorageBuffers) X(maxPerStageDescriptorSampledImages) \
    X(maxPerStageDescriptorStorageImages) X(maxPerStageResources) \
    X(maxDescriptorSetUniformBuffers) X(maxDescriptorSetStorageBuffers) \
    X(maxDescriptorSetStorageImages) X(maxComputeSharedMemorySize) \
    X(maxComputeWorkGroupInvocations) X(minMemoryMapAlignment) X(minTexelBufferOffsetAlignment) \
    X(minUniformBufferOffsetAlignment) X(minStorageBufferOffsetAlignment) \
    X(timestampComputeAndGraphics) X(optimalBufferCopyOffsetAlignment) X(nonCoherentAtomSize) \
    X(discreteQueuePriorities)
/* clang-format on */

static void add_triple(struct copse_fact_sink *to, const char *name, const uint32_t *n)
{
    char text[48];
    snprintf(text, sizeof text, "%u, %u, %u", (unsigned)n[0], (unsigned)n[1], (unsigned)n[2]);
    to->add(to, COPSE_FACT_LIMIT, name, text);
}

static void add_limits(struct copse_fact_sink *to, const VkPhysicalDeviceProperties *p)
{
    const VkPhysicalDeviceLimits *l = &p->limits;
    char text[48];
    snprintf(text, sizeof text, "0x%08x", (unsigned)p->driverVersion);
    to->add(to, COPSE_FACT_LIMIT, "driverVersion", text);
    snprintf(text, sizeof text, "0x%04x", (unsigned)p->deviceID);
    to->add(to, COPSE_FACT_LIMIT, "deviceID", text);
    copse__fact_number(to, "deviceType", (uint64_t)p->deviceType);
#define ADD(name) copse__fact_number(to, #name, l->name);
    LIMITS(ADD)
#undef ADD
    add_triple(to, "maxComputeWorkGroupCount", l->maxComputeWorkGroupCount);
    add_triple(to, "maxComputeWorkGroupSize", l->maxComputeWorkGroupSize);
    snprintf(text, sizeof text, "%g", (double)l->timestampPeriod);
    to->add(to, COPSE_FACT_LIMIT, "timestampPeriod", text);
}

/* ---- memory and queues ---- */

static void add_memory(struct copse_fact_sink *to, const VkPhysicalDeviceMemoryProperties *m)
{
    char name[48], text[64];
    for (uint32_t i = 0; i < m->memoryHeapCount; i++) {
        snprintf(name, sizeof name, "memoryHeaps[%u]", (unsigned)i);
        snprintf(text, sizeof text, "%" PRIu64 " bytes, flags 0x%x",
                 (uint64_t)m->memoryHeaps[i].size, (unsigned)m->memoryHeaps[i].flags);
        to->add(to, COPSE_FACT_LIMIT, name, text);
    }
    for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
        snprintf(name, sizeof name, "memoryTypes[%u]", (unsigned)i);
        snprintf(text, sizeof text, "heap %u, flags 0x%x", (unsigned)m->memoryTypes[i].heapIndex,
                 (unsigned)m->memoryTypes[i].propertyFlags);
        to->add(to, COPSE_FACT_LIMIT, name, text);
    }
}

static void add_queues(struct vk_device *vd, VkPhysicalDevice physical, struct copse_fact_sink *to)
{
    VkQueueFamilyProperties list[16];
    uint32_t count = COPSE_COUNT(list);
    char name[48], text[64];
    vd->vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, list);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "queueFamilies[%u]", (unsigned)i);
        snprintf(text, sizeof text, "%u queues, flags 0x%x", (unsigned)list[i].queueCount,
                 (unsigned)list[i].queueFlags);
        to->add(to, COPSE_FACT_LIMIT, name, text);
    }
}

/* ---- all ---- */

static copse_status add_extensions(struct vk_device *vd, VkPhysicalDevice physical,
                                   struct copse_fact_sink *to)
{
    uint32_t count = 0;
    if (vd->vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) != VK_SUCCESS)
        return COPSE_OK;
    VkExtensionProperties *list = copse__alloc(&to->base->mem, count + 1u, sizeof *list);
    if (!list)
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory to list extensions");
    if (vd->vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, list) >= 0)
        for (uint32_t i = 0; i < count; i++)
            to->add(to, COPSE_FACT_EXTENSION, "", list[i].extensionName);
    copse__free(&to->base->mem, list);
    return COPSE_OK;
}

static copse_status add_device(struct vk_device *vd, VkPhysicalDevice physical,
                               struct copse_fact_sink *to)
{
    VkPhysicalDeviceIDProperties id = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES };
    VkPhysicalDeviceMaintenance3Properties m3 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &id
    };
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &m3
    };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                      .pNext = &subgroup };
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
    };
    VkPhysicalDeviceProperties old;
    char text[2 * VK_UUID_SIZE + 1];
    vd->vk.GetPhysicalDeviceProperties(physical, &old);
    if (old.apiVersion < VK_API_VERSION_1_1) {
        add_limits(to, &old);
        return add_extensions(vd, physical, to);
    }
    vd->vk.GetPhysicalDeviceProperties2(physical, &p);
    vd->vk.GetPhysicalDeviceMemoryProperties2(physical, &memory);
    to->add(to, COPSE_FACT_ID, "device_uuid", copse__fact_bytes(text, id.deviceUUID, VK_UUID_SIZE));
    to->add(to, COPSE_FACT_ID, "driver_uuid", copse__fact_bytes(text, id.driverUUID, VK_UUID_SIZE));
    to->add(to, COPSE_FACT_ID, "pipeline_cache_uuid",
            copse__fact_bytes(text, p.properties.pipelineCacheUUID, VK_UUID_SIZE));
    add_limits(to, &p.properties);
    copse__fact_number(to, "maxMemoryAllocationSize", m3.maxMemoryAllocationSize);
    copse__fact_number(to, "maxPerSetDescriptors", m3.maxPerSetDescriptors);
    copse__fact_number(to, "subgroupSize", subgroup.subgroupSize);
    copse__fact_number(to, "supportedSubgroupOperations", subgroup.supportedOperations);
    add_memory(to, &memory.memoryProperties);
    add_queues(vd, physical, to);
    return add_extensions(vd, physical, to);
}

copse_status copse_vk_facts(uint32_t index, struct copse_fact_sink *to)
{
    struct vk_device vd = { .base = to->base };
    VkPhysicalDevice *physical = NULL;
    uint32_t count = 0;
    char why[192];
    copse_status s = COPSE_OK;
    if (copse_vk_instance_open(&vd, why, sizeof why) &&
        copse_vk_physical_devices(&vd, &physical, &count) == VK_SUCCESS && index < count) {
        s = add_device(&vd, physical[index], to);
        /* the loader closes layers and drivers with the last instance */
        copse__fact_libraries(to, "vkNegotiateLoaderLayerInterfaceVersion",
                              "vk_icdGetInstanceProcAddr");
    }
    copse__free(&to->base->mem, physical);
    copse_vk_instance_close(&vd);
    return s;
}
