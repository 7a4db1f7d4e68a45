/* SPDX-License-Identifier: MIT */
#include "core/check/check.h"

#include <stdio.h>

#include "core/base/platform.h"

bool copse__check_needs(const copse_queue *q)
{
    return q->dev->info.kind != COPSE_DEVICE_REFERENCE;
}

void copse__check_hash(struct copse_check *k, const struct copse_segment *segment)
{
    if (k->hash == 0)
        k->hash = COPSE_HASH_START;
    for (const struct copse_segment *part = segment; part; part = part->rest)
        for (size_t i = 0; i < part->count; i++)
            k->hash = copse__probe_hash(k->hash, &part->commands[i]);
}

/* `s` ended the check. A read that is still under way keeps its memory. Returns `s`, with its
   text. */
static copse_status drop_memory(struct copse_check *k, copse_status s)
{
    char text[COPSE_ERROR_BYTES];
    bool is_idle = s == COPSE_OK || s == COPSE_ERR_UNRELIABLE;
    if (!is_idle) {
        snprintf(text, sizeof text, "%s", copse_last_error());
        is_idle = copse_queue_finish(k->queue) != COPSE_ERR_TIMEOUT;
        copse__fail_again(text);
    }
    if (is_idle)
        copse__probe_free(&k->chain.probe);
    return s;
}

copse_status copse__check_once(struct copse_check *k, const char *what,
                               copse_status (*run)(void *user), void *user)
{
    copse_device *dev = k->queue->dev;
    const uint64_t start = copse__now_ns();
    char text[COPSE_ERROR_BYTES];
    bool has;
    COPSE_TRY(copse__device_has_checked(dev, k->hash, &has));
    if (has)
        return COPSE_OK;
    const copse_status s = drop_memory(k, run(user));
    copse__log(&dev->base->log, COPSE_LOG_DEBUG,
               "cross-check: %s: %s: %zu launches compared, %zu of them in part, %zu not, %.1f ms",
               dev->info.id, what, k->chain.compared, k->chain.sampled, k->chain.skipped,
               (double)(copse__now_ns() - start) * 1e-6);
    if (s == COPSE_OK)
        return copse__device_note_checked(dev, k->hash);
    if (s != COPSE_ERR_UNRELIABLE)
        return s;
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (copse__device_forget_checked(dev) != COPSE_OK)
        copse__log(&dev->base->log, COPSE_LOG_WARN, "cross-check: %s", copse_last_error());
    copse__fail_again(text);
    return s;
}

copse_status copse__check_update(struct copse_check *k, const struct copse_segment *segment)
{
    struct copse_segment *const list[] = { (struct copse_segment *)segment };
    k->chain.restores = true;
    k->chain.most = copse__chain_most(
        list, 1, COPSE_CHECK_BUDGET - COPSE_MIN(k->chain.work, COPSE_CHECK_BUDGET));
    return copse__chain_run(&k->chain, segment);
}

const char *copse__fault_numbers(const struct copse_probe_fault *f, char text[COPSE_FAULT_NUMBERS])
{
    const int n = snprintf(text, COPSE_FAULT_NUMBERS, "%.9g, the host %.9g", f->got, f->expected);
    if (f->tolerance > 0)
        snprintf(text + n, COPSE_FAULT_NUMBERS - (size_t)n, " (tolerance %.2g)", f->tolerance);
    return text;
}
