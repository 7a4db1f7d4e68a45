/* SPDX-License-Identifier: MIT */
/* Softmax of scale x over each of equal parts of the last axis. The parts are the rows of the
   kernels. */
#include <math.h>

#include "copse/ops/scan.h"
#include "core/device/kernel/launch_split.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/softmax.h"

/* Some drivers leave a loop after 65535 rounds: a lane has three for every 64th element. */
#define MOST_COLS (1u << 20)
/* With these scales a difference of elements that is no f32 has the share 0, and one that a device
   flushes has the share of 0. */
#define LEAST_SCALE 1e-30f
#define MOST_SCALE  1e30f

struct softmax_groups_attr {
    uint32_t groups;
    float scale;
};

/* ---- the ops ---- */

static copse_status softmax_groups_infer(const copse_tensor *y, copse_shape *shape,
                                         copse_type *type)
{
    const struct softmax_groups_attr *a = y->attr;
    const uint32_t cols = copse__row_cols(y->in[0]->shape);
    if (y->in[0]->type != COPSE_F32 || cols % a->groups != 0 || cols / a->groups > MOST_COLS)
        return copse__shape_error(y, "expected f32 with a last axis of %u groups of at most 2^20",
                                  (unsigned)a->groups);
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static struct copse_row_work rows_of(const copse_tensor *y)
{
    const struct softmax_groups_attr *a = y->attr;
    const struct copse_row_work w = copse__row_work(y->shape);
    return (struct copse_row_work){ w.cols > 0 ? w.rows * a->groups : 0, w.cols / a->groups };
}

static copse_status softmax_groups_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_row_work w = rows_of(y);
    const struct copse_params_softmax_groups p = {
        w.rows, w.cols, ((const struct softmax_groups_attr *)y->attr)->scale
    };
    return COPSE_LAUNCH(l, softmax_groups, NULL, p, p.rows, copse__of(y->in[0]), copse__of(y));
}

static copse_status softmax_groups_grad_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct copse_row_work w = rows_of(dx);
    const struct copse_params_softmax_groups_grad p = {
        w.rows, w.cols, ((const struct softmax_groups_attr *)dx->attr)->scale
    };
    return COPSE_LAUNCH(l, softmax_groups_grad, NULL, p, p.rows, copse__of(dx->in[0]),
                        copse__of(dx->in[1]), copse__of(dx));
}

/* The groups are the rows of softmax's derivative, whose derivative this is. */
static void softmax_groups_grad_gradient(copse_graph *g, const copse_tensor *dx, copse_tensor *u,
                                         copse_tensor **out)
{
    const struct softmax_groups_attr *a = dx->attr;
    const struct copse_row_work w = rows_of(dx);
    copse_tensor *both[] = { dx->in[0], dx->in[1] };
    for (uint32_t i = 0; i < 2; i++)
        both[i] = copse_reshape(g, both[i], COPSE_SHAPE(w.rows, w.cols));
    u = copse_reshape(g, u, COPSE_SHAPE(w.rows, w.cols));
    u = copse_multiply_by(g, u, a->scale);
    copse_tensor *same = copse__softmax_grad(g, both[0], both[1], false);
    copse__partials(g, same, u, both, 2, out);
    for (uint32_t i = 0; i < 2; i++)
        if (out[i])
            out[i] = copse_reshape(g, out[i], dx->shape);
}

/* dx of y and dy. */
static const struct copse_op op_softmax_groups_grad = {
    .name = "softmax_groups_grad",
    .attr_size = sizeof(struct softmax_groups_attr),
    .infer = softmax_groups_infer,
    .gradient = softmax_groups_grad_gradient,
    .lower = softmax_groups_grad_lower,
};

static void softmax_groups_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                    copse_tensor **dx)
{
    dx[0] = COPSE_NODE(g, &op_softmax_groups_grad, y->attr, (copse_tensor *)y, dy);
}

static const struct copse_op op_softmax_groups = {
    .name = "softmax_groups",
    .attr_size = sizeof(struct softmax_groups_attr),
    .infer = softmax_groups_infer,
    .gradient = softmax_groups_gradient,
    .lower = softmax_groups_lower,
};

