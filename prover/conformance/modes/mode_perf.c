/* SPDX-License-Identifier: MIT */
/* Mode perf: the speed of each op and variant in GB/s or GFLOP/s, compared with a copy on the same
   device just before. It has no verdict: a case that runs passes. */
#include <stdio.h>

#include "copse/device/function.h"
#include "core/base/random.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/rule/rule.h"
#include "prover/conformance/modes/modes.h"

#define SIDE ((uint32_t)2048) /* of the matrix that is copied for comparison: 16 MiB */
#define ALL  ((size_t)SIDE * SIDE)

static double mode_perf_enough(const struct copse_conform_run *r)
{
    return r->params->tier == COPSE_CONFORM_QUICK ? 0.05 : 0.4;
}

/* ---- cases ---- */

struct work {
    const struct copse_case *graph; /* or */
    const struct copse_optimizer_params *rule;
    double rule_bytes;
    const char *kernels;    /* forced */
    double *copy;           /* GB/s of a copy, 0 = not yet measured */
    copse_device **library; /* for a user kernel: a device with the library's kernel; or NULL */
};

static copse_status mode_perf_make(copse_queue *q, size_t bytes, copse_buffer **out)
{
    COPSE_TRY(copse_buffer_create(q->dev, &(struct copse_buffer_params){ .size = bytes }, out));
    return copse_queue_fill(q, *out, 0, bytes, 0x3f000000u); /* 0.5 */
}

/* Reads and writes count once each. */
static copse_status time_copy(struct copse_conform_run *r, double *rate)
{
    struct copse_timed t = { .f = NULL };
    copse_buffer *a = NULL, *b = NULL;
    double seconds = 0.0;
    copse_status s;
    if (*rate > 0.0)
        return COPSE_OK;
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &t.q));
    COPSE_TRY_OR(done, s, mode_perf_make(t.q, COPSE_WORD_BYTES * ALL, &a));
    COPSE_TRY_OR(done, s, mode_perf_make(t.q, COPSE_WORD_BYTES * ALL, &b));
    t.c = (struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                  .bindings = { { a, 0, COPSE_WORD_BYTES * ALL },
                                                { b, 0, COPSE_WORD_BYTES * ALL } },
                                  .binding_count = 2 };
    COPSE_TRY_OR(done, s, copse__conform_time(&t, mode_perf_enough(r), &seconds));
    *rate = 8e-9 * (double)ALL / seconds;
done:
    copse_buffer_release(&a);
    copse_buffer_release(&b);
    copse_queue_release(&t.q);
    return s;
}

static copse_status mode_perf_note(struct copse_conform_run *r, const struct work *w,
                                   double seconds, double bytes, double flops,
                                   struct copse_conform_outcome *out)
{
    out->result.gflops = flops * 1e-9 / seconds;
    out->result.gbytes = bytes * 1e-9 / seconds;
    if (bytes == 0.0) {
        snprintf(out->text, sizeof out->text, "%.3g GFLOP/s, %.3g ms", out->result.gflops,
                 seconds * 1e3);
        return COPSE_OK;
    }
    COPSE_TRY(time_copy(r, w->copy));
    snprintf(out->text, sizeof out->text, "%.3g GB/s, %.0f %% of a copy at %.3g GB/s",
             out->result.gbytes, 100.0 * out->result.gbytes / *w->copy, *w->copy);
    return COPSE_OK;
}

/* For a user kernel, measure the library's kernel directly after it. */
typedef copse_status time_fn(struct copse_conform_run *r, copse_device *dev, const struct work *w,
                             double *seconds);
static copse_status time_both(struct copse_conform_run *r, const struct work *w, time_fn *time,
                              double bytes, double flops, struct copse_conform_outcome *out)
{
    double seconds, library;
    COPSE_TRY(time(r, r->dev, w, &seconds));
    COPSE_TRY(mode_perf_note(r, w, seconds, bytes, flops, out));
    if (!r->params->own)
        return COPSE_OK;
    if (!*w->library)
        COPSE_TRY(copse_device_open(r->ctx, r->dev->info.id, NULL, w->library));
    COPSE_TRY(time(r, *w->library, w, &library));
    out->result.library_gflops = flops * 1e-9 / library;
    out->result.library_gbytes = bytes * 1e-9 / library;
    const size_t at = strlen(out->text);
    snprintf(out->text + at, sizeof out->text - at,
             "; the library's kernel %.3g %s, yours %.2f of it",
             (bytes == 0.0 ? flops : bytes) * 1e-9 / library, bytes == 0.0 ? "GFLOP/s" : "GB/s",
             library / seconds);
    return COPSE_OK;
}

static copse_status write_input(struct copse_conform_run *r, copse_function *f, copse_tensor *x,
                                uint32_t index)
{
    const size_t n = (size_t)copse__elements(x->shape);
    struct copse_stream random;
    const bool is_whole = copse__type(x->type)->computed == COPSE_I32;
    void *values;
    COPSE_TRY(copse__conform_memory(r, n, copse__type_bytes(x->type), &values));
    copse__stream_init(&random, 1, index);
    for (size_t i = 0; i < n; i++) {
        const float value = 0.1f + 0.9f * copse__stream_unit(&random);
        copse__type(x->type)->put(values, i, is_whole ? (double)(i % SIDE) : (double)value);
    }
    const copse_status s = copse_function_write(f, x, values);
    copse__free(&r->ctx->base.mem, values);
    return s;
}

