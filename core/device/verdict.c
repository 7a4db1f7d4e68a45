/* SPDX-License-Identifier: MIT */
/* Kernels that are not used on a device because their results were wrong there: kept per device,
   driver and library version, in the context and, as a small text, in the kernel cache. */
#include <stdio.h>

#include "copse/conformance.h"
#include "core/device/stored.h"

struct copse_verdicts {
    struct copse_verdicts *next;
    struct copse_stored_id id;
    struct {
        struct copse_blocked_kernel *at;
        size_t count, room;
    } blocked;
};

static bool is_kernel(const char *name, size_t length)
{
    if (length == sizeof COPSE_LIBRARY_PRODUCT - 1 &&
        memcmp(name, COPSE_LIBRARY_PRODUCT, length) == 0)
        return true;
    for (size_t i = 0; i < copse_kernel_count; i++)
        if (strlen(copse_kernel_table[i].name) == length &&
            memcmp(copse_kernel_table[i].name, name, length) == 0)
            return true;
    return false;
}

/* ---- the list in memory ---- */

static struct copse_blocked_kernel *find(struct copse_verdicts *v, const char *kernel)
{
    for (size_t i = 0; i < v->blocked.count; i++)
        if (strcmp(v->blocked.at[i].kernel, kernel) == 0)
            return &v->blocked.at[i];
    return NULL;
}

/* The newest reason counts. */
static copse_status add(struct copse_context *ctx, struct copse_verdicts *v, const char *kernel,
                        const char *reason)
{
    struct copse_blocked_kernel b;
    snprintf(b.kernel, sizeof b.kernel, "%s", kernel);
    snprintf(b.reason, sizeof b.reason, "%s", reason);
    copse__stored_flatten(b.reason);
    struct copse_blocked_kernel *old = find(v, b.kernel);
    if (old)
        *old = b;
    else if (!COPSE_PUSH(&ctx->base.mem, &v->blocked, b))
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory for the list of kernels");
    return COPSE_OK;
}

static void take_out(struct copse_verdicts *v, const char *kernel)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->blocked.count; i++)
        if (kernel && strcmp(v->blocked.at[i].kernel, kernel) != 0)
            v->blocked.at[kept++] = v->blocked.at[i];
    v->blocked.count = kept;
}

/* ---- the stored form: one line per kernel ---- */

struct taken {
    struct copse_context *ctx;
    struct copse_verdicts *to;
    copse_status status;
};

/* "block KERNEL REASON" up to the end of the line; NULL when it is not one. */
static const char *read_line(struct taken *t, const char *line, bool is_dry)
{
    struct copse_blocked_kernel b;
    if (strncmp(line, "block ", 6) != 0)
        return NULL;
    const char *name = line + 6, *end = strchr(name, '\n'), *space = strchr(name, ' ');
    if (!end || !space || space > end || !is_kernel(name, (size_t)(space - name)) ||
        (size_t)(space - name) >= sizeof b.kernel || (size_t)(end - space) > sizeof b.reason)
        return NULL;
    snprintf(b.kernel, sizeof b.kernel, "%.*s", (int)(space - name), name);
    snprintf(b.reason, sizeof b.reason, "%.*s", (int)(end - space - 1), space + 1);
    if (!is_dry && !find(t->to, b.kernel))
        t->status = add(t->ctx, t->to, b.kernel, b.reason);
    return end + 1;
}

static bool read_lines(void *user, const char *lines, bool is_dry)
{
    struct taken *t = user;
    while (lines && *lines && t->status == COPSE_OK)
        lines = read_line(t, lines, is_dry);
    return lines != NULL;
}

/* Add what is stored, by another process perhaps, to what is known. */
static copse_status load(struct copse_context *ctx, struct copse_verdicts *v)
{
    struct taken t = { .ctx = ctx, .to = v };
    COPSE_TRY(copse__stored_get(ctx, &v->id, read_lines, &t));
    return t.status;
}

static copse_status store(struct copse_context *ctx, const struct copse_verdicts *v)
{
    const size_t room = v->blocked.count * (sizeof(struct copse_blocked_kernel) + 8) + 1;
    char *lines = copse__alloc(&ctx->base.mem, room, 1);
    if (!lines)
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory to store the list");
    size_t size = 0;
    for (size_t i = 0; i < v->blocked.count; i++)
        size += (size_t)snprintf(lines + size, room - size, "block %s %s\n",
                                 v->blocked.at[i].kernel, v->blocked.at[i].reason);
    const copse_status s = copse__stored_put(ctx, &v->id, lines);
    copse__free(&ctx->base.mem, lines);
    return s;
}

/* ---- of a context and of a device ---- */

