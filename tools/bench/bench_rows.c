/* SPDX-License-Identifier: MIT */
/* Functions of rows and of elements on one device: softmax, the cross-entropy, norms, activations,
   and their gradients. Their limit is a copy of an array as long as the matrix. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/device/function.h"
#include "copse/ops.h"
#include "copse/ops/norm.h"

#include "tools/bench/bench.h"

/* The operands that a graph may use. */
struct operands {
    copse_tensor *x, *dy, *labels, *scale, *offset;
};

typedef copse_tensor *build_fn(copse_graph *g, const struct operands *in);

static copse_tensor *build_softmax(copse_graph *g, const struct operands *in)
{
    return copse_softmax(g, in->x);
}

static copse_tensor *build_cross_entropy(copse_graph *g, const struct operands *in)
{
    return copse_sparse_cross_entropy(g, in->x, in->labels, COPSE_MEAN);
}

static copse_tensor *build_layer_norm(copse_graph *g, const struct operands *in)
{
    return copse_layer_norm(g, in->x, in->scale, in->offset, 1e-5f);
}

static copse_tensor *build_rms_norm(copse_graph *g, const struct operands *in)
{
    return copse_rms_norm(g, in->x, in->scale, 1e-5f);
}

static copse_tensor *build_gelu(copse_graph *g, const struct operands *in)
{
    return copse_gelu(g, in->x);
}

static copse_tensor *build_silu(copse_graph *g, const struct operands *in)
{
    return copse_silu(g, in->x);
}

/* The matrix is one example whose rows are its places: statistics of columns, as those of a batch
   norm. */
static copse_tensor *build_instance_norm(copse_graph *g, const struct operands *in)
{
    const copse_shape shape = copse_tensor_shape(in->x);
    copse_tensor *x = copse_reshape(g, in->x, COPSE_SHAPE(1, shape.dims[0], shape.dims[1]));
    x = copse_instance_norm(g, x, in->scale, in->offset, 1e-5f);
    return copse_reshape(g, x, shape);
}

static copse_tensor *build_dropout(copse_graph *g, const struct operands *in)
{
    return copse_dropout(g, in->x, 0.25f, true);
}

/* `matrices` that must be read and written, each once. */
static const struct row {
    const char *name;
    build_fn *build;
    bool is_gradient, has_scalar; /* a scalar result has the derivative 1 */
    double matrices;
} rows[] = {
    { "softmax", build_softmax, false, false, 2 },
    { "softmax and gradient", build_softmax, true, false, 5 },
    { "cross-entropy", build_cross_entropy, false, true, 1 },
    { "cross-entropy and gradient", build_cross_entropy, true, true, 3 },
    { "layer norm", build_layer_norm, false, false, 2 },
    { "layer norm gradient", build_layer_norm, true, false, 3 },
    { "RMS norm", build_rms_norm, false, false, 2 },
    { "RMS norm gradient", build_rms_norm, true, false, 3 },
    { "instance norm", build_instance_norm, false, false, 2 },
    { "instance norm and gradient", build_instance_norm, true, false, 3 },
    { "dropout", build_dropout, false, false, 2 },
    { "gelu", build_gelu, false, false, 2 },
    { "gelu gradient", build_gelu, true, false, 3 },
    { "silu", build_silu, false, false, 2 },
    { "silu gradient", build_silu, true, false, 3 },
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static copse_status bench_rows_run(void *user, unsigned count)
{
    copse_function *f = user;
    for (unsigned i = 0; i < count; i++)
        COPSE_TRY(copse_function_run(f));
    return COPSE_OK;
}

static copse_status write_all(copse_function *f, const struct operands *in, uint32_t height,
                              uint32_t width)
{
    const size_t n = (size_t)height * width;
    float *values = malloc(n * sizeof *values);
    int32_t *labels = calloc(height, sizeof *labels);
    copse_status s = values && labels
                         ? COPSE_OK
                         : session_set_error(COPSE_ERR_NO_MEMORY, "no memory to measure with");
    for (size_t i = 0; s == COPSE_OK && i < n; i++)
        values[i] = (float)(i % 97) * 0.0625f - 3.0f;
    const copse_tensor *const floats[] = { in->x, in->dy, in->scale, in->offset };
    for (size_t i = 0; s == COPSE_OK && i < sizeof floats / sizeof *floats; i++)
        s = copse_function_write(f, floats[i], values);
    if (s == COPSE_OK)
        s = copse_function_write(f, in->labels, labels);
    free(values);
    free(labels);
    return s;
}

static copse_tensor *bench_rows_make(copse_graph *g, const struct row *row, uint32_t height,
                                     uint32_t width, struct operands *in)
{
    in->x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(height, width));
    in->dy = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(height, width));
    in->labels = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(height));
    in->scale = copse_graph_input(g, "scale", COPSE_F32, COPSE_SHAPE(width));
    in->offset = copse_graph_input(g, "offset", COPSE_F32, COPSE_SHAPE(width));
    copse_tensor *dx, *y = row->build(g, in);
    if (!row->is_gradient)
        return y;
    copse_gradients(g, y, row->has_scalar ? NULL : in->dy, &in->x, 1, &dx);
    return dx;
}

static copse_status time_row(const struct bench *b, copse_device *dev, const struct row *row,
                             uint32_t height, uint32_t width, struct timing *t)
{
    struct operands in;
    copse_graph *g = NULL;
    copse_function *f = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_graph_create(b->ctx, &g));
    copse_tensor *y = bench_rows_make(g, row, height, width, &in);
    COPSE_TRY_OR(done, s, copse_graph_status(g));
    const struct copse_function_params p = {
        .graph = g, .outputs = &y, .output_count = 1, .kernels = b->settings.kernels
    };
    COPSE_TRY_OR(done, s, copse_function_create(dev, &p, &f));
    COPSE_TRY_OR(done, s, write_all(f, &in, height, width));
    COPSE_TRY_OR(done, s,
                 bench_time_queue(bench_rows_run, f, copse_function_queue(f), 0.005,
                                  bench_budget(b) / 3, t));
done:
    copse_function_release(&f);
    copse_graph_release(&g);
    return s;
}

copse_status bench_rows(struct bench *b, const struct copse_device_info *info)
{
    static const uint32_t sizes[][2] = { { 4096, 1000 }, { 128, 10 } };
    copse_device *dev = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_device_open(b->ctx, info->id, NULL, &dev));
    for (size_t z = 0; z < 2; z++) {
        const uint32_t height = sizes[z][0], width = sizes[z][1];
        if (info->kind == COPSE_DEVICE_REFERENCE && z == 0)
            continue; /* minutes */
        const double bytes = 4.0 * height * width;
        const double limit =
            bench_is_cpu(info) ? limits_copy(b->limits.threads, (size_t)bytes) : 0.0;
        for (size_t i = 0; i < ROW_COUNT; i++) {
            struct figure f = { .device = info->id, .what = "row", .limit = limit };
            struct timing t;
            snprintf(f.size, sizeof f.size, "%s %u x %u", rows[i].name, (unsigned)height,
                     (unsigned)width);
            if (!bench_wants(b, &f))
                continue;
            COPSE_TRY_OR(done, s, time_row(b, dev, &rows[i], height, width, &t));
            f.best = rows[i].matrices * bytes / t.best;
            f.median = rows[i].matrices * bytes / t.median;
            f.device_best = t.device > 0.0 ? rows[i].matrices * bytes / t.device : 0.0;
            f.samples = t.samples;
            report_figure(b->settings.is_json, &f);
        }
    }
done:
    copse_device_release(&dev);
    return s;
}
