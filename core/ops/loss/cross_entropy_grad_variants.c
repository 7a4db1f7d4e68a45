/* SPDX-License-Identifier: MIT */
/* The derivative of the cross-entropy of rows of logits, (softmax - one-hot) dy / divisor, from
   their statistics. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/row_held.h"
#include "core/ops/softmax/softmax.h"

struct grad {
    struct copse_row_work of;
    float divisor;
    const copse_tensor *logits, *labels, *stats, *dy, *dx;
};

struct grad_attr {
    int32_t is_mean;
};

/* ---- launches ---- */

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct grad *w = work;
    struct copse_params_cross_entropy_grad p = { .n = w->of.rows * w->of.cols,
                                                 .cols = w->of.cols,
                                                 .divisor = w->divisor };
    copse__divisor(w->of.cols, &p.m, &p.h);
    return COPSE_LAUNCH(l, cross_entropy_grad, NULL, p,
                        copse__groups_for(l, COPSE_KERNEL_cross_entropy_grad, p.n),
                        copse__of(w->logits), copse__of(w->labels), copse__of(w->stats),
                        copse__of(w->dy), copse__of(w->dx));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct grad *w = work;
    const struct copse_params_cross_entropy_grad_wide p = { w->of.rows, w->of.cols, w->divisor,
                                                            copse__rows_each(w->of.cols) };
    return COPSE_LAUNCH(l, cross_entropy_grad_wide, NULL, p,
                        copse__row_groups(p.rows, p.cols, p.each), copse__of(w->logits),
                        copse__of(w->labels), copse__of(w->stats), copse__of(w->dy),
                        copse__of(w->dx));
}

static bool fits_held(const struct copse_limits *limits, const void *work)
{
    const struct grad *w = work;
    struct copse_held held;
    return copse__held_rows(limits, COPSE_KERNEL_cross_entropy_grad_held, w->of.rows, w->of.cols,
                            &held);
}

static copse_status lower_held(struct copse_lowering *l, const void *work)
{
    const struct grad *w = work;
    const struct copse_params_cross_entropy_grad_held p = { w->of.rows, w->of.cols, w->divisor };
    struct copse_held held;
    copse__held_rows(copse__limits(l), COPSE_KERNEL_cross_entropy_grad_held, p.rows, p.cols, &held);
    const int32_t spec[COPSE_MAX_SPECS] = { held.log_lanes, held.more, held.in_quads };
    return COPSE_LAUNCH(l, cross_entropy_grad_held, spec, p, held.groups, copse__of(w->logits),
                        copse__of(w->labels), copse__of(w->stats), copse__of(w->dy),
                        copse__of(w->dx));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_cross_entropy_grad, { 0, 1, 0, 1 }, .lower = lower_plain },
    { "wide", COPSE_KERNEL_cross_entropy_grad_wide, { 1, 0, 1, 2 }, .lower = lower_wide },
    { "held",
      COPSE_KERNEL_cross_entropy_grad_held,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = fits_held,
      .lower = lower_held },
};

/* All rows have the class 0. */
static copse_tensor *cross_entropy_grad_build(copse_graph *g, const struct copse_tune_job *j,
                                              copse_tensor *const *in)
{
    copse_tensor *labels = copse_fill(g, COPSE_I32, COPSE_SHAPE(j->in[0].dims[0]), 0);
    copse_tensor *dy = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    copse_tensor *stats = copse__row_stats(g, in[0]);
    return copse__cross_entropy_grad(g, in[0], labels, stats, dy, true);
}

const struct copse_family copse_family_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    COPSE_VARIANTS(variants),
    .slack = 1e-5f,
    .sizes = { { COPSE_ROW_SIZES } },
    .size = copse__row_size,
    .job = copse__row_job,
    .operations = { 20 },
    .build = cross_entropy_grad_build,
};

/* ---- the op ---- */

static copse_status cross_entropy_grad_infer(const copse_tensor *y, copse_shape *shape,
                                             copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status cross_entropy_grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct grad_attr *a = y->attr;
    const uint32_t rows = y->shape.dims[0];
    const struct grad w = { copse__row_work(y->shape),
                            a->is_mean ? (float)rows : 1.0f,
                            y->in[0],
                            y->in[1],
                            y->in[2],
                            y->in[3],
                            y };
    return copse__lower_variant(l, &copse_family_cross_entropy_grad, &w);
}

/* Of (p - label) dy / divisor with the slope u. With q = p - label and t = the sum of q u over the
   row: t / divisor by dy; and by the logits p (u - u at the label - t) dy / divisor, where nothing
   cancels as p approaches 1. A label out of range makes q, and so all of them, NaN. */
static void cross_entropy_grad_gradient(copse_graph *g, const copse_tensor *dx, copse_tensor *u,
                                        copse_tensor **out)
{
    const struct grad_attr *a = dx->attr;
    const uint32_t last = 1, rows = dx->shape.dims[0];
    copse_tensor *logits = dx->in[0], *labels = dx->in[1], *dy = dx->in[3], *one, *q, *t, *at, *p;
    one = copse_scalar(g, 1);
    q = copse__cross_entropy_grad(g, logits, labels, dx->in[2], one, false);
    q = copse_mul(g, q, u);
    t = copse_sum(g, q, &last, 1, true);
    if (dy->needs_gradient) {
        out[3] = a->is_mean ? copse_mean(g, t, NULL, 0, false) : copse_sum(g, t, NULL, 0, false);
        out[3] = copse_reshape(g, out[3], dy->shape);
    }
    if (!logits->needs_gradient)
        return;
    at = copse_one_hot(g, labels, dx->shape.dims[1]);
    at = copse_mul(g, at, u);
    at = copse_sum(g, at, &last, 1, true);
    at = copse_sub(g, u, at);
    at = copse_sub(g, at, t);
    if (a->is_mean)
        dy = copse__divide_by(g, dy, (float)rows);
    p = copse_softmax(g, logits);
    p = copse_mul(g, p, dy);
    out[0] = copse_mul(g, p, at);
}

