/* SPDX-License-Identifier: MIT */
/* The derivatives of softmax and of its logarithm over the last axis. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/row_held.h"
#include "core/ops/softmax/softmax.h"

/* Some drivers leave a loop after 65535 rounds: a lane has two for every 64th element. */
#define MOST_COLS (1u << 20)

struct softmax_grad {
    struct copse_row_work of;
    int32_t is_logarithm;
    const copse_tensor *y, *dy, *dx;
};

struct softmax_grad_attr {
    int32_t is_logarithm;
};

/* ---- launches ---- */

static copse_status lower_shared(struct copse_lowering *l, const void *work)
{
    const struct softmax_grad *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = {
        w->is_logarithm, w->of.cols <= 3 * copse__group_size(l, COPSE_KERNEL_softmax_grad)
    };
    const struct copse_params_softmax_grad p = { w->of.rows, w->of.cols };
    return COPSE_LAUNCH(l, softmax_grad, spec, p, w->of.cols > 0 ? w->of.rows : 0, copse__of(w->y),
                        copse__of(w->dy), copse__of(w->dx));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct softmax_grad *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_logarithm };
    const struct copse_params_softmax_grad_wide p = { w->of.rows, w->of.cols,
                                                      copse__rows_each(w->of.cols) };
    return COPSE_LAUNCH(l, softmax_grad_wide, spec, p, copse__row_groups(p.rows, p.cols, p.each),
                        copse__of(w->y), copse__of(w->dy), copse__of(w->dx));
}

static bool fits_held(const struct copse_limits *limits, const void *work)
{
    const struct softmax_grad *w = work;
    struct copse_held held;
    return copse__held_rows(limits, COPSE_KERNEL_softmax_grad_held, w->of.rows, w->of.cols, &held);
}

static copse_status lower_held(struct copse_lowering *l, const void *work)
{
    const struct softmax_grad *w = work;
    const struct copse_params_softmax_grad_held p = { w->of.rows, w->of.cols };
    struct copse_held held;
    copse__held_rows(copse__limits(l), COPSE_KERNEL_softmax_grad_held, p.rows, p.cols, &held);
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_logarithm, held.log_lanes, held.more,
                                            held.in_quads };
    return COPSE_LAUNCH(l, softmax_grad_held, spec, p, held.groups, copse__of(w->y),
                        copse__of(w->dy), copse__of(w->dx));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "shared", COPSE_KERNEL_softmax_grad, { 0, 1, 0, 1 }, .lower = lower_shared },
    { "wide", COPSE_KERNEL_softmax_grad_wide, { 1, 0, 1, 2 }, .lower = lower_wide },
    { "held",
      COPSE_KERNEL_softmax_grad_held,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = fits_held,
      .lower = lower_held },
};

static void softmax_grad_job(const struct copse_size *at, struct copse_tune_job *j)
{
    copse__row_job(at, j);
    j->in[1] = j->in[0];
}

static copse_tensor *softmax_grad_build(copse_graph *g, const struct copse_tune_job *j,
                                        copse_tensor *const *in)
{
    (void)j;
    return copse__softmax_grad(g, in[0], in[1], false);
}

const struct copse_family copse_family_softmax_grad = {
    .name = "softmax_grad",
    COPSE_VARIANTS(variants),
    .slack = 1e-4f,
    .sizes = { { COPSE_ROW_SIZES } },
    .size = copse__row_size,
    .job = softmax_grad_job,
    .operations = { 5 },
    .build = softmax_grad_build,
};

/* ---- the op ---- */

static copse_status softmax_grad_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* The sum over the last axis, which is kept. */
static copse_tensor *sum_of_row(copse_graph *g, copse_tensor *x)
{
    const uint32_t last = x->shape.rank - 1;
    return copse__is_failed(x) || x->shape.rank == 0 ? x : copse_sum(g, x, &last, 1, true);
}

static copse_status softmax_grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct softmax_grad_attr *a = y->attr;
    const struct softmax_grad w = { copse__row_work(y->shape), a->is_logarithm, y->in[0], y->in[1],
                                    y };
    return copse__lower_variant(l, &copse_family_softmax_grad, &w);
}

/* With u, the slope of dx: of y (dy - s), s = sum of y dy, it is u (dy - s) - dy sum of u y by y,
   and the same node by dy, which is symmetric. Of dy - e^y s, s = sum of dy, it is -u e^y s by y,
   and u - sum of u e^y by dy. */
