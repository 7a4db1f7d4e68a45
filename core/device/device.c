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

static const struct copse_backend *backend_of(const copse_context *ctx,
                                              const struct copse_device_info *info)
{
    size_t i = 0;
    while (strcmp(ctx->tables[i]->name, info->backend) != 0)
        i++; /* the device was listed by one of them */
    return ctx->tables[i];
}

/* The place of a usable device; its import has a reference. */
static copse_status find(copse_context *ctx, const char *id, struct copse_place *place)
{
    *place = (struct copse_place){ .index = 0 };
    for (size_t i = 0; i < ctx->device_count; i++) {
        const struct copse_device_info *d = &ctx->devices[i];
        if (strcmp(d->id, id) != 0)
            continue;
        if (!d->is_usable)
            return copse_fail(COPSE_ERR_NO_DEVICE, "device: %s, %s, is not used: %s", d->id,
                              d->name, d->reason);
        place->info = *d;
        place->backend = backend_of(ctx, d);
        for (size_t k = 0; k < i; k++) /* its number within the backend */
            place->index += strcmp(ctx->devices[k].backend, d->backend) == 0;
        return COPSE_OK;
    }
    if (copse__import_find(ctx, id, place))
        return COPSE_OK;
    if (strncmp(id, "import:", 7) == 0)
        return copse_fail(COPSE_ERR_NO_DEVICE,
                          "device: there is no device '%s'; the id of a lent device ends when the "
                          "last device opened by it is released", id);
    return copse_fail(COPSE_ERR_NO_DEVICE, "device: there is no device '%s'", id);
}

copse_status copse__device_find(copse_context *ctx, const char *id, struct copse_device_info *out)
{
    struct copse_place place;
    COPSE_TRY(find(ctx, id, &place));
    *out = place.info;
    copse__import_release(ctx, &place.import);
    return COPSE_OK;
}

/* The handle, with all that opening needs. */
static copse_status make(copse_context *ctx, struct copse_place *place,
                         const struct copse_device_params *params, copse_device **out)
{
    const uint32_t shares = params && params->shares ? params->shares : 1;
    const uint32_t share = params ? params->share : 0;
    struct copse_verdicts *verdicts = NULL;
    void *priv = NULL;
    if (share >= shares)
        return copse_fail(COPSE_ERR_ARGUMENT, "device: share %u of %u", share, shares);
    COPSE_TRY(copse__verdicts_open(ctx, &place->info, &verdicts));

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
    dev->ctx = copse_context_retain(ctx);
    dev->base = &ctx->base;
    dev->backend = place->backend;
    dev->info = place->info;
    dev->limits = &dev->info.limits;
    dev->index = place->index;
    dev->import = place->import;
    dev->foreign = place->import ? copse__import_foreign(place->import) : NULL;
    dev->share = share;
    dev->shares = shares;
    dev->verdicts = verdicts;
    dev->priv = priv;
    place->import = NULL;
    *out = dev;
    return COPSE_OK;
}

copse_status copse__device_open_at(copse_context *ctx, struct copse_place *place,
                                   const struct copse_device_params *params, copse_device **out)
{
    copse_device *dev = NULL;
    copse_status s = make(ctx, place, params, &dev);
    if (s) {
        copse__import_release(ctx, &place->import);
        return s;
    }
    s = dev->backend->open(dev);
    if (s == COPSE_OK)
        s = copse__tuning_open(ctx, &place->info, &dev->tuning);
    /* A backend that learns more on opening may have set limits again. */
    if (!s && !copse__limits_cap(&dev->info.limits, dev->info.reason, sizeof dev->info.reason))
        s = copse_fail(COPSE_ERR_NO_DEVICE, "device: %s: %s", dev->info.id, dev->info.reason);
    if (s) {
        copse_device_release(&dev);
        return copse_note(s, "while opening %s", place->info.id);
    }
    copse__log(&dev->base->log, COPSE_LOG_INFO, "device: opened %s, part %u of %u", dev->info.id,
               dev->share, dev->shares);
    *out = dev;
    return COPSE_OK;
}

copse_status copse_device_open(copse_context *ctx, const char *id,
                               const struct copse_device_params *params, copse_device **out)
{
    struct copse_place place;
    COPSE_TRY(copse_need("device", ctx, id, out));
    *out = NULL;
    COPSE_TRY(find(ctx, id, &place));
    return copse__device_open_at(ctx, &place, params, out);
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
    copse__import_release(ctx, &dev->import);
    copse__free(&ctx->base.mem, dev->tuning.at);
    copse__free(&ctx->base.mem, dev);
    copse_context_release(&ctx);
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
    COPSE_TRY(copse_need("device: memory", dev, free_bytes, total_bytes));
    *free_bytes = *total_bytes = 0;
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(copse__device_result(dev, dev->backend->memory(dev, free_bytes, total_bytes)));
    copse__import_memory(dev->import, free_bytes, total_bytes);
    return COPSE_OK;
}
