/* SPDX-License-Identifier: MIT */
/* Matrix products and copies on one device. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/device/function.h"
#include "copse/device/queue.h"

#include "tools/bench/bench.h"

/* A call longer than this ends a series, because the next larger size would take minutes. */
static const double MOST_SECONDS = 2.0;

/* ---- matrix products ---- */

static copse_status run_product(void *user, unsigned count)
{
    copse_function *f = user;
    for (unsigned i = 0; i < count; i++)
        COPSE_TRY(copse_function_run(f));
    return COPSE_OK;
}

static copse_status make_product(const struct bench *b, copse_device *dev, uint32_t n,
                                 copse_graph *g, copse_function **out)
{
    float *values = malloc((size_t)n * n * sizeof *values);
    copse_status s =
        values ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory to measure with");
    if (s != COPSE_OK)
        return s;
    for (size_t i = 0; i < (size_t)n * n; i++)
        values[i] = (float)(i % 17) - 8.0f;
    copse_tensor *x = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(n, n));
    copse_tensor *y = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(n, n));
    copse_tensor *product = copse_matmul(g, x, y, false, false);
    COPSE_TRY_OR(done, s,
                 copse_function_create(dev,
                                       &(struct copse_function_params){
                                           .graph = g,
                                           .outputs = &product,
                                           .output_count = 1,
                                           .kernels = b->settings.kernels,
                                       },
                                       out));
    COPSE_TRY_OR(done, s, copse_function_write(*out, x, values));
    COPSE_TRY_OR(done, s, copse_function_write(*out, y, values));
done:
    free(values);
    return s;
}

static copse_status time_product(const struct bench *b, copse_device *dev, uint32_t n,
                                 struct timing *t)
{
    copse_graph *g = NULL;
    copse_function *f = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_graph_create(b->ctx, &g));
    COPSE_TRY_OR(done, s, make_product(b, dev, n, g, &f));
    COPSE_TRY_OR(
        done, s,
        bench_time_queue(run_product, f, copse_function_queue(f), 0.005, bench_budget(b), t));
done:
    copse_function_release(&f);
    copse_graph_release(&g);
    return s;
}

static copse_status bench_device_products(struct bench *b, copse_device *dev)
{
    static const uint32_t all[] = { 256, 512, 1024, 2048 }, quick[] = { 256, 1024 };
    const uint32_t *sizes = b->settings.is_quick ? quick : all;
    const size_t count = b->settings.is_quick ? 2 : 4;
    const struct copse_device_info *info = copse_device_describe(dev);
    const bool is_cpu = bench_is_cpu(info);
    double last = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double flops = 2.0 * sizes[i] * sizes[i] * sizes[i];
        struct figure f = { .device = info->id, .what = "matmul" };
        struct timing t;
        snprintf(f.size, sizeof f.size, "%u", sizes[i]);
        if (!bench_wants(b, &f))
            continue;
        if (last * flops > MOST_SECONDS) {
            report_skipped(b->settings.is_json, info->id, "larger products",
                           "each would take longer than 2 s");
            break;
        }
        if (is_cpu)
            limits_again(&b->limits);
        COPSE_TRY(time_product(b, dev, sizes[i], &t));
        last = t.best / flops;
        f.best = flops / t.best;
        f.median = flops / t.median;
        f.device_best = t.device > 0.0 ? flops / t.device : 0.0;
        f.samples = t.samples;
        f.limit = is_cpu ? b->limits.multiply_add : 0.0;
        f.peer = is_cpu && b->has_peer ? peer_matmul(sizes[i], bench_budget(b) / 2) : 0.0;
        report_figure(b->settings.is_json, &f);
    }
    return COPSE_OK;
}

/* ---- copies ---- */

struct copies {
    copse_queue *queue;
    copse_buffer *from, *to;
    size_t bytes;
};

static copse_status run_copies(void *user, unsigned count)
{
    const struct copies *c = user;
    for (unsigned i = 0; i < count; i++)
        COPSE_TRY(copse_queue_copy(c->queue, c->from, 0, c->to, 0, c->bytes));
    return COPSE_OK;
}

static copse_status time_copy(const struct bench *b, copse_device *dev, size_t bytes,
                              struct timing *t)
{
    struct copies c = { .bytes = bytes };
    copse_status s;
    COPSE_TRY_OR(done, s, copse_queue_create(dev, &c.queue));
    COPSE_TRY_OR(done, s,
                 copse_buffer_create(dev, &(struct copse_buffer_params){ .size = bytes }, &c.from));
    COPSE_TRY_OR(done, s,
                 copse_buffer_create(dev, &(struct copse_buffer_params){ .size = bytes }, &c.to));
    COPSE_TRY_OR(done, s, copse_queue_fill(c.queue, c.from, 0, bytes, 1));
    COPSE_TRY_OR(done, s, bench_time_queue(run_copies, &c, c.queue, 0.005, bench_budget(b), t));
done:
    copse_buffer_release(&c.to);
    copse_buffer_release(&c.from);
    copse_queue_release(&c.queue);
    return s;
}

static copse_status bench_device_copies(struct bench *b, copse_device *dev, double *rate)
{
    static const size_t all[] = { 1, 16, 64 }, quick[] = { 16 };
    const size_t *sizes = b->settings.is_quick ? quick : all;
    const size_t count = b->settings.is_quick ? 1 : 3;
    const struct copse_device_info *info = copse_device_describe(dev);
    *rate = 0.0;
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = sizes[i] << 20;
        struct figure f = { .device = info->id, .what = "copy" };
        struct timing t;
        if (bytes > info->limits.max_buffer_bytes)
            continue;
        snprintf(f.size, sizeof f.size, "%zu MiB", sizes[i]);
        if (!bench_wants(b, &f))
            continue;
        COPSE_TRY(time_copy(b, dev, bytes, &t));
        f.best = 2.0 * (double)bytes / t.best;
        f.median = 2.0 * (double)bytes / t.median;
        f.device_best = t.device > 0.0 ? 2.0 * (double)bytes / t.device : 0.0;
        f.samples = t.samples;
        f.limit = bench_is_cpu(info) ? limits_copy(b->limits.threads, bytes) : 0.0;
        report_figure(b->settings.is_json, &f);
        *rate = f.best;
    }
    return COPSE_OK;
}

copse_status bench_device(struct bench *b, const struct copse_device_info *info, double *copy_rate)
{
    copse_device *dev = NULL;
    copse_status s;
    *copy_rate = 0.0;
    COPSE_TRY_OR(done, s, copse_device_open(b->ctx, info->id, NULL, &dev));
    COPSE_TRY_OR(done, s, bench_device_products(b, dev));
    COPSE_TRY_OR(done, s, bench_device_copies(b, dev, copy_rate));
done:
    copse_device_release(&dev);
    return s;
}
