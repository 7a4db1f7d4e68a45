/* SPDX-License-Identifier: MIT */
/* Dropout: the op, and its kernel variants with their launches. The mask is not stored: the
   gradient generates the same random numbers again. */
#include <stdio.h>

#include "core/base/random.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

/* The kernels read these words by index. */
_Static_assert(COPSE_STEP_NUMBER == 0 && COPSE_STEP_SEED_LO == 1 && COPSE_STEP_SEED_HI == 2 &&
                   COPSE_STEP_FIRST_EXAMPLE == 3,
               "step words");

struct dropout_attr {
    uint32_t stream;    /* distinguishes the calls in one graph */
    uint32_t threshold; /* random words below it drop an element */
    float scale;
};

static copse_status dropout_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32");
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* ---- launches ---- */

struct dropout {
    struct dropout_attr of;
    uint32_t n, row_elements;
    const copse_tensor *x, *y;
};

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct dropout *w = work;
    struct copse_params_dropout p = { .n = w->n,
                                      .row_elements = w->row_elements,
                                      .stream = copse__stream_of(w->of.stream),
                                      .threshold = w->of.threshold,
                                      .scale = w->of.scale };
    copse__divisor(p.row_elements, &p.m, &p.h);
    return COPSE_LAUNCH(l, dropout, NULL, p, copse__groups_for(l, COPSE_KERNEL_dropout, p.n),
                        copse__of(w->x), copse__step(), copse__of(w->y));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { EACH = 2048 }; /* elements that an invocation computes: a multiple of 16 */
    const struct dropout *w = work;
    const struct copse_params_dropout_wide p = {
        w->n, w->row_elements, copse__stream_of(w->of.stream), w->of.threshold, w->of.scale, EACH
    };
    return COPSE_LAUNCH(l, dropout_wide, NULL, p, ((uint64_t)p.n + EACH - 1) / EACH,
                        copse__of(w->x), copse__step(), copse__of(w->y));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_dropout, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide", COPSE_KERNEL_dropout_wide, { 1, 0, 1, 1 }, .lower = lower_wide },
};

static bool dropout_size(const void *work, struct copse_size *out)
{
    const struct dropout *w = work;
    out->of[0] = w->n;
    return w->n > 0;
}

static void dropout_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct dropout w = { .n = at->of[0], .row_elements = 64 };
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "%u elements", (unsigned)w.n);
    j->in[0] = COPSE_SHAPE(w.n / 64, 64);
}

/* A rate so low that no element is dropped, whatever the step and the seed are. */
static copse_tensor *dropout_build(copse_graph *g, const struct copse_tune_job *j,
                                   copse_tensor *const *in)
{
    (void)j;
    return copse_dropout(g, in[0], 0x1p-40f, true);
}

const struct copse_family copse_family_dropout = {
    .name = "dropout",
    COPSE_VARIANTS(variants),
    .sizes = { { 4096, 1u << 18 } },
    .size = dropout_size,
    .job = dropout_job,
    .operations = { 60 },
    .build = dropout_build,
};

/* ---- the op ---- */

static copse_status dropout_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct dropout_attr *a = y->attr;
    struct dropout w = {
        .of = *a, .n = (uint32_t)copse__elements(y->shape), .row_elements = 1, .x = y->in[0], .y = y
    };
    for (uint32_t i = 1; i < y->shape.rank; i++)
        w.row_elements *= y->shape.dims[i];
    return copse__lower_variant(l, &copse_family_dropout, &w);
}

/* Linear with a diagonal matrix, so it is its own transpose. */
static void dropout_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    dx[0] = COPSE_NODE(g, y->op, y->attr, dy);
}

static const struct copse_op op_dropout = {
    .name = "dropout",
    .attr_size = sizeof(struct dropout_attr),
    .infer = dropout_infer,
    .gradient = dropout_gradient,
    .lower = dropout_lower,
    .stream_at = 1 + offsetof(struct dropout_attr, stream),
};

copse_tensor *copse_dropout(copse_graph *g, copse_tensor *x, float rate, bool is_training)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("dropout", g, x));
    if (!(rate >= 0.0f && rate < 1.0f))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "dropout: rate %g is not in [0, 1)",
                             (double)rate);
    if (!is_training || rate == 0.0f)
        return copse__own(g, x);
    const struct dropout_attr a = {
        .stream = copse__graph_draw(g),
        .threshold = (uint32_t)((double)rate * 4294967296.0),
        .scale = (float)(1.0 / (1.0 - (double)rate)),
    };
    return COPSE_NODE(g, &op_dropout, &a, x);
}

/* ---- reference ---- */

static double dropout_element(const struct copse_params_dropout_wide *p,
                              const struct copse_host_arg *args, size_t i)
{
    const uint32_t *words = args[1].data;
    const uint32_t key[2] = { words[COPSE_STEP_SEED_LO], words[COPSE_STEP_SEED_HI] };
    const uint32_t example = words[COPSE_STEP_FIRST_EXAMPLE] + (uint32_t)(i / p->row_elements);
    const uint64_t place = (uint64_t)example * p->row_elements + i % p->row_elements;
    const uint32_t counter[4] = { (uint32_t)place, (uint32_t)(place >> 32),
                                  words[COPSE_STEP_NUMBER], p->stream };
    uint32_t random[4];
    copse__philox(counter, key, random);
    return random[0] < p->threshold ? 0.0 : copse__load(&args[0], i) * (double)p->scale;
}

static double dropout_wide_at(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args, size_t i)
{
    (void)spec;
    return dropout_element(params, args, i);
}

static double dropout_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                         size_t i)
{
    const struct copse_params_dropout *p = params;
    const struct copse_params_dropout_wide of = { .row_elements = p->row_elements,
                                                  .stream = p->stream,
                                                  .threshold = p->threshold,
                                                  .scale = p->scale };
    (void)spec;
    return dropout_element(&of, args, i);
}

static void dropout_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_dropout *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, dropout_at(params, spec, args, i));
}

/* ---- self-tests ---- */

static void dropout_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_dropout p = {
        .n = COPSE_TEST_N, .row_elements = 7, .stream = 3, .threshold = 0x80000000u, .scale = 2.0f
    };
    copse__divisor(p.row_elements, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, COPSE_TEST_N), COPSE_TEST_N, COPSE_STEP_WORDS,
                    COPSE_TEST_N);
}

static void dropout_wide_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_dropout_wide *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, dropout_element(p, args, i));
}

static void dropout_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_dropout_wide p = { COPSE_TEST_N, 7, 3, 0x80000000u, 2.0f, 64 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, COPSE_TEST_N, COPSE_STEP_WORDS, COPSE_TEST_N);
}

/* ---- laws ---- */

const struct copse_law copse_law_dropout = {
    .host = dropout_host,
    .at = dropout_at,
    .limit = { .ulp = 1 },
    .self_test = dropout_test,
};
const struct copse_law copse_law_dropout_wide = {
    .host = dropout_wide_host,
    .at = dropout_wide_at,
    .limit = { .ulp = 1 },
    .self_test = dropout_wide_test,
};
