/* SPDX-License-Identifier: MIT */
/* Products, reductions, softmax and norms. */
#include <math.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "copse/ops/norm.h"
#include "copse/train/update.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* ---- products ---- */

/* A reshaped tensor of rank 2 or more. */
static copse_tensor *as_matrix(struct onnx_walk *w, struct onnx_value *v, bool is_row)
{
    copse_tensor *t = copse__onnx_f32(w, v);
    if (v->shape.rank != 1)
        return t;
    const uint32_t n = v->shape.dims[0];
    return copse_reshape(w->g, t, is_row ? COPSE_SHAPE(1, n) : COPSE_SHAPE(n, 1));
}

void copse__onnx_matmul(struct onnx_walk *w)
{
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1);
    const copse_shape x = a->shape, y = b->shape;
    if (x.rank == 0 || y.rank == 0) {
        copse__onnx_refuse(w, "an operand has no axis");
        return;
    }
    copse_tensor *t =
        copse_matmul(w->g, as_matrix(w, a, true), as_matrix(w, b, false), false, false);
    if (copse_graph_status(w->g) == COPSE_OK && (x.rank == 1 || y.rank == 1)) {
        copse_shape s = copse_tensor_shape(t), out = { .rank = 0 };
        for (uint32_t i = 0; i < s.rank; i++)
            if (!(x.rank == 1 && i == s.rank - 2) && !(y.rank == 1 && i == s.rank - 1))
                out.dims[out.rank++] = s.dims[i];
        t = copse_reshape(w->g, t, out);
    }
    copse__onnx_set_either(w, 0, a->type, t, false);
}

void copse__onnx_gemm(struct onnx_walk *w)
{
    const onnx_node *n = w->step->node;
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1),
                      *c = copse__onnx_in(w, 2);
    const float alpha = copse__onnx_float(n, "alpha", 1.0f),
                beta = copse__onnx_float(n, "beta", 1.0f);
    copse_tensor *t =
        copse_matmul(w->g, copse__onnx_f32(w, a), copse__onnx_f32(w, b),
                     copse__onnx_int(n, "transA", 0) != 0, copse__onnx_int(n, "transB", 0) != 0);
    if (alpha != 1.0f)
        t = copse_multiply_by(w->g, t, alpha);
    if (c) {
        copse_tensor *more = copse__onnx_f32(w, c);
        t = copse_add(w->g, t, beta != 1.0f ? copse_multiply_by(w->g, more, beta) : more);
    }
    copse__onnx_set_either(w, 0, a->type, t, false);
}

/* ---- reductions ---- */

typedef copse_tensor *reduce_fn(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                size_t count);

static copse_tensor *reduce_sum(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_sum(g, x, a, n, true);
}

static copse_tensor *reduce_mean(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_mean(g, x, a, n, true);
}

static copse_tensor *reduce_max(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_max(g, x, a, n, true);
}

static copse_tensor *reduce_min(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_neg(g, copse_max(g, copse_neg(g, x), a, n, true));
}

static copse_tensor *reduce_l1(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_sum(g, copse_abs(g, x), a, n, true);
}

static copse_tensor *reduce_squares(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_sum(g, copse_square(g, x), a, n, true);
}

static copse_tensor *reduce_l2(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_sqrt(g, reduce_squares(g, x, a, n));
}

static copse_tensor *reduce_log_sum(copse_graph *g, copse_tensor *x, const uint32_t *a, size_t n)
{
    return copse_log(g, copse_sum(g, x, a, n, true));
}

/* The largest element is taken out, so that no e^x overflows. */
static copse_tensor *reduce_log_sum_exp(copse_graph *g, copse_tensor *x, const uint32_t *a,
                                        size_t n)
{
    copse_tensor *top = copse_max(g, x, a, n, true);
    copse_tensor *is_finite = copse_less(g, copse_abs(g, top), copse_scalar(g, INFINITY));
    top = copse_where(g, is_finite, top, copse_scalar(g, 0));
    copse_tensor *sum = copse_sum(g, copse_exp(g, copse_sub(g, x, top)), a, n, true);
    return copse_add(g, copse_log(g, sum), top);
}

