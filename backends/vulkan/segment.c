/* SPDX-License-Identifier: MIT */
/* Segments: a command buffer recorded once and submitted many times. It is a primary one, because
   drivers may copy the content of a secondary one at each execution. */
#include "vk_internal.h"

static copse_status make_sets(struct vk_device *vd, struct copse_segment *seg)
{
    struct vk_segment *vs = seg->priv;
    uint32_t sets = 0, storage = 0, texels = 0;
    for (size_t i = 0; i < seg->count; i++) {
        if (seg->commands[i].kind != COPSE_COMMAND_DISPATCH)
            continue;
        const struct vk_kernel *k = seg->commands[i].kernel->priv;
        sets++;
        storage += k->storage_count;
        texels += k->texel_count;
    }
    return sets ? copse_vk_sets_add(vd, &vs->sets, sets, storage, texels) : COPSE_OK;
}

copse_status copse_vk_segment_init(struct copse_segment *seg)
{
    struct vk_device *vd = seg->queue->dev->priv;
    const struct vk_queue *vq = seg->queue->priv;
    struct vk_segment *vs = seg->priv;
    COPSE_TRY(make_sets(vd, seg));
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = vq->lane->family,
    };
    VkResult r = vd->vk.CreateCommandPool(vd->device, &pool, NULL, &vs->pool);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a command pool");
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = vs->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    r = vd->vk.AllocateCommandBuffers(vd->device, &info, &vs->commands);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "allocate a command buffer");

    struct vk_recorder recorder = {
        .vd = vd,
        .lane = vq->lane,
        .commands = vs->commands,
        .sets = &vs->sets,
        .views = &vs->views,
    };
    COPSE_TRY(copse_vk_record_begin(&recorder, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
    for (size_t i = 0; i < seg->count; i++)
        COPSE_TRY(copse_vk_record(&recorder, &seg->commands[i]));
    r = vd->vk.EndCommandBuffer(vs->commands);
    return r == VK_SUCCESS ? COPSE_OK : copse_vk_fail(r, "record a segment");
}

void copse_vk_segment_fini(struct copse_segment *seg)
{
    struct vk_device *vd = seg->queue->dev->priv;
    struct vk_segment *vs = seg->priv;
    if (!atomic_load(&vd->is_abandoned))
        vd->vk.DestroyCommandPool(vd->device, vs->pool, NULL);
    copse_vk_sets_fini(vd, &vs->sets);
    copse_vk_views_fini(vd, &vs->views);
}