copse_tensor *copse_softmax_groups(copse_graph *g, copse_tensor *x, uint32_t groups, float scale)
{
    const struct softmax_groups_attr a = { groups, scale };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("softmax_groups", g, x));
    if (groups == 0)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "softmax_groups: 0 groups");
    if (!(scale >= LEAST_SCALE && scale <= MOST_SCALE))
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "softmax_groups: scale %g is not a number from 1e-30 to 1e30",
                             (double)scale);
    return COPSE_NODE(g, &op_softmax_groups, &a, x);
}

/* ---- references ---- */

/* The largest element of a row, or NaN. */
static double largest_of(const struct copse_host_arg *x, size_t first, size_t cols)
{
    double m = -INFINITY;
    for (size_t i = first; i < first + cols && !isnan(m); i++)
        m = copse__load(x, i) <= m ? m : copse__load(x, i);
    return m;
}

static void softmax_groups_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_softmax_groups *p = params;
    const double scale = (double)p->scale;
    (void)spec;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        const double m = largest_of(&args[0], first, p->cols);
        double sum = 0;
        for (size_t i = first; i < first + p->cols; i++)
            sum += exp(scale * (copse__load(&args[0], i) - m));
        for (size_t i = first; i < first + p->cols; i++)
            copse__store(&args[1], i,
                         isinf(m) ? NAN : exp(scale * (copse__load(&args[0], i) - m)) / sum);
    }
}

static void softmax_groups_grad_host(const void *params, const int32_t *spec,
                                     const struct copse_host_arg *args)
{
    const struct copse_params_softmax_groups_grad *p = params;
    (void)spec;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        double sum = 0;
        for (size_t i = first; i < first + p->cols; i++)
            sum += copse__load(&args[0], i) * copse__load(&args[1], i);
        for (size_t i = first; i < first + p->cols; i++)
            copse__store(&args[2], i,
                         (double)p->scale * copse__load(&args[0], i) *
                             (copse__load(&args[1], i) - sum));
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_LINE

static void softmax_groups_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_groups p = { R, C, 0.5f };
    (void)k;
    COPSE_SELF_TEST(t, p, R, R * C, R * C);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void softmax_groups_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_softmax_groups_grad p = { R, C, 0.5f };
    (void)k;
    COPSE_SELF_TEST(t, p, R, R * C, R * C, R * C);
    copse__test_quarters(t, 0);
}

/* ---- bases of tolerances ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

/* The distances to the largest element, which are rounded before they are exponents: y times those
   of the element and of the sum. */
static void softmax_groups_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_softmax_groups *p = params;
    (void)spec;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        const double m = largest_of(&args[0], first, p->cols);
        double sum = 0, distances = 0;
        for (size_t i = first; i < first + p->cols; i++) {
            const double d = (double)p->scale * (m - copse__load(&args[0], i)), e = exp(-d);
            sum += e;
            distances += e > 0 ? e * d : 0;
        }
        for (size_t i = first; i < first + p->cols; i++) {
            const double d = (double)p->scale * (m - copse__load(&args[0], i)), e = exp(-d);
            copse__store(&args[1], i, e > 0 ? e / sum * (d + distances / sum) : 0);
        }
    }
}

/* |scale y| (|dy| + sum of |y dy|) */
static void softmax_groups_grad_size(const void *params, const int32_t *spec,
                                     const struct copse_host_arg *args)
{
    const struct copse_params_softmax_groups_grad *p = params;
    (void)spec;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        double sum = LEAST * p->cols;
        for (size_t i = first; i < first + p->cols; i++)
            sum += fabs(copse__load(&args[0], i) * copse__load(&args[1], i));
        for (size_t i = first; i < first + p->cols; i++)
            copse__store(&args[2], i,
                         ((double)p->scale * fabs(copse__load(&args[0], i)) + LEAST) *
                                 (fabs(copse__load(&args[1], i)) + sum) +
                             LEAST);
    }
}

/* ---- laws ---- */

static bool softmax_groups_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, 1, cols, cols);
}

static bool softmax_groups_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, 1, cols, cols, cols);
}

const struct copse_law copse_law_softmax_groups = {
    .host = softmax_groups_host,
    .split = softmax_groups_split,
    .limit = { .ulp = 8, .ratio = 2, .size = softmax_groups_size },
    .self_test = softmax_groups_test,
};
const struct copse_law copse_law_softmax_groups_grad = {
    .host = softmax_groups_grad_host,
    .split = softmax_groups_grad_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = softmax_groups_grad_size },
    .self_test = softmax_groups_grad_test,
};