static const struct {
    const char *name;
    reduce_fn *reduce;
} reductions[] = {
    { "ReduceSum", reduce_sum },
    { "ReduceMean", reduce_mean },
    { "ReduceMax", reduce_max },
    { "ReduceMin", reduce_min },
    { "ReduceL1", reduce_l1 },
    { "ReduceL2", reduce_l2 },
    { "ReduceSumSquare", reduce_squares },
    { "ReduceLogSum", reduce_log_sum },
    { "ReduceLogSumExp", reduce_log_sum_exp },
};

/* Known numbers: sums, products, the largest and the smallest. */
static bool reduce_numbers(struct onnx_walk *w, struct onnx_value *x, const bool *is_reduced,
                           copse_shape kept, copse_shape shape)
{
    const char *name = w->step->row->name + strlen("Reduce");
    const bool is_sum = strcmp(name, "Sum") == 0, is_prod = strcmp(name, "Prod") == 0,
               is_max = strcmp(name, "Max") == 0, is_min = strcmp(name, "Min") == 0;
    if ((!is_sum && !is_prod && !is_max && !is_min) || !copse__onnx_numbers(w, x))
        return false;
    const size_t count = (size_t)copse__elements(x->shape), out = (size_t)copse__elements(kept);
    double *y = copse__onnx_room(w, out, sizeof *y);
    for (size_t i = 0; y && i < out; i++)
        y[i] = is_prod ? 1 : is_max ? -INFINITY : is_min ? INFINITY : 0;
    for (size_t i = 0; y && i < count; i++) {
        size_t left = i, at = 0, step = 1;
        for (uint32_t a = x->shape.rank; a-- > 0; left /= x->shape.dims[a])
            if (!is_reduced[a]) {
                at += left % x->shape.dims[a] * step;
                step *= x->shape.dims[a];
            }
        const double v = x->numbers[i];
        y[at] = is_sum ? y[at] + v : is_prod ? y[at] * v : is_max ? fmax(y[at], v) : fmin(y[at], v);
    }
    for (size_t i = 0; y && i < out; i++)
        y[i] = copse__onnx_rounded(x->type, y[i]);
    if (y)
        copse__onnx_set_numbers(w, 0, x->type, shape, y);
    return true;
}

void copse__onnx_reduce(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const onnx_node *n = w->step->node;
    const bool keeps = copse__onnx_int(n, "keepdims", 1) != 0;
    const uint32_t rank = x->shape.rank;
    bool is_reduced[COPSE_MAX_RANK] = { false };
    uint32_t axes[COPSE_MAX_RANK], axis;
    size_t count, used = 0;
    const int64_t *given = copse__onnx_list(w, 1, "axes", &count);
    copse_shape kept = { .rank = rank }, shape = { .rank = 0 };
    if (w->status != COPSE_OK)
        return;
    if ((count == 0 && copse__onnx_int(n, "noop_with_empty_axes", 0) != 0)) {
        copse__onnx_set_same(w, 0, x);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!copse__onnx_axis(w, given[i], rank, &axis))
            return;
        is_reduced[axis] = true;
    }
    for (uint32_t i = 0; i < rank; i++) {
        is_reduced[i] = is_reduced[i] || count == 0;
        kept.dims[i] = is_reduced[i] ? 1 : x->shape.dims[i];
        if (is_reduced[i])
            axes[used++] = i;
        if (!is_reduced[i] || keeps)
            shape.dims[shape.rank++] = kept.dims[i];
    }
    if (reduce_numbers(w, x, is_reduced, kept, shape))
        return;
    const bool is_last = copse__onnx_is_last(x) && keeps;
    for (size_t i = 0; i < used && is_last; i++)
        axes[i] = axes[i] == 0 ? 0 : axes[i] == 1 ? rank - 1 : axes[i] - 1;
    copse_tensor *t = is_last ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    for (size_t i = 0; i < COPSE_COUNT(reductions); i++)
        if (strcmp(reductions[i].name, w->step->row->name) == 0) {
            if (used > 0)
                t = reductions[i].reduce(w->g, t, axes, used);
            if (x->type == ONNX_BOOL) /* of nothing: false and true */
                t = copse_clip(w->g, t, 0.0f, 1.0f);
            t = is_last ? t : copse_reshape(w->g, t, shape);
            copse__onnx_set_either(w, 0, x->type, t, is_last);
            return;
        }
    copse__onnx_refuse(w, "its operand must be known when the graph is built");
}

