/* SPDX-License-Identifier: MIT */
/* Lanes: the VkQueues of a device. All queues of core that compute share one lane, where the order
   of submissions is the order of execution, because every command buffer begins with a barrier. A
   queue that only moves data has a lane of its own where the device has one: its submissions run
   beside kernels. A timeline semaphore counts the submissions of a lane. A submission waits for the
   submission of the other lane that core names. */
#include "vk_internal.h"

/* A family that only transfers is a copy engine. Else a second queue of the family that computes. A
   device that shares the memory of the host gains nothing. */
void copse_vk_lane_find(struct vk_device *vd, VkPhysicalDevice physical, struct vk_traits *t)
{
    const VkQueueFlags others = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    VkQueueFamilyProperties list[VK_FAMILIES];
    uint32_t count = COPSE_COUNT(list);
    vd->vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, list);
    for (uint32_t i = 0; i < count && !t->has_transfer_lane; i++)
        if ((list[i].queueFlags & VK_QUEUE_TRANSFER_BIT) && !(list[i].queueFlags & others) &&
            list[i].queueCount > 0) {
            t->has_transfer_lane = true;
            t->transfer_family = i;
        }
    if (!t->has_transfer_lane && t->family < count && list[t->family].queueCount > 1) {
        t->has_transfer_lane = true;
        t->transfer_family = t->family;
    }
}

static copse_status lane_init(struct vk_device *vd, struct vk_lane *lane)
{
    const VkSemaphoreTypeCreateInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &timeline,
    };
    const VkResult r = vd->vk.CreateSemaphore(vd->device, &info, NULL, &lane->done);
    return r == VK_SUCCESS ? COPSE_OK : copse_vk_fail(r, "create a timeline semaphore");
}

void copse_vk_lane_uses(struct vk_lane *lane, bool has_kernels)
{
    lane->stages = VK_PIPELINE_STAGE_TRANSFER_BIT;
    lane->writes = VK_ACCESS_TRANSFER_WRITE_BIT;
    lane->reads = VK_ACCESS_TRANSFER_READ_BIT;
    if (!has_kernels)
        return;
    lane->stages |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    lane->writes |= VK_ACCESS_SHADER_WRITE_BIT;
    lane->reads |= VK_ACCESS_SHADER_READ_BIT;
}

copse_status copse_vk_lanes_init(struct vk_device *vd, VkQueue lent)
{
    const struct vk_traits *t = &vd->traits;
    struct vk_lane *compute = &vd->lanes[0], *transfer = &vd->lanes[1];
    compute->family = t->family;
    copse_vk_lane_uses(compute, true);
    compute->queue = lent;
    if (!lent)
        vd->vk.GetDeviceQueue(vd->device, compute->family, 0, &compute->queue);
    if (!t->has_transfer_lane)
        return COPSE_OK;
    transfer->family = t->transfer_family;
    copse_vk_lane_uses(transfer, false);
    vd->vk.GetDeviceQueue(vd->device, transfer->family, transfer->family == compute->family,
                          &transfer->queue);
    COPSE_TRY(lane_init(vd, compute));
    return lane_init(vd, transfer);
}

void copse_vk_lanes_fini(struct vk_device *vd)
{
    for (size_t i = 0; i < COPSE_COUNT(vd->lanes); i++)
        if (vd->lanes[i].done)
            vd->vk.DestroySemaphore(vd->device, vd->lanes[i].done, NULL);
}

VkResult copse_vk_lane_submit(struct vk_device *vd, struct vk_queue *vq, const struct vk_frame *f)
{
    struct vk_lane *lane = vq->lane;
    const struct vk_lane *other = &vd->lanes[lane == &vd->lanes[0]];
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const uint32_t waits = vq->wait_value > 0, signals = lane->done != VK_NULL_HANDLE;
    uint64_t value;
    const VkTimelineSemaphoreSubmitInfo times = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = waits,
        .pWaitSemaphoreValues = &vq->wait_value,
        .signalSemaphoreValueCount = signals,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = signals ? &times : NULL,
        .waitSemaphoreCount = waits,
        .pWaitSemaphores = &other->done,
        .pWaitDstStageMask = &all,
        .commandBufferCount = (uint32_t)f->list.count,
        .pCommandBuffers = f->list.at,
        .signalSemaphoreCount = signals,
        .pSignalSemaphores = &lane->done,
    };
    vd->guard.lock(vd->guard.user);
    value = lane->value + 1;
    const VkResult r = vd->vk.QueueSubmit(lane->queue, 1, &info, f->fence);
    if (r == VK_SUCCESS)
        vq->newest_value = lane->value = value;
    vd->guard.unlock(vd->guard.user);
    if (r == VK_SUCCESS)
        vq->wait_value = 0;
    return r;
}

void copse_vk_lane_mark(struct vk_device *vd, struct vk_queue *vq, uint64_t ticket)
{
    if (!vq->lane->done)
        return;
    vd->guard.lock(vd->guard.user);
    vq->newest_ticket = ticket;
    vq->values[ticket % VK_MARKS] = vq->newest_value;
    vd->guard.unlock(vd->guard.user);
}

void copse_vk_lane_wait(struct vk_device *vd, struct vk_queue *vq, const struct vk_queue *other,
                        uint64_t ticket)
{
    if (vq->lane == other->lane)
        return; /* submissions are in order, and the next one begins with a barrier */
    vd->guard.lock(vd->guard.user);
    if (ticket + VK_MARKS <= other->newest_ticket) /* too old: wait for a later ticket */
        ticket = other->newest_ticket - VK_MARKS + 1;
    vq->wait_value = COPSE_MAX(vq->wait_value, other->values[ticket % VK_MARKS]);
    vd->guard.unlock(vd->guard.user);
}
