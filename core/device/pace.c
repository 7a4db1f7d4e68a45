/* SPDX-License-Identifier: MIT */
/* The estimates are the law's work times the slowest rate of recent measurements; before the first
   one, the rate of a slow integrated GPU. */
#include <stdlib.h>

#include "core/device/pace.h"

#include "core/device/device.h"

enum { USUAL_MS = 100, MOST_MS = 60000, WORD_UNITS = 16, MOST_HALVINGS = 6, SHORT = 16 };

#define MS_NS    1000000u
#define FIRST_PS 50u      /* 20 G operations or 5 GB/s */
#define MOST_PS  1000000u /* slower devices are taken for as fast as this */

/* ---- limits ---- */

void copse__pace_setting(struct copse_context *ctx, const char *text)
{
    char *end = NULL;
    ctx->submit_ms = COPSE_PACE_USUAL;
    if (!text)
        return;
    const unsigned long ms = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && ms <= MOST_MS)
        ctx->submit_ms = (uint32_t)ms;
    else
        copse__log(&ctx->base.log, COPSE_LOG_WARN,
                   "context: COPSE_SUBMIT_MS is '%.32s', not 0 to %d milliseconds; it is ignored",
                   text, MOST_MS);
}

static atomic_uint *find_losses(const copse_device *dev)
{
    const struct copse_context *ctx = dev->ctx;
    for (size_t i = 0; ctx->losses && i < ctx->device_count; i++)
        if (strcmp(ctx->devices[i].id, dev->info.id) == 0)
            return &ctx->losses[i];
    return NULL;
}

void copse__pace_open(copse_device *dev)
{
    const bool is_cpu =
        dev->info.kind == COPSE_DEVICE_CPU || dev->info.kind == COPSE_DEVICE_REFERENCE;
    const bool is_forced = dev->ctx->submit_ms != COPSE_PACE_USUAL;
    const uint32_t ms = is_forced ? dev->ctx->submit_ms : is_cpu ? 0 : USUAL_MS;
    const atomic_uint *losses = find_losses(dev);
    const unsigned halvings = losses ? COPSE_MIN(atomic_load(losses), MOST_HALVINGS) : 0;
    dev->pace.submission_ns = ((uint64_t)ms * MS_NS) >> halvings;
    atomic_init(&dev->pace.ps, FIRST_PS);
    if (is_forced && ms == 0)
        copse__log(&dev->base->log, COPSE_LOG_INFO,
                   "device: submissions of %s have no limit in time, by COPSE_SUBMIT_MS",
                   dev->info.id);
    else if (is_forced || (ms > 0 && halvings > 0))
        copse__log(&dev->base->log, halvings ? COPSE_LOG_WARN : COPSE_LOG_INFO,
                   "device: submissions of %s are cut at %.3g ms%s%s", dev->info.id,
                   (double)dev->pace.submission_ns * 1e-6, is_forced ? ", by COPSE_SUBMIT_MS" : "",
                   halvings ? ", halved because it was lost before" : "");
}

void copse__pace_note_loss(copse_device *dev)
{
    atomic_uint *losses = find_losses(dev);
    if (losses && copse__pace_is_on(dev))
        atomic_fetch_add(losses, 1u);
}

/* ---- estimates ---- */

uint64_t copse__pace_units(const struct copse_command *c)
{
    const struct copse_law *law = copse__law_of(c);
    uint64_t units = 0;
    for (uint32_t i = 0; i < c->binding_count; i++)
        units += c->bindings[i].size / COPSE_WORD_BYTES * WORD_UNITS;
    if (law->work)
        return units + law->work(copse__law_params(c), copse__law_spec(c));
    if (!law->elements)
        return units;
    const struct copse_elements e = law->elements(copse__law_params(c), copse__law_spec(c));
    return units + e.count * e.depth;
}

uint64_t copse__pace_estimate(const copse_device *dev, uint64_t units)
{
    return (uint64_t)((double)units * (double)atomic_load(&dev->pace.ps) * 1e-3);
}

/* A slower rate counts at once, a faster one by and by. */
void copse__pace_note(copse_device *dev, uint64_t units, uint64_t ns)
{
    const double measured = (double)ns * 1e3 / (double)COPSE_MAX(units, 1);
    const uint64_t old = atomic_load(&dev->pace.ps), least = COPSE_MAX(old - old / 8, 1);
    const uint64_t ps = measured < MOST_PS ? (uint64_t)measured : MOST_PS;
    if (ps > old && ns < dev->pace.submission_ns / SHORT)
        return;
    atomic_store(&dev->pace.ps, COPSE_MAX(ps, least));
}
