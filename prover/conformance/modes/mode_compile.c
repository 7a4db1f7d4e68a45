/* SPDX-License-Identifier: MIT */
/* Mode compile: each kernel compiled once, as its first form launches it, without the kernel cache.
   A driver may have a cache of its own, and may compile a part in the first launch. It launches
   nothing. A kernel that does not compile fails; one in which the driver dies is blocked. */
#include <stdio.h>

#include "prover/conformance/launch/launch.h"
#include "prover/conformance/modes/modes.h"

struct compiled {
    const struct copse_launch_form *form;
    copse_device *dev; /* opened for the mode: it has compiled nothing */
};

/* ---- without the kernel cache ---- */

static void cache_forget(void *user, const char *key,
                         void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    (void)user, (void)key, (void)take, (void)to;
}

static void cache_ignore(void *user, const char *key, const void *bytes, size_t size)
{
    (void)user, (void)key, (void)bytes, (void)size;
}

static copse_status compile_cold(struct copse_conform_run *r, void *user,
                                 struct copse_conform_outcome *out)
{
    struct copse_cache_params *cache = &r->ctx->base.cache;
    const struct copse_cache_params kept = *cache;
    const struct compiled *c = user;
    const struct copse_launch_form *f = c->form;
    int32_t spec[COPSE_MAX_SPECS];
    struct copse_kernel *k;
    memcpy(spec, f->spec, sizeof spec);
    if (f->is_stream) {
        spec[0] = 32; /* as update rules and reductions launch their kernels */
        spec[1] = c->dev->limits->has_wide_vectors;
    }
    cache->get = cache_forget;
    cache->put = cache_ignore;
    const uint64_t start = copse__now_ns();
    const copse_status s = copse__kernel_get(c->dev, f->kernel, spec, &k);
    snprintf(out->text, sizeof out->text, "%.3g ms", (double)(copse__now_ns() - start) * 1e-6);
    *cache = kept;
    return s;
}

/* ---- the mode ---- */

static bool is_first_form(const struct copse_launch_list *list, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (list->forms[i].kernel == list->forms[at].kernel)
            return false;
    return true;
}

/* The forms of a kernel are in one list. */
static void compile_list(struct copse_conform_run *r, const struct copse_launch_list *list,
                         copse_device *dev)
{
    for (size_t i = 0; i < list->count; i++) {
        struct compiled c = { .form = &list->forms[i], .dev = dev };
        const char *kernel = copse_kernel_table[c.form->kernel].name;
        if (is_first_form(list, i))
            copse__conform_one(
                r, &(struct copse_conform_case){ "compile", kernel, "without a cache", kernel },
                compile_cold, &c);
    }
}

copse_status copse__conform_compile(struct copse_conform_run *r)
{
    copse_device *dev = NULL;
    if (!r->is_listing) {
        COPSE_TRY(copse_device_open(r->ctx, r->dev->info.id, NULL, &dev));
        dev->tries_blocked = true;
    }
    for (size_t i = 0; copse_launch_lists[i]; i++)
        compile_list(r, copse_launch_lists[i], dev);
    copse_device_release(&dev);
    return COPSE_OK;
}
