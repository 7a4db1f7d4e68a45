/* SPDX-License-Identifier: MIT */
/* Blocked kernels of open devices, and of devices by id through the public functions. See
   core/trust/block_list.h. */
#include <stdio.h>

#include "copse/device/conformance.h"
#include "core/device/device.h"

bool copse__kernel_is_name(const char *name, size_t length)
{
    if (length == sizeof COPSE_LIBRARY_PRODUCT - 1 &&
        memcmp(name, COPSE_LIBRARY_PRODUCT, length) == 0)
        return true;
    for (size_t i = 0; i < copse_kernel_count; i++)
        if (strlen(copse_kernel_table[i].name) == length &&
            memcmp(copse_kernel_table[i].name, name, length) == 0)
            return true;
    return memchr(name, '@', length) != NULL; /* of an application, which may register it later */
}

/* ---- open devices ---- */

copse_status copse__device_fail_test(copse_device *dev, const char *kernel, const char *reason)
{
    return copse__block_list_fail_test(&dev->ctx->trust, dev->block_list, dev->info.id, kernel,
                                       reason);
}

bool copse__kernel_is_blocked(const copse_device *dev, const char *kernel, char *reason,
                              size_t room)
{
    const struct copse_kernel_uses *uses =
        atomic_load_explicit(&dev->ctx->uses, memory_order_acquire);
    return !dev->tries_blocked && !(uses && uses->device == dev->block_list) &&
           copse__block_list_has(&dev->ctx->trust, dev->block_list, kernel, reason, room);
}

copse_status copse__device_fail_case(copse_device *dev, const struct copse_kernel_case *c,
                                     bool is_late, const char *text)
{
    return copse__block_list_fail_case(&dev->ctx->trust, dev->block_list, dev->info.id, c, is_late,
                                       text);
}

bool copse__device_has_failed(const copse_device *dev, const struct copse_kernel_case *c,
                              uint64_t *id)
{
    return copse__block_list_has_failed(&dev->ctx->trust, dev->block_list, c, id);
}

bool copse__device_is_failed(const copse_device *dev, const struct copse_kernel_case *c)
{
    return copse__block_list_is_failed(&dev->ctx->trust, dev->block_list, c);
}

copse_status copse__device_pass_case(copse_device *dev, const char *kernel, uint64_t id,
                                     uint32_t tier)
{
    return copse__block_list_pass_case(&dev->ctx->trust, dev->block_list, dev->info.id, kernel, id,
                                       tier);
}

copse_status copse__kernel_refuse(const copse_device *dev, const char *kernel, const char *reason)
{
    return copse_fail(
        COPSE_ERR_UNSUPPORTED,
        "kernel: %s is blocked on %s: %s; driver %.64s; use another device, allow the host to "
        "compute it "
        "(--allow-host, copse_context_allow), or check it again: copse conformance --device %s",
        kernel, dev->info.id, reason, dev->info.driver, dev->info.id);
}

void copse__kernel_note_use(const copse_device *dev, uint32_t id,
                            const int32_t spec[COPSE_MAX_SPECS])
{
    struct copse_kernel_uses *uses = atomic_load_explicit(&dev->ctx->uses, memory_order_acquire);
    if (!uses || uses->device != dev->block_list || atomic_exchange(&uses->used[id], true))
        return;
    if (spec)
        memcpy(uses->spec[id], spec, sizeof uses->spec[id]);
    if (uses->first)
        uses->first(uses->user, id);
}

copse_status copse__device_pass_run(copse_device *dev, const char *kernel, bool is_good)
{
    return copse__block_list_pass_run(&dev->ctx->trust, dev->block_list, dev->info.id, kernel,
                                      is_good);
}

copse_status copse__device_note_mode(copse_device *dev, const char *mode, const char *ops,
                                     uint32_t tier, bool is_whole)
{
    return copse__block_list_note_mode(&dev->ctx->trust, dev->block_list, mode, ops, tier,
                                       is_whole);
}

void copse__device_refresh(copse_context *ctx, const struct copse_device_info *info)
{
    struct copse_block_list *list;
    if (copse__block_list_open(&ctx->trust, info, &list) != COPSE_OK ||
        copse__block_list_refresh(&ctx->trust, list) != COPSE_OK)
        copse__log(&ctx->base.log, COPSE_LOG_WARN, "blocked kernels: %s: %s", info->id,
                   copse_last_error());
}

void copse__device_adopt_block(copse_context *ctx, const struct copse_device_info *info,
                               const char *kernel, const char *reason)
{
    struct copse_block_list *list;
    char known[192];
    if (copse__block_list_open(&ctx->trust, info, &list) == COPSE_OK &&
        (copse__block_list_has(&ctx->trust, list, kernel, known, sizeof known) ||
         copse__block_list_block(&ctx->trust, list, info->id, kernel, reason) == COPSE_OK))
        return;
    copse__log(&ctx->base.log, COPSE_LOG_WARN, "blocked kernels: %s is not blocked on %s: %s",
               kernel, info->id, copse_last_error());
}

