/* SPDX-License-Identifier: MIT */
/* Transfers between host memory and buffers through one ring of mapped memory per queue. The ring
   is also used if device memory can be mapped, so that a write is ordered with the queued
   commands. */
#include "vk_internal.h"

/* ---- the ring ---- */

/* Cached, because uncached reads by the host are slow; not the small host-visible window of a
   discrete device's memory. */
static uint32_t ring_type(const struct vk_device *vd, uint32_t allowed)
{
    uint32_t best = UINT32_MAX;
    int best_score = -1;
    for (uint32_t i = 0; i < vd->memory.memoryTypeCount; i++) {
        const VkMemoryPropertyFlags f = vd->memory.memoryTypes[i].propertyFlags;
        const int score = (f & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT ? 0 : 4) +
                          (f & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? 2 : 0) +
                          (f & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT ? 1 : 0);
        const bool is_strange =
            f & (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
                 VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD);
        if (!(allowed >> i & 1) || !(f & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) || is_strange ||
            score <= best_score)
            continue;
        best = i;
        best_score = score;
    }
    return best;
}

copse_status copse_vk_staging_init(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = VK_RING_BYTES,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VkResult r = vd->vk.CreateBuffer(vd->device, &info, NULL, &vq->ring.buffer);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create the staging buffer");
    VkMemoryRequirements need;
    vd->vk.GetBufferMemoryRequirements(vd->device, vq->ring.buffer, &need);
    const uint32_t type = ring_type(vd, need.memoryTypeBits);
    if (type == UINT32_MAX)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "vulkan: %s has no memory the host can map",
                          q->dev->info.name);
    const VkMemoryAllocateInfo memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = need.size,
        .memoryTypeIndex = type,
    };
    r = vd->vk.AllocateMemory(vd->device, &memory, NULL, &vq->ring.memory);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "allocate staging memory");
    r = vd->vk.BindBufferMemory(vd->device, vq->ring.buffer, vq->ring.memory, 0);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "bind staging memory");
    void *map;
    r = vd->vk.MapMemory(vd->device, vq->ring.memory, 0, VK_WHOLE_SIZE, 0, &map);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "map staging memory");
    vq->ring.map = map;
    vq->ring.align = COPSE_MAX(vd->traits.atom, 16); /* no two ranges share an atom */
    vq->ring.is_coherent =
        vd->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    return COPSE_OK;
}

void copse_vk_staging_fini(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    vd->vk.DestroyBuffer(vd->device, vq->ring.buffer, NULL);
    vd->vk.FreeMemory(vd->device, vq->ring.memory, NULL); /* unmaps */
}

/* Find `size` contiguous bytes; wait for frames in flight until they are free. */
static copse_status staging_take(copse_queue *q, size_t size, VkDeviceSize *offset)
{
    struct vk_queue *vq = q->priv;
    struct copse_deadline d = copse__deadline(copse__device_wait_ns(q->dev));
    size = copse__round_up(size, (size_t)vq->ring.align);
    for (;;) {
        const uint64_t at = vq->ring.head % VK_RING_BYTES;
        const uint64_t skip = at + size > VK_RING_BYTES ? VK_RING_BYTES - at : 0;
        if (vq->ring.head + skip + size - vq->ring.tail <= VK_RING_BYTES) {
            *offset = skip ? 0 : at;
            vq->ring.head += skip + size;
            return COPSE_OK;
        }
        if (vq->in_flight)
            COPSE_TRY(copse_vk_retire(q, &d));
        else if (vq->open)
            COPSE_TRY(copse_vk_flush(q));
        else
            vq->ring.tail = vq->ring.head; /* ranges of calls that failed half-way */
    }
}

static VkMappedMemoryRange mapped_range(const struct vk_queue *vq, VkDeviceSize offset, size_t size)
{
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = vq->ring.memory,
        .offset = offset,
        .size = copse__round_up(size, (size_t)vq->ring.align),
    };
}

