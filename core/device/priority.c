/* SPDX-License-Identifier: MIT */
/* The priority that devices of a context are opened with, and the line about a device without. */
#include <stdio.h>

#include "core/device/device.h"

struct copse_told {
    struct copse_told *next;
    char id[32];
};

static const char *priority_name(copse_priority priority)
{
    return priority == COPSE_PRIORITY_LOW    ? "low"
           : priority == COPSE_PRIORITY_HIGH ? "high"
                                             : "normal";
}

copse_status copse_context_prioritize(copse_context *ctx, copse_priority priority)
{
    COPSE_TRY(copse_need("context: prioritize", ctx));
    if (priority != COPSE_PRIORITY_NORMAL && priority != COPSE_PRIORITY_LOW &&
        priority != COPSE_PRIORITY_HIGH)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "context: there is no priority %d: COPSE_PRIORITY_NORMAL, "
                          "COPSE_PRIORITY_LOW, COPSE_PRIORITY_HIGH",
                          (int)priority);
    atomic_store(&ctx->priority, priority);
    return COPSE_OK;
}

copse_priority copse_device_priority(const copse_device *dev)
{
    return dev && dev->has_priority ? dev->priority : COPSE_PRIORITY_NORMAL;
}

/* Whether the device is named for the first time. Without memory it is named again. */
static bool is_first(struct copse_context *ctx, const char *id)
{
    struct copse_told *told = copse__alloc(&ctx->base.mem, 1, sizeof *told);
    copse__mutex_lock(&ctx->lock);
    const struct copse_told *old = ctx->told;
    while (old && strcmp(old->id, id) != 0)
        old = old->next;
    if (!old && told) {
        snprintf(told->id, sizeof told->id, "%s", id);
        told->next = ctx->told;
        ctx->told = told;
        told = NULL;
    }
    copse__mutex_unlock(&ctx->lock);
    copse__free(&ctx->base.mem, told);
    return !old;
}

void copse__device_tell_priority(copse_device *dev)
{
    if (dev->priority == COPSE_PRIORITY_NORMAL || dev->has_priority ||
        !is_first(dev->ctx, dev->info.id))
        return;
    copse__log(&dev->base->log, COPSE_LOG_WARN,
               "device: the work of %s does not get %s priority: %s", dev->info.id,
               priority_name(dev->priority),
               dev->why_not[0] ? dev->why_not
               : dev->foreign  ? "it is an application's, which gives its queue a priority"
                               : "it has no priorities");
}

void copse__told_free(struct copse_context *ctx)
{
    while (ctx->told) {
        struct copse_told *told = ctx->told;
        ctx->told = told->next;
        copse__free(&ctx->base.mem, told);
    }
}
