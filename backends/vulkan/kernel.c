/* SPDX-License-Identifier: MIT */
/* Compute pipelines from the embedded SPIR-V. The driver's compiled form is stored through the
   context's cache callbacks. */
#include "vk_internal.h"

#include <stdio.h>

/* ---- cache ---- */

/* Precedes the driver's bytes: a driver may not verify its input, so we check it first. */
struct cache_header {
    char magic[8];
    uint32_t vendor, device, driver, size;
    uint8_t uuid[VK_UUID_SIZE];
    uint64_t digest;
};
static const char cache_magic[8] = "copsevk1";

struct entry {
    struct copse_mem *mem;
    uint8_t *bytes; /* header, then the driver's */
    size_t size;
};

static void entry_take(void *to, const void *bytes, size_t size)
{
    struct entry *e = to;
    if (e->bytes)
        return;
    e->bytes = copse__alloc(e->mem, size, 1);
    if (e->bytes) {
        memcpy(e->bytes, bytes, size);
        e->size = size;
    }
}

static void cache_key(const struct copse_kernel *k, const struct vk_traits *t, char key[32])
{
    const uint32_t numbers[] = { t->vendor, t->device, t->driver, k->group_x, k->group_y };
    uint64_t h = copse__hash(COPSE_HASH_START, numbers, sizeof numbers);
    h = copse__hash(h, t->cache_uuid, sizeof t->cache_uuid);
    h = copse__hash(h, k->row->name, strlen(k->row->name));
    h = copse__hash(h, &k->row->source_hash, sizeof k->row->source_hash);
    h = copse__hash(h, k->spec, k->row->spec_count * sizeof k->spec[0]);
    if (k->dev->is_portable)
        h = copse__hash(h, "portable 2", 10);
    if (k->row->is_cooperative)
        h = copse__hash(h, &t->matrices, sizeof t->matrices);
    snprintf(key, 32, "vk-%016llx", (unsigned long long)h);
}

static uint64_t kernel_digest(const void *bytes, size_t size)
{
    return copse__hash(COPSE_HASH_START, bytes, size);
}

/* The driver's bytes inside the entry, or NULL if it is damaged or for another device. */
static const uint8_t *entry_check(const struct entry *e, const struct vk_traits *t)
{
    struct cache_header h;
    VkPipelineCacheHeaderVersionOne v;
    if (e->size < sizeof h + sizeof v)
        return NULL;
    memcpy(&h, e->bytes, sizeof h);
    const uint8_t *data = e->bytes + sizeof h;
    if (memcmp(h.magic, cache_magic, sizeof h.magic) || h.vendor != t->vendor ||
        h.device != t->device || h.driver != t->driver || h.size != e->size - sizeof h ||
        memcmp(h.uuid, t->cache_uuid, sizeof h.uuid) || h.digest != kernel_digest(data, h.size))
        return NULL;
    memcpy(&v, data, sizeof v);
    if (v.headerSize < sizeof v || v.headerSize > h.size ||
        v.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE || v.vendorID != t->vendor ||
        v.deviceID != t->device || memcmp(v.pipelineCacheUUID, t->cache_uuid, VK_UUID_SIZE))
        return NULL;
    return data;
}

bool copse_vk_is_stored(const struct copse_kernel *k)
{
    const struct vk_device *vd = k->dev->priv;
    const struct copse_cache_params *store = &vd->base->cache;
    struct entry e = { .mem = &k->dev->base->mem };
    char key[32];
    cache_key(k, &vd->traits, key);
    if (store->get)
        store->get(store->user, key, entry_take, &e);
    const bool is_there = entry_check(&e, &vd->traits) != NULL;
    copse__free(e.mem, e.bytes);
    return is_there;
}

