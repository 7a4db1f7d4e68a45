/* SPDX-License-Identifier: MIT */
/* Cross-entropy of the logits x w + bias, in chunks of classes: the logits of a chunk live until
   its statistics are joined to those of the chunks before, and the derivative computes them
   again. */
#include "core/ops/loss/dense_loss.h"
#include "core/device/kernel/launch_split.h"

#include <math.h>

#include "copse/matmul.h"
#include "core/graph/type.h"
#include "core/ops/reduce/column_sum.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/softmax.h"

#define CHUNK_LOGITS (1u << 22) /* of a chunk: 16 MiB */
#define CHUNK_LEAST  256u       /* classes of a chunk */
#define CHUNK_STEP   64u

/* ---- chunks ---- */

/* The layer. Its operands are f32; its products convert them to `type`, as those of copse_dense
   do. */
struct layer {
    copse_tensor *x, *w, *bias; /* [n, d], [d, classes], [classes] or NULL */
    bool is_transposed;         /* w is [classes, d] */
    copse_type type;
    uint32_t rows, width, classes, chunk;
};

static uint32_t chunk_of(uint32_t rows, uint32_t classes)
{
    const uint32_t most = COPSE_MAX(CHUNK_LOGITS / COPSE_MAX(rows, 1u), CHUNK_LEAST);
    const uint32_t chunks = (classes - 1) / most + 1; /* of about equal size */
    return (uint32_t)copse__round_up((classes - 1) / chunks + 1, CHUNK_STEP);
}

static uint32_t chunks_of(const struct layer *a)
{
    return (a->classes - 1) / a->chunk + 1;
}

/* The operands of a chunk of the layer. */
struct chunk {
    uint32_t first, cols;
    copse_tensor *x, *w, *logits; /* logits [n, cols] */
};

static void dense_loss_compute(copse_graph *g, const struct layer *a, uint32_t i, struct chunk *c)
{
    copse_tensor *bias = a->bias;
    *c = (struct chunk){ .first = i * a->chunk, .x = a->x, .w = a->w };
    c->cols = COPSE_MIN(a->chunk, a->classes - c->first);
    if (c->cols < a->classes) {
        c->w = a->is_transposed ? copse_slice(g, a->w, (uint32_t[]){ c->first, 0 },
                                              (uint32_t[]){ c->cols, a->width })
                                : copse_slice(g, a->w, (uint32_t[]){ 0, c->first },
                                              (uint32_t[]){ a->width, c->cols });
        if (bias)
            bias = copse_slice(g, bias, &c->first, &c->cols);
    }
    if (copse__type_is_half(a->type)) {
        c->x = copse__cast_once(g, a->x, a->type);
        c->w = copse_cast(g, c->w, a->type);
    }
    if (!a->is_transposed) {
        c->logits = copse_dense(g, c->x, c->w, bias, COPSE_LINEAR);
        return;
    }
    c->logits = copse_matmul(g, c->x, c->w, false, true);
    if (bias)
        c->logits = copse_add(g, c->logits, bias);
}

/* ---- nodes of a chunk ---- */

struct chunk_attr {
    uint32_t first, classes;
    int32_t has_ignored, ignored;
};

static copse_status label_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[1]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status label_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct chunk_attr *a = y->attr;
    const copse_shape s = y->in[0]->shape;
    const struct copse_params_label_logit p = { s.dims[0], s.dims[1], a->first };
    return COPSE_LAUNCH(l, label_logit, NULL, p,
                        copse__groups_for(l, COPSE_KERNEL_label_logit, p.rows), copse__of(y->in[0]),
                        copse__of(y->in[1]), copse__of(y->in[2]), copse__of(y));
}

/* Operands: the logits of a chunk, the labels, and the results of earlier chunks. */
static const struct copse_op op_label = {
    .name = "label_logit",
    .attr_size = sizeof(struct chunk_attr),
    .infer = label_infer,
    .lower = label_lower,
};