static copse_status time_graph_on(struct copse_conform_run *r, copse_device *dev,
                                  const struct work *w, double *seconds)
{
    const struct copse_case *c = w->graph;
    struct copse_timed t = { .f = NULL };
    copse_tensor *in[COPSE_CASE_INPUTS] = { NULL }, *y;
    copse_graph *g = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_graph_create(r->ctx, &g));
    for (size_t i = 0; i < c->in_count; i++)
        in[i] = copse_graph_input(g, "x", c->in[i].type, c->in[i].shape);
    y = c->build(g, in, c->user);
    COPSE_TRY_OR(done, s, copse_graph_status(g));
    const struct copse_function_params params = {
        .graph = g, .outputs = &y, .output_count = 1, .kernels = w->kernels
    };
    COPSE_TRY_OR(done, s, copse_function_create(dev, &params, &t.f));
    for (size_t i = 0; i < c->in_count; i++)
        COPSE_TRY_OR(done, s, write_input(r, t.f, in[i], (uint32_t)i));
    s = copse__conform_time(&t, mode_perf_enough(r), seconds);
done:
    copse_function_release(&t.f);
    copse_graph_release(&g);
    return s;
}

static copse_status time_graph(struct copse_conform_run *r, void *user,
                               struct copse_conform_outcome *out)
{
    const struct work *w = user;
    return time_both(r, w, time_graph_on, w->graph->bytes, w->graph->flops, out);
}

static copse_status time_rule_on(struct copse_conform_run *r, copse_device *dev,
                                 const struct work *w, double *seconds)
{
    struct copse_timed t = { .f = NULL };
    copse_buffer *buffers[4] = { NULL };
    struct copse_binding at[4];
    struct copse_rule rule;
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    const size_t sizes[4] = { COPSE_WORD_BYTES * ALL, COPSE_WORD_BYTES * ALL, 8 * ALL,
                              sizeof words };
    copse_status s;
    COPSE_TRY_OR(done, s, copse__rule_init(w->rule, &rule));
    copse__rule_step(&rule, 1, words);
    COPSE_TRY_OR(done, s, copse_queue_create(dev, &t.q));
    for (int i = 0; i < 4; i++) {
        COPSE_TRY_OR(done, s, mode_perf_make(t.q, sizes[i], &buffers[i]));
        at[i] = (struct copse_binding){ buffers[i], 0, sizes[i] };
    }
    at[2].size = COPSE_WORD_BYTES * (size_t)copse__rule_words_of(&rule, ALL);
    COPSE_TRY_OR(done, s, copse_queue_write(t.q, buffers[3], 0, words, sizeof words));
    COPSE_TRY_OR(done, s,
                 copse__rule_command(&rule, dev, &at[0], &at[1], &at[2], &at[3], NULL, ALL, &t.c));
    s = copse__conform_time(&t, mode_perf_enough(r), seconds);
done:
    for (int i = 0; i < 4; i++)
        copse_buffer_release(&buffers[i]);
    copse_queue_release(&t.q);
    return s;
}

static copse_status time_rule(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    const struct work *w = user;
    return time_both(r, w, time_rule_on, w->rule_bytes * (double)ALL, 0.0, out);
}

static copse_status only_copy(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    const struct work *w = user;
    COPSE_TRY(time_copy(r, w->copy));
    out->result.gbytes = *w->copy;
    snprintf(out->text, sizeof out->text, "%.3g GB/s, reading and writing counted", *w->copy);
    return COPSE_OK;
}

/* A graph with the library's choice, and with each variant of its family. */
static void time_variants(struct copse_conform_run *r, struct work *w)
{
    const struct copse_case *c = w->graph;
    const struct copse_family *f = c->family ? copse__family(c->family) : NULL;
    char kernels[COPSE_CHOICES_TEXT];
    w->kernels = NULL;
    copse__conform_one(r, &(struct copse_conform_case){ "perf", c->op, c->name, "" }, time_graph,
                       w);
    for (size_t v = 0; f && v < f->count; v++) {
        const char *kernel = copse__variant_kernel(&f->variants[v]);
        if (f->takes_operands && !f->takes_operands(&f->variants[v], c->operands))
            continue;
        snprintf(kernels, sizeof kernels, "%s=%s", f->name, kernel);
        w->kernels = kernels;
        copse__conform_one(r, &(struct copse_conform_case){ "perf", c->op, c->name, kernel },
                           time_graph, w);
    }
}

copse_status copse__conform_perf(struct copse_conform_run *r)
{
    static const struct {
        const char *op;
        struct copse_optimizer_params params;
        double bytes; /* per element */
    } rules[] = { { "adam", { .kind = COPSE_ADAM }, 28 },
                  { "momentum", { .kind = COPSE_MOMENTUM }, 20 },
                  { "sgd", { .kind = COPSE_SGD }, 12 } };
    double copy = 0.0;
    copse_device *library = NULL;
    struct work w = { .copy = &copy, .library = &library };
    copse__conform_one(r, &(struct copse_conform_case){ "perf", "copy", "16 MiB", "" }, only_copy,
                       &w);
    for (size_t t = 0; r->tables[t]; t++)
        for (size_t i = 0; i < r->tables[t]->speed_count; i++) {
            w.graph = &r->tables[t]->speeds[i];
            if ((int)w.graph->tier <= (int)r->params->tier || r->params->case_name)
                time_variants(r, &w);
        }
    for (size_t i = 0; i < COPSE_COUNT(rules); i++) {
        w.rule = &rules[i].params;
        w.rule_bytes = rules[i].bytes;
        copse__conform_one(r,
                           &(struct copse_conform_case){ "perf", rules[i].op, "4 Mi elements", "" },
                           time_rule, &w);
    }
    copse_device_release(&library);
    return COPSE_OK;
}
