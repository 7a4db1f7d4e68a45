/* SPDX-License-Identifier: MIT */
/* Cross-entropy with class weights, label smoothing and an ignored label: losses of rows, and their
   mean over the weights. The probabilities are not stored. */
#include <math.h>

#include "copse/ops/losses.h"
#include "core/device/kernel/launch_split.h"
#include "core/graph/type.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/softmax.h"

struct class_attr {
    int32_t has_ignored, ignored;
    float smoothing;
};

/* The factors of the weights: at the label, at each class, at the label without the share of all
   classes. */
struct factors {
    float at_label, share, keep;
};

static struct factors factors_of(const struct class_attr *a, uint32_t classes)
{
    const double share = (double)a->smoothing / classes, keep = 1 - (double)a->smoothing;
    return (struct factors){ (float)(keep + share), (float)share, (float)keep };
}

static copse_status class_loss_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(y->in[0]->shape.dims[0]);
    *type = COPSE_F32;
    return COPSE_OK;
}

/* Without smoothing a row has one term; otherwise one for each class, which are added. */
static copse_status class_loss_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct class_attr *a = y->attr;
    const uint32_t rows = y->in[0]->shape.dims[0], cols = y->in[0]->shape.dims[1];
    const bool is_wide = a->smoothing > 0.0f;
    const struct factors f = factors_of(a, cols);
    struct copse_params_class_loss p = { .n = is_wide ? rows * cols : rows,
                                         .cols = cols,
                                         .ignored = (uint32_t)a->ignored,
                                         .at_label = f.at_label,
                                         .share = f.share };
    const int32_t spec[COPSE_MAX_SPECS] = { is_wide, a->has_ignored };
    struct copse_operand terms = copse__of(y);
    copse__divisor(cols, &p.m, &p.h);
    if (is_wide && p.n > 0)
        COPSE_TRY(copse__scratch(l, p.n, &terms));
    COPSE_TRY(COPSE_LAUNCH(l, class_loss, spec, p,
                           copse__groups_for(l, COPSE_KERNEL_class_loss, p.n), copse__of(y->in[0]),
                           copse__of(y->in[1]), copse__of(y->in[2]), copse__of(y->in[3]), terms));
    return is_wide ? copse__lower_reduce(l, COPSE_AXIS_SUM, rows, cols, 1, terms, copse__of(y))
                   : COPSE_OK;
}

static copse_status gradient_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    *shape = dx->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct class_attr *a = dx->attr;
    const uint32_t cols = dx->shape.dims[1];
    const struct factors f = factors_of(a, cols);
    struct copse_params_class_loss_grad p = { .n = dx->shape.dims[0] * cols,
                                              .cols = cols,
                                              .ignored = (uint32_t)a->ignored,
                                              .at_label = f.at_label,
                                              .share = f.share,
                                              .keep = f.keep,
                                              .smoothing = a->smoothing };
    const int32_t spec[COPSE_MAX_SPECS] = { a->has_ignored };
    copse__divisor(cols, &p.m, &p.h);
    return COPSE_LAUNCH(
        l, class_loss_grad, spec, p, copse__groups_for(l, COPSE_KERNEL_class_loss_grad, p.n),
        copse__of(dx->in[0]), copse__of(dx->in[1]), copse__of(dx->in[2]), copse__of(dx->in[3]),
        copse__of(dx->in[4]), copse__of(dx->in[5]), copse__of(dx));
}

static copse_tensor *weights_of_rows(copse_graph *g, copse_tensor *labels, copse_tensor *weights,
                                     const struct class_attr *a);

/* 0 for the examples whose label is ignored. */
static copse_tensor *without_ignored(copse_graph *g, copse_tensor *labels, copse_tensor *of_rows,
                                     const struct class_attr *a)
{
    copse_tensor *ignored = copse_fill(g, COPSE_I32, COPSE_SCALAR, (double)a->ignored);
    ignored = copse_equal(g, labels, ignored);
    copse_tensor *zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    return copse_where(g, ignored, zero, of_rows);
}

