/* SPDX-License-Identifier: MIT */
/* What a step that does not fit into device memory could do instead: the plans of smaller batches,
   of recomputation and of products of 16 bits. */
#include <stdarg.h>
#include <stdio.h>

#include "core/train/memory/step_memory.h"

#define NUMBER 24 /* bytes of a text */

struct advice {
    char text[400];
    size_t length;
};

static void memory_advice_add(struct advice *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(a->text + a->length, sizeof a->text - a->length, fmt, args);
    va_end(args);
    a->length = COPSE_MIN(a->length + (size_t)COPSE_MAX(n, 0), sizeof a->text - 1);
}

static const char *memory_advice_number(uint64_t bytes, char text[NUMBER])
{
    const uint64_t kib = 1u << 10, mib = kib << 10, gib = mib << 10,
                   unit = bytes >= gib   ? gib
                          : bytes >= mib ? mib
                                         : kib;
    snprintf(text, NUMBER, "%.1f %s", (double)bytes / (double)unit,
             unit == gib   ? "GiB"
             : unit == mib ? "MiB"
                           : "KiB");
    return text;
}

/* As an option takes it, rounded down. */
static const char *memory_advice_option(uint64_t bytes, char text[NUMBER])
{
    const bool is_large = bytes >= (uint64_t)64 << 20;
    snprintf(text, NUMBER, "%llu%s", (unsigned long long)(bytes >> (is_large ? 20 : 10)),
             is_large ? "MiB" : "KiB");
    return text;
}

/* The largest of a half, a quarter, ... of the batch that fits. */
static void add_batch(struct advice *a, struct copse_step_recordings *all,
                      const struct copse_memory_shard *whole, uint64_t most)
{
    struct copse_value_memory m;
    char needs[NUMBER];
    for (size_t part = 2; part <= whole->examples; part *= 2) {
        struct copse_memory_shard s = *whole;
        s.examples = (whole->examples + part - 1) / part;
        if (copse__memory_plan_plain(all, &s, &m) != COPSE_OK)
            return;
        if (m.bytes > most)
            continue;
        memory_advice_add(a, "; a batch of %zu needs %s", (whole->batch->count + part - 1) / part,
                          memory_advice_number(m.bytes, needs));
        return;
    }
    memory_advice_add(a, "; no smaller batch fits");
}

static void add_recomputation(struct advice *a, struct copse_step_recordings *all,
                              const struct copse_memory_shard *s, uint64_t most)
{
    const struct copse_memory_use use = copse__memory_use(all, s->replica);
    struct copse_value_memory m;
    char needs[NUMBER], budget[NUMBER];
    if (copse__memory_plan_recomputed(all, s, 0, &m) != COPSE_OK)
        return;
    if (most == UINT64_MAX || m.bytes > most)
        memory_advice_add(a, "; with recomputation (memory_budget, --memory) it needs %s",
                          memory_advice_number(m.bytes, needs));
    else if (m.bytes <= most / use.sharers)
        memory_advice_add(a, "; memory_budget (--memory %s) recomputes, with at least %s",
                          memory_advice_option(use.others + most, budget),
                          memory_advice_number(m.bytes, needs));
}

/* Products of bf16 need no scaling of the loss. */
static void add_precision(struct advice *a, struct copse_step_recordings *all,
                          const struct copse_memory_shard *s, uint64_t most)
{
    struct copse_value_memory m;
    char needs[NUMBER];
    if (all->params->precision != COPSE_F32)
        return;
    all->params->precision = COPSE_BF16;
    const copse_status planned = copse__memory_plan_plain(all, s, &m);
    all->params->precision = COPSE_F32;
    if (planned == COPSE_OK && m.bytes <= most)
        memory_advice_add(a, "; precision bf16 (--precision) needs %s",
                          memory_advice_number(m.bytes, needs));
}

static copse_status memory_advice_advise(struct copse_step_recordings *all,
                                         const struct copse_memory_shard *s)
{
    copse_device *dev = all->strategy->replicas[s->replica].dev;
    const struct copse_memory_use use = copse__memory_use(all, s->replica);
    const uint64_t left = copse__memory_free(dev, &use);
    struct copse_value_memory m;
    struct advice a = { .length = 0 };
    char needs[NUMBER], has[NUMBER], before[1024];
    snprintf(before, sizeof before, "%s", copse_last_error());
    if (copse__memory_plan_plain(all, s, &m) != COPSE_OK)
        return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY, "%s", before);
    copse__log(&all->strategy->ctx->base.log, COPSE_LOG_DEBUG, "trainer: %s", before);
    const bool is_known = left > 0 && left < m.bytes;
    const uint64_t most = is_known ? left : m.bytes - 1;
    memory_advice_add(&a, "%s: the values of a step with a batch of %zu need %s, ", dev->info.id,
                      s->batch->count, memory_advice_number(m.bytes, needs));
    memory_advice_add(&a, is_known ? "%s are free" : "more than the device has free",
                      memory_advice_number(left, has));
    add_batch(&a, all, s, most);
    add_recomputation(&a, all, s, is_known ? most : UINT64_MAX);
    add_precision(&a, all, s, most);
    return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY, "%s", a.text);
}

copse_status copse__memory_advise(struct copse_step_recordings *all,
                                  const struct copse_memory_shard *s, copse_status why)
{
    return why == COPSE_ERR_NO_DEVICE_MEMORY && all->params->memory_budget == 0 && s->examples > 0
               ? memory_advice_advise(all, s)
               : why;
}
