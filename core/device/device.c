/* SPDX-License-Identifier: MIT */
/* Opening and closing devices, their limits and memory. */
#include "core/device/device.h"
#include "core/device/pace.h"
#include "core/trust/records.h"

/* Buffers and queues hold a reference to the device, so only released buffers of the pool are
   left. */
static void close_device(copse_device *dev)
{
    copse__buffers_purge(dev);
    while (dev->kernels) {
        struct copse_kernel *k = dev->kernels;
        dev->kernels = k->next;
        if (!k->on_host)
            dev->backend->kernel_fini(k);
        copse__free(&dev->base->mem, k);
    }
    dev->backend->close(dev);
    copse__mutex_fini(&dev->lock);
    copse_context *ctx = dev->ctx;
    copse__free(&ctx->base.mem, dev->overrides);
    copse__import_release(ctx, &dev->import);
    copse__free(&ctx->base.mem, dev->tuning.at);
    copse__free(&ctx->base.mem, dev);
    copse_context_release(&ctx);
}

/* The handle, with everything that open needs. */
static copse_status device_make(copse_context *ctx, struct copse_place *place,
                                const struct copse_device_params *params, copse_device **out)
{
    const uint32_t parts = params && params->parts ? params->parts : 1;
    const uint32_t part = params ? params->part : 0;
    struct copse_block_list *block_list = NULL;
    void *priv = NULL;
    if (part >= parts)
        return copse_fail(COPSE_ERR_ARGUMENT, "device: part %u of %u", part, parts);
    COPSE_TRY(copse__block_list_open(&ctx->trust, &place->info, &block_list));

    copse_device *dev =
        copse__handle_alloc(&ctx->base.mem, sizeof *dev, place->backend->device_priv, &priv);
    if (!dev)
        return copse_fail(COPSE_ERR_NO_MEMORY, "device: no memory for %s", place->info.id);
    copse_status s = copse__mutex_init(&dev->lock);
    if (s) {
        copse__free(&ctx->base.mem, dev);
        return s;
    }
    atomic_init(&dev->refs, 1);
    atomic_init(&dev->is_lost, false);
    dev->close = close_device;
    dev->ctx = copse_context_retain(ctx);
    dev->base = &ctx->base;
    dev->backend = place->backend;
    dev->info = place->info;
    dev->limits = &dev->info.limits;
    dev->index = place->index;
    dev->import = place->import;
    dev->foreign = place->import ? copse__import_foreign(place->import) : NULL;
    dev->part = part;
    dev->parts = parts;
    dev->is_portable = params && params->is_portable;
    dev->block_list = block_list;
    dev->priority = (copse_priority)atomic_load(&ctx->priority);
    dev->priv = priv;
    place->import = NULL;
    *out = dev;
    return COPSE_OK;
}

/* What kernels and orders of sums follow from becomes the same on all devices: the class of devices
   with plain kernels, groups of one size, a number of compute units. No measurement counts. */
static copse_status make_portable(copse_device *dev)
{
    enum { GROUP = 256, GROUP_BYTES = 32768, UNITS = 16 };
    struct copse_limits *l = &dev->info.limits;
    if (l->max_group_size < GROUP || l->group_memory_bytes < GROUP_BYTES)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "device: %s: portable bits need groups of %d invocations with %d bytes, "
                          "it allows %u with %u",
                          dev->info.id, GROUP, GROUP_BYTES, l->max_group_size,
                          l->group_memory_bytes);
    l->max_group_size = GROUP;
    l->group_memory_bytes = GROUP_BYTES;
    l->compute_units = UNITS;
    l->is_gpu = l->has_wide_vectors = l->has_fast_texels = l->has_library_gemm = false;
    memset(l->cooperative_shape, 0, sizeof l->cooperative_shape);
    l->matrix_units = 0;
    copse__free(&dev->base->mem, dev->tuning.at);
    memset(&dev->tuning, 0, sizeof dev->tuning);
    return COPSE_OK;
}

copse_status copse__device_open_at(copse_context *ctx, struct copse_place *place,
                                   const struct copse_device_params *params, copse_device **out)
{
    copse_device *dev = NULL;
    copse_status s = device_make(ctx, place, params, &dev);
    if (s) {
        copse__import_release(ctx, &place->import);
        return s;
    }
    s = dev->backend->open(dev);
    if (s == COPSE_OK)
        s = copse__tuning_copy(&ctx->trust, &place->info, &dev->tuning);
    if (s == COPSE_OK)
        s = copse__records_add(&ctx->trust, &place->info, &dev->tuning);
    /* A backend that gets more information when it opens a device may have changed limits. */
    if (!s && !copse__limits_cap(&dev->info.limits, dev->info.reason, sizeof dev->info.reason))
        s = copse_fail(COPSE_ERR_NO_DEVICE, "device: %s: %s", dev->info.id, dev->info.reason);
    if (s == COPSE_OK && dev->is_portable)
        s = make_portable(dev);
    if (s) {
        copse_device_release(&dev);
        return copse_note(s, "while opening %s", place->info.id);
    }
    copse__device_tell_priority(dev);
    copse__pace_open(dev);
    copse__log(&dev->base->log, COPSE_LOG_INFO, "device: opened %s, part %u of %u", dev->info.id,
               dev->part, dev->parts);
    *out = dev;
    return COPSE_OK;
}

copse_status copse_device_open(copse_context *ctx, const char *id,
                               const struct copse_device_params *params, copse_device **out)
{
    struct copse_place place;
    COPSE_TRY(copse_need("device", ctx, id, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_device_params, params));
    COPSE_TRY(copse__place_find(ctx, id, &place));
    return copse__device_open_at(ctx, &place, params, out);
}

const struct copse_device_info *copse_device_describe(const copse_device *dev)
{
    return dev ? &dev->info : NULL;
}

copse_status copse__device_limit(copse_device *dev, const struct copse_limits *smaller)
{
    struct copse_limits l = dev->info.limits;
    char reason[192];
    if (dev->kernels)
        return copse_fail(COPSE_ERR_ARGUMENT, "device: %s has kernels for its present limits",
                          dev->info.id);
#define LOWER(field) l.field = COPSE_MIN(l.field, smaller->field)
    LOWER(max_buffer_bytes);
    LOWER(max_binding_bytes);
    LOWER(max_group_size);
    LOWER(max_group_count);
    LOWER(group_memory_bytes);
    LOWER(max_bindings);
    LOWER(max_param_bytes);
    LOWER(subgroup_size);
    LOWER(compute_units);
    LOWER(max_texel_elements);
    LOWER(has_group_base);
    LOWER(has_wide_vectors);
    LOWER(has_fast_texels);
    LOWER(has_library_gemm);
    LOWER(has_f64);
    LOWER(has_f16_storage);
#undef LOWER
    if (!smaller->cooperative_shape[0])
        memset(l.cooperative_shape, 0, sizeof l.cooperative_shape);
    l.matrix_units &= smaller->matrix_units;
    l.is_gpu = smaller->is_gpu; /* no limit: what the device is taken for */
    l.offset_alignment = COPSE_MAX(l.offset_alignment, smaller->offset_alignment);
    l.host_import_alignment =
        l.host_import_alignment && smaller->host_import_alignment
            ? COPSE_MAX(l.host_import_alignment, smaller->host_import_alignment)
            : 0;
    if (!copse__limits_cap(&l, reason, sizeof reason))
        return copse_fail(COPSE_ERR_ARGUMENT, "device: %s cannot be limited: %s", dev->info.id,
                          reason);
    dev->info.limits = l;
    return COPSE_OK;
}