static copse_status join_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(y->in[0]->shape.dims[0], 2);
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status join_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const copse_shape s = y->in[0]->shape;
    return copse__lower_row_stats(l, s.dims[0], s.dims[1], true, copse__of(y->in[0]), copse__of(y));
}

/* The statistics of rows from those of their parts, [rows, parts, 2]. */
static const struct copse_op op_join = { .name = "row_stats_join",
                                         .infer = join_infer,
                                         .lower = join_lower };

static copse_status slope_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status slope_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct chunk_attr *a = y->attr;
    const copse_shape s = y->shape;
    const int32_t spec[COPSE_MAX_SPECS] = { a->has_ignored };
    struct copse_params_logits_grad p = { .n = s.dims[0] * s.dims[1],
                                          .cols = s.dims[1],
                                          .first = a->first,
                                          .classes = a->classes,
                                          .ignored = (uint32_t)a->ignored };
    copse__divisor(p.cols, &p.m, &p.h);
    return COPSE_LAUNCH(l, logits_grad, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_logits_grad, p.n), copse__of(y->in[0]),
                        copse__of(y->in[1]), copse__of(y->in[2]), copse__of(y->in[3]),
                        copse__of(y));
}

/* The derivative of a chunk's logits, of logits, labels, statistics and dy [rows]. */
static const struct copse_op op_slope = {
    .name = "logits_grad",
    .advice = "for a loss that is differentiated twice call copse_dense and copse_cross_entropy "
              "instead of copse_dense_cross_entropy",
    .attr_size = sizeof(struct chunk_attr),
    .infer = slope_infer,
    .lower = slope_lower,
};

/* ---- the losses of rows ---- */

struct loss_attr {
    uint32_t chunk;
    copse_type type;
    int32_t has_ignored, ignored, is_transposed;
};

enum { PICKED, ZEROS, STATS, LABELS, X, W, BIAS };

static copse_status dense_loss_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[LABELS]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* The label's logit is a row of one class, whose number is 0. */
static copse_status dense_loss_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_params_cross_entropy p = { y->shape.dims[0], 1 };
    return COPSE_LAUNCH(
        l, cross_entropy, NULL, p, copse__groups_for(l, COPSE_KERNEL_cross_entropy, p.rows),
        copse__of(y->in[PICKED]), copse__of(y->in[ZEROS]), copse__of(y->in[STATS]), copse__of(y));
}

/* dx, which adds up over the chunks, and the parts of the derivatives of w and bias. */
struct slopes {
    copse_tensor *x, **w, **bias;
};

static void add_slopes(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                       const struct layer *a, uint32_t i, struct slopes *to)
{
    const struct loss_attr *of = y->attr;
    struct chunk_attr attr = { 0, a->classes, of->has_ignored, of->ignored };
    struct chunk c;
    dense_loss_compute(g, a, i, &c);
    attr.first = c.first;
    copse_tensor *slope =
        COPSE_NODE(g, &op_slope, &attr, c.logits, y->in[LABELS], y->in[STATS], dy);
    copse_tensor *narrow = copse__type_is_half(a->type) ? copse_cast(g, slope, a->type) : slope;
    if (y->in[X]->needs_gradient) {
        copse_tensor *dx = copse_matmul(g, narrow, c.w, false, !a->is_transposed);
        to->x = to->x ? copse_add(g, to->x, dx) : dx;
    }
    if (y->in[W]->needs_gradient)
        to->w[i] = a->is_transposed ? copse_matmul(g, narrow, c.x, true, false)
                                    : copse_matmul(g, c.x, narrow, true, false);
    if (a->bias && a->bias->needs_gradient)
        to->bias[i] = copse__column_sum(g, slope);
}