static void softmax_grad_gradient(copse_graph *g, const copse_tensor *dx, copse_tensor *u,
                                  copse_tensor **out)
{
    const struct softmax_grad_attr *a = dx->attr;
    copse_tensor *y = dx->in[0], *dy = dx->in[1], *s, *t;
    if (a->is_logarithm) {
        t = copse_exp(g, y);
        t = copse_mul(g, u, t);
        if (dy->needs_gradient) {
            s = sum_of_row(g, t);
            s = copse_broadcast_to(g, s, dx->shape);
            out[1] = copse_sub(g, u, s);
        }
        if (!y->needs_gradient)
            return;
        s = sum_of_row(g, dy);
        t = copse_mul(g, t, s);
        out[0] = copse_neg(g, t);
        return;
    }
    if (dy->needs_gradient)
        out[1] = copse__softmax_grad(g, y, u, false);
    if (!y->needs_gradient)
        return;
    s = copse_mul(g, y, dy);
    s = sum_of_row(g, s);
    t = copse_sub(g, dy, s);
    t = copse_mul(g, u, t);
    s = copse_mul(g, u, y);
    s = sum_of_row(g, s);
    s = copse_mul(g, dy, s);
    out[0] = copse_sub(g, t, s);
}

static const struct copse_op op_softmax_grad = {
    .name = "softmax_grad",
    .attr_size = sizeof(struct softmax_grad_attr),
    .infer = softmax_grad_infer,
    .gradient = softmax_grad_gradient,
    .lower = softmax_grad_lower,
};

/* The same from other ops, for rows that are too long. */
static copse_tensor *softmax_grad_compose(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                                          bool is_logarithm)
{
    copse_tensor *t = dy;
    if (!is_logarithm)
        t = copse_mul(g, y, dy);
    t = sum_of_row(g, t);
    if (!is_logarithm) {
        t = copse_sub(g, dy, t);
        return copse_mul(g, y, t);
    }
    y = copse_exp(g, y);
    t = copse_mul(g, y, t);
    return copse_sub(g, dy, t);
}

copse_tensor *copse__softmax_grad(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                                  bool is_logarithm)
{
    const struct softmax_grad_attr a = { is_logarithm };
    if (copse__row_cols(y->shape) > MOST_COLS)
        return softmax_grad_compose(g, y, dy, is_logarithm);
    return COPSE_NODE(g, &op_softmax_grad, &a, y, dy);
}

/* ---- reference ---- */

static void softmax_grad_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_softmax_grad *p = params;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        double sum = 0;
        for (size_t i = first; i < first + p->cols; i++)
            sum += copse__load(&args[1], i) * (spec[0] ? 1 : copse__load(&args[0], i));
        for (size_t i = first; i < first + p->cols; i++) {
            const double y = copse__load(&args[0], i), dy = copse__load(&args[1], i);
            copse__store(&args[2], i, spec[0] ? dy - exp(y) * sum : y * (dy - sum));
        }
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_LINE

/* Logarithms of probabilities are negative. */
static void set_y(const struct copse_kernel *k, struct copse_self_test *t)
{
    for (uint32_t i = 0; i < t->counts[0]; i++)
        copse__test_set(t, 0, i, (k->spec[0] ? -0.25f : 0.25f) * (float)(1 + i % 8));
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void softmax_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_grad p = { R, C };
    COPSE_SELF_TEST(t, p, R, R * C, R * C, R * C);
    set_y(k, t);
}

static void softmax_grad_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_grad_wide p = { R, C, 2 };
    COPSE_SELF_TEST(t, p, 2, R * C, R * C, R * C);
    set_y(k, t);
}

static void softmax_grad_held_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_grad_held p = { R, copse__held_test_cols(k->spec + 1) };
    COPSE_SELF_TEST(t, p, copse__held_test_groups(k, k->spec[1]), R * p.cols, R * p.cols,
                    R * p.cols);
    set_y(k, t);
}

/* ---- bases of tolerances ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

/* |y| (|dy| + sum of |y dy|); of the logarithm |dy| + exp(y) sum of |dy|. The other
   kernels have the same first parameters. */
static void softmax_grad_size(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_softmax_grad *p = params;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        double sum = LEAST * p->cols;
        for (size_t i = first; i < first + p->cols; i++)
            sum += fabs(copse__load(&args[1], i)) * (spec[0] ? 1 : fabs(copse__load(&args[0], i)));
        for (size_t i = first; i < first + p->cols; i++) {
            const double y = copse__load(&args[0], i), dy = fabs(copse__load(&args[1], i));
            copse__store(&args[2], i, (spec[0] ? dy + exp(y) * sum : fabs(y) * (dy + sum)) + LEAST);
        }
    }
}

/* ---- laws ---- */

static bool softmax_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, 1, cols, cols, cols);
}

const struct copse_law copse_law_softmax_grad = {
    .host = softmax_grad_host,
    .split = softmax_grad_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = softmax_grad_size },
    .self_test = softmax_grad_test,
};
const struct copse_law copse_law_softmax_grad_wide = {
    .host = softmax_grad_host,
    .split = softmax_grad_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = softmax_grad_size },
    .self_test = softmax_grad_wide_test,
};
const struct copse_law copse_law_softmax_grad_held = {
    .host = softmax_grad_host,
    .split = softmax_grad_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = softmax_grad_size },
    .self_test = softmax_grad_held_test,
};
