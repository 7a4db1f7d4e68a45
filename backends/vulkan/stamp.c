/* SPDX-License-Identifier: MIT */
/* Stamps: a query pool of a queue, made by its first stamp. */
#include "vk_internal.h"

static copse_status find_clock(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_stamps *st = &((struct vk_queue *)q->priv)->stamps;
    VkPhysicalDeviceProperties properties;
    VkQueueFamilyProperties list[VK_FAMILIES];
    uint32_t count = COPSE_COUNT(list);
    vd->vk.GetPhysicalDeviceQueueFamilyProperties(vd->physical, &count, list);
    const uint32_t family = ((struct vk_queue *)q->priv)->lane->family;
    /* a pool is reset by a family that computes */
    const uint32_t bits = family < count && (list[family].queueFlags & VK_QUEUE_COMPUTE_BIT)
                              ? list[family].timestampValidBits
                              : 0;
    vd->vk.GetPhysicalDeviceProperties(vd->physical, &properties);
    st->period = (double)properties.limits.timestampPeriod;
    if (bits == 0 || !(st->period > 0))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "vulkan: queue family %u of %s has no timestamps",
                          (unsigned)family, q->dev->info.id);
    st->mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return COPSE_OK;
}

static copse_status make_pool(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_stamps *st = &((struct vk_queue *)q->priv)->stamps;
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = COPSE_STAMPS,
    };
    COPSE_TRY(find_clock(q));
    VkResult r = vd->vk.CreateQueryPool(vd->device, &info, NULL, &st->pool);
    return r == VK_SUCCESS ? COPSE_OK : copse_vk_fail(r, "create a pool of timestamps");
}

/* The command buffer begins after all earlier ones, and later ones begin after it. */
copse_status copse_vk_stamp(copse_queue *q, uint32_t slot)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_stamps *st = &((struct vk_queue *)q->priv)->stamps;
    struct vk_recorder *r;
    if (!st->pool)
        COPSE_TRY(make_pool(q));
    COPSE_TRY(copse_vk_queue_recorder(q, &r));
    vd->vk.CmdResetQueryPool(r->commands, st->pool, slot, 1);
    vd->vk.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, st->pool, slot);
    return COPSE_OK;
}

/* Ticks are added up, so that a clock of few bits may begin again. */
copse_status copse_vk_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_stamps *st = &((struct vk_queue *)q->priv)->stamps;
    uint64_t ticks = 0;
    *ns = 0;
    VkResult r = vd->vk.GetQueryPoolResults(vd->device, st->pool, slot, 1, sizeof ticks, &ticks,
                                            sizeof ticks, VK_QUERY_RESULT_64_BIT);
    if (r == VK_NOT_READY)
        return COPSE_OK;
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "read a timestamp");
    st->ticks = st->is_read ? st->ticks + ((ticks - st->newest) & st->mask) : ticks & st->mask;
    st->newest = ticks;
    st->is_read = true;
    *ns = 1 + (uint64_t)((double)st->ticks * st->period);
    return COPSE_OK;
}