static const struct copse_op op_grad = {
    .name = "sparse_cross_entropy_grad",
    .attr_size = sizeof(struct grad_attr),
    .infer = cross_entropy_grad_infer,
    .gradient = cross_entropy_grad_gradient,
    .lower = cross_entropy_grad_lower,
};

copse_tensor *copse__cross_entropy_grad(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                                        copse_tensor *stats, copse_tensor *dy, bool is_mean)
{
    const struct grad_attr a = { is_mean };
    return COPSE_NODE(g, &op_grad, &a, logits, labels, stats, dy);
}

/* ---- references ---- */

struct rows {
    size_t n, cols;
    double divisor;
};

static void cross_entropy_grad_run(const struct rows *p, const struct copse_host_arg *args)
{
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols, col = i % p->cols;
        const int32_t label = copse__load_i(&args[1], row);
        const double m = copse__load(&args[2], 2 * row), t = copse__load(&args[2], 2 * row + 1);
        const double e = exp(copse__load(&args[0], i) - m);
        const double d = ((int64_t)col == label ? e - 1 - t : e) / (1 + t);
        const bool is_class = label >= 0 && (size_t)label < p->cols;
        copse__store(&args[4], i, is_class ? d * copse__load(&args[3], 0) / p->divisor : NAN);
    }
}

static void cross_entropy_grad_host(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_cross_entropy_grad *p = params;
    cross_entropy_grad_run(&(struct rows){ p->n, p->cols, (double)p->divisor }, args);
}

/* The kernels of whole rows have the same first parameters. */
static void cross_entropy_grad_wide_host(const void *params, const int32_t *spec,
                                         const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_cross_entropy_grad_wide *p = params;
    cross_entropy_grad_run(&(struct rows){ (size_t)p->rows * p->cols, p->cols, (double)p->divisor },
                           args);
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_COLS

static void cross_entropy_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_cross_entropy_grad p = { .n = R * C, .cols = C, .divisor = 4.0f };
    copse__divisor(C, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, R, 2 * R, 1, p.n);
    copse__test_quarters(t, 2);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* m is 4, not less than any logit. */
static void cross_entropy_grad_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_cross_entropy_grad_wide p = { R, COPSE_TEST_LINE, 4.0f, 2 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, R * p.cols, R, 2 * R, 1, R * p.cols);
    copse__test_quarters(t, 2);
    for (uint32_t r = 0; r < R; r++)
        copse__test_set(t, 2, 2 * r, 4.0f);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void cross_entropy_grad_held_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_cross_entropy_grad_held p = { R, copse__held_test_cols(k->spec),
                                                            4.0f };
    COPSE_SELF_TEST(t, p, copse__held_test_groups(k, k->spec[0]), R * p.cols, R, 2 * R, 1,
                    R * p.cols);
    copse__test_quarters(t, 2);
    for (uint32_t r = 0; r < R; r++)
        copse__test_set(t, 2, 2 * r, 4.0f);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- bases of tolerances ---- */

/* The slope. */
static void put_slope(size_t n, double divisor, const struct copse_host_arg *args)
{
    for (size_t i = 0; i < n; i++)
        copse__store(&args[4], i, fabs(copse__load(&args[3], 0) / divisor));
}

static void cross_entropy_grad_size(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args)
{
    const struct copse_params_cross_entropy_grad *p = params;
    (void)spec;
    put_slope(p->n, (double)p->divisor, args);
}

static void cross_entropy_grad_wide_size(const void *params, const int32_t *spec,
                                         const struct copse_host_arg *args)
{
    const struct copse_params_cross_entropy_grad_wide *p = params;
    (void)spec;
    put_slope((size_t)p->rows * p->cols, (double)p->divisor, args);
}

/* ---- laws ---- */

static bool cross_entropy_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, cols, cols, 1, 2, 0, cols);
}

static bool cross_entropy_grad_wide_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, 1, cols, 1, 2, 0, cols);
}

const struct copse_law copse_law_cross_entropy_grad = {
    .host = cross_entropy_grad_host,
    .split = cross_entropy_grad_split,
    .limit = { .ulp = 12, .ratio = 16, .size = cross_entropy_grad_size },
    .self_test = cross_entropy_grad_test,
};
const struct copse_law copse_law_cross_entropy_grad_wide = {
    .host = cross_entropy_grad_wide_host,
    .split = cross_entropy_grad_wide_split,
    .limit = { .ulp = 12, .ratio = 16, .size = cross_entropy_grad_wide_size },
    .self_test = cross_entropy_grad_wide_test,
};
const struct copse_law copse_law_cross_entropy_grad_held = {
    .host = cross_entropy_grad_wide_host,
    .split = cross_entropy_grad_wide_split,
    .limit = { .ulp = 12, .ratio = 16, .size = cross_entropy_grad_wide_size },
    .self_test = cross_entropy_grad_held_test,
};
