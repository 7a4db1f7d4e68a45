/* SPDX-License-Identifier: MIT */
/* Losses of a tensor and a target of its shape: binary cross-entropy with logits, Kullback-Leibler
   divergence. */
#include <math.h>

#include "copse/ops/losses.h"
#include "core/device/kernel/launch_split.h"
#include "core/graph/type.h"
#include "core/ops/self_tests.h"

enum { BINARY, DIVERGENCE }; /* KIND of the kernels */

struct pair_attr {
    int32_t kind;
};

static copse_status pair_loss_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* Parameters of both kernels: the weights repeat. */
#define PARAMS(x, weight)                                                  \
    {                                                                      \
        (uint32_t) copse__elements((x)->shape),                            \
            (uint32_t)COPSE_MAX(copse__elements((weight)->shape), 1), 0, 0 \
    }

static copse_status pair_loss_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct copse_params_pair_loss p = PARAMS(y, y->in[2]);
    const int32_t spec[COPSE_MAX_SPECS] = { ((const struct pair_attr *)y->attr)->kind };
    copse__divisor(p.d, &p.m, &p.h);
    return COPSE_LAUNCH(l, pair_loss, spec, p, copse__groups_for(l, COPSE_KERNEL_pair_loss, p.n),
                        copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y->in[2]),
                        copse__of(y));
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    struct copse_params_pair_loss_grad p = PARAMS(dx, dx->in[2]);
    const int32_t spec[COPSE_MAX_SPECS] = { ((const struct pair_attr *)dx->attr)->kind };
    copse__divisor(p.d, &p.m, &p.h);
    return COPSE_LAUNCH(l, pair_loss_grad, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_pair_loss_grad, p.n),
                        copse__of(dx->in[0]), copse__of(dx->in[1]), copse__of(dx->in[2]),
                        copse__of(dx->in[3]), copse__of(dx));
}

/* Of dx = dy ((1 - y + w y) s - w y), s = sigmoid(x), with v = dy times the slope of dx:
   v s (1 - s) (1 - y + w y) by x, -v (s + w (1 - s)) by the target y, -v y (1 - s) by w. */
static void binary_second(copse_graph *g, const copse_tensor *dx, copse_tensor *v,
                          copse_tensor **out)
{
    copse_tensor *x = dx->in[0], *y = dx->in[1], *w = dx->in[2], *one, *s, *rest, *t;
    s = copse_sigmoid(g, x);
    rest = copse_neg(g, x);
    rest = copse_sigmoid(g, rest);
    if (x->needs_gradient) {
        one = copse_scalar(g, 1);
        t = copse_sub(g, w, one);
        t = copse_mul(g, y, t);
        t = copse_add(g, t, one);
        t = copse_mul(g, t, s);
        t = copse_mul(g, t, rest);
        out[0] = copse_mul(g, t, v);
    }
    v = copse_neg(g, v);
    if (y->needs_gradient) {
        t = copse_mul(g, rest, w);
        t = copse_add(g, t, s);
        out[1] = copse_mul(g, t, v);
    }
    if (w->needs_gradient) {
        t = copse_mul(g, y, rest);
        t = copse_mul(g, t, v);
        out[2] = copse__sum_to(g, t, w->shape);
    }
}

/* By dy it is the same node. The divergence's is -p dy. */
static void pair_loss_second(copse_graph *g, const copse_tensor *dx, copse_tensor *slope,
                             copse_tensor **out)
{
    const bool is_binary = ((const struct pair_attr *)dx->attr)->kind == BINARY;
    copse_tensor *p = dx->in[1], *dy = dx->in[3];
    if (dy->needs_gradient)
        out[3] = COPSE_NODE(g, dx->op, dx->attr, dx->in[0], p, dx->in[2], slope);
    if (!is_binary && !p->needs_gradient)
        return;
    slope = copse_mul(g, slope, dy);
    if (is_binary)
        binary_second(g, dx, slope, out);
    else
        out[1] = copse_neg(g, slope);
}

/* Of x, targets, weights, dy. */
static const struct copse_op op_gradient = {
    .name = "pair_loss_gradient",
    .attr_size = sizeof(struct pair_attr),
    .infer = pair_loss_infer,
    .gradient = pair_loss_second,
    .lower = gradient_lower,
};

/* ---- binary cross-entropy ---- */

/* Targets and weights that depend on variables: with s = softplus(-x), dy ((w - 1) s - x) and dy y
   s. */