static struct layer layer_of(const copse_tensor *y)
{
    const struct loss_attr *of = y->attr;
    const copse_shape w = y->in[W]->shape;
    return (struct layer){ .x = y->in[X],
                           .w = y->in[W],
                           .bias = y->in_count > BIAS ? y->in[BIAS] : NULL,
                           .is_transposed = of->is_transposed,
                           .type = of->type,
                           .rows = y->shape.dims[0],
                           .width = w.dims[of->is_transposed],
                           .classes = w.dims[!of->is_transposed],
                           .chunk = of->chunk };
}

static void dense_loss_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                copse_tensor **dx)
{
    const struct layer a = layer_of(y);
    const uint32_t chunks = chunks_of(&a);
    struct copse_mem *mem = &g->ctx->base.mem;
    struct slopes to = { .w = copse__alloc(mem, 2 * (size_t)chunks, sizeof(copse_tensor *)) };
    COPSE_LATCH_VOID(g, copse_need_memory(to.w, "dense_cross_entropy"));
    to.bias = to.w + chunks;
    for (uint32_t i = 0; i < chunks; i++)
        add_slopes(g, y, dy, &a, i, &to);
    dx[X] = to.x;
    if (to.w[0])
        dx[W] = copse_concat(g, to.w, chunks, a.is_transposed ? 0 : 1);
    if (to.bias[0])
        dx[BIAS] = copse_concat(g, to.bias, chunks, 0);
    copse__free(mem, to.w);
}

/* Of the labels' logits, zeros, statistics, labels, x, w and a bias, if any. The derivative goes to
   the last three. */
static const struct copse_op op_loss = {
    .name = "dense_cross_entropy",
    .attr_size = sizeof(struct loss_attr),
    .infer = dense_loss_infer,
    .gradient = dense_loss_gradient,
    .lower = dense_loss_lower,
};

/* ---- the function ---- */

static copse_status dense_loss_check(const copse_tensor *x, const copse_tensor *w,
                                     const copse_tensor *bias, const copse_tensor *labels,
                                     const struct copse_cross_entropy_params *p, bool is_transposed)
{
    const copse_shape s = w->shape;
    const uint32_t width = s.dims[is_transposed], classes = s.dims[!is_transposed];
    COPSE_TRY(copse__check_averaging("dense_cross_entropy", p->averaging));
    if (p->label_smoothing != 0.0f || p->class_weights)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "dense_cross_entropy: label_smoothing and class_weights need all logits: call "
            "copse_dense and copse_cross_entropy");
    if (x->type != COPSE_F32 || w->type != COPSE_F32 || labels->type != COPSE_I32 ||
        x->shape.rank != 2 || s.rank != 2 || labels->shape.rank != 1 ||
        labels->shape.dims[0] != x->shape.dims[0] || width != x->shape.dims[1] || classes == 0)
        return copse_fail(
            COPSE_ERR_SHAPE,
            "dense_cross_entropy: operands %s%s, %s%s and %s%s: expected f32 x [examples, width], "
            "f32 w %s and i32 labels [examples]",
            copse_type_name(x->type), COPSE_SHAPE_TEXT(x->shape), copse_type_name(w->type),
            COPSE_SHAPE_TEXT(s), copse_type_name(labels->type), COPSE_SHAPE_TEXT(labels->shape),
            is_transposed ? "[classes, width]" : "[width, classes]");
    if (bias &&
        (bias->type != COPSE_F32 || bias->shape.rank != 1 || bias->shape.dims[0] != classes))
        return copse_fail(COPSE_ERR_SHAPE,
                          "dense_cross_entropy: bias %s%s: expected f32 [%u], one for each class",
                          copse_type_name(bias->type), COPSE_SHAPE_TEXT(bias->shape),
                          (unsigned)classes);
    return COPSE_OK;
}