/* A value with one axis reversed; NULL: there was no memory. */
static copse_tensor *reversed_axis(struct onnx_walk *w, struct onnx_value *v, uint32_t axis)
{
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    const uint32_t size = v->shape.dims[axis];
    maps[axis] = copse__onnx_room(w, size, sizeof **maps);
    for (uint32_t i = 0; maps[axis] && i < size; i++)
        maps[axis][i] = (int32_t)(size - 1 - i);
    if (!maps[axis])
        return NULL;
    copse__onnx_set_mapped(w, 0, v, v->shape, maps, 0);
    struct onnx_value *y = copse__onnx_wants(w, 0) ? &w->values[w->step->out[0]] : &w->unwanted;
    return copse__onnx_f32(w, y);
}

void copse__onnx_arg(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const onnx_node *n = w->step->node;
    uint32_t axis;
    copse_shape kept = x->shape;
    if (!copse__onnx_axis(w, copse__onnx_int(n, "axis", 0), x->shape.rank, &axis))
        return;
    const bool is_last = copse__onnx_int(n, "select_last_index", 0) != 0;
    const uint32_t size = x->shape.dims[axis];
    copse_tensor *t = copse__onnx_f32(w, x);
    if (is_last) { /* the first one of the reversed axis */
        struct onnx_value v = { .type = ONNX_FLOAT, .shape = x->shape, .plain = t };
        t = reversed_axis(w, &v, axis);
        if (!t)
            return;
    }
    t = copse_argmax(
        w->g, w->step->row->name[3] == 'M' && w->step->row->name[4] == 'i' ? copse_neg(w->g, t) : t,
        axis);
    if (is_last)
        t = copse_cast(
            w->g,
            copse_sub(w->g, copse_scalar(w->g, (double)size - 1), copse_cast(w->g, t, COPSE_F32)),
            COPSE_I32);
    kept.dims[axis] = 1;
    if (copse__onnx_int(n, "keepdims", 1) != 0)
        t = copse_reshape(w->g, t, kept);
    copse__onnx_set(w, 0, ONNX_INT64, t);
}

/* ---- softmax ---- */

