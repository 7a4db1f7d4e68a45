/* SPDX-License-Identifier: MIT */
/* Import of a device that an application lends: its description, its id, and a lock if the
   application has none. */
#include <stdio.h>

#include "core/device/import.h"

/* ---- the lock of an import without one: devices on the same handles still share the queue ---- */

static void lock_own(void *user)
{
    copse__mutex_lock(&((struct copse_import *)user)->lock);
}

static void unlock_own(void *user)
{
    copse__mutex_unlock(&((struct copse_import *)user)->lock);
}

/* ---- import ---- */

static copse_status import_describe(copse_context *ctx, struct copse_import *im)
{
    struct copse_device_info *d = &im->info;
    COPSE_TRY(im->backend->import(&ctx->base, &im->foreign, d));
    snprintf(d->backend, sizeof d->backend, "%s", im->backend->name);
    if (d->is_usable)
        d->is_usable = copse__limits_cap(&d->limits, d->reason, sizeof d->reason);
    if (!d->is_usable)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "import: %s cannot be used: %s", d->name,
                          d->reason);
    if (im->foreign.memory_limit)
        d->memory_bytes = d->memory_bytes ? COPSE_MIN(d->memory_bytes, im->foreign.memory_limit)
                                          : im->foreign.memory_limit;
    d->same_as = copse__device_same(ctx->devices, ctx->device_count, d);
    return COPSE_OK;
}

static copse_status import_make(copse_context *ctx, const struct copse_backend *backend,
                                const struct copse_foreign_device *foreign,
                                struct copse_import **out)
{
    void *handles = NULL;
    struct copse_import *im =
        copse__handle_alloc(&ctx->base.mem, sizeof *im, foreign->handles_size, &handles);
    if (!im)
        return copse_no_memory("import");
    copse_status s = copse__mutex_init(&im->lock);
    if (s) {
        copse__free(&ctx->base.mem, im);
        return s;
    }
    atomic_init(&im->in_use, 0);
    im->users = 1;
    im->backend = backend;
    im->foreign = *foreign;
    im->foreign.handles = memcpy(handles, foreign->handles, foreign->handles_size);
    if (!foreign->guard.lock)
        im->foreign.guard = (struct copse_queue_guard){ lock_own, unlock_own, im };
    s = import_describe(ctx, im);
    if (s) {
        copse__import_destroy(ctx, im);
        return s;
    }
    *out = im;
    return COPSE_OK;
}

copse_status copse__device_import(copse_context *ctx, const struct copse_backend *backend,
                                  const struct copse_foreign_device *foreign, copse_device **out)
{
    struct copse_import *im = NULL;
    if (!foreign->guard.lock != !foreign->guard.unlock)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "import: lock_queue without unlock_queue, or the other "
                          "way round; give both or none");
    COPSE_TRY(import_make(ctx, backend, foreign, &im));
    copse__mutex_lock(&ctx->lock);
    snprintf(im->info.id, sizeof im->info.id, "import:%u", ctx->import_count++);
    im->next = ctx->imports;
    ctx->imports = im;
    copse__mutex_unlock(&ctx->lock);
    copse__log(&ctx->base.log, COPSE_LOG_INFO, "import: %s is %s (%s), an application's %s device",
               im->info.id, im->info.name, im->info.driver, im->info.backend);
    struct copse_place place = { .info = im->info, .backend = backend, .import = im };
    return copse__device_open_at(ctx, &place, NULL, out);
}
