/* SPDX-License-Identifier: MIT */
/* copse_select_devices: finds the listed devices that a selector matches. Opens nothing. */
#include <stdio.h>

#include "copse/device/conformance.h"
#include "core/device/device.h"

struct selection {
    struct copse_context *ctx;
    char (*ids)[32];
    size_t room, count;
};

static void select_take(struct selection *sel, const struct copse_device_info *d)
{
    if (sel->count < sel->room)
        memcpy(sel->ids[sel->count], d->id, sizeof d->id);
    sel->count++;
}

static bool is_gpu(const struct copse_device_info *d)
{
    return d->kind != COPSE_DEVICE_CPU && d->kind != COPSE_DEVICE_REFERENCE;
}

static bool is_reference(const struct copse_device_info *d)
{
    return d->kind == COPSE_DEVICE_REFERENCE;
}

/* Whether an earlier usable device is the same physical one. */
static bool is_repeated(const struct copse_context *ctx, size_t index)
{
    const struct copse_device_info *d = &ctx->devices[index];
    if (d->same_as < 0)
        return false;
    for (size_t i = 0; i < index; i++) {
        const struct copse_device_info *e = &ctx->devices[i];
        if (e->is_usable && ((int)i == d->same_as || e->same_as == d->same_as))
            return true;
    }
    return false;
}

/* Automatic choices omit devices whose faults come and go. */
static bool is_trusted(struct copse_context *ctx, const struct copse_device_info *d)
{
    char reason[256];
    if ((atomic_load(&ctx->allowed) & COPSE_ALLOW_UNRELIABLE) ||
        !copse__is_unreliable(ctx, d, reason, sizeof reason))
        return true;
    copse__log(&ctx->base.log, COPSE_LOG_WARN, "devices: %s is not chosen, it is unreliable: %s",
               d->id, reason);
    return false;
}

static void take_gpus(struct selection *sel)
{
    const struct copse_context *ctx = sel->ctx;
    for (size_t i = 0; i < ctx->device_count; i++)
        if (ctx->devices[i].is_usable && is_gpu(&ctx->devices[i]) && !is_repeated(ctx, i) &&
            is_trusted(sel->ctx, &ctx->devices[i]))
            select_take(sel, &ctx->devices[i]);
}

/* All CPU drivers use the one processor. Those that have wide vectors in one invocation are several
   times as fast. */
static void take_cpu(struct selection *sel)
{
    const struct copse_context *ctx = sel->ctx;
    const struct copse_device_info *best = NULL;
    for (size_t i = 0; i < ctx->device_count; i++) {
        const struct copse_device_info *d = &ctx->devices[i];
        if (d->is_usable && d->kind == COPSE_DEVICE_CPU &&
            (!best || d->limits.has_wide_vectors > best->limits.has_wide_vectors) &&
            is_trusted(sel->ctx, d))
            best = d;
    }
    if (best)
        select_take(sel, best);
}

/* GPUs, each physical device once; else a CPU driver; else the reference. */
static void take_auto(struct selection *sel)
{
    const size_t before = sel->count;
    take_gpus(sel);
    if (sel->count == before)
        take_cpu(sel);
    for (size_t i = 0; sel->count == before && i < sel->ctx->device_count; i++)
        if (is_reference(&sel->ctx->devices[i]))
            select_take(sel, &sel->ctx->devices[i]);
}

/* Every usable device of a backend; if `backend` is NULL, of all backends but the reference. */
static void take_backend(struct selection *sel, const char *backend)
{
    for (size_t i = 0; i < sel->ctx->device_count; i++) {
        const struct copse_device_info *d = &sel->ctx->devices[i];
        if (d->is_usable && (backend ? strcmp(d->backend, backend) == 0 : !is_reference(d)))
            select_take(sel, d);
    }
}

static bool is_backend(const struct copse_context *ctx, const char *word)
{
    for (const char *const *name = copse_backend_names; *name; name++)
        if (strcmp(word, *name) == 0)
            return true;
    for (size_t i = 0; i < ctx->backend_count; i++)
        if (strcmp(word, ctx->backends[i].name) == 0)
            return true;
    return false;
}

static bool has_usable(const struct copse_context *ctx, const char *backend)
{
    for (size_t i = 0; i < ctx->device_count; i++)
        if (ctx->devices[i].is_usable && strcmp(ctx->devices[i].backend, backend) == 0)
            return true;
    return false;
}

/* A line that lists the devices, for an error text. */
static void select_describe(const struct copse_context *ctx, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ctx->device_count && used < room; i++) {
        const struct copse_device_info *d = &ctx->devices[i];
        used += (size_t)snprintf(text + used, room - used, "%s%s%s%s", i ? ", " : "", d->id,
                                 d->is_usable ? "" : " not usable: ", d->reason);
    }
    for (size_t i = 0; i < ctx->backend_count && used < room; i++)
        if (!has_usable(ctx, ctx->backends[i].name))
            used += (size_t)snprintf(text + used, room - used, "; %s: %s", ctx->backends[i].name,
                                     ctx->backends[i].detail);
}

static copse_status none_found(const struct copse_context *ctx, const char *word)
{
    char text[768];
    select_describe(ctx, text, sizeof text);
    return copse_fail(COPSE_ERR_NO_DEVICE, "devices: nothing matches '%s'; found %s", word, text);
}

static copse_status take_word(struct selection *sel, const char *word)
{
    struct copse_context *ctx = sel->ctx;
    struct copse_device_info info;
    const size_t before = sel->count;

    if (strcmp(word, "auto") == 0) {
        take_auto(sel);
    } else if (strcmp(word, "all") == 0) {
        take_backend(sel, NULL);
    } else if (is_backend(ctx, word)) {
        take_backend(sel, word);
    } else {
        const char *colon = strchr(word, ':');
        if (!colon || colon == word || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "devices: '%s' is neither auto, all, a backend, nor an id such as "
                              "host:0",
                              word);
        if (copse__device_find(ctx, word, &info) == COPSE_OK)
            select_take(sel, &info);
    }
    return sel->count > before ? COPSE_OK : none_found(ctx, word);
}

copse_status copse_select_devices(copse_context *ctx, const char *selector, char (*ids)[32],
                                  size_t room, size_t *count)
{
    COPSE_TRY(copse_need("devices", ctx, count));
    if (room > 0)
        COPSE_TRY(copse_need("devices", ids));

    struct selection sel = { ctx, ids, room, 0 };
    const char *rest = selector && *selector ? selector : "auto";
    *count = 0;
    while (*rest) {
        char word[64];
        const char *start = rest + strspn(rest, " \t");
        size_t length = strcspn(start, ",");
        rest = start + length + (start[length] == ',');
        while (length && (start[length - 1] == ' ' || start[length - 1] == '\t'))
            length--;
        if (length == 0 || length >= sizeof word || (!*rest && rest[-1] == ','))
            return copse_fail(COPSE_ERR_ARGUMENT, "devices: cannot read the selector '%s'",
                              selector);
        memcpy(word, start, length);
        word[length] = '\0';
        COPSE_TRY(take_word(&sel, word));
    }
    if (sel.count > room)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "devices: '%.64s' means %zu devices, there is room for %zu",
                          selector ? selector : "auto", sel.count, room);
    *count = sel.count;
    return COPSE_OK;
}