bool copse__is_unreliable(copse_context *ctx, const struct copse_device_info *info, char *reason,
                          size_t room)
{
    struct copse_block_list *list;
    struct copse_device_state state;
    if (info->kind == COPSE_DEVICE_REFERENCE ||
        copse__block_list_open(&ctx->trust, info, &list) != COPSE_OK)
        return false;
    copse__block_list_state(&ctx->trust, list, &state);
    snprintf(reason, room, "%s", state.reason);
    return state.is_unreliable;
}

copse_status copse__device_refuse_unreliable(copse_device *dev)
{
    char reason[256];
    if ((atomic_load(&dev->ctx->allowed) & COPSE_ALLOW_UNRELIABLE) ||
        atomic_load(&dev->ctx->uses) ||
        !copse__is_unreliable(dev->ctx, &dev->info, reason, sizeof reason))
        return COPSE_OK;
    return copse_fail(
        COPSE_ERR_UNSUPPORTED,
        "device: %s is unreliable: %s; driver %.64s; use another device, run copse conformance "
        "--device %s "
        "until it passes three times, or trust it (--trust-device, copse_context_allow)",
        dev->info.id, reason, dev->info.driver, dev->info.id);
}

/* ---- public ---- */

copse_status copse_context_allow(copse_context *ctx, unsigned what)
{
    COPSE_TRY(copse_need("context", ctx));
    if (what & ~(unsigned)(COPSE_ALLOW_HOST | COPSE_ALLOW_UNRELIABLE))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "context: cannot allow %#x: the bits are COPSE_ALLOW_HOST and "
                          "COPSE_ALLOW_UNRELIABLE",
                          what);
    atomic_store(&ctx->allowed, what);
    return COPSE_OK;
}

static copse_status open_by_id(copse_context *ctx, const char *device,
                               struct copse_block_list **out)
{
    struct copse_device_info info;
    COPSE_TRY(copse__device_find(ctx, device, &info));
    return copse__block_list_open(&ctx->trust, &info, out);
}

copse_status copse_device_blocked(copse_context *ctx, const char *device,
                                  const struct copse_blocked_kernel **list, size_t *count)
{
    struct copse_block_list *blocked;
    COPSE_TRY(copse_need("blocked kernels", ctx, device, list, count));
    *list = NULL;
    *count = 0;
    COPSE_TRY(open_by_id(ctx, device, &blocked));
    copse__block_list_get(&ctx->trust, blocked, list, count);
    return COPSE_OK;
}

copse_status copse_device_block(copse_context *ctx, const char *device, const char *kernel,
                                const char *reason)
{
    struct copse_block_list *blocked;
    COPSE_TRY(copse_need("blocking a kernel", ctx, device, kernel));
    COPSE_TRY(open_by_id(ctx, device, &blocked));
    return copse__block_list_block(&ctx->trust, blocked, device, kernel,
                                   reason ? reason : "blocked by the application");
}

copse_status copse_device_block_case(copse_context *ctx, const char *device,
                                     const struct copse_case_result *failed,
                                     copse_conformance_tier tier)
{
    struct copse_block_list *blocked;
    COPSE_TRY(copse_need("blocking a kernel", ctx, device, failed));
    COPSE_TRY(open_by_id(ctx, device, &blocked));
    if (!failed->mode || !failed->op || !failed->name || !failed->variant ||
        (unsigned)tier > COPSE_CONFORM_EXHAUSTIVE)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "blocked kernels: no case, no kernel or no such tier");
    const struct copse_kernel_case c = { .kernel = failed->variant,
                                         .mode = failed->mode,
                                         .op = failed->op,
                                         .name = failed->name,
                                         .tier = (uint32_t)tier };
    return copse__block_list_fail_case(&ctx->trust, blocked, device, &c,
                                       failed->verdict == COPSE_VERDICT_TIMEOUT,
                                       failed->text ? failed->text : "");
}

copse_status copse_device_state(copse_context *ctx, const char *device,
                                struct copse_device_state *out)
{
    struct copse_block_list *list;
    COPSE_TRY(copse_need("state of a device", ctx, device, out));
    COPSE_TRY(open_by_id(ctx, device, &list));
    copse__block_list_state(&ctx->trust, list, out);
    return COPSE_OK;
}

copse_status copse_device_unblock(copse_context *ctx, const char *device, const char *kernel)
{
    struct copse_block_list *blocked;
    COPSE_TRY(copse_need("unblocking a kernel", ctx, device));
    COPSE_TRY(open_by_id(ctx, device, &blocked));
    return copse__block_list_unblock(&ctx->trust, blocked, kernel);
}