static void cache_put(struct vk_device *vd, const char *key, VkPipelineCache cache)
{
    const struct vk_traits *t = &vd->traits;
    size_t size = 0;
    if (vd->vk.GetPipelineCacheData(vd->device, cache, &size, NULL) != VK_SUCCESS ||
        size > UINT32_MAX)
        return;
    struct cache_header h = {
        .vendor = t->vendor, .device = t->device, .driver = t->driver, .size = (uint32_t)size
    };
    uint8_t *bytes = copse__alloc(&vd->base->mem, sizeof h + size, 1);
    if (!bytes)
        return;
    if (vd->vk.GetPipelineCacheData(vd->device, cache, &size, bytes + sizeof h) == VK_SUCCESS &&
        size == h.size) {
        memcpy(h.magic, cache_magic, sizeof h.magic);
        memcpy(h.uuid, t->cache_uuid, sizeof h.uuid);
        h.digest = kernel_digest(bytes + sizeof h, size);
        memcpy(bytes, &h, sizeof h);
        vd->base->cache.put(vd->base->cache.user, key, bytes, sizeof h + size);
    }
    copse__free(&vd->base->mem, bytes);
}

/* ---- pipeline ---- */

static copse_status make_layout(struct vk_device *vd, struct copse_kernel *k)
{
    struct vk_kernel *vk = k->priv;
    VkDescriptorSetLayoutBinding bindings[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < k->row->arg_count; i++) {
        const bool is_texel = k->row->args[i].kind == COPSE_ARG_TEXEL;
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = is_texel ? VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER
                                       : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
        *(is_texel ? &vk->texel_count : &vk->storage_count) += 1;
    }
    if (vk->texel_count > vd->traits.max_texel_args)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "vulkan: kernel %s reads %u texel buffers, %s allows %u", k->row->name,
                          vk->texel_count, k->dev->info.name, vd->traits.max_texel_args);
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = k->row->arg_count,
        .pBindings = bindings,
    };
    VkResult r = vd->vk.CreateDescriptorSetLayout(vd->device, &set, NULL, &vk->set_layout);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a descriptor set layout");
    const VkPushConstantRange params = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        .size = (k->row->param_words + 1u) * 4,
    };
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &vk->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &params,
    };
    r = vd->vk.CreatePipelineLayout(vd->device, &layout, NULL, &vk->layout);
    return r == VK_SUCCESS ? COPSE_OK : copse_vk_fail(r, "create a pipeline layout");
}

struct code {
    const uint32_t *words;
    size_t bytes;
};

/* The constants 8 to 11 of a kernel on matrix units. */
static uint32_t add_shape(const struct copse_vk_matrices *m, VkSpecializationMapEntry *entries,
                          uint32_t *values, uint32_t count)
{
    const uint32_t shape[] = { m->shape[0], m->shape[1], m->shape[2], m->subgroup };
    for (uint32_t i = 0; i < COPSE_COUNT(shape); i++, count++) {
        values[count] = shape[i];
        entries[count] = (VkSpecializationMapEntry){ .constantID = 2 + COPSE_MAX_SPECS + i,
                                                     .offset = 4 * count,
                                                     .size = 4 };
    }
    return count;
}

/* The specialisation constants of shaders/prelude.glsl. */
static VkResult make_pipeline(struct vk_device *vd, struct copse_kernel *k, const struct code *from,
                              VkPipelineCache cache)
{
    struct vk_kernel *vk = k->priv;
    const struct copse_kernel_row *row = k->row;
    const struct copse_vk_matrices *matrices = &vd->traits.matrices;
    uint32_t values[2 + COPSE_MAX_SPECS + 4] = { k->group_x, k->group_y };
    VkSpecializationMapEntry entries[COPSE_COUNT(values)];
    uint32_t count = 2u + row->spec_count;
    memcpy(values + 2, k->spec, row->spec_count * sizeof k->spec[0]);
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (VkSpecializationMapEntry){ .constantID = i, .offset = 4 * i, .size = 4 };
    if (row->is_cooperative)
        count = add_shape(matrices, entries, values, count);
    const VkSpecializationInfo spec = {
        .mapEntryCount = count, .pMapEntries = entries, .dataSize = 4 * count, .pData = values
    };

    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = from->bytes,
        .pCode = from->words,
    };
    VkShaderModule module;
    VkResult r = vd->vk.CreateShaderModule(vd->device, &code, NULL, &module);
    if (r != VK_SUCCESS)
        return r;
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = matrices->subgroup,
    };
    const bool sets_subgroup = row->is_cooperative && matrices->sets_subgroup;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = sets_subgroup ? &subgroup : NULL,
                .flags = sets_subgroup
                             ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
                             : 0u,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
                .pSpecializationInfo = &spec,
            },
        .layout = vk->layout,
    };
    r = vd->vk.CreateComputePipelines(vd->device, cache, 1, &info, NULL, &vk->pipeline);
    vd->vk.DestroyShaderModule(vd->device, module, NULL);
    return r;
}

