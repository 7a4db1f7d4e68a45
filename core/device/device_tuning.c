/* SPDX-License-Identifier: MIT */
/* Tuning records of open devices, and of devices by id through the public functions. See
   core/trust/tuning.h. */
#include "core/device/device.h"
#include "core/trust/records.h"

uint64_t copse__tuning_rate(const copse_device *dev, const char *family, const char *size_class,
                            const char *variant)
{
    return copse__tuning_find(&dev->tuning, family, size_class, variant);
}

size_t copse__tuning_shipped(const copse_context *ctx, const struct copse_device_info *info)
{
    return copse__records_count(&ctx->trust, info);
}

/* ---- public ---- */

static copse_status open_by_id(copse_context *ctx, const char *device, struct copse_tunings **out)
{
    struct copse_device_info info;
    COPSE_TRY(copse__device_find(ctx, device, &info));
    return copse__tunings_open(&ctx->trust, &info, out);
}

copse_status copse_device_tuning(copse_context *ctx, const char *device,
                                 const struct copse_tuning_entry **list, size_t *count)
{
    struct copse_tunings *of;
    COPSE_TRY(copse_need("tuning", ctx, device, list, count));
    *list = NULL;
    *count = 0;
    COPSE_TRY(open_by_id(ctx, device, &of));
    copse__tunings_get(&ctx->trust, of, list, count);
    return COPSE_OK;
}

copse_status copse_device_tuning_set(copse_context *ctx, const char *device,
                                     const struct copse_tuning_entry *list, size_t count)
{
    struct copse_tunings *of;
    COPSE_TRY(copse_need("tuning", ctx, device));
    if (count > 0)
        COPSE_TRY(copse_need("tuning", list));
    COPSE_TRY(copse__tunings_check(list, count));
    COPSE_TRY(open_by_id(ctx, device, &of));
    return copse__tunings_set(&ctx->trust, of, list, count);
}

copse_status copse_device_tuning_clear(copse_context *ctx, const char *device)
{
    struct copse_tunings *of;
    COPSE_TRY(copse_need("tuning", ctx, device));
    COPSE_TRY(open_by_id(ctx, device, &of));
    return copse__tunings_clear(&ctx->trust, of);
}

copse_status copse_device_tuning_save(copse_context *ctx, const char *device, char *text,
                                      size_t room, size_t *needed)
{
    struct copse_tunings *of;
    char *whole = NULL;
    size_t size = 0;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse_need("tuning", ctx, device, needed));
    *needed = 0;
    COPSE_TRY(open_by_id(ctx, device, &of));
    COPSE_TRY(copse__tunings_text(&ctx->trust, of, &whole, &size));
    *needed = size + 1;
    if (text && room < size + 1)
        s = copse_fail(COPSE_ERR_ARGUMENT, "tuning: %zu bytes of text, room for %zu", size + 1,
                       room);
    else if (text)
        memcpy(text, whole, size + 1);
    copse__free(&ctx->base.mem, whole);
    return s;
}

copse_status copse_device_tuning_load(copse_context *ctx, const char *device, const char *text,
                                      size_t size)
{
    struct copse_tunings *of;
    COPSE_TRY(copse_need("tuning", ctx, device, text));
    COPSE_TRY(open_by_id(ctx, device, &of));
    return copse__tunings_load(&ctx->trust, of, device, text, size);
}
