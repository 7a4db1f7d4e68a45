/* SPDX-License-Identifier: MIT */
/* Mode ceilings: what the device reaches at most, as the measure of all other speeds: copies, f32
   products, launches, waits, transfers. It has no verdict: a case that runs passes. Launches are
   short and the memory is a small share of the device's, so that a screen on it keeps working. */
#include <stdio.h>

#include "copse/matmul.h"
#include "core/base/random.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/ops/elementwise/unary.h"
#include "prover/conformance/modes/modes.h"

#define ENOUGH       0.06 /* seconds of measuring */
#define LONGEST      0.1  /* seconds of a launch that is measured */
#define MEMORY_SHARE 8    /* the buffers of a case take at most this part of the memory */
#define LINKS        256  /* launches of a chain */
#define TRIES        7

struct ceiling {
    copse_queue *queue;
    copse_buffer *from, *to;
    void *host;
    size_t bytes;
    uint32_t side;       /* of a product */
    const char *kernels; /* forced */
    double per_flop;     /* seconds, of the last product; 0 = none */
};

/* ---- buffers ---- */

static void ceiling_close(struct copse_conform_run *r, struct ceiling *c)
{
    copse_queue_release(&c->queue);
    copse_buffer_release(&c->from);
    copse_buffer_release(&c->to);
    copse__free(&r->ctx->base.mem, c->host);
    c->host = NULL;
}

static copse_status ceiling_open(struct copse_conform_run *r, struct ceiling *c)
{
    const struct copse_buffer_params params = { .size = c->bytes };
    COPSE_TRY(copse_queue_create(r->dev, &c->queue));
    COPSE_TRY(copse_buffer_create(r->dev, &params, &c->from));
    COPSE_TRY(copse_buffer_create(r->dev, &params, &c->to));
    COPSE_TRY(copse_queue_fill(c->queue, c->from, 0, c->bytes, 0x3f000000u)); /* 0.5 */
    return copse_queue_fill(c->queue, c->to, 0, c->bytes, 0x3f000000u);
}

/* Whether the device has room for two buffers of the size; SKIP with the reason if not. */
static bool has_room(const struct copse_conform_run *r, const struct ceiling *c,
                     struct copse_conform_outcome *out)
{
    const struct copse_device_info *info = &r->dev->info;
    const uint64_t most = info->memory_bytes ? info->memory_bytes / MEMORY_SHARE : UINT64_MAX;
    if (c->bytes <= r->dev->limits->max_buffer_bytes && 2 * (uint64_t)c->bytes <= most)
        return true;
    copse__conform_set(out, COPSE_VERDICT_SKIP,
                       "two buffers of this size are more than an eighth of the memory, or a "
                       "buffer is larger than the device allows");
    return false;
}

static double seconds_since(uint64_t start)
{
    return (double)(copse__now_ns() - start) * 1e-9;
}

/* ---- copies ---- */

static copse_status copy_time(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    struct ceiling *c = user;
    double seconds;
    if (!has_room(r, c, out))
        return COPSE_OK;
    copse_status s = ceiling_open(r, c);
    if (s == COPSE_OK) {
        const struct copse_timed t = {
            .q = c->queue,
            .c = { .kind = COPSE_COMMAND_COPY,
                   .bindings = { { c->from, 0, c->bytes }, { c->to, 0, c->bytes } },
                   .binding_count = 2 },
        };
        s = copse__conform_time(&t, ENOUGH, &seconds);
    }
    ceiling_close(r, c);
    COPSE_TRY(s);
    out->result.gbytes = 2e-9 * (double)c->bytes / seconds;
    snprintf(out->text, sizeof out->text, "%.3g GB/s", out->result.gbytes);
    return COPSE_OK;
}

/* ---- products ---- */

static copse_status product_write(struct copse_conform_run *r, copse_function *f, copse_tensor *x,
                                  uint32_t index)
{
    const size_t n = (size_t)copse__elements(x->shape);
    struct copse_stream random;
    float *values;
    COPSE_TRY(copse__conform_memory(r, n, sizeof *values, &values));
    copse__stream_init(&random, 1, index);
    for (size_t i = 0; i < n; i++)
        values[i] = copse__stream_unit(&random) - 0.5f;
    const copse_status s = copse_function_write(f, x, values);
    copse__free(&r->ctx->base.mem, values);
    return s;
}