static copse_tensor *swap_last(struct onnx_walk *w, copse_tensor *t, uint32_t axis, uint32_t rank)
{
    uint32_t order[COPSE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        order[i] = i == axis ? rank - 1 : i == rank - 1 ? axis : i;
    return axis == rank - 1 ? t : copse_transpose(w->g, t, order);
}

void copse__onnx_softmax(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const char *name = w->step->row->name;
    const bool is_old = w->m->opset < 13; /* all axes from `axis` on are one */
    const uint32_t rank = x->shape.rank;
    uint32_t axis = 0;
    if (rank > 0 &&
        !copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", is_old ? 1 : -1), rank, &axis))
        return;
    copse_tensor *t;
    const bool is_last = !is_old && copse__onnx_is_last(x) && axis == 1;
    if (is_last) {
        t = copse__onnx_last(w, x);
    } else {
        t = copse__onnx_f32(w, x);
        uint64_t columns = 1;
        for (uint32_t i = axis; i < rank; i++)
            columns *= x->shape.dims[i];
        if (is_old && columns > 0)
            t = copse_reshape(
                w->g, t,
                COPSE_SHAPE((uint32_t)(copse__elements(x->shape) / columns), (uint32_t)columns));
        else if (rank > 0)
            t = swap_last(w, t, axis, rank);
    }
    const copse_shape shape = copse_tensor_shape(t);
    if (strcmp(name, "Softmax") == 0)
        t = copse_softmax(w->g, t);
    else if (strcmp(name, "LogSoftmax") == 0)
        t = copse_log_softmax(w->g, t);
    else if (shape.rank > 0)
        t = copse_one_hot(w->g, copse_argmax(w->g, t, shape.rank - 1), shape.dims[shape.rank - 1]);
    if (!is_last)
        t = is_old ? copse_reshape(w->g, t, x->shape) : rank > 0 ? swap_last(w, t, axis, rank) : t;
    copse__onnx_set_either(w, 0, x->type, t, is_last);
}

/* ---- norms ---- */

/* The elements from `axis` on; 0: refused. */
static uint32_t norm_size(struct onnx_walk *w, const struct onnx_value *x, uint32_t *axis)
{
    uint64_t size = 1;
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", -1), x->shape.rank, axis))
        return 0;
    for (uint32_t i = *axis; i < x->shape.rank; i++)
        size *= x->shape.dims[i];
    if (size == 0)
        copse__onnx_refuse(w, "a norm of no element");
    return (uint32_t)size;
}

static float epsilon_of(const struct onnx_walk *w)
{
    return copse__onnx_float(w->step->node, "epsilon", 1e-5f);
}

/* An operand of a norm as [size]. */
static copse_tensor *norm_part(struct onnx_walk *w, struct onnx_value *v, uint32_t size,
                               double fill)
{
    if (!v)
        return copse_fill(w->g, COPSE_F32, COPSE_SHAPE(size), fill);
    copse_tensor *t = copse__onnx_f32(w, v);
    if (copse__elements(v->shape) == 1 && size > 1)
        return copse_broadcast_to(w->g, copse_reshape(w->g, t, COPSE_SHAPE(1)), COPSE_SHAPE(size));
    return copse_reshape(w->g, t, COPSE_SHAPE(size));
}

void copse__onnx_layer_norm(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    uint32_t axis, axes[COPSE_MAX_RANK];
    const uint32_t size = norm_size(w, x, &axis);
    if (size == 0)
        return;
    const uint32_t rows = (uint32_t)(copse__elements(x->shape) / size);
    copse_tensor *t = copse__onnx_f32(w, x);
    copse_tensor *y = copse_layer_norm(w->g, copse_reshape(w->g, t, COPSE_SHAPE(rows, size)),
                                       norm_part(w, copse__onnx_in(w, 1), size, 1),
                                       norm_part(w, copse__onnx_in(w, 2), size, 0), epsilon_of(w));
    copse__onnx_set(w, 0, x->type, copse_reshape(w->g, y, x->shape));
    if (!copse__onnx_wants(w, 1) && !copse__onnx_wants(w, 2))
        return;
    for (uint32_t i = axis; i < x->shape.rank; i++)
        axes[i - axis] = i;
    copse_tensor *mean = copse_mean(w->g, t, axes, x->shape.rank - axis, true);
    copse_tensor *squares = copse_square(w->g, copse_sub(w->g, t, mean));
    copse_tensor *variance = copse_mean(w->g, squares, axes, x->shape.rank - axis, true);
    variance = copse_add(w->g, variance, copse_scalar(w->g, (double)epsilon_of(w)));
    copse__onnx_set(w, 1, ONNX_FLOAT, mean);
    copse__onnx_set(w, 2, ONNX_FLOAT, copse_rsqrt(w->g, variance));
}

void copse__onnx_rms_norm(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    uint32_t axis;
    const uint32_t size = norm_size(w, x, &axis);
    if (size == 0)
        return;
    const uint32_t rows = (uint32_t)(copse__elements(x->shape) / size);
    copse_tensor *t = copse_reshape(w->g, copse__onnx_f32(w, x), COPSE_SHAPE(rows, size));
    t = copse_rms_norm(w->g, t, norm_part(w, copse__onnx_in(w, 1), size, 1), epsilon_of(w));
    copse__onnx_set(w, 0, x->type, copse_reshape(w->g, t, x->shape));
}

void copse__onnx_group_norm(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const uint32_t rank = x->shape.rank, c = rank >= 2 ? x->shape.dims[1] : 0;
    const bool is_instance = strcmp(w->step->row->name, "InstanceNormalization") == 0;
    const int64_t groups = is_instance ? c : copse__onnx_int(w->step->node, "num_groups", 0);
    if (rank < 2 || groups < 1 || groups > c || c % groups) {
        copse__onnx_refuse(w, "%lld groups of shape %s", (long long)groups,
                           COPSE_SHAPE_TEXT(x->shape));
        return;
    }
    copse_tensor *t = rank >= 3 ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    t = copse_group_norm(w->g, t, (uint32_t)groups, norm_part(w, copse__onnx_in(w, 1), c, 1),
                         norm_part(w, copse__onnx_in(w, 2), c, 0), epsilon_of(w));
    copse__onnx_set_either(w, 0, x->type, t, rank >= 3);
}

/* The running statistics after a batch. */
static copse_tensor *norm_running(struct onnx_walk *w, struct onnx_value *old, copse_tensor *now,
                                  float momentum)
{
    copse_tensor *kept = copse_multiply_by(w->g, copse__onnx_f32(w, old), momentum);
    now = copse_reshape(w->g, now, old->shape);
    return copse_add(w->g, kept, copse_multiply_by(w->g, now, 1.0f - momentum));
}

void copse__onnx_batch_norm(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *of[5];
    const onnx_node *n = w->step->node;
    const uint32_t rank = x->shape.rank, c = rank >= 2 ? x->shape.dims[1] : 0;
    const float momentum = copse__onnx_float(n, "momentum", 0.9f);
    const bool takes_batch = copse__onnx_int(n, "training_mode", 0) != 0 ||
                             (w->params->is_training && w->params->batch_statistics);
    for (size_t i = 1; i < 5; i++) {
        of[i] = copse__onnx_in(w, i);
        if (rank < 2 || copse__elements(of[i]->shape) != c) {
            copse__onnx_refuse(w, "shape %s with %u channels",
                               COPSE_SHAPE_TEXT(copse__onnx_in(w, i)->shape), c);
            return;
        }
    }
    copse_tensor *t = rank >= 3 ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    copse_tensor *mean = copse__onnx_f32(w, of[3]), *variance = copse__onnx_f32(w, of[4]);
    if (takes_batch) {
        uint32_t axes[COPSE_MAX_RANK];
        for (uint32_t i = 0; i + 1 < rank; i++)
            axes[i] = i;
        mean = copse_mean(w->g, t, axes, rank - 1, false);
        variance =
            copse_mean(w->g, copse_square(w->g, copse_sub(w->g, t, mean)), axes, rank - 1, false);
        copse_tensor *means = norm_running(w, of[3], mean, momentum),
                     *variances = norm_running(w, of[4], variance, momentum);
        if (w->params->is_training && of[3]->weight && of[3]->weight->variable && of[4]->weight &&
            of[4]->weight->variable) {
            copse_update(w->g, of[3]->weight->variable, means);
            copse_update(w->g, of[4]->weight->variable, variances);
        }
        copse__onnx_set(w, 1, ONNX_FLOAT, means);
        copse__onnx_set(w, 2, ONNX_FLOAT, variances);
    }
    variance = copse_add(w->g, variance, copse_scalar(w->g, (double)epsilon_of(w)));
    copse_tensor *scale = copse_mul(w->g, copse__onnx_f32(w, of[1]), copse_rsqrt(w->g, variance));
    t = copse_mul(w->g, copse_sub(w->g, t, mean), scale);
    t = copse_add(w->g, t, copse__onnx_f32(w, of[2]));
    copse__onnx_set_either(w, 0, x->type, t, rank >= 3);
}

static void mean_variance(struct onnx_walk *w, struct onnx_value *x)
{
    size_t count;
    static const int64_t normal[] = { 0, 2, 3 };
    const int64_t *given = copse__onnx_ints(w->step->node, "axes", &count);
    uint32_t axes[COPSE_MAX_RANK];
    if (count == 0) {
        given = normal;
        count = 3;
    }
    if (count > COPSE_MAX_RANK) {
        copse__onnx_refuse(w, "%zu axes; a tensor has at most %d", count, COPSE_MAX_RANK);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!copse__onnx_axis(w, given[i], x->shape.rank, &axes[i]))
            return;
    copse_tensor *t = copse__onnx_f32(w, x);
    t = copse_sub(w->g, t, copse_mean(w->g, t, axes, count, true));
    copse_tensor *spread =
        copse_sqrt(w->g, copse_mean(w->g, copse_square(w->g, t), axes, count, true));
    copse__onnx_set(w, 0, x->type,
                    copse_div(w->g, t, copse_add(w->g, spread, copse_scalar(w->g, 1e-9))));
}

void copse__onnx_other_norm(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    uint32_t axis;
    if (strcmp(w->step->row->name, "MeanVarianceNormalization") == 0) {
        mean_variance(w, x);
        return;
    }
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", -1), x->shape.rank, &axis))
        return;
    copse_tensor *t = copse__onnx_f32(w, x);
    copse_tensor *length = copse__onnx_int(w->step->node, "p", 2) == 1
                               ? reduce_l1(w->g, t, &axis, 1)
                               : reduce_l2(w->g, t, &axis, 1);
    copse_tensor *is_none = copse_equal(w->g, length, copse_scalar(w->g, 0));
    length = copse_where(w->g, is_none, copse_scalar(w->g, 1), length);
    copse__onnx_set(w, 0, x->type,
                    copse_where(w->g, is_none, copse_scalar(w->g, 0), copse_div(w->g, t, length)));
}