static bool refuse_weights(copse_graph *g, const copse_tensor *weights)
{
    if (weights->needs_gradient)
        (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                            "cross_entropy: there is no derivative with respect to class_weights");
    return weights->needs_gradient;
}

/* Of (all p - target) dy, where `all` is the sum of a row's target. By dy it is the sum over the row
   of the slope u times the same node of dy = 1; by the logits all dy times softmax's derivative,
   and 0 where `all` is 0. */
static void class_loss_second(copse_graph *g, const copse_tensor *dx, copse_tensor *u,
                              copse_tensor **out)
{
    const struct class_attr *a = dx->attr;
    const uint32_t rows = dx->shape.dims[0], last = 1;
    copse_tensor *logits = dx->in[0], *weights = dx->in[3], *dy = dx->in[5], *t, *all, *zero;
    if (refuse_weights(g, weights))
        return;
    if (dy->needs_gradient) {
        t = copse_fill(g, COPSE_F32, COPSE_SHAPE(rows), 1);
        t = COPSE_NODE(g, dx->op, a, logits, dx->in[1], dx->in[2], weights, dx->in[4], t);
        t = copse_mul(g, t, u);
        out[5] = copse_sum(g, t, &last, 1, false);
    }
    if (!logits->needs_gradient)
        return;
    all = weights_of_rows(g, dx->in[1], weights, a);
    all = copse_multiply_by(g, all, factors_of(a, dx->shape.dims[1]).keep);
    if (a->smoothing > 0.0f) {
        t = copse_multiply_by(g, dx->in[4], a->smoothing);
        all = copse_add(g, all, t);
        if (a->has_ignored)
            all = without_ignored(g, dx->in[1], all, a);
    }
    all = copse_reshape(g, all, COPSE_SHAPE(rows, 1));
    dy = copse_reshape(g, dy, COPSE_SHAPE(rows, 1));
    dy = copse_mul(g, all, dy);
    t = copse_softmax(g, logits);
    t = copse__softmax_grad(g, t, u, false);
    t = copse_mul(g, t, dy);
    zero = copse_scalar(g, 0);
    out[0] = copse_where(g, all, t, zero);
}

/* Of logits, labels, statistics, weights, the mean of the weights, dy. */
static const struct copse_op op_gradient = {
    .name = "cross_entropy_gradient",
    .attr_size = sizeof(struct class_attr),
    .infer = gradient_infer,
    .gradient = class_loss_second,
    .lower = gradient_lower,
};

static void class_loss_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                copse_tensor **dx)
{
    if (refuse_weights(g, y->in[3]))
        return;
    copse_tensor *mean = copse_mean(g, y->in[3], NULL, 0, false);
    dx[0] = COPSE_NODE(g, &op_gradient, y->attr, y->in[0], y->in[1], y->in[2], y->in[3], mean, dy);
}

/* Losses of rows, of logits, labels, statistics and weights. */
static const struct copse_op op_class_loss = {
    .name = "cross_entropy",
    .attr_size = sizeof(struct class_attr),
    .infer = class_loss_infer,
    .gradient = class_loss_gradient,
    .lower = class_loss_lower,
};

/* ---- the mean over the weights ---- */

/* The weight of each example: that of its label, 0 if it is ignored, NaN for another label out of
   range. */
static copse_tensor *weights_of_rows(copse_graph *g, copse_tensor *labels, copse_tensor *weights,
                                     const struct class_attr *a)
{
    copse_tensor *of_rows = copse_gather(g, weights, labels);
    return a->has_ignored ? without_ignored(g, labels, of_rows, a) : of_rows;
}

static copse_tensor *mean_over_weights(copse_graph *g, copse_tensor *losses, copse_tensor *labels,
                                       copse_tensor *weights, const struct class_attr *a)
{
    return copse__weighted_mean(g, losses, weights_of_rows(g, labels, weights, a));
}