/* The statistics of the rows, and the logits of the labels. */
static copse_tensor *dense_loss_survey(copse_graph *g, const struct layer *a, copse_tensor *labels,
                                       copse_tensor **picked)
{
    const uint32_t chunks = chunks_of(a);
    copse_tensor **parts = copse__alloc(&g->ctx->base.mem, chunks, sizeof(copse_tensor *));
    COPSE_LATCH(g, copse_need_memory(parts, "dense_cross_entropy"));
    *picked = copse_fill(g, COPSE_F32, COPSE_SHAPE(a->rows), 0);
    for (uint32_t i = 0; i < chunks; i++) {
        struct chunk c;
        dense_loss_compute(g, a, i, &c);
        parts[i] = copse__row_stats(g, c.logits);
        *picked = COPSE_NODE(g, &op_label, &((struct chunk_attr){ .first = c.first }), c.logits,
                             labels, *picked);
    }
    copse_tensor *stats = parts[0];
    if (chunks > 1) {
        copse_tensor *joined = copse_stack(g, parts, chunks, 1);
        stats = COPSE_NODE(g, &op_join, NULL, joined);
    }
    copse__free(&g->ctx->base.mem, parts);
    return stats;
}

/* 1 where the label has the largest logit, else 0. */
static copse_tensor *add_hits(copse_graph *g, copse_tensor *stats, copse_tensor *picked)
{
    const uint32_t rows = stats->shape.dims[0];
    copse_tensor *largest = copse_slice(g, stats, (uint32_t[]){ 0, 0 }, (uint32_t[]){ rows, 1 });
    largest = copse_reshape(g, largest, COPSE_SHAPE(rows));
    return copse_equal(g, picked, largest);
}

static copse_tensor *dense_loss_conclude(copse_graph *g, copse_tensor *losses, copse_tensor *labels,
                                         const struct copse_cross_entropy_params *p)
{
    if (!p->ignores)
        return copse__average(g, losses, p->averaging);
    copse_tensor *ignored = copse_fill(g, COPSE_I32, COPSE_SCALAR, (double)p->ignored_label);
    ignored = copse_equal(g, labels, ignored);
    copse_tensor *zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    losses = copse_where(g, ignored, zero, losses);
    if (p->averaging != COPSE_MEAN)
        return copse__average(g, losses, p->averaging);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    copse_tensor *weights = copse_sub(g, one, ignored);
    return copse__weighted_mean(g, losses, weights);
}

static copse_tensor *dense_loss_add(copse_graph *g, const struct layer *a, copse_tensor *labels,
                                    const struct copse_cross_entropy_params *p, copse_tensor **hits)
{
    const struct loss_attr attr = { a->chunk, a->type, p->ignores, p->ignored_label,
                                    a->is_transposed };
    copse_tensor *in[] = { NULL, NULL, NULL, labels, a->x, a->w, a->bias };
    in[STATS] = dense_loss_survey(g, a, labels, &in[PICKED]);
    if (copse__is_failed(in[STATS]))
        return in[STATS];
    in[ZEROS] = copse_fill(g, COPSE_I32, COPSE_SHAPE(a->rows), 0);
    if (hits)
        *hits = add_hits(g, in[STATS], in[PICKED]);
    copse_tensor *losses = copse__node(g, &op_loss, &attr, in, a->bias ? BIAS + 1 : BIAS);
    return dense_loss_conclude(g, losses, labels, p);
}