static void binary_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    copse_tensor *x = y->in[0], *target = y->in[1], *weight = y->in[2], *tail, *t;
    if (x->needs_gradient)
        dx[0] = COPSE_NODE(g, &op_gradient, y->attr, x, target, weight, dy);
    if (!target->needs_gradient && !weight->needs_gradient)
        return;
    tail = copse_neg(g, x);
    tail = copse_softplus(g, tail);
    if (target->needs_gradient) {
        t = copse_mul(g, tail, weight);
        t = copse_sub(g, t, tail);
        t = copse_sub(g, t, x);
        dx[1] = copse_mul(g, t, dy);
    }
    if (weight->needs_gradient) {
        t = copse_mul(g, target, tail);
        t = copse_mul(g, t, dy);
        dx[2] = copse__sum_to(g, t, weight->shape);
    }
}

static const struct copse_op op_binary = {
    .name = "binary_cross_entropy",
    .attr_size = sizeof(struct pair_attr),
    .infer = pair_loss_infer,
    .gradient = binary_gradient,
    .lower = pair_loss_lower,
};

/* Whether `w` is one number or has the shape of the last axes of x. */
static bool pair_loss_repeats(copse_shape w, copse_shape x)
{
    for (uint32_t i = 0; i < w.rank; i++)
        if (w.rank > x.rank || w.dims[w.rank - 1 - i] != x.dims[x.rank - 1 - i])
            return copse__elements(w) == 1 && w.rank <= x.rank;
    return true;
}

static copse_status check_pair(const char *op, const copse_tensor *x, const copse_tensor *target,
                               copse_averaging averaging)
{
    COPSE_TRY(copse__check_averaging(op, averaging));
    if (x->type != COPSE_F32 || target->type != COPSE_F32 ||
        !copse__shape_equal(x->shape, target->shape))
        return copse_fail(COPSE_ERR_SHAPE,
                          "%s: operands %s%s and %s%s: expected two f32 tensors of one shape", op,
                          copse_type_name(x->type), COPSE_SHAPE_TEXT(x->shape),
                          copse_type_name(target->type), COPSE_SHAPE_TEXT(target->shape));
    return COPSE_OK;
}

copse_tensor *copse_binary_cross_entropy(copse_graph *g, copse_tensor *logits,
                                         copse_tensor *targets, copse_tensor *positive_weight,
                                         copse_averaging averaging)
{
    static const char name[] = "binary_cross_entropy";
    const struct pair_attr a = { BINARY };
    copse_tensor *weight = positive_weight, *losses;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(name, g, logits, targets));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &logits, &targets));
    COPSE_LATCH(g, check_pair(name, logits, targets, averaging));
    if (!weight)
        weight = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(name, g, weight));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &weight));
    if (weight->type != COPSE_F32 || !pair_loss_repeats(weight->shape, logits->shape))
        return copse__refuse(
            g, COPSE_ERR_SHAPE,
            "%s: positive_weight %s%s for logits f32%s: expected f32, one number or the shape "
            "of the last axes",
            name, copse_type_name(weight->type), COPSE_SHAPE_TEXT(weight->shape),
            COPSE_SHAPE_TEXT(logits->shape));
    losses = COPSE_NODE(g, &op_binary, &a, logits, targets, weight);
    return copse__noted(g, copse__average(g, losses, averaging),
                        "while adding binary_cross_entropy");
}

/* ---- Kullback-Leibler divergence ---- */

/* A p that depends on variables: dy (log p - log q + 1), 0 where p is 0. */
static void divergence_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                copse_tensor **dx)
{
    copse_tensor *log_q = y->in[0], *p = y->in[1], *one, *zero, *t;
    if (log_q->needs_gradient)
        dx[0] = COPSE_NODE(g, &op_gradient, y->attr, log_q, p, y->in[2], dy);
    if (!p->needs_gradient)
        return;
    one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    t = copse_log(g, p);
    t = copse_sub(g, t, log_q);
    t = copse_add(g, t, one);
    t = copse_mul(g, t, dy);
    dx[1] = copse_where(g, p, t, zero);
}

static const struct copse_op op_divergence = {
    .name = "kl_divergence",
    .attr_size = sizeof(struct pair_attr),
    .infer = pair_loss_infer,
    .gradient = divergence_gradient,
    .lower = pair_loss_lower,
};

