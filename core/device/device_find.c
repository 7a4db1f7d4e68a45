/* SPDX-License-Identifier: MIT */
/* Finds a device by its id: a listed one, or one lent by an application. */
#include "core/device/import.h"

static const struct copse_backend *backend_of(const copse_context *ctx,
                                              const struct copse_device_info *info)
{
    size_t i = 0;
    while (strcmp(ctx->tables[i]->name, info->backend) != 0)
        i++; /* one of them listed the device */
    return ctx->tables[i];
}

/* The record of a usable device; its import has a reference. */
copse_status copse__place_find(copse_context *ctx, const char *id, struct copse_place *place)
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
                          "last device opened by it is released",
                          id);
    return copse_fail(COPSE_ERR_NO_DEVICE, "device: there is no device '%s'", id);
}

copse_status copse__device_find(copse_context *ctx, const char *id, struct copse_device_info *out)
{
    struct copse_place place;
    COPSE_TRY(copse__place_find(ctx, id, &place));
    *out = place.info;
    copse__import_release(ctx, &place.import);
    return COPSE_OK;
}