/* ---- write, read ---- */

static copse_status write_piece(copse_queue *q, const struct copse_binding *dst, const void *src)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    struct vk_recorder *r;
    VkDeviceSize offset;
    COPSE_TRY(staging_take(q, dst->size, &offset));
    COPSE_TRY(copse_vk_queue_recorder(q, &r));
    memcpy(vq->ring.map + offset, src, dst->size);
    if (!vq->ring.is_coherent) {
        const VkMappedMemoryRange range = mapped_range(vq, offset, dst->size);
        VkResult result = vd->vk.FlushMappedMemoryRanges(vd->device, 1, &range);
        if (result != VK_SUCCESS)
            return copse_vk_fail(result, "flush staging memory");
    }
    const struct vk_access touched = copse_vk_access(dst, true);
    copse_vk_record_order(r, &touched, 1);
    const VkBufferCopy region = { .srcOffset = offset,
                                  .dstOffset = dst->offset,
                                  .size = dst->size };
    vd->vk.CmdCopyBuffer(r->commands, vq->ring.buffer, touched.buffer, 1, &region);
    return COPSE_OK;
}

static copse_status read_piece(copse_queue *q, const struct copse_binding *src, void *dst)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    struct vk_recorder *r;
    VkDeviceSize offset;
    COPSE_TRY(staging_take(q, src->size, &offset));
    COPSE_TRY(copse_vk_queue_recorder(q, &r));
    const struct vk_landing landing = { .dst = dst, .offset = offset, .size = src->size };
    if (!COPSE_PUSH(&vd->base->mem, &vq->open->reads, landing))
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory to note a read");
    const struct vk_access touched = copse_vk_access(src, false);
    copse_vk_record_order(r, &touched, 1);
    const VkBufferCopy region = { .srcOffset = src->offset,
                                  .dstOffset = offset,
                                  .size = src->size };
    vd->vk.CmdCopyBuffer(r->commands, touched.buffer, vq->ring.buffer, 1, &region);
    vq->has_reads = true;
    return COPSE_OK;
}

/* A transfer larger than one range is submitted range by range, so that the device copies one range
   while the host copies the next. */
copse_status copse_vk_write(copse_queue *q, const struct copse_binding *dst, const void *src)
{
    for (size_t done = 0; done < dst->size;) {
        const size_t size = COPSE_MIN(dst->size - done, VK_PIECE_BYTES);
        const struct copse_binding piece = { dst->buffer, dst->offset + done, size };
        COPSE_TRY(write_piece(q, &piece, (const uint8_t *)src + done));
        done += size;
        if (done < dst->size)
            COPSE_TRY(copse_vk_flush(q));
    }
    return COPSE_OK;
}

copse_status copse_vk_read(copse_queue *q, const struct copse_binding *src, void *dst)
{
    for (size_t done = 0; done < src->size;) {
        const size_t size = COPSE_MIN(src->size - done, VK_PIECE_BYTES);
        const struct copse_binding piece = { src->buffer, src->offset + done, size };
        COPSE_TRY(read_piece(q, &piece, (uint8_t *)dst + done));
        done += size;
        if (done < src->size)
            COPSE_TRY(copse_vk_flush(q));
    }
    return COPSE_OK;
}

copse_status copse_vk_staging_land(copse_queue *q, struct vk_frame *f)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    for (size_t i = 0; i < f->reads.count; i++) {
        const struct vk_landing *l = &f->reads.at[i];
        if (!vq->ring.is_coherent) {
            const VkMappedMemoryRange range = mapped_range(vq, l->offset, l->size);
            VkResult r = vd->vk.InvalidateMappedMemoryRanges(vd->device, 1, &range);
            if (r != VK_SUCCESS)
                return copse_vk_fail(r, "invalidate staging memory");
        }
        memcpy(l->dst, vq->ring.map + l->offset, l->size);
    }
    f->reads.count = 0;
    return COPSE_OK;
}