copse_tensor *copse_kl_divergence(copse_graph *g, copse_tensor *log_q, copse_tensor *p,
                                  copse_averaging averaging)
{
    static const char name[] = "kl_divergence";
    const struct pair_attr a = { DIVERGENCE };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(name, g, log_q, p));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &log_q, &p));
    COPSE_LATCH(g, check_pair(name, log_q, p, averaging));
    if (log_q->shape.rank == 0)
        return copse__refuse(g, COPSE_ERR_SHAPE,
                             "%s: the operands are scalars: expected rows along the last axis",
                             name);
    const uint32_t last = log_q->shape.rank - 1;
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1); /* not read */
    copse_tensor *t = COPSE_NODE(g, &op_divergence, &a, log_q, p, one);
    t = copse__noted(g, copse_sum(g, t, &last, 1, false), "while adding kl_divergence");
    return copse__noted(g, copse__average(g, t, averaging), "while adding kl_divergence");
}

/* ---- references ---- */

static double pair_loss_binary(double x, double y, double w)
{
    const double off = 1 - y, on = w * y, side = x > 0 ? off : on;
    return (off + on) * log1p(exp(-fabs(x))) + (side == 0 ? 0 : side * fabs(x));
}

static void pair_loss_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_pair_loss *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double x = copse__load(&args[0], i), y = copse__load(&args[1], i);
        copse__store(&args[3], i,
                     spec[0] == BINARY ? pair_loss_binary(x, y, copse__load(&args[2], i % p->d))
                     : y == 0          ? 0
                                       : y * (log(y) - x));
    }
}

static double binary_slope(double x, double y, double w)
{
    const double e = exp(-fabs(x)), off = 1 - y, on = w * y;
    return (x > 0 ? off - on * e : off * e - on) / (1 + e);
}

static void pair_loss_grad_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_pair_loss_grad *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double x = copse__load(&args[0], i), y = copse__load(&args[1], i),
                     dy = copse__load(&args[3], i);
        copse__store(
            &args[4], i,
            (spec[0] == BINARY ? binary_slope(x, y, copse__load(&args[2], i % p->d)) : -y) * dy);
    }
}

/* ---- self-tests ---- */

#define PERIOD 7u

static void pair_loss_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_pair_loss p = { COPSE_TEST_N, PERIOD, 0, 0 };
    copse__divisor(PERIOD, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, p.n, PERIOD, p.n);
    copse__test_quarters(t, 1);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void pair_loss_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_pair_loss_grad p = { COPSE_TEST_N, PERIOD, 0, 0 };
    copse__divisor(PERIOD, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, p.n, PERIOD, p.n, p.n);
    copse__test_quarters(t, 1);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- bases of tolerances ---- */

/* The sums of the magnitudes of the terms. */
static void pair_loss_size(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_pair_loss *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double x = fabs(copse__load(&args[0], i)), y = copse__load(&args[1], i);
        const double factor = spec[0] == BINARY
        ? fabs(1 - y) + fabs(copse__load(&args[2], i % p->d) * y) : fabs(y);
        const double size = x + (spec[0] == BINARY ? log1p(exp(-x)) : fabs(log(fabs(y))));
        copse__store(&args[3], i, factor == 0 ? 0 : factor * size);
    }
}

static void pair_loss_grad_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_pair_loss_grad *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double y = copse__load(&args[1], i);
        const double factor = spec[0] == BINARY
        ? fabs(1 - y) + fabs(copse__load(&args[2], i % p->d) * y) : fabs(y);
        copse__store(&args[4], i, factor * fabs(copse__load(&args[3], i)));
    }
}

/* ---- laws ---- */

static bool pair_loss_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    struct copse_params_pair_loss *p = COPSE_SPLIT_PARAMS(pair_loss, o);
    return copse__split_matrix(o, 4, 2, &p->n, &p->d);
}

static bool pair_loss_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    struct copse_params_pair_loss_grad *p = COPSE_SPLIT_PARAMS(pair_loss_grad, o);
    return copse__split_matrix(o, 5, 2, &p->n, &p->d);
}

const struct copse_law copse_law_pair_loss = {
    .host = pair_loss_host,
    .split = pair_loss_split,
    .limit = { .ulp = 1, .ratio = 16, .size = pair_loss_size },
    .self_test = pair_loss_test,
};
const struct copse_law copse_law_pair_loss_grad = {
    .host = pair_loss_grad_host,
    .split = pair_loss_grad_split,
    .limit = { .ulp = 1, .ratio = 16, .size = pair_loss_grad_size },
    .self_test = pair_loss_grad_test,
};
