/* SPDX-License-Identifier: MIT */
/* Mode stress, sizes: odd ones, more groups than an axis holds, and sums so long that a loop over
   them would pass the 65,535 rounds after which some drivers leave it. Whole numbers, so exact. */
#include <math.h>
#include <stdio.h>

#include "core/conformance/stress.h"
#include "core/graph/variant.h"
#include "copse/function.h"
#include "copse/matmul.h"
#include "copse/ops.h"

#define BAND  0xa5a5a5a5u
#define BANDS ((size_t)64)        /* words looked at on both sides */
#define BLOCK ((size_t)1 << 20)   /* words compared at a time */

enum {
#define UNARY(name, number, ...)  OP_##name = number,
#define SCALED(name, number, ...) OP_##name = number,
#include "kernels/unary.def"
#undef UNARY
#undef SCALED
};

/* ---- y = -x ---- */

static uint32_t pattern(size_t i)
{
    return ((uint32_t)i * 2654435761u & 0xbfffffffu) | 0x20000000u; /* normal numbers */
}

/* Write the pattern (is_write), or compare with its negative. */
static copse_status walk(struct copse_conform_run *r, copse_queue *q, copse_buffer *buf,
                         size_t offset, size_t count, bool is_write,
                         struct copse_conform_outcome *out)
{
    const size_t most = COPSE_MIN(count, BLOCK);
    uint32_t *words;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse__conform_memory(r, most, sizeof *words, &words));
    for (size_t at = 0; at < count && !s; at += most) {
        const size_t n = COPSE_MIN(count - at, most);
        for (size_t i = 0; is_write && i < n; i++)
            words[i] = pattern(at + i);
        s = is_write ? copse_queue_write(q, buf, offset + 4 * at, words, 4 * n)
                     : copse_queue_read(q, buf, offset + 4 * at, words, 4 * n);
        if (!s && !is_write)
            s = copse_queue_finish(q);
        for (size_t i = 0; !is_write && !s && i < n; i++)
            if (words[i] != (pattern(at + i) ^ 0x80000000u))
                copse__conform_say(out, COPSE_VERDICT_FAIL,
                                   "element %zu of %zu has the bits %08x, expected %08x", at + i,
                                   count, words[i], pattern(at + i) ^ 0x80000000u);
    }
    copse__free(&r->ctx->base.mem, words);
    return s;
}

/* What lies in the buffer around the range: at most BANDS words on each side. */
static copse_status look_around(copse_queue *q, copse_buffer *buf, size_t offset, size_t bytes,
                                bool is_write, struct copse_conform_outcome *out)
{
    uint32_t words[BANDS];
    const size_t before = COPSE_MIN(offset / 4, BANDS), end = offset + bytes;
    const size_t behind = COPSE_MIN((copse_buffer_size(buf) - end) / 4, BANDS);
    const struct {
        size_t at, count;
        const char *name;
    } sides[] = { { offset - 4 * before, before, "before" }, { end, behind, "behind" } };
    for (int i = 0; i < 2; i++) {
        if (is_write) {
            COPSE_TRY(copse_queue_fill(q, buf, sides[i].at, 4 * sides[i].count, BAND));
            continue;
        }
        COPSE_TRY(copse_queue_read(q, buf, sides[i].at, words, 4 * sides[i].count));
        COPSE_TRY(copse_queue_finish(q));
        for (size_t k = 0; k < sides[i].count; k++)
            if (words[k] != BAND)
                copse__conform_say(out, COPSE_VERDICT_FAIL, "a write out of range, %s %zu bytes",
                                   sides[i].name, bytes);
    }
    return COPSE_OK;
}

copse_status copse__stress_negate(struct copse_conform_run *r, copse_queue *q, copse_buffer *x,
                                  copse_buffer *y, size_t offset, size_t count,
                                  struct copse_conform_outcome *out)
{
    const struct copse_params_unary params = { .n = (uint32_t)count };
    const struct copse_binding bindings[] = { { x, offset, 4 * count }, { y, offset, 4 * count } };
    struct copse_kernel *k;
    struct copse_command c;
    COPSE_TRY(copse__kernel_get(q->dev, COPSE_KERNEL_unary, (int32_t[]){ OP_neg }, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y;
    COPSE_TRY(copse__dispatch_init(&c, k, bindings, 2, &params, (count + each - 1) / each, 0));
    COPSE_TRY(walk(r, q, x, offset, count, true, out));
    COPSE_TRY(copse_queue_fill(q, y, offset, 4 * count, BAND));
    COPSE_TRY(look_around(q, y, offset, 4 * count, true, out));
    COPSE_TRY(copse__queue_encode(q, &c));
    COPSE_TRY(look_around(q, y, offset, 4 * count, false, out));
    return walk(r, q, y, offset, count, false, out);
}

static copse_status negate_sizes(struct copse_conform_run *r, const size_t *counts, size_t n,
                                 struct copse_conform_outcome *out)
{
    const size_t offset = COPSE_ALIGNMENT;
    const struct copse_buffer_params how = { .size = 4 * counts[n - 1] + 2 * offset };
    copse_queue *q = NULL;
    copse_buffer *x = NULL, *y = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &q));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &x));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &y));
    for (size_t i = 0; i < n; i++)
        COPSE_TRY_OR(done, s, copse__stress_negate(r, q, x, y, offset, counts[i], out));