static copse_status product_run(struct copse_conform_run *r, const struct ceiling *c,
                                double *seconds)
{
    struct copse_timed t = { .f = NULL };
    copse_tensor *in[2], *y;
    copse_graph *g = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_graph_create(r->ctx, &g));
    for (size_t i = 0; i < 2; i++)
        in[i] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(c->side, c->side));
    y = copse_matmul(g, in[0], in[1], false, false);
    COPSE_TRY_OR(done, s, copse_graph_status(g));
    const struct copse_function_params params = {
        .graph = g, .outputs = &y, .output_count = 1, .kernels = c->kernels
    };
    COPSE_TRY_OR(done, s, copse_function_create(r->dev, &params, &t.f));
    for (size_t i = 0; i < 2; i++)
        COPSE_TRY_OR(done, s, product_write(r, t.f, in[i], (uint32_t)i));
    s = copse__conform_time(&t, ENOUGH, seconds);
done:
    copse_function_release(&t.f);
    copse_graph_release(&g);
    return s;
}

static copse_status product_time(struct copse_conform_run *r, void *user,
                                 struct copse_conform_outcome *out)
{
    struct ceiling *c = user;
    const double flops = 2.0 * c->side * c->side * c->side;
    double seconds;
    if (c->per_flop * flops > LONGEST) {
        copse__conform_set(out, COPSE_VERDICT_SKIP, "a launch would take longer than %g s",
                           LONGEST);
        return COPSE_OK;
    }
    COPSE_TRY(product_run(r, c, &seconds));
    c->per_flop = seconds / flops;
    out->result.gflops = 1e-9 * flops / seconds;
    snprintf(out->text, sizeof out->text, "%.3g GFLOP/s", out->result.gflops);
    return COPSE_OK;
}

/* Squares of one variant, from small to large. */
static void product_sizes(struct copse_conform_run *r, const char *kernels, const char *kernel)
{
    static const uint32_t sides[] = { 512, 1024, 2048, 4096 };
    struct ceiling c = { .kernels = kernels };
    char name[32];
    for (size_t i = 0; i < COPSE_COUNT(sides); i++) {
        c.side = sides[i];
        snprintf(name, sizeof name, "%u", (unsigned)sides[i]);
        copse__conform_one(r, &(struct copse_conform_case){ "ceilings", "product", name, kernel },
                           product_time, &c);
    }
}

static void product_variants(struct copse_conform_run *r)
{
    const struct copse_family *f = copse__family("matmul");
    char kernels[COPSE_CHOICES_TEXT];
    product_sizes(r, NULL, "");
    for (size_t v = 0; f && v < f->count; v++) {
        const char *kernel = copse__variant_kernel(&f->variants[v]);
        if (f->takes_operands && !f->takes_operands(&f->variants[v], COPSE_F32))
            continue;
        snprintf(kernels, sizeof kernels, "%s=%s", f->name, kernel);
        product_sizes(r, kernels, kernel);
    }
}

/* ---- launches ---- */

static copse_status launch_encode(struct copse_conform_run *r, const struct ceiling *c,
                                  bool is_back)
{
    const struct copse_binding a = { c->from, 0, COPSE_WORD_BYTES },
                               b = { c->to, 0, COPSE_WORD_BYTES };
    struct copse_command command;
    COPSE_TRY(copse__negate_command(r->dev, is_back ? b : a, is_back ? a : b, 1, &command));
    return copse__queue_encode(c->queue, &command);
}

/* `links` launches and one wait. Each launch reads what the launch before it wrote. */
static copse_status launch_chain(struct copse_conform_run *r, const struct ceiling *c, int links,
                                 double *best)
{
    COPSE_TRY(launch_encode(r, c, false)); /* compiled */
    COPSE_TRY(copse_queue_finish(c->queue));
    for (int i = 0; i < TRIES; i++) {
        const uint64_t start = copse__now_ns();
        for (int k = 0; k < links; k++)
            COPSE_TRY(launch_encode(r, c, k % 2));
        COPSE_TRY(copse_queue_finish(c->queue));
        const double seconds = seconds_since(start);
        *best = i == 0 ? seconds : COPSE_MIN(*best, seconds);
    }
    return COPSE_OK;
}

