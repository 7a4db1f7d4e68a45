/* SPDX-License-Identifier: MIT */
/* Kernels that no cache has, compiled by several threads at once, with reports of progress.

   A driver for CPUs compiles one kernel at a time in each of its contexts. There each thread opens
   the device again, compiles and tests kernels on it, and closes it; the device itself then loads
   the binaries from the kernel cache. Drivers for GPUs compile in parallel on one device. PoCL
   compiles one kernel at a time in a process: other processes do it where the application starts
   them; otherwise one thread does it, on the device itself. */
#include "core/device/compile_apart.h"

#define MAX_THREADS 4
/* Fewer kernels are compiled before another process has started. */
#define FEWEST_APART 4

struct job {
    copse_device *dev;
    const struct copse_kernel_want *const *list;
    size_t count;
    bool is_apart; /* each thread opens the device again */
    atomic_size_t next;
    copse_mutex lock; /* guards what follows */
    copse_cond changed;
    size_t done;
    uint32_t running;
};

/* ---- threads ---- */

/* The same device in a context of its own; NULL if it has other limits or cannot be opened. */
static copse_device *open_again(copse_device *dev)
{
    const struct copse_device_params params = { .part = dev->part, .parts = dev->parts };
    struct copse_place place;
    copse_device *again = NULL;
    if (copse__place_find(dev->ctx, dev->info.id, &place) != COPSE_OK ||
        copse__device_open_at(dev->ctx, &place, &params, &again) != COPSE_OK)
        return NULL;
    if (memcmp(again->limits, dev->limits, sizeof *dev->limits) != 0)
        copse_device_release(&again);
    return again;
}

/* Failures are ignored: the kernel is compiled again when it is used, and then fails with an
   error. */
static void compile_some(void *arg)
{
    struct job *j = arg;
    copse_device *dev = j->is_apart ? open_again(j->dev) : copse_device_retain(j->dev);
    for (size_t i; dev && (i = atomic_fetch_add(&j->next, 1)) < j->count;) {
        struct copse_kernel *k;
        const copse_status s = copse__kernel_make(dev, j->list[i]->id, j->list[i]->spec, &k);
        copse__mutex_lock(&j->lock);
        j->done++;
        copse__cond_signal_all(&j->changed);
        copse__mutex_unlock(&j->lock);
        if (s == COPSE_ERR_DEVICE_LOST)
            break;
    }
    copse_device_release(&dev);
    copse__mutex_lock(&j->lock);
    j->running--;
    copse__cond_signal_all(&j->changed);
    copse__mutex_unlock(&j->lock);
}

/* Report while threads run. The callback is not called under the lock. */
static void compile_watch(struct job *j)
{
    size_t shown = 0;
    copse__mutex_lock(&j->lock);
    while (j->running > 0 || shown < j->done) {
        const size_t done = j->done;
        if (done == shown) {
            copse__cond_wait(&j->changed, &j->lock, UINT64_MAX);
            continue;
        }
        copse__mutex_unlock(&j->lock);
        for (; shown < done; shown++)
            copse__kernel_report(j->dev, copse__kernel_row(j->dev, j->list[shown]->id)->name,
                                 shown + 1, j->count);
        copse__mutex_lock(&j->lock);
    }
    copse__mutex_unlock(&j->lock);
    if (shown < j->count) /* the caller compiles the rest */
        copse__kernel_report(j->dev, "", j->count, j->count);
}

static void compile_run(struct job *j)
{
    copse_thread threads[MAX_THREADS];
    uint32_t most = COPSE_MIN(copse__cpu_count(), MAX_THREADS), started = 0;
    most = j->dev->compiles_serially ? 1 : (uint32_t)COPSE_MIN(most, j->count);
    copse__kernel_report(j->dev, "", 0, j->count);
    j->running = most;
    while (started < most && copse__thread_start(&threads[started], compile_some, j) == COPSE_OK)
        started++;
    copse__mutex_lock(&j->lock);
    j->running -= most - started;
    copse__mutex_unlock(&j->lock);
    compile_watch(j);
    for (uint32_t i = 0; i < started; i++)
        copse__thread_join(&threads[i]);
}

/* ---- the kernels of a program ---- */

/* Whether the device can be opened again with the same result. */
static bool is_plain(const copse_device *dev)
{
    return !dev->foreign && !dev->overrides && !dev->tries_blocked;
}

static size_t find_cold(copse_device *dev, const struct copse_kernel_want *list, size_t count,
                        const struct copse_kernel_want **cold)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (copse__kernel_is_cold(dev, list[i].id, list[i].spec))
            cold[n++] = &list[i];
    return n;
}

static void compile_here(struct job *j)
{
    if (copse__mutex_init(&j->lock) != COPSE_OK)
        return;
    if (copse__cond_init(&j->changed) == COPSE_OK) {
        compile_run(j);
        copse__cond_fini(&j->changed);
    }
    copse__mutex_fini(&j->lock);
}

/* Without a cache that is kept, neither a second context nor a process could pass its binaries on.
   A process opens the whole device, and its binaries do not serve a part of it. */
void copse__kernels_compile(copse_device *dev, const struct copse_kernel_want *list, size_t count)
{
    const bool is_apart = dev->info.kind == COPSE_DEVICE_CPU && !dev->compiles_serially;
    if (!is_plain(dev) || (is_apart && !dev->ctx->has_kept_cache))
        return;
    const struct copse_kernel_want **cold = copse__alloc(&dev->base->mem, count, sizeof(void *));
    struct job j = { .dev = dev, .list = cold, .is_apart = is_apart };
    if (cold)
        j.count = find_cold(dev, list, count, cold);
    if (j.count >= FEWEST_APART && dev->compiles_serially && dev->parts <= 1 && !dev->is_portable &&
        dev->ctx->compile && dev->ctx->has_kept_cache) {
        copse__compile_apart(dev, cold, j.count);
        j.count = find_cold(dev, list, count, cold);
    }
    if (j.count > 1)
        compile_here(&j);
    copse__free(&dev->base->mem, cold);
}
