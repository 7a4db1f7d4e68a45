/* SPDX-License-Identifier: MIT */
/* Kernels as texts, for other processes that compile them. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/copse.h"
#include "core/device/compile_apart.h"

/* "name 1 0 0 0 0 0": the specialisation follows the name; then " untested" where this context makes
   no self-tests, and the other one must make none. */
#define UNTESTED " untested"
enum { TEXT_BYTES = 48 + COPSE_MAX_SPECS * 12 + sizeof UNTESTED };

copse_status copse_context_compile_with(copse_context *ctx, copse_compile_fn *fn, void *user)
{
    if (!ctx)
        return copse_fail(COPSE_ERR_ARGUMENT, "context: it is NULL");
    ctx->compile = fn;
    ctx->compile_user = user;
    return COPSE_OK;
}

/* ---- the process that waits ---- */

struct apart {
    struct copse_compile_work work;
    const copse_device *dev;
    size_t done;
};

static void note_done(const struct copse_compile_work *work)
{
    struct apart *a = work->self;
    if (a->done < work->count)
        a->done++;
    copse__kernel_report(a->dev, "", a->done, work->count);
}

static void write_text(const copse_device *dev, const struct copse_kernel_want *want, char *to)
{
    int n = snprintf(to, TEXT_BYTES, "%s", copse__kernel_row(dev, want->id)->name);
    for (size_t i = 0; i < COPSE_MAX_SPECS; i++)
        n += snprintf(to + n, TEXT_BYTES - (size_t)n, " %d", (int)want->spec[i]);
    if (atomic_load_explicit(&dev->ctx->self_tests_off, memory_order_relaxed) > 0)
        snprintf(to + n, TEXT_BYTES - (size_t)n, "%s", UNTESTED);
}

void copse__compile_apart(copse_device *dev, const struct copse_kernel_want *const *list,
                          size_t count)
{
    struct copse_mem *mem = &dev->base->mem;
    char *texts = copse__alloc(mem, count, TEXT_BYTES);
    const char **at = copse__alloc(mem, count, sizeof *at);
    struct apart a = { .work = { .device = dev->info.id, .kernels = at, .done = note_done },
                       .dev = dev };
    a.work.self = &a;
    for (size_t i = 0; texts && at && i < count; i++) {
        if (list[i]->id >= COPSE_KERNEL_COUNT) /* other processes do not know it */
            continue;
        at[a.work.count] = texts + a.work.count * TEXT_BYTES;
        write_text(dev, list[i], texts + a.work.count++ * TEXT_BYTES);
    }
    if (a.work.count > 0) {
        copse__kernel_report(dev, "", 0, a.work.count);
        dev->ctx->compile(dev->ctx->compile_user, &a.work);
        if (a.done < a.work.count)
            copse__kernel_report(dev, "", a.work.count, a.work.count);
    }
    copse__free(mem, (void *)at);
    copse__free(mem, texts);
}

/* ---- the process that compiles ---- */

static bool find_kernel(const char *text, size_t length, enum copse_kernel_id *out)
{
    for (uint32_t id = 0; id < COPSE_KERNEL_COUNT; id++) {
        const struct copse_kernel_row *row = copse__row(id);
        if (strlen(row->name) == length && memcmp(row->name, text, length) == 0) {
            *out = (enum copse_kernel_id)id;
            return true;
        }
    }
    return false;
}

static bool read_text(const char *text, struct copse_kernel_want *out, bool *is_tested)
{
    const size_t length = strcspn(text, " ");
    const char *p = text + length;
    if (!find_kernel(text, length, &out->id))
        return false;
    for (size_t i = 0; i < COPSE_MAX_SPECS; i++) {
        char *end;
        const long long x = *p == ' ' ? strtoll(p, &end, 10) : INT64_MAX;
        if (x < INT32_MIN || x > INT32_MAX || end == p)
            return false;
        out->spec[i] = (int32_t)x;
        p = end;
    }
    *is_tested = strcmp(p, UNTESTED) != 0;
    return *p == '\0' || !*is_tested;
}

copse_status copse_device_compile(copse_device *dev, const char *kernel)
{
    struct copse_kernel_want want;
    struct copse_kernel *k;
    bool is_tested;
    COPSE_TRY(copse_need("kernel", dev, kernel));
    if (!read_text(kernel, &want, &is_tested))
        return copse_fail(COPSE_ERR_ARGUMENT, "kernel: '%.64s' names no kernel of version %s",
                          kernel, copse_version());
    atomic_fetch_add(&dev->ctx->self_tests_off, is_tested ? 0u : 1u);
    const copse_status s = copse__kernel_make(dev, want.id, want.spec, &k);
    atomic_fetch_sub(&dev->ctx->self_tests_off, is_tested ? 0u : 1u);
    return s;
}
