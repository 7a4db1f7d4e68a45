/* SPDX-License-Identifier: MIT */
/* Queues: submissions ("frames") in a ring, with one fence each. Every command buffer begins with a
   barrier after the earlier ones of its lane (lane.c). */
#include "vk_internal.h"

/* ---- frames ---- */

static copse_status frame_init(struct vk_device *vd, const struct vk_lane *lane, struct vk_frame *f)
{
    const VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = lane->family,
    };
    VkResult r = f->fence ? VK_SUCCESS : vd->vk.CreateFence(vd->device, &fence, NULL, &f->fence);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a fence");
    r = vd->vk.CreateCommandPool(vd->device, &pool, NULL, &f->pool);
    return r == VK_SUCCESS ? COPSE_OK : copse_vk_fail(r, "create a command pool");
}

/* Prepare a free frame for commands; the first ones are already allocated. */
static copse_status open_frame(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    if (vq->open)
        return COPSE_OK;
    struct copse_deadline d = copse__deadline(copse__device_wait_ns(q->dev));
    if (vq->in_flight == VK_FRAMES)
        COPSE_TRY(copse_vk_retire(q, &d));
    struct vk_frame *f = vq->frames;
    while (f->is_busy)
        f++;
    if (!f->pool) {
        COPSE_TRY(frame_init(vd, vq->lane, f));
    } else {
        VkResult r = vd->vk.ResetCommandPool(vd->device, f->pool, 0);
        if (r != VK_SUCCESS)
            return copse_vk_fail(r, "reset a command pool");
        COPSE_TRY(copse_vk_sets_reset(vd, &f->sets));
    }
    f->own_used = f->list.count = 0;
    f->ticket = 0;
    f->is_busy = true;
    vq->open = f;
    return COPSE_OK;
}

static void frame_fini(struct vk_device *vd, struct vk_frame *f)
{
    struct copse_mem *mem = &vd->base->mem;
    if (!atomic_load(&vd->is_abandoned)) {
        vd->vk.DestroyCommandPool(vd->device, f->pool, NULL);
        vd->vk.DestroyFence(vd->device, f->fence, NULL);
    }
    copse_vk_sets_fini(vd, &f->sets);
    copse_vk_views_fini(vd, &f->views);
    copse__free(mem, f->own.at);
    copse__free(mem, f->list.at);
    copse__free(mem, f->reads.at);
}

copse_status copse_vk_retire(copse_queue *q, struct copse_deadline *d)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    struct vk_frame *f = vq->flying[vq->first];
    VkResult r;
    do
        r = vd->vk.WaitForFences(vd->device, 1, &f->fence, VK_TRUE, copse__deadline_tick(d));
    while (r == VK_TIMEOUT && copse__deadline_left(d) > 0);
    if (r == VK_TIMEOUT)
        return copse_fail(COPSE_ERR_TIMEOUT, "vulkan: submitted work has not ended yet");
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "wait for submitted work");
    COPSE_TRY(copse_vk_staging_land(q, f));
    r = vd->vk.ResetFences(vd->device, 1, &f->fence);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "reset a fence");
    copse_vk_views_reset(vd, &f->views);
    vq->ring.tail = f->staging_end;
    if (f->ticket)
        vq->reached = f->ticket;
    f->is_busy = false;
    vq->first = (vq->first + 1) % VK_FRAMES;
    vq->in_flight--;
    return COPSE_OK;
}

/* ---- command buffers ---- */

static copse_status next_commands(struct vk_device *vd, struct vk_frame *f, VkCommandBuffer *out)
{
    if (!COPSE_RESERVE(&vd->base->mem, &f->list, f->list.count + 1) ||
        !COPSE_RESERVE(&vd->base->mem, &f->own, f->own_used + 1))
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory for a submission");
    if (f->own_used == f->own.count) {
        const VkCommandBufferAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = f->pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        VkResult r = vd->vk.AllocateCommandBuffers(vd->device, &info, &f->own.at[f->own_used]);
        if (r != VK_SUCCESS)
            return copse_vk_fail(r, "allocate a command buffer");
        f->own.count++;
    }
    *out = f->own.at[f->own_used++];
    return COPSE_OK;
}

copse_status copse_vk_queue_recorder(copse_queue *q, struct vk_recorder **out)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    *out = &vq->recorder;
    if (vq->is_recording)
        return COPSE_OK;
    COPSE_TRY(open_frame(q));
    struct vk_frame *f = vq->open;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    COPSE_TRY(next_commands(vd, f, &commands));
    vq->recorder = (struct vk_recorder){
        .vd = vd, .lane = vq->lane, .commands = commands, .sets = &f->sets, .views = &f->views
    };
    COPSE_TRY(copse_vk_record_begin(&vq->recorder, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    f->list.at[f->list.count++] = commands;
    vq->is_recording = true;
    vq->has_reads = false;
    return COPSE_OK;
}

/* All earlier writes become visible to the host when the fence is signalled. */
static void show_to_host(struct vk_recorder *r)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = r->lane->writes,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    r->vd->vk.CmdPipelineBarrier(r->commands, r->lane->stages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                                 &memory, 0, NULL, 0, NULL);
}

static copse_status end_commands(struct vk_device *vd, struct vk_queue *vq)
{
    if (!vq->is_recording)
        return COPSE_OK;
    vq->is_recording = false;
    if (vq->has_reads || atomic_load(&vd->has_imports))
        show_to_host(&vq->recorder);
    VkResult r = vd->vk.EndCommandBuffer(vq->recorder.commands);
    if (r == VK_SUCCESS)
        return COPSE_OK;
    vq->open->list.count--;
    return copse_vk_fail(r, "record commands");
}

