/* SPDX-License-Identifier: MIT */
/* Devices that applications lend: their ids, for as long as one of them is open, the lock of those
   that come without, and the count of their memory. */
#include <stdio.h>

#include "core/device/device.h"

struct copse_import {
    struct copse_import *next;
    uint32_t users; /* guarded by the context's lock, like the list */
    const struct copse_backend *backend;
    struct copse_device_info info;
    struct copse_foreign_device foreign;
    copse_mutex lock;      /* of the queue, unless the application has one */
    atomic_ullong in_use;  /* bytes of buffers */
};

/* ---- the lock of an import without one: devices on the same handles still share the queue ---- */

static void lock_own(void *user)
{
    copse__mutex_lock(&((struct copse_import *)user)->lock);
}

static void unlock_own(void *user)
{
    copse__mutex_unlock(&((struct copse_import *)user)->lock);
}

/* ---- the list ---- */

bool copse__import_find(copse_context *ctx, const char *id, struct copse_place *place)
{
    copse__mutex_lock(&ctx->lock);
    struct copse_import *im = ctx->imports;
    while (im && strcmp(im->info.id, id) != 0)
        im = im->next;
    if (im)
        im->users++;
    copse__mutex_unlock(&ctx->lock);
    if (im)
        *place = (struct copse_place){ .info = im->info, .backend = im->backend, .import = im };
    return im != NULL;
}

static void destroy(copse_context *ctx, struct copse_import *im)
{
    copse__mutex_fini(&im->lock);
    copse__free(&ctx->base.mem, im);
}

void copse__import_release(copse_context *ctx, struct copse_import **at)
{
    struct copse_import *im = *at;
    *at = NULL;
    if (!im)
        return;
    copse__mutex_lock(&ctx->lock);
    const bool is_last = --im->users == 0;
    struct copse_import **link = &ctx->imports;
    while (*link && *link != im)
        link = &(*link)->next;
    if (is_last && *link)
        *link = im->next;
    copse__mutex_unlock(&ctx->lock);
    if (is_last)
        destroy(ctx, im);
}

const struct copse_foreign_device *copse__import_foreign(const struct copse_import *import)
{
    return &import->foreign;
}

/* ---- memory ---- */

copse_status copse__import_take(struct copse_import *im, size_t bytes)
{
    if (!im || !im->foreign.memory_limit)
        return COPSE_OK;
    const unsigned long long before = atomic_fetch_add(&im->in_use, bytes);
    if (before <= im->foreign.memory_limit && bytes <= im->foreign.memory_limit - before)
        return COPSE_OK;
    atomic_fetch_sub(&im->in_use, bytes);
    return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                      "buffer: %zu bytes more than %llu would pass the application's limit of %llu "
                      "on %s", bytes, before, (unsigned long long)im->foreign.memory_limit,
                      im->info.id);
}

void copse__import_give(struct copse_import *im, size_t bytes)
{
    if (im && im->foreign.memory_limit)
        atomic_fetch_sub(&im->in_use, bytes);
}

void copse__import_memory(const struct copse_import *im, uint64_t *free_bytes,
                          uint64_t *total_bytes)
{
    const uint64_t limit = im ? im->foreign.memory_limit : 0;
    if (!limit)
        return;
    const uint64_t used = atomic_load(&im->in_use), left = limit > used ? limit - used : 0;
    *free_bytes = *free_bytes ? COPSE_MIN(*free_bytes, left) : left;
    *total_bytes = *total_bytes ? COPSE_MIN(*total_bytes, limit) : limit;
}

/* ---- import ---- */

static copse_status describe(copse_context *ctx, struct copse_import *im)
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

static copse_status make(copse_context *ctx, const struct copse_backend *backend,
                         const struct copse_foreign_device *foreign, struct copse_import **out)
{
    void *handles = NULL;
    struct copse_import *im =
        copse__handle_alloc(&ctx->base.mem, sizeof *im, foreign->handles_size, &handles);
    if (!im)
        return copse_fail(COPSE_ERR_NO_MEMORY, "import: no memory");
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
    s = describe(ctx, im);
    if (s) {
        destroy(ctx, im);
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
        return copse_fail(COPSE_ERR_ARGUMENT, "import: lock_queue without unlock_queue, or the other "
                                              "way round; give both or none");
    COPSE_TRY(make(ctx, backend, foreign, &im));
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
