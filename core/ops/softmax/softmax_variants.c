/* SPDX-License-Identifier: MIT */
/* Softmax and its logarithm over the last axis. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/row_held.h"
#include "core/ops/softmax/softmax.h"

struct softmax {
    struct copse_row_work of;
    int32_t is_logarithm;
    const copse_tensor *x, *y;
};

/* ---- launches ---- */

/* The statistics of each row, then its elements. */
static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct softmax *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_logarithm };
    struct copse_params_softmax p = { .n = w->of.rows * w->of.cols, .cols = w->of.cols };
    struct copse_operand stats;
    if (p.n == 0)
        return COPSE_OK;
    copse__divisor(p.cols, &p.m, &p.h);
    COPSE_TRY(copse__scratch(l, 2 * (uint64_t)w->of.rows, &stats));
    COPSE_TRY(copse__lower_row_stats(l, w->of.rows, w->of.cols, false, copse__of(w->x), stats));
    return COPSE_LAUNCH(l, softmax, spec, p, copse__groups_for(l, COPSE_KERNEL_softmax, p.n),
                        copse__of(w->x), stats, copse__of(w->y));
}

static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct softmax *)work)->of.cols <= COPSE_WIDE_COLS;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct softmax *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_logarithm };
    const struct copse_params_softmax_wide p = { w->of.rows, w->of.cols,
                                                 copse__rows_each(w->of.cols) };
    return COPSE_LAUNCH(l, softmax_wide, spec, p, copse__row_groups(p.rows, p.cols, p.each),
                        copse__of(w->x), copse__of(w->y));
}

static bool fits_held(const struct copse_limits *limits, const void *work)
{
    const struct softmax *w = work;
    struct copse_held held;
    return copse__held_rows(limits, COPSE_KERNEL_softmax_held, w->of.rows, w->of.cols, &held);
}

static copse_status lower_held(struct copse_lowering *l, const void *work)
{
    const struct softmax *w = work;
    const struct copse_params_softmax_held p = { w->of.rows, w->of.cols };
    struct copse_held held;
    copse__held_rows(copse__limits(l), COPSE_KERNEL_softmax_held, p.rows, p.cols, &held);
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_logarithm, held.log_lanes, held.more,
                                            held.in_quads };
    return COPSE_LAUNCH(l, softmax_held, spec, p, held.groups, copse__of(w->x), copse__of(w->y));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain",
      COPSE_KERNEL_softmax,
      { 0, 1, 0, 1 },
      .lower = lower_plain,
      COPSE_NEEDS(COPSE_KERNEL_row_stats) },
    { "wide", COPSE_KERNEL_softmax_wide, { 1, 0, 1, 2 }, .fits = fits_wide, .lower = lower_wide },
    { "held",
      COPSE_KERNEL_softmax_held,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = fits_held,
      .lower = lower_held },
};

static copse_tensor *softmax_build(copse_graph *g, const struct copse_tune_job *j,
                                   copse_tensor *const *in)
{
    (void)j;
    return copse_softmax(g, in[0]);
}

const struct copse_family copse_family_softmax = {
    .name = "softmax",
    COPSE_VARIANTS(variants),
    .slack = 1e-5f,
    .sizes = { { COPSE_ROW_SIZES } },
    .size = copse__row_size,
    .job = copse__row_job,
    .operations = { 20 },
    .build = softmax_build,
};

/* ---- the ops ---- */

static copse_status softmax_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32");
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower_as(struct copse_lowering *l, const copse_tensor *y, int32_t is_logarithm)
{
    const struct softmax w = { copse__row_work(y->shape), is_logarithm, y->in[0], y };
    return copse__lower_variant(l, &copse_family_softmax, &w);
}

static copse_status softmax_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, 0);
}

static copse_status log_softmax_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, 1);
}

static void softmax_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    dx[0] = copse__softmax_grad(g, (copse_tensor *)y, dy, false);
}

static void log_softmax_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                 copse_tensor **dx)
{
    dx[0] = copse__softmax_grad(g, (copse_tensor *)y, dy, true);
}

static const struct copse_op op_softmax = {
    .name = "softmax",
    .infer = softmax_infer,
    .gradient = softmax_gradient,
    .lower = softmax_lower,
};
static const struct copse_op op_log_softmax = {
    .name = "log_softmax",
    .infer = softmax_infer,
    .gradient = log_softmax_gradient,
    .lower = log_softmax_lower,
};

copse_tensor *copse_softmax(copse_graph *g, copse_tensor *x)
{
    return COPSE_NODE(g, &op_softmax, NULL, x);
}

copse_tensor *copse_log_softmax(copse_graph *g, copse_tensor *x)
{
    return COPSE_NODE(g, &op_log_softmax, NULL, x);
}

/* ---- references ---- */

static void softmax_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_softmax *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols;
        const double m = copse__load(&args[1], 2 * row), t = copse__load(&args[1], 2 * row + 1);
        const double x = copse__load(&args[0], i) - m;
        copse__store(&args[2], i, spec[0] ? x - log1p(t) : exp(x) / (1 + t));
    }
}

/* From the definition, as softmax_wide computes it: m and t of each row, then its elements. The
   kernel softmax_held has the same parameters but the last. */
static void softmax_wide_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_softmax_wide *p = params;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        double m = -INFINITY, sum = 0;
        size_t best = first;
        for (size_t i = first; i < first + p->cols; i++) {
            const double x = copse__load(&args[0], i);
            if (!isnan(m) && (x > m || isnan(x))) {
                m = x;
                best = i;
            }
        }
        for (size_t i = first; i < first + p->cols; i++)
            sum += i == best ? 0 : exp(copse__load(&args[0], i) - m);
        for (size_t i = first; i < first + p->cols; i++) {
            const double x = copse__load(&args[0], i) - m;
            copse__store(&args[1], i,
                         isinf(m)  ? NAN
                         : spec[0] ? x - log1p(sum)
                                   : exp(x) / (1 + sum));
        }
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_COLS

static void softmax_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_softmax p = { .n = R * C, .cols = C };
    copse__divisor(C, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, 2 * R, p.n);
    copse__test_quarters(t, 1);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void softmax_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_wide p = { R, COPSE_TEST_LINE, 2 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, R * p.cols, R * p.cols);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void softmax_held_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_held p = { R, copse__held_test_cols(k->spec + 1) };
    COPSE_SELF_TEST(t, p, copse__held_test_groups(k, k->spec[1]), R * p.cols, R * p.cols);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- laws ---- */

static bool softmax_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, cols, cols, 2, cols);
}

static bool softmax_wide_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, 1, cols, cols);
}

/* Of the logarithm: it is small where it is near 0. */
static void softmax_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    if (spec[0]) {
        limit->ulp = 4;
        limit->floor = 8;
    }
}

const struct copse_law copse_law_softmax = {
    .host = softmax_host,
    .split = softmax_split,
    .limit = { .ulp = 16 },
    .limit_of = softmax_limit,
    .self_test = softmax_test,
};
const struct copse_law copse_law_softmax_wide = {
    .host = softmax_wide_host,
    .split = softmax_wide_split,
    .limit = { .ulp = 16 },
    .limit_of = softmax_limit,
    .self_test = softmax_wide_test,
};
const struct copse_law copse_law_softmax_held = {
    .host = softmax_wide_host,
    .split = softmax_wide_split,
    .limit = { .ulp = 16 },
    .limit_of = softmax_limit,
    .self_test = softmax_held_test,
};