copse_tensor *copse__dense_cross_entropy(copse_graph *g, copse_tensor *x,
                                         const struct copse_dense_loss *layer, copse_tensor *labels,
                                         const struct copse_cross_entropy_params *params,
                                         copse_tensor **hits)
{
    static const struct copse_cross_entropy_params defaults;
    const struct copse_cross_entropy_params *p = params ? params : &defaults;
    struct layer a = {
        .x = x, .w = layer->w, .bias = layer->bias, .is_transposed = layer->is_transposed
    };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("dense_cross_entropy", g, x, a.w, labels));
    if (a.bias)
        COPSE_LATCH(g, COPSE_CHECK_OPERANDS("dense_cross_entropy", g, a.bias));
    COPSE_LATCH(g, copse_no_reserved(copse_cross_entropy_params, params));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &a.x, &a.w));
    if (a.bias)
        COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &a.bias));
    COPSE_LATCH(g, dense_loss_check(a.x, a.w, a.bias, labels, p, a.is_transposed));
    a.type = g->precision;
    a.rows = a.x->shape.dims[0];
    a.width = a.w->shape.dims[a.is_transposed];
    a.classes = a.w->shape.dims[!a.is_transposed];
    a.chunk = layer->chunk ? layer->chunk : chunk_of(a.rows, a.classes);
    return copse__noted(g, dense_loss_add(g, &a, labels, p, hits),
                        "while adding dense_cross_entropy");
}

copse_tensor *copse_dense_cross_entropy(copse_graph *g, copse_tensor *x, copse_tensor *w,
                                        copse_tensor *bias, copse_tensor *labels,
                                        const struct copse_cross_entropy_params *params,
                                        copse_tensor **hits)
{
    const struct copse_dense_loss layer = { .w = w, .bias = bias };
    copse_tensor *y = copse__dense_cross_entropy(g, x, &layer, labels, params, hits);
    if (hits && copse__is_failed(y))
        *hits = y;
    return y;
}

/* ---- references ---- */

static void label_logit_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_label_logit *p = params;
    (void)spec;
    for (size_t row = 0; row < p->rows; row++) {
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        double y = p->first > 0 ? copse__load(&args[2], row) : NAN;
        if (label >= p->first && label - p->first < p->cols)
            y = copse__load(&args[0], row * p->cols + (label - p->first));
        copse__store(&args[3], row, y);
    }
}

static void logits_grad_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_logits_grad *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols, class = i % p->cols + p->first;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const double t = copse__load(&args[2], 2 * row + 1),
                     e = exp(copse__load(&args[0], i) - copse__load(&args[2], 2 * row));
        const double d = (class == label ? e - 1 - t : e) / (1 + t) * copse__load(&args[3], row);
        copse__store(&args[4], i,
                     spec[0] && label == p->ignored ? 0
                     : label < p->classes           ? d
                                                    : NAN);
    }
}

/* ---- self-tests ---- */

enum { R = COPSE_TEST_ROWS, C = COPSE_TEST_COLS, FIRST = 5 };

/* Labels before the columns, in them, and after them. */
static void label_logit_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_label_logit p = { R, C, FIRST };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, R), R * C, R, R, R);
    for (uint32_t i = 0; i < R; i++)
        t->words[1][i] = i * (FIRST + 3);
}

static void logits_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_logits_grad p = {
        .n = R * C, .cols = C, .first = FIRST, .classes = FIRST + C, .ignored = 2
    };
    copse__divisor(C, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, R, 2 * R, R, p.n);
    copse__test_quarters(t, 2);
    for (uint32_t i = 0; i < R; i++)
        /* the first one is ignored, the next two are in the columns */
        t->words[1][i] = 2 + i * FIRST;
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- bases of tolerances ---- */

/* The slope. */
static void logits_grad_size(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_logits_grad *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[4], i, fabs(copse__load(&args[3], i / p->cols)));
}

/* ---- laws ---- */

static bool label_logit_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 1, o->params[1], 1, 1, 1);
}

static bool logits_grad_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    const uint64_t cols = o->params[1];
    return COPSE_SPLIT_EACH(o, cols, cols, 1, 2, 1, cols);
}

const struct copse_law copse_law_label_logit = {
    .host = label_logit_host,
    .split = label_logit_split,
    .self_test = label_logit_test,
};
const struct copse_law copse_law_logits_grad = {
    .host = logits_grad_host,
    .split = logits_grad_split,
    .limit = { .ulp = 16, .ratio = 16, .size = logits_grad_size },
    .self_test = logits_grad_test,
};
