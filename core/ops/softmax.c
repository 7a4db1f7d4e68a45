/* SPDX-License-Identifier: MIT */
/* Softmax and its logarithm over the last axis, and the row statistics they share with the cross-entropy: (m, t) =
   the maximum, and the sum of exp(x - m) without the largest element. */
#include <math.h>

#include "core/ops/self_tests.h"
#include "core/ops/softmax.h"

static uint32_t last_axis(copse_shape s)
{
    return s.rank ? s.dims[s.rank - 1] : 1;
}

/* ---- row statistics: [rows, 2] ---- */

static copse_status stats_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const copse_shape x = y->in[0]->shape;
    *shape = COPSE_SHAPE(1, 2);
    for (uint32_t i = 0; i + 1 < x.rank; i++)
        shape->dims[0] *= x.dims[i];
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status stats_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t rows = y->shape.dims[0];
    struct copse_params_row_stats p = { .chunks = last_axis(y->in[0]->shape) };
    struct copse_operand from = copse__of(y->in[0]);
    int32_t spec[COPSE_MAX_SPECS] = { 1 };
    if (p.chunks == 0) /* the statistics of empty rows are not read */
        return copse__lower_fill(l, y, 0.0);
    do {
        p.count = p.chunks;
        p.chunks = (p.count + COPSE_CHAIN - 1) / COPSE_CHAIN;
        p.n = rows * p.chunks;
        struct copse_operand to = copse__of(y);
        if (p.chunks > 1 && p.n > 0)
            COPSE_TRY(copse__scratch(l, 2 * (uint64_t)p.n, &to));
        COPSE_TRY(COPSE_LAUNCH(l, row_stats, spec, p,
                               copse__groups_for(l, COPSE_KERNEL_row_stats, p.n), from, to));
        from = to;
        spec[0] = 0;
    } while (p.chunks > 1);
    return COPSE_OK;
}

/* Its users compute the complete derivative through their own operand x, so it needs none. */
static const struct copse_op op_row_stats = {
    .name = "row_stats",
    .infer = stats_infer,
    .lower = stats_lower,
};

copse_status copse__row_stats(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    return COPSE_NODE(g, &op_row_stats, NULL, out, x);
}

/* ---- softmax(x, stats) ---- */

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower_as(struct copse_lowering *l, const copse_tensor *y, int32_t logarithm)
{
    struct copse_params_softmax p = { .n = (uint32_t)copse__elements(y->shape),
                                      .cols = last_axis(y->shape) };
    copse__divisor(p.cols, &p.m, &p.h);
    const int32_t spec[COPSE_MAX_SPECS] = { logarithm };
    return COPSE_LAUNCH(l, softmax, spec, p, copse__groups_for(l, COPSE_KERNEL_softmax, p.n),
                        copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y));
}

static copse_status softmax_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, 0);
}

static copse_status log_softmax_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, 1);
}

/* Sum over the last axis, which is kept; a scalar is its own sum. */
static copse_status row_sum(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    const uint32_t last = x->shape.rank ? x->shape.rank - 1 : 0;
    return copse_sum(g, x, &last, x->shape.rank ? 1 : 0, true, out);
}

/* dx = y (dy - sum y dy) */
static copse_status softmax_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                     copse_tensor **dx)
{
    copse_tensor *t;
    COPSE_TRY(copse_mul(g, (copse_tensor *)y, dy, &t));
    COPSE_TRY(row_sum(g, t, &t));
    COPSE_TRY(copse_sub(g, dy, t, &t));
    return copse_mul(g, (copse_tensor *)y, t, &dx[0]);
}

/* dx = dy - exp(y) sum dy */
static copse_status log_softmax_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                         copse_tensor **dx)
{
    copse_tensor *e, *t;
    COPSE_TRY(copse_exp(g, (copse_tensor *)y, &e));
    COPSE_TRY(row_sum(g, dy, &t));
    COPSE_TRY(copse_mul(g, e, t, &t));
    return copse_sub(g, dy, t, &dx[0]);
}

static const struct copse_op op_softmax = {
    .name = "softmax",
    .infer = infer,
    .gradient = softmax_gradient,
    .lower = softmax_lower,
};
static const struct copse_op op_log_softmax = {
    .name = "log_softmax",
    .infer = infer,
    .gradient = log_softmax_gradient,
    .lower = log_softmax_lower,
};

static copse_status add(copse_graph *g, const struct copse_op *op, copse_tensor *x,
                        copse_tensor **out)
{
    copse_tensor *stats;
    char text[96];
    COPSE_TRY(COPSE_CHECK_OPERANDS(op->name, g, out, x));
    if (x->type != COPSE_F32)
        return copse_fail(COPSE_ERR_SHAPE, "%s: operand i32%s: expected f32", op->name,
                          copse__shape_text(x->shape, text));
    COPSE_TRY(copse__row_stats(g, x, &stats));
    return COPSE_NODE(g, op, NULL, out, x, stats);
}

copse_status copse_softmax(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    return add(g, &op_softmax, x, out);
}

copse_status copse_log_softmax(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    return add(g, &op_log_softmax, x, out);
}

/* ---- references ---- */

void copse_host_row_stats(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_row_stats *p = params;
    const size_t step = spec[0] ? 1 : 2;
    for (size_t i = 0; i < p->n; i++) {
        const size_t chunk = i % p->chunks, first = i / p->chunks * p->count;
        size_t best = chunk;
        double m = -INFINITY, t = 0;
        for (size_t k = chunk; k < p->count; k += p->chunks) {
            const double x = copse__load(&args[0], step * (first + k));
            if (!isnan(m) && (x > m || isnan(x))) {
                m = x;
                best = k;
            }
        }
        for (size_t k = chunk; k < p->count; k += p->chunks) {
            const double x = copse__load(&args[0], step * (first + k));
            const double rest = spec[0] ? 0 : copse__load(&args[0], step * (first + k) + 1);
            t += k == best ? rest : (1 + rest) * exp(x - (m == -INFINITY ? 0 : m));
        }
        copse__store(&args[1], 2 * i, m);
        copse__store(&args[1], 2 * i + 1, p->chunks == 1 && isinf(m) ? NAN : t);
    }
}

void copse_host_softmax(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_softmax *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols;
        const double m = copse__load(&args[1], 2 * row), t = copse__load(&args[1], 2 * row + 1);
        const double x = copse__load(&args[0], i) - m;
        copse__store(&args[2], i, spec[0] ? x - log1p(t) : exp(x) / (1 + t));
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_COLS

void copse_self_test_row_stats(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_row_stats p = { .n = R, .count = C, .chunks = 1 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), R * C * (k->spec[0] ? 1 : 2), 2 * R);
    copse__test_quarters(t, 0);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse_self_test_softmax(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_softmax p = { .n = R * C, .cols = C };
    copse__divisor(C, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, 2 * R, p.n);
    copse__test_quarters(t, 1);
    t->slack = COPSE_SELF_TEST_SLACK;
}