done:
    copse_buffer_release(&x);
    copse_buffer_release(&y);
    copse_queue_release(&q);
    return s;
}

static copse_status odd_sizes(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    static const size_t counts[] = { 1,   2,   3,   5,   31,   32,   33,   63,    64,    65,   127,
                                     129, 255, 256, 257, 1021, 4093, 8191, 16385, 65537, 99991 };
    (void)user;
    return negate_sizes(r, counts, COPSE_COUNT(counts), out);
}

static copse_status many_groups(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    uint32_t x, y;
    (void)user;
    copse__kernel_group(r->dev->limits, COPSE_KERNEL_unary, &x, &y);
    const size_t count = (size_t)65541 * x * y + 5;
    if (4 * count > COPSE_MIN(r->dev->limits->max_binding_bytes,
                              r->dev->limits->max_buffer_bytes - 2 * COPSE_ALIGNMENT)) {
        copse__conform_say(out, COPSE_VERDICT_SKIP, "%zu bytes are more than a kernel sees",
                           4 * count);
        return COPSE_OK;
    }
    return negate_sizes(r, &count, 1, out);
}

/* ---- long sums, as graphs ---- */

#define LONG 70001u /* a prime */
#define M    3u
#define N    5u

/* Inputs: small whole numbers; `line` is a permutation of 0 .. LONG - 1. */
static float small(uint32_t input, size_t i)
{
    return (float)((((uint32_t)i + 77 * input) * 2654435761u >> 9) % 3) - 1.0f;
}

static float line(uint32_t input, size_t i)
{
    (void)input;
    return (float)((uint64_t)i * 7919 % LONG);
}

static float level(uint32_t input, size_t i)
{
    (void)input;
    (void)i;
    return 3.0f;
}

static copse_status build_sum(copse_graph *g, copse_tensor *const *in, copse_tensor **out)
{
    return copse_sum(g, in[0], NULL, 0, false, out);
}

static copse_status build_max(copse_graph *g, copse_tensor *const *in, copse_tensor **out)
{
    return copse_max(g, in[0], NULL, 0, false, out);
}

static copse_status build_argmax(copse_graph *g, copse_tensor *const *in, copse_tensor **out)
{
    return copse_argmax(g, in[0], 0, out);
}

static copse_status build_softmax(copse_graph *g, copse_tensor *const *in, copse_tensor **out)
{
    return copse_softmax(g, in[0], out);
}

static copse_status build_matmul(copse_graph *g, copse_tensor *const *in, copse_tensor **out)
{
    return copse_matmul(g, in[0], in[1], false, false, out);
}

/* The derivative of a dense layer's bias: sums down the columns. */
static copse_status build_bias(copse_graph *g, copse_tensor *const *in, copse_tensor **out)
{
    copse_tensor *w, *b, *y;
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SHAPE(1, N), 0.0, &w));
    COPSE_TRY(copse_input(g, "b", COPSE_F32, COPSE_SHAPE(N), &b));
    COPSE_TRY(copse_dense(g, in[0], w, b, COPSE_LINEAR, &y));
    return copse_gradients(g, y, in[1], &b, 1, out);
}

static double total(size_t i)
{
    double sum = 0.0;
    (void)i;
    for (size_t k = 0; k < LONG; k++)
        sum += (double)small(0, k);
    return sum;
}

static double last(size_t i)
{
    (void)i;
    return LONG - 1.0;
}

static double where(size_t i)
{
    while (line(0, i) != (float)(LONG - 1))
        i++;
    return (double)i;
}

static double share(size_t i)
{
    (void)i;
    return 1.0 / LONG;
}

static double product(size_t i)
{
    double sum = 0.0;
    for (size_t k = 0; k < LONG; k++)
        sum += (double)small(0, i / N * LONG + k) * (double)small(1, k * N + i % N);
    return sum;
}

static double column(size_t i)
{
    double sum = 0.0;
    for (size_t k = 0; k < LONG; k++)
        sum += (double)small(1, k * N + i);
    return sum;
}

