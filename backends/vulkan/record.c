/* SPDX-License-Identifier: MIT */
/* Records commands into a VkCommandBuffer: descriptors, and barriers only between dependent
   commands. The same code records a queue's own command buffers and those of segments. */
#include "vk_internal.h"

/* ---- descriptor sets ---- */

copse_status copse_vk_sets_add(struct vk_device *vd, struct vk_sets *s, uint32_t sets,
                               uint32_t storage, uint32_t texels)
{
    if (!COPSE_RESERVE(&vd->base->mem, s, s->count + 1))
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory for descriptor pools");
    VkDescriptorPoolSize sizes[2];
    uint32_t count = 0;
    if (storage)
        sizes[count++] = (VkDescriptorPoolSize){ VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, storage };
    if (texels)
        sizes[count++] = (VkDescriptorPoolSize){ VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, texels };
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = sets,
        .poolSizeCount = count,
        .pPoolSizes = sizes,
    };
    struct vk_pool p = { .sets = sets, .storage = storage, .texels = texels };
    p.sets_left = sets;
    p.storage_left = storage;
    p.texels_left = texels;
    VkResult r = vd->vk.CreateDescriptorPool(vd->device, &info, NULL, &p.handle);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a descriptor pool");
    s->at[s->count++] = p;
    return COPSE_OK;
}

copse_status copse_vk_sets_reset(struct vk_device *vd, struct vk_sets *s)
{
    for (size_t i = 0; i < s->count && i <= s->current; i++) {
        struct vk_pool *p = &s->at[i];
        VkResult r = vd->vk.ResetDescriptorPool(vd->device, p->handle, 0);
        if (r != VK_SUCCESS)
            return copse_vk_fail(r, "reset a descriptor pool");
        p->sets_left = p->sets;
        p->storage_left = p->storage;
        p->texels_left = p->texels;
    }
    s->current = 0;
    return COPSE_OK;
}

void copse_vk_sets_fini(struct vk_device *vd, struct vk_sets *s)
{
    for (size_t i = 0; i < s->count && !atomic_load(&vd->is_abandoned); i++)
        vd->vk.DestroyDescriptorPool(vd->device, s->at[i].handle, NULL);
    copse__free(&vd->base->mem, s->at);
}

static copse_status take_set(struct vk_device *vd, struct vk_sets *s, const struct vk_kernel *k,
                             VkDescriptorSet *out)
{
    for (;; s->current++) {
        if (s->current == s->count)
            COPSE_TRY(copse_vk_sets_add(vd, s, 128, 512, 128));
        struct vk_pool *p = &s->at[s->current];
        if (!p->sets_left || p->storage_left < k->storage_count || p->texels_left < k->texel_count)
            continue;
        const VkDescriptorSetAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
            .descriptorPool = p->handle,
            .descriptorSetCount = 1,
            .pSetLayouts = &k->set_layout,
        };
        VkResult r = vd->vk.AllocateDescriptorSets(vd->device, &info, out);
        if (r != VK_SUCCESS)
            return copse_vk_fail(r, "allocate a descriptor set");
        p->sets_left--;
        p->storage_left -= k->storage_count;
        p->texels_left -= k->texel_count;
        return COPSE_OK;
    }
}

/* ---- texel views ---- */

void copse_vk_views_reset(struct vk_device *vd, struct vk_views *v)
{
    for (size_t i = 0; i < v->count; i++)
        vd->vk.DestroyBufferView(vd->device, v->at[i], NULL);
    v->count = 0;
}

void copse_vk_views_fini(struct vk_device *vd, struct vk_views *v)
{
    if (!atomic_load(&vd->is_abandoned))
        copse_vk_views_reset(vd, v);
    copse__free(&vd->base->mem, v->at);
}

static copse_status make_view(struct vk_device *vd, struct vk_views *v,
                              const struct copse_binding *b, VkBufferView *out)
{
    if (!COPSE_RESERVE(&vd->base->mem, v, v->count + 1))
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory for texel views");
    const VkBufferViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
        .buffer = ((struct vk_buffer *)b->buffer->priv)->handle,
        .format = VK_FORMAT_R32G32B32A32_SFLOAT,
        .offset = b->offset,
        .range = b->size,
    };
    VkResult r = vd->vk.CreateBufferView(vd->device, &info, NULL, out);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a texel view");
    v->at[v->count++] = *out;
    return COPSE_OK;
}

/* ---- barriers ---- */

static void record_barrier(struct vk_recorder *r)
{
    const struct vk_lane *lane = r->lane;
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = lane->writes,
        .dstAccessMask = lane->writes | lane->reads,
    };
    r->vd->vk.CmdPipelineBarrier(r->commands, lane->stages, lane->stages, 0, 1, &memory, 0, NULL, 0,
                                 NULL);
    r->seen_count = 0;
}