static copse_status class_loss_check(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                                     const struct copse_cross_entropy_params *p)
{
    COPSE_TRY(copse__check_averaging("cross_entropy", p->averaging));
    if (!(p->label_smoothing >= 0.0f && p->label_smoothing <= 1.0f))
        return copse_fail(COPSE_ERR_ARGUMENT, "cross_entropy: label_smoothing %g is not 0 to 1",
                          (double)p->label_smoothing);
    if (logits->type != COPSE_F32 || logits->shape.rank != 2 || logits->shape.dims[1] == 0 ||
        labels->type != COPSE_I32 || labels->shape.rank != 1 ||
        labels->shape.dims[0] != logits->shape.dims[0])
        return copse_fail(COPSE_ERR_SHAPE,
                          "cross_entropy: operands %s%s and %s%s: expected f32 logits [examples, "
                          "classes] and i32 labels "
                          "[examples]",
                          copse_type_name(logits->type), COPSE_SHAPE_TEXT(logits->shape),
                          copse_type_name(labels->type), COPSE_SHAPE_TEXT(labels->shape));
    if (!p->class_weights)
        return COPSE_OK;
    COPSE_TRY(COPSE_CHECK_OPERANDS("cross_entropy", g, p->class_weights));
    if (p->class_weights->type != COPSE_F32 || p->class_weights->shape.rank != 1 ||
        p->class_weights->shape.dims[0] != logits->shape.dims[1])
        return copse_fail(
            COPSE_ERR_SHAPE,
            "cross_entropy: class_weights %s%s: expected f32 [%u], one for each class",
            copse_type_name(p->class_weights->type), COPSE_SHAPE_TEXT(p->class_weights->shape),
            (unsigned)logits->shape.dims[1]);
    return COPSE_OK;
}

static copse_tensor *class_loss_add(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                                    const struct copse_cross_entropy_params *p)
{
    const struct class_attr a = { p->ignores, p->ignored_label, p->label_smoothing };
    copse_tensor *stats, *weights = p->class_weights, *losses;
    if (!weights)
        weights = copse_fill(g, COPSE_F32, COPSE_SHAPE(logits->shape.dims[1]), 1);
    stats = copse__row_stats(g, logits);
    losses = COPSE_NODE(g, &op_class_loss, &a, logits, labels, stats, weights);
    return p->averaging == COPSE_MEAN && (p->class_weights || p->ignores)
               ? mean_over_weights(g, losses, labels, weights, &a)
               : copse__average(g, losses, p->averaging);
}

copse_tensor *copse_cross_entropy(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                                  const struct copse_cross_entropy_params *params)
{
    static const struct copse_cross_entropy_params defaults;
    const struct copse_cross_entropy_params *p = params ? params : &defaults;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("cross_entropy", g, logits, labels));
    COPSE_LATCH(g, copse_no_reserved(copse_cross_entropy_params, params));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &logits));
    COPSE_LATCH(g, class_loss_check(g, logits, labels, p));
    const bool is_plain = !p->class_weights && !p->ignores && p->averaging != COPSE_EACH &&
                          !(p->label_smoothing > 0.0f);
    copse_tensor *y = is_plain ? copse_sparse_cross_entropy(g, logits, labels, p->averaging)
                               : class_loss_add(g, logits, labels, p);
    return copse__noted(g, y, "while adding cross_entropy");
}

/* ---- references ---- */

static void class_loss_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_class_loss *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = spec[0] ? i / p->cols : i;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const bool is_ignored = spec[1] && label == p->ignored;
        double loss = is_ignored ? 0 : NAN;
        if (label < p->cols && !is_ignored) {
            const size_t col = spec[0] ? i % p->cols : label;
            const double q =
                copse__load(&args[3], col) * (double)(col == label ? p->at_label : p->share);
            const double x =
                copse__load(&args[0], row * p->cols + col) - copse__load(&args[2], 2 * row);
            loss = q == 0 ? 0 : q * (log1p(copse__load(&args[2], 2 * row + 1)) - x);
        }
        copse__store(&args[4], i, loss);
    }
}