copse_status copse_vk_kernel_init(struct copse_kernel *k)
{
    struct vk_device *vd = k->dev->priv;
    const struct copse_cache_params *store = &vd->base->cache;
    if (!k->row->spirv)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "vulkan: kernel %s has no SPIR-V in this build",
                          k->row->name);
    const bool is_bfloat = k->row->is_cooperative && k->spec[4] != 0;
    if (is_bfloat && !(vd->traits.matrices.units & COPSE_MATRIX_BF16))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "vulkan: kernel %s: %s reports no cooperative matrices of bf16 "
                          "(VK_KHR_shader_bfloat16)",
                          k->row->name, k->dev->info.name);
    COPSE_TRY(make_layout(vd, k));
    uint32_t *words;
    struct code code = { k->row->spirv, k->row->spirv_bytes };
    COPSE_TRY(copse_note(copse_vk_cooperative_code(&vd->base->mem, code.words, code.bytes,
                                                   is_bfloat, &words, &code.bytes),
                         "in kernel %s", k->row->name));
    code.words = words ? words : code.words;
    if (k->dev->is_portable) {
        uint32_t *portable;
        const copse_status s = copse_vk_portable_code(
            &vd->base->mem, code.words, code.bytes, vd->traits.float_modes, &portable, &code.bytes);
        copse__free(&vd->base->mem, words);
        words = portable;
        COPSE_TRY(copse_note(s, "in kernel %s", k->row->name));
        code.words = words;
    }

    char key[32];
    cache_key(k, &vd->traits, key);
    struct entry e = { .mem = &vd->base->mem };
    const uint8_t *data = NULL;
    if (store->get) {
        store->get(store->user, key, entry_take, &e);
        data = entry_check(&e, &vd->traits);
        if (e.bytes && !data)
            copse__log(&vd->base->log, COPSE_LOG_WARN,
                       "vulkan: cache entry %s of kernel %s is damaged; compiling again", key,
                       k->row->name);
    }
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = data ? e.size - sizeof(struct cache_header) : 0,
        .pInitialData = data,
    };
    VkPipelineCache cache = VK_NULL_HANDLE; /* optional */
    if ((store->get || store->put) &&
        vd->vk.CreatePipelineCache(vd->device, &info, NULL, &cache) != VK_SUCCESS)
        cache = VK_NULL_HANDLE;
    VkResult r = make_pipeline(vd, k, &code, cache);
    copse__free(&vd->base->mem, words);
    if (r == VK_SUCCESS && cache && store->put && !data)
        cache_put(vd, key, cache);
    vd->vk.DestroyPipelineCache(vd->device, cache, NULL);
    copse__free(&vd->base->mem, e.bytes);
    if (r == VK_SUCCESS)
        return COPSE_OK;
    copse_status s = copse_vk_status(r);
    if (s == COPSE_ERR_INTERNAL || s == COPSE_ERR_NO_DEVICE)
        s = COPSE_ERR_COMPILE;
    return copse_fail(s, "vulkan: kernel %s (groups of %u x %u) does not compile on %s: %s",
                      k->row->name, k->group_x, k->group_y, k->dev->info.name,
                      copse_vk_result_name(r));
}

void copse_vk_kernel_fini(struct copse_kernel *k)
{
    struct vk_device *vd = k->dev->priv;
    struct vk_kernel *vk = k->priv;
    if (atomic_load(&vd->is_abandoned))
        return;
    vd->vk.DestroyPipeline(vd->device, vk->pipeline, NULL);
    vd->vk.DestroyPipelineLayout(vd->device, vk->layout, NULL);
    vd->vk.DestroyDescriptorSetLayout(vd->device, vk->set_layout, NULL);
}
