/* SPDX-License-Identifier: MIT */
/* Opening and closing devices, and the sticky flag of a lost one. */
#include "core/device/device.h"

copse_status copse__device_check(copse_device *dev)
{
    if (!atomic_load_explicit(&dev->is_lost, memory_order_relaxed))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_DEVICE_LOST,
                      "device: %s was lost by an earlier call; release it and open it again",
                      dev->info.id);
}

copse_status copse__device_result(copse_device *dev, copse_status s)
{
    if (s == COPSE_ERR_DEVICE_LOST)
        atomic_store_explicit(&dev->is_lost, true, memory_order_relaxed);
    return s;
}

copse_status copse__device_find(const copse_context *ctx, const char *id,
                                const struct copse_device_info **out)
{
    for (size_t i = 0; i < ctx->device_count; i++) {
        const struct copse_device_info *d = &ctx->devices[i];
        if (strcmp(d->id, id) != 0)
            continue;
        if (!d->is_usable)
            return copse_fail(COPSE_ERR_NO_DEVICE, "device: %s, %s, is not used: %s", d->id,
                              d->name, d->reason);
        *out = d;
        return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_NO_DEVICE, "device: there is no device '%s'", id);
}

/* Number of the device within its backend. */
static uint32_t index_of(const copse_context *ctx, const struct copse_device_info *info)
{
    uint32_t index = 0;
    for (const struct copse_device_info *d = ctx->devices; d < info; d++)
        index += strcmp(d->backend, info->backend) == 0;
    return index;
}

static const struct copse_backend *backend_of(const copse_context *ctx,
                                              const struct copse_device_info *info)
{
    size_t i = 0;
    while (strcmp(ctx->tables[i]->name, info->backend) != 0)
        i++; /* the device was listed by one of them */
    return ctx->tables[i];
}

copse_status copse_device_open(copse_context *ctx, const char *id,
                               const struct copse_device_params *params, copse_device **out)
{
    if (!ctx || !id || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "device: no context, id or place for the result");
    *out = NULL;
    const uint32_t shares = params && params->shares ? params->shares : 1;
    const uint32_t share = params ? params->share : 0;
    if (share >= shares)
        return copse_fail(COPSE_ERR_ARGUMENT, "device: share %u of %u", share, shares);

    const struct copse_device_info *info = NULL;
    struct copse_verdicts *verdicts = NULL;
    COPSE_TRY(copse__device_find(ctx, id, &info));
    COPSE_TRY(copse__verdicts_open(ctx, info, &verdicts));

    const struct copse_backend *backend = backend_of(ctx, info);
    void *priv = NULL;
    copse_device *dev =
        copse__handle_alloc(&ctx->base.mem, sizeof *dev, backend->device_priv, &priv);
    if (!dev)
        return copse_fail(COPSE_ERR_NO_MEMORY, "device: no memory for %s", id);
    copse_status s = copse__mutex_init(&dev->lock);
    if (s) {
        copse__free(&ctx->base.mem, dev);
        return s;
    }
    atomic_init(&dev->refs, 1);
    atomic_init(&dev->is_lost, false);
    dev->ctx = copse_context_retain(ctx);
    dev->base = &ctx->base;
    dev->backend = backend;
    dev->info = *info;
    dev->limits = &dev->info.limits;
    dev->index = index_of(ctx, info);
    dev->share = share;
    dev->shares = shares;
    dev->verdicts = verdicts;
    dev->priv = priv;

    s = backend->open(dev);
    /* A backend that learns more on opening may have set limits again. */
    if (!s && !copse__limits_cap(&dev->info.limits, dev->info.reason, sizeof dev->info.reason))
        s = copse_fail(COPSE_ERR_NO_DEVICE, "device: %s: %s", id, dev->info.reason);
    if (s) {
        copse_device_release(&dev);
        return copse_note(s, "while opening %s", id);
    }
    copse__log(&dev->base->log, COPSE_LOG_INFO, "device: opened %s, part %u of %u", id, share,
               shares);
    *out = dev;
    return COPSE_OK;
}

copse_device *copse_device_retain(copse_device *dev)
{
    if (dev)
        copse__ref(&dev->refs);
    return dev;
}

/* Buffers and queues hold the device, so none is left but what was released and kept here. */
void copse_device_release(copse_device **at)
{
    if (!at || !*at)
        return;
    copse_device *dev = *at;
    *at = NULL;
    if (!copse__unref(&dev->refs))
        return;

    copse__buffers_purge(dev);
    while (dev->kernels) {
        struct copse_kernel *k = dev->kernels;
        dev->kernels = k->next;
        dev->backend->kernel_fini(k);
        copse__free(&dev->base->mem, k);
    }
    dev->backend->close(dev);
    copse__mutex_fini(&dev->lock);
    copse_context *ctx = dev->ctx;
    copse__free(&ctx->base.mem, dev->overrides);
    copse__free(&ctx->base.mem, dev);
    copse_context_release(&ctx);
}

const struct copse_device_info *copse_device_describe(const copse_device *dev)
{
    return &dev->info;
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

copse_status copse_device_memory(copse_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
    if (!dev || !free_bytes || !total_bytes)
        return copse_fail(COPSE_ERR_ARGUMENT, "device: no device or no place for the result");
    *free_bytes = *total_bytes = 0;
    COPSE_TRY(copse__device_check(dev));
    return copse__device_result(dev, dev->backend->memory(dev, free_bytes, total_bytes));
}
