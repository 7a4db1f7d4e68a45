/* SPDX-License-Identifier: MIT */
/* The list of devices lent by applications, each kept as long as a device is open on it, and their
   memory use. */
#include "core/device/import.h"

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

void copse__import_destroy(copse_context *ctx, struct copse_import *im)
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
        copse__import_destroy(ctx, im);
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
                      "on %s",
                      bytes, before, (unsigned long long)im->foreign.memory_limit, im->info.id);
}

void copse__import_give(struct copse_import *im, size_t bytes)
{
    if (im && im->foreign.memory_limit)
        atomic_fetch_sub(&im->in_use, bytes);
}

void copse__import_memory(const struct copse_import *im, struct copse_device_memory *m)
{
    const uint64_t limit = im ? im->foreign.memory_limit : 0;
    if (!limit)
        return;
    const uint64_t used = atomic_load(&im->in_use), left = limit > used ? limit - used : 0;
    m->free = m->is_free_known ? COPSE_MIN(m->free, left) : left;
    m->total = m->total ? COPSE_MIN(m->total, limit) : limit;
    m->is_free_known = true;
}