copse_status copse_vk_record_begin(struct vk_recorder *r, VkCommandBufferUsageFlags usage)
{
    const VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = usage,
    };
    VkResult result = r->vd->vk.BeginCommandBuffer(r->commands, &info);
    if (result != VK_SUCCESS)
        return copse_vk_fail(result, "begin a command buffer");
    r->bound = VK_NULL_HANDLE;
    if (r->lane->stages & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT)
        copse_vk_priority_record(r->vd, r->commands);
    record_barrier(r);
    return COPSE_OK;
}

static bool record_conflicts(const struct vk_recorder *r, const struct vk_access *a)
{
    for (uint32_t i = 0; i < r->seen_count; i++) {
        const struct vk_access *b = &r->seen[i];
        if ((a->is_write || b->is_write) && a->buffer == b->buffer && a->begin < b->end &&
            b->begin < a->end)
            return true;
    }
    return false;
}

void copse_vk_record_order(struct vk_recorder *r, const struct vk_access *list, uint32_t count)
{
    bool must = r->seen_count + count > COPSE_COUNT(r->seen);
    for (uint32_t i = 0; i < count && !must; i++)
        must = record_conflicts(r, &list[i]);
    if (must)
        record_barrier(r);
    memcpy(r->seen + r->seen_count, list, count * sizeof *list);
    r->seen_count += count;
}

struct vk_access copse_vk_access(const struct copse_binding *b, bool is_write)
{
    return (struct vk_access){
        .buffer = ((struct vk_buffer *)b->buffer->priv)->handle,
        .begin = b->offset,
        .end = b->offset + b->size,
        .is_write = is_write,
    };
}

/* ---- commands ---- */

static copse_status record_dispatch(struct vk_recorder *r, const struct copse_command *c)
{
    struct vk_device *vd = r->vd;
    const struct copse_kernel_row *row = c->kernel->row;
    const struct vk_kernel *k = c->kernel->priv;
    VkDescriptorSet set;
    COPSE_TRY(take_set(vd, r->sets, k, &set));

    struct vk_access touched[COPSE_MAX_BINDINGS];
    VkDescriptorBufferInfo ranges[COPSE_MAX_BINDINGS];
    VkBufferView views[COPSE_MAX_BINDINGS];
    VkWriteDescriptorSet writes[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < row->arg_count; i++) {
        const struct copse_binding *b = &c->bindings[i];
        touched[i] = copse_vk_access(b, row->args[i].is_written);
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = i,
            .descriptorCount = 1,
        };
        if (row->args[i].kind == COPSE_ARG_TEXEL) {
            COPSE_TRY(make_view(vd, r->views, b, &views[i]));
            writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER;
            writes[i].pTexelBufferView = &views[i];
        } else {
            ranges[i] = (VkDescriptorBufferInfo){ touched[i].buffer, b->offset, b->size };
            writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
            writes[i].pBufferInfo = &ranges[i];
        }
    }
    vd->vk.UpdateDescriptorSets(vd->device, row->arg_count, writes, 0, NULL);

    copse_vk_record_order(r, touched, row->arg_count);
    if (r->bound != k->pipeline)
        vd->vk.CmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    r->bound = k->pipeline;
    vd->vk.CmdBindDescriptorSets(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->layout, 0, 1, &set,
                                 0, NULL);
    vd->vk.CmdPushConstants(r->commands, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            (row->param_words + 1u) * 4, c->params);
    vd->vk.CmdDispatch(r->commands, c->groups_x, c->groups_y, 1);
    return COPSE_OK;
}

static void record_copy(struct vk_recorder *r, const struct copse_command *c)
{
    const struct vk_access touched[] = { copse_vk_access(&c->bindings[0], false),
                                         copse_vk_access(&c->bindings[1], true) };
    copse_vk_record_order(r, touched, 2);
    const VkBufferCopy region = {
        .srcOffset = c->bindings[0].offset,
        .dstOffset = c->bindings[1].offset,
        .size = c->bindings[0].size,
    };
    r->vd->vk.CmdCopyBuffer(r->commands, touched[0].buffer, touched[1].buffer, 1, &region);
}

static void record_fill(struct vk_recorder *r, const struct copse_command *c)
{
    const struct vk_access touched = copse_vk_access(&c->bindings[0], true);
    copse_vk_record_order(r, &touched, 1);
    r->vd->vk.CmdFillBuffer(r->commands, touched.buffer, touched.begin, c->bindings[0].size,
                            c->word);
}

copse_status copse_vk_record(struct vk_recorder *r, const struct copse_command *c)
{
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return record_dispatch(r, c);
    case COPSE_COMMAND_COPY:
        record_copy(r, c);
        return COPSE_OK;
    case COPSE_COMMAND_FILL:
        record_fill(r, c);
        return COPSE_OK;
    case COPSE_COMMAND_GEMM:
        break; /* has_library_gemm is false */
    }
    return copse_fail(COPSE_ERR_INTERNAL, "vulkan: command kind %d cannot be recorded",
                      (int)c->kind);
}