copse_status copse_vk_encode(copse_queue *q, const struct copse_command *c)
{
    struct vk_recorder *r;
    COPSE_TRY(copse_vk_queue_recorder(q, &r));
    return copse_vk_record(r, c);
}

copse_status copse_vk_replay(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    const struct vk_segment *vs = seg->priv;
    COPSE_TRY(open_frame(q));
    COPSE_TRY(end_commands(vd, vq));
    if (!COPSE_PUSH(&vd->base->mem, &vq->open->list, vs->commands))
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory for a submission");
    return COPSE_OK;
}

/* ---- submit, wait ---- */

copse_status copse_vk_flush(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    if (!vq->open)
        return COPSE_OK;
    if (atomic_load(&vd->has_imports)) {
        /* Segments do not make their writes visible to the host; a final command buffer does. */
        struct vk_recorder *r;
        COPSE_TRY(copse_vk_queue_recorder(q, &r));
    }
    COPSE_TRY(end_commands(vd, vq));
    struct vk_frame *f = vq->open;
    const VkResult r = copse_vk_lane_submit(vd, vq, f);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "submit work");
    f->staging_end = vq->ring.head;
    vq->flying[(vq->first + vq->in_flight++) % VK_FRAMES] = f;
    vq->open = NULL;
    return COPSE_OK;
}

copse_status copse_vk_submit(copse_queue *q, uint64_t *ticket)
{
    struct vk_queue *vq = q->priv;
    COPSE_TRY(copse_vk_flush(q));
    *ticket = q->submitted + 1;
    copse_vk_lane_mark(q->dev->priv, vq, *ticket);
    if (vq->in_flight)
        vq->flying[(vq->first + vq->in_flight - 1) % VK_FRAMES]->ticket = *ticket;
    else
        vq->reached = *ticket;
    return COPSE_OK;
}

copse_status copse_vk_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns)
{
    struct vk_queue *vq = q->priv;
    struct copse_deadline d = copse__deadline(timeout_ns);
    while (vq->reached < ticket && vq->in_flight)
        COPSE_TRY(copse_vk_retire(q, &d));
    return COPSE_OK;
}

/* Reads land, or never will. */
copse_status copse_vk_settle(copse_queue *q, uint64_t timeout_ns)
{
    struct vk_queue *vq = q->priv;
    struct copse_deadline d = copse__deadline(timeout_ns);
    copse_status s = copse_vk_flush(q);
    if (vq->open) /* a driver that fails once is asked again */
        s = copse_vk_flush(q);
    while (vq->in_flight && (s == COPSE_OK || s == COPSE_ERR_DEVICE_LOST)) {
        const copse_status oldest = copse_vk_retire(q, &d);
        s = oldest ? oldest : s;
        if (oldest)
            break;
    }
    if (s != COPSE_ERR_DEVICE_LOST)
        return s ? COPSE_ERR_TIMEOUT : COPSE_OK;
    /* Work of a lost device has ended, and core makes no call that would let a read land. */
    for (size_t i = 0; i < VK_FRAMES; i++)
        vq->frames[i].reads.count = 0;
    return COPSE_OK;
}

copse_status copse_vk_wait_queue(copse_queue *q, copse_queue *other, uint64_t ticket)
{
    copse_vk_lane_wait(q->dev->priv, q->priv, other->priv, ticket);
    return COPSE_OK;
}

/* ---- life ---- */

copse_status copse_vk_queue_init(copse_queue *q)
{
    struct copse_mem *mem = &q->dev->base->mem;
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    vq->lane = &vd->lanes[q->is_for_transfers && vd->traits.has_transfer_lane];
    /* Capacity for usual submissions, so that none of them allocates on the host. */
    for (size_t i = 0; i < VK_FRAMES; i++) {
        struct vk_frame *f = &vq->frames[i];
        if (!COPSE_RESERVE(mem, &f->own, 16) || !COPSE_RESERVE(mem, &f->list, 32) ||
            !COPSE_RESERVE(mem, &f->reads, 16) || !COPSE_RESERVE(mem, &f->sets, 8) ||
            !COPSE_RESERVE(mem, &f->views, 32))
            return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory for a queue");
    }
    return copse_vk_staging_init(q);
}

void copse_vk_queue_fini(copse_queue *q)
{
    struct vk_device *vd = q->dev->priv;
    struct vk_queue *vq = q->priv;
    const uint64_t most = copse__device_wait_ns(q->dev);
    struct copse_deadline d = copse__deadline(most);
    copse_status s = COPSE_OK;
    while (vq->in_flight && s == COPSE_OK) {
        vq->flying[vq->first]->reads.count = 0; /* their waiters have returned */
        s = copse_vk_retire(q, &d);
    }
    if (s == COPSE_ERR_TIMEOUT) {
        atomic_store(&vd->is_abandoned, true);
        copse__log(&vd->base->log, COPSE_LOG_ERROR,
                   "vulkan: %s still works after %u s; its memory is left to it until the program "
                   "ends",
                   q->dev->info.name, (unsigned)(most / 1000000000u));
    }
    for (size_t i = 0; i < VK_FRAMES; i++)
        frame_fini(vd, &vq->frames[i]);
    if (!atomic_load(&vd->is_abandoned)) {
        vd->vk.DestroyQueryPool(vd->device, vq->stamps.pool, NULL);
        copse_vk_staging_fini(q);
    }
}