static copse_status open_locked(struct copse_context *ctx, const struct copse_device_info *info,
                                struct copse_verdicts **out)
{
    struct copse_verdicts *v = copse__alloc(&ctx->base.mem, 1, sizeof *v), *old = ctx->verdicts;
    *out = NULL;
    if (!v)
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory for the list of a device");
    copse__stored_id("verdict", info, NULL, &v->id);
    while (old && strcmp(old->id.lines, v->id.lines) != 0)
        old = old->next;
    copse_status s = COPSE_OK;
    if (!old)
        s = load(ctx, v);
    if (old || s != COPSE_OK) {
        copse__free(&ctx->base.mem, v->blocked.at);
        copse__free(&ctx->base.mem, v);
        *out = old;
        return s;
    }
    v->next = ctx->verdicts;
    ctx->verdicts = *out = v;
    return COPSE_OK;
}

copse_status copse__verdicts_open(copse_context *ctx, const struct copse_device_info *info,
                                  struct copse_verdicts **out)
{
    copse__mutex_lock(&ctx->verdict_lock);
    const copse_status s = open_locked(ctx, info, out);
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}

void copse__verdicts_free(copse_context *ctx)
{
    while (ctx->verdicts) {
        struct copse_verdicts *v = ctx->verdicts;
        ctx->verdicts = v->next;
        copse__free(&ctx->base.mem, v->blocked.at);
        copse__free(&ctx->base.mem, v);
    }
}

/* `kernel` NULL with a NULL reason: every kernel. */
static copse_status change(copse_context *ctx, struct copse_verdicts *v, const char *kernel,
                           const char *reason)
{
    copse_status s;
    copse__mutex_lock(&ctx->verdict_lock);
    COPSE_TRY_OR(done, s, load(ctx, v));
    if (reason)
        COPSE_TRY_OR(done, s, add(ctx, v, kernel, reason));
    else
        take_out(v, kernel);
    s = store(ctx, v);
done:
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}

static copse_status block(copse_context *ctx, struct copse_verdicts *v, const char *id,
                          const char *kernel, const char *reason)
{
    if (!is_kernel(kernel, strlen(kernel)))
        return copse_fail(COPSE_ERR_ARGUMENT, "verdict: there is no kernel '%s'", kernel);
    COPSE_TRY(change(ctx, v, kernel, reason));
    copse__log(&ctx->base.log, COPSE_LOG_WARN, "verdict: %s is not used on %s from now on: %s",
               kernel, id, reason);
    return COPSE_OK;
}

bool copse__kernel_is_blocked(const copse_device *dev, const char *kernel, char *reason,
                              size_t room)
{
    if (dev->tries_blocked)
        return false;
    copse__mutex_lock(&dev->ctx->verdict_lock);
    const struct copse_blocked_kernel *b = find(dev->verdicts, kernel);
    if (b)
        snprintf(reason, room, "%s", b->reason);
    copse__mutex_unlock(&dev->ctx->verdict_lock);
    return b != NULL;
}

copse_status copse__device_block_kernel(copse_device *dev, const char *kernel, const char *reason)
{
    return block(dev->ctx, dev->verdicts, dev->info.id, kernel, reason);
}

/* ---- public ---- */

static copse_status open_by_id(copse_context *ctx, const char *device, struct copse_verdicts **out)
{
    struct copse_device_info info;
    if (!ctx || !device)
        return copse_fail(COPSE_ERR_ARGUMENT, "verdict: no context or no device");
    COPSE_TRY(copse__device_find(ctx, device, &info));
    return copse__verdicts_open(ctx, &info, out);
}

copse_status copse_device_blocked(copse_context *ctx, const char *device,
                                  const struct copse_blocked_kernel **list, size_t *count)
{
    struct copse_verdicts *v;
    if (!list || !count)
        return copse_fail(COPSE_ERR_ARGUMENT, "verdict: no place for the result");
    *list = NULL;
    *count = 0;
    COPSE_TRY(open_by_id(ctx, device, &v));
    copse__mutex_lock(&ctx->verdict_lock);
    *list = v->blocked.at;
    *count = v->blocked.count;
    copse__mutex_unlock(&ctx->verdict_lock);
    return COPSE_OK;
}

copse_status copse_device_block(copse_context *ctx, const char *device, const char *kernel,
                                const char *reason)
{
    struct copse_verdicts *v;
    COPSE_TRY(open_by_id(ctx, device, &v));
    if (!kernel)
        return copse_fail(COPSE_ERR_ARGUMENT, "verdict: no kernel to block");
    return block(ctx, v, device, kernel, reason ? reason : "blocked by the application");
}

copse_status copse_device_unblock(copse_context *ctx, const char *device, const char *kernel)
{
    struct copse_verdicts *v;
    COPSE_TRY(open_by_id(ctx, device, &v));
    if (kernel && !is_kernel(kernel, strlen(kernel)))
        return copse_fail(COPSE_ERR_ARGUMENT, "verdict: there is no kernel '%s'", kernel);
    return change(ctx, v, kernel, NULL);
}