static copse_status launch_time(struct copse_conform_run *r, struct copse_conform_outcome *out,
                                int links)
{
    struct ceiling c = { .bytes = COPSE_ALIGNMENT };
    double seconds = 0.0;
    copse_status s = ceiling_open(r, &c);
    if (s == COPSE_OK)
        s = launch_chain(r, &c, links, &seconds);
    ceiling_close(r, &c);
    snprintf(out->text, sizeof out->text, "%.4g us", 1e6 * seconds / links);
    return s;
}

static copse_status launch_one(struct copse_conform_run *r, void *user,
                               struct copse_conform_outcome *out)
{
    (void)user;
    return launch_time(r, out, 1);
}

static copse_status launch_many(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    (void)user;
    return launch_time(r, out, LINKS);
}

/* ---- transfers ---- */

static copse_status transfer_run(const struct ceiling *c, bool is_read, double *best)
{
    for (int i = 0; i <= TRIES; i++) { /* the first one pages in */
        const uint64_t start = copse__now_ns();
        COPSE_TRY(is_read ? copse_queue_read(c->queue, c->from, 0, c->host, c->bytes)
                          : copse_queue_write(c->queue, c->from, 0, c->host, c->bytes));
        COPSE_TRY(copse_queue_finish(c->queue));
        const double seconds = seconds_since(start);
        *best = i <= 1 ? seconds : COPSE_MIN(*best, seconds);
    }
    return COPSE_OK;
}

static copse_status transfer_time(struct copse_conform_run *r, struct ceiling *c, bool is_read,
                                  struct copse_conform_outcome *out)
{
    double seconds = 0.0;
    if (!has_room(r, c, out))
        return COPSE_OK;
    copse_status s = copse__conform_memory(r, c->bytes, 1, &c->host);
    if (s == COPSE_OK)
        s = ceiling_open(r, c);
    if (s == COPSE_OK)
        s = transfer_run(c, is_read, &seconds);
    ceiling_close(r, c);
    COPSE_TRY(s);
    out->result.gbytes = 1e-9 * (double)c->bytes / seconds;
    snprintf(out->text, sizeof out->text, "%.3g GB/s", out->result.gbytes);
    return COPSE_OK;
}

static copse_status transfer_write(struct copse_conform_run *r, void *user,
                                   struct copse_conform_outcome *out)
{
    return transfer_time(r, user, false, out);
}

static copse_status transfer_read(struct copse_conform_run *r, void *user,
                                  struct copse_conform_outcome *out)
{
    return transfer_time(r, user, true, out);
}

/* ---- the mode ---- */

static void ceilings_sizes(struct copse_conform_run *r, const char *op, const size_t *kib,
                           copse_conform_fn *run)
{
    char name[32];
    for (size_t i = 0; kib[i]; i++) {
        struct ceiling c = { .bytes = kib[i] << 10 };
        snprintf(name, sizeof name, kib[i] < 1024 ? "%zu KiB" : "%zu MiB",
                 kib[i] < 1024 ? kib[i] : kib[i] >> 10);
        copse__conform_one(r, &(struct copse_conform_case){ "ceilings", op, name, NULL }, run, &c);
    }
}

copse_status copse__conform_ceilings(struct copse_conform_run *r)
{
    static const size_t copies[] = { 1024, 16384, 65536, 262144, 0 },
                        transfers[] = { 4, 64, 1024, 16384, 65536, 0 };
    ceilings_sizes(r, "copy", copies, copy_time);
    product_variants(r);
    copse__conform_one(
        r, &(struct copse_conform_case){ "ceilings", "launch", "submit and wait", NULL },
        launch_one, NULL);
    copse__conform_one(
        r, &(struct copse_conform_case){ "ceilings", "launch", "each of a chain of 256", NULL },
        launch_many, NULL);
    ceilings_sizes(r, "write", transfers, transfer_write);
    ceilings_sizes(r, "read", transfers, transfer_read);
    return COPSE_OK;
}