static void class_loss_grad_host(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_class_loss_grad *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols, col = i % p->cols;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const bool is_ignored = spec[0] && label == p->ignored;
        double d = is_ignored ? 0 : NAN;
        if (label < p->cols && !is_ignored) {
            const double t = copse__load(&args[2], 2 * row + 1);
            const double e = exp(copse__load(&args[0], i) - copse__load(&args[2], 2 * row));
            const double all = copse__load(&args[3], label) * (double)p->keep +
                               copse__load(&args[4], 0) * (double)p->smoothing;
            const double q =
                copse__load(&args[3], col) * (double)(col == label ? p->at_label : p->share);
            d = col == label && 2 * e > 1 + t ? all * ((e - 1 - t) / (1 + t)) + (all - q)
                                              : all * (e / (1 + t)) - q;
            d = all == 0 && q == 0 ? 0 : d * copse__load(&args[5], row);
        }
        copse__store(&args[6], i, d);
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_COLS

static void class_loss_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_class_loss p = {
        .n = k->spec[0] ? R * C : R, .cols = C, .ignored = 2, .at_label = 0.75f, .share = 0.25f
    };
    copse__divisor(C, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), R * C, R, 2 * R, C, p.n);
    copse__test_quarters(t, 2);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void class_loss_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_class_loss_grad p = { .n = R * C,
                                              .cols = C,
                                              .ignored = 2,
                                              .at_label = 0.75f,
                                              .share = 0.25f,
                                              .keep = 0.5f,
                                              .smoothing = 0.5f };
    copse__divisor(C, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), R * C, R, 2 * R, C, 1, R, p.n);
    copse__test_quarters(t, 2);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- bases of tolerances ---- */

/* The sums of the magnitudes of the terms. */
static void class_loss_size(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_class_loss *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = spec[0] ? i / p->cols : i;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const size_t col = spec[0] ? i % p->cols : COPSE_MIN(label, p->cols - 1);
        const double q =
            fabs(copse__load(&args[3], col) * (double)(col == label ? p->at_label : p->share));
        const double size = fabs(copse__load(&args[0], row * p->cols + col)) +
                            fabs(copse__load(&args[2], 2 * row)) +
                            fabs(log1p(fabs(copse__load(&args[2], 2 * row + 1))));
        copse__store(&args[4], i, q == 0 ? 0 : q * size);
    }
}

static void class_loss_grad_size(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_class_loss_grad *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols, col = i % p->cols;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const double share = exp(copse__load(&args[0], i) - copse__load(&args[2], 2 * row)) /
                             (1 + copse__load(&args[2], 2 * row + 1));
        const double all =
            fabs(copse__load(&args[3], COPSE_MIN(label, p->cols - 1)) * (double)p->keep) +
            fabs(copse__load(&args[4], 0) * (double)p->smoothing);
        const double q =
            fabs(copse__load(&args[3], col) * (double)(col == label ? p->at_label : p->share));
        copse__store(&args[6], i, (all * (1 + share) + q) * fabs(copse__load(&args[5], row)));
    }
}

/* ---- laws ---- */

static bool class_loss_split(const struct copse_command *c, struct copse_split *o)
{
    const uint64_t cols = o->params[1];
    return c->kernel->spec[0] ? COPSE_SPLIT_EACH(o, cols, cols, 1, 2, 0, cols)
                              : COPSE_SPLIT_EACH(o, 1, cols, 1, 2, 0, 1);
}

static bool class_loss_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, cols, cols, 1, 2, 0, 0, 1, cols);
}

const struct copse_law copse_law_class_loss = {
    .host = class_loss_host,
    .split = class_loss_split,
    .limit = { .ulp = 1, .ratio = 16, .size = class_loss_size },
    .self_test = class_loss_test,
};
const struct copse_law copse_law_class_loss_grad = {
    .host = class_loss_grad_host,
    .split = class_loss_grad_split,
    .limit = { .ulp = 1, .ratio = 16, .size = class_loss_grad_size },
    .self_test = class_loss_grad_test,
};