static const struct graph_case {
    const char *op, *name;
    copse_status (*build)(copse_graph *g, copse_tensor *const *in, copse_tensor **out);
    uint32_t in_count;
    copse_shape in[2];
    float (*value)(uint32_t input, size_t i);
    double (*expected)(size_t i);
    double ulp;
} graphs[] = {
    { "sum", "70,001 elements", build_sum, 1, { { 1, { LONG } } }, small, total, 0 },
    { "max", "70,001 elements", build_max, 1, { { 1, { LONG } } }, line, last, 0 },
    { "argmax", "70,001 elements", build_argmax, 1, { { 1, { LONG } } }, line, where, 0 },
    { "softmax", "a row of 70,001", build_softmax, 1, { { 2, { 1, LONG } } }, level, share, 8 },
    { "dense", "bias gradient of 70,001 rows", build_bias, 2,
      { { 2, { LONG, 1 } }, { 2, { LONG, N } } }, small, column, 0 },
    { "matmul", "k of 70,001", build_matmul, 2, { { 2, { M, LONG } }, { 2, { LONG, N } } }, small,
      product, 0 },
};

static double ulps(double got, double expected)
{
    int exponent;
    if (got == expected)
        return 0.0;
    frexp(expected, &exponent);
    return fabs(got - expected) / ldexp(1.0, exponent - 24);
}

static copse_status run_graph(struct copse_conform_run *r, const struct graph_case *c,
                              copse_graph *g, const char *kernels, void *room,
                              struct copse_conform_outcome *out)
{
    copse_tensor *in[2], *y;
    copse_function *f = NULL;
    copse_status s;
    for (uint32_t i = 0; i < c->in_count; i++)
        COPSE_TRY(copse_input(g, "x", COPSE_F32, c->in[i], &in[i]));
    COPSE_TRY(c->build(g, in, &y));
    const struct copse_function_params params = { g, &y, 1, kernels };
    COPSE_TRY(copse_function_create(r->dev, &params, &f));
    for (uint32_t i = 0; i < c->in_count; i++) {
        for (size_t k = 0; k < copse__elements(c->in[i]); k++)
            ((float *)room)[k] = c->value(i, k);
        COPSE_TRY_OR(done, s, copse_function_write(f, in[i], room));
    }
    COPSE_TRY_OR(done, s, copse_function_run(f));
    COPSE_TRY_OR(done, s, copse_function_read(f, 0, room));
    out->result.metric = "ulp";
    out->result.limit = c->ulp;
    for (size_t i = 0; i < copse__elements(y->shape); i++) {
        const double expected = c->expected(i);
        const double got = y->type == COPSE_I32 ? (double)((int32_t *)room)[i]
                                                : (double)((float *)room)[i];
        if (!copse__conform_measure(out, ulps(got, expected), i, got, expected))
            copse__conform_say(out, COPSE_VERDICT_FAIL, "element %zu is %.9g, expected %.17g", i,
                               got, expected);
    }
done:
    copse_function_release(&f);
    return s;
}

struct graph_work {
    const struct graph_case *c;
    const char *kernels; /* forced */
};

static copse_status check_graph(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    const struct graph_work *w = user;
    copse_graph *g = NULL;
    void *room = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse__conform_memory(r, (size_t)LONG * N, 4, &room));
    COPSE_TRY_OR(done, s, copse_graph_create(r->ctx, &g));
    s = run_graph(r, w->c, g, w->kernels, room, out);
done:
    copse__free(&r->ctx->base.mem, room);
    copse_graph_release(&g);
    return s;
}

copse_status copse__conform_stress(struct copse_conform_run *r)
{
    copse__conform_one(r,
                       &(struct copse_conform_case){ "stress", "elementwise", "odd sizes", NULL },
                       odd_sizes, NULL);
    copse__conform_one(
        r, &(struct copse_conform_case){ "stress", "elementwise", "65,541 groups", NULL },
        many_groups, NULL);
    for (size_t i = 0; i < COPSE_COUNT(graphs); i++) {
        const struct graph_case *c = &graphs[i];
        const struct copse_family *f = copse__family(c->op);
        char kernels[COPSE_CHOICES_TEXT];
        struct graph_work w = { c, NULL };
        copse__conform_one(r, &(struct copse_conform_case){ "stress", c->op, c->name, NULL },
                           check_graph, &w);
        for (size_t v = 0; f && v < f->count; v++) {
            const char *kernel = copse__variant_kernel(&f->variants[v]);
            snprintf(kernels, sizeof kernels, "%s=%s", f->name, kernel);
            w.kernels = kernels;
            copse__conform_one(r, &(struct copse_conform_case){ "stress", c->op, c->name, kernel },
                               check_graph, &w);
        }
    }
    copse__stress_memory(r);
    return COPSE_OK;
}
