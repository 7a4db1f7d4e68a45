/* SPDX-License-Identifier: MIT */
/* Priorities of a device's work: among processes when the device is made, and for the occupancy of
   the processors in each command buffer. */
#include <stdio.h>

#include "vk_internal.h"

/* Declarations of VK_NV_compute_occupancy_priority, which headers before 1.4.328 lack. */
#define TYPE_PARAMETERS ((VkStructureType)1000645000)
#define TYPE_FEATURES   ((VkStructureType)1000645001)
#define OCCUPANCY_LOW   0.25f
#define OCCUPANCY_HIGH  0.75f

struct occupancy_parameters {
    VkStructureType type;
    const void *next;
    float priority, throttling;
};
typedef void(VKAPI_PTR *occupancy_fn)(VkCommandBuffer, const struct occupancy_parameters *);

void copse_vk_occupancy_chain(struct copse_vk_occupancy_features *f, void *next, bool is_enabled)
{
    *f = (struct copse_vk_occupancy_features){ TYPE_FEATURES, next, is_enabled };
}

bool copse_vk_wants_global_priority(const copse_device *dev)
{
    const struct vk_device *vd = dev->priv;
    return dev->priority != COPSE_PRIORITY_NORMAL && vd->traits.global_priority;
}

bool copse_vk_wants_occupancy(const copse_device *dev)
{
    const struct vk_device *vd = dev->priv;
    return dev->priority != COPSE_PRIORITY_NORMAL && vd->traits.has_occupancy;
}

VkQueueGlobalPriorityEXT copse_vk_global_priority(copse_priority priority)
{
    return priority == COPSE_PRIORITY_LOW    ? VK_QUEUE_GLOBAL_PRIORITY_LOW_EXT
           : priority == COPSE_PRIORITY_HIGH ? VK_QUEUE_GLOBAL_PRIORITY_HIGH_EXT
                                             : VK_QUEUE_GLOBAL_PRIORITY_MEDIUM_EXT;
}

bool copse_vk_priority_refused(copse_device *dev, VkResult r)
{
    struct vk_device *vd = dev->priv;
    if (copse_vk_wants_global_priority(dev))
        vd->traits.global_priority = NULL;
    else if (copse_vk_wants_occupancy(dev))
        vd->traits.has_occupancy = false;
    else
        return false;
    snprintf(dev->why_not, sizeof dev->why_not, "the driver refuses it: %s%s",
             copse_vk_result_name(r),
             r == VK_ERROR_NOT_PERMITTED_EXT ? "; the process lacks a right (CAP_SYS_NICE on Linux)"
                                             : "");
    return true;
}

void copse_vk_priority_given(copse_device *dev)
{
    struct vk_device *vd = dev->priv;
    if (copse_vk_wants_occupancy(dev)) {
        vd->set_occupancy =
            vd->vk.GetDeviceProcAddr(vd->device, "vkCmdSetComputeOccupancyPriorityNV");
        vd->occupancy = dev->priority == COPSE_PRIORITY_LOW ? OCCUPANCY_LOW : OCCUPANCY_HIGH;
    }
    dev->has_priority = copse_vk_wants_global_priority(dev) || vd->set_occupancy != NULL;
    if (!dev->has_priority && !dev->why_not[0])
        snprintf(dev->why_not, sizeof dev->why_not, "its driver has no %s",
                 COPSE_VK_GLOBAL_PRIORITY);
}

void copse_vk_priority_record(const struct vk_device *vd, VkCommandBuffer commands)
{
    const struct occupancy_parameters p = { TYPE_PARAMETERS, NULL, vd->occupancy, 0.0f };
    if (vd->set_occupancy)
        ((occupancy_fn)vd->set_occupancy)(commands, &p);
}
