/* SPDX-License-Identifier: MIT */
/* Reductions over axes: each run of adjacent axes is one node, which reduces the middle of [outer,
   count, inner]. The ops sum and mean, and repeat, the transpose of the sum. */
#include <math.h>

#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

/* ---- any kind ---- */

copse_status copse__lower_reduce(struct copse_lowering *l, enum copse_reduce_kind kind,
                                 uint32_t outer, uint32_t count, uint32_t inner,
                                 struct copse_operand from, struct copse_operand to)
{
    if (count == 0) {
        const struct copse_params_fill p = { outer * inner, kind == COPSE_AXIS_SUM   ? 0.0f
                                                            : kind == COPSE_AXIS_MAX ? -INFINITY
                                                                                     : NAN };
        return COPSE_LAUNCH(l, fill, NULL, p, copse__groups_for(l, COPSE_KERNEL_fill, p.n), to);
    }
    struct copse_params_reduce p = { .inner = inner, .divisor = (float)count };
    do {
        p.count = count;
        p.chunks = (count + COPSE_CHAIN - 1) / COPSE_CHAIN;
        p.n = outer * p.chunks * inner;
        const bool is_last = p.chunks == 1;
        const int32_t spec[COPSE_MAX_SPECS] = { kind == COPSE_AXIS_MEAN && !is_last
                                                    ? COPSE_AXIS_SUM
                                                    : (int32_t)kind };
        struct copse_operand part = to;
        if (!is_last && p.n > 0)
            COPSE_TRY(copse__scratch(l, p.n, &part));
        COPSE_TRY(COPSE_LAUNCH(l, reduce, spec, p, copse__groups_for(l, COPSE_KERNEL_reduce, p.n),
                               from, part));
        from = part;
        count = p.chunks;
    } while (p.chunks > 1);
    return COPSE_OK;
}

copse_status copse__reduce_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32");
    *shape = ((const struct copse_reduce_attr *)y->attr)->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

copse_status copse__reduce_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_reduce_attr *a = y->attr;
    return copse__lower_reduce(l, (enum copse_reduce_kind)a->kind, a->outer, a->count, a->inner,
                               copse__of(y->in[0]), copse__of(y));
}

static uint32_t reduce_product(copse_shape s, uint32_t from, uint32_t to)
{
    uint32_t n = 1;
    while (from < to)
        n *= s.dims[from++];
    return n;
}

static copse_tensor *reduce_middle(copse_graph *g, const struct copse_op *op,
                                   enum copse_reduce_kind kind, copse_tensor *x, uint32_t outer,
                                   uint32_t count, uint32_t inner, copse_shape shape)
{
    const struct copse_reduce_attr a = { (int32_t)kind, outer, count, inner, shape };
    return COPSE_NODE(g, op, &a, x);
}

/* Reduce the flagged axes; they are kept with size 1. */
static copse_tensor *reduce_flagged(copse_graph *g, const struct copse_op *op,
                                    enum copse_reduce_kind kind, copse_tensor *x,
                                    const bool *is_reduced)
{
    copse_shape s = x->shape;
    for (uint32_t end = s.rank; end > 0;) {
        uint32_t start = end;
        while (start > 0 && is_reduced[start - 1])
            start--;
        if (start == end) {
            end--;
            continue;
        }
        const uint32_t outer = reduce_product(s, 0, start), count = reduce_product(s, start, end),
                       inner = reduce_product(s, end, s.rank);
        for (uint32_t i = start; i < end; i++)
            s.dims[i] = 1;
        x = reduce_middle(g, op, kind, x, outer, count, inner, s);
        end = start;
    }
    return x;
}

copse_tensor *copse__reduce(copse_graph *g, const struct copse_op *op, enum copse_reduce_kind kind,
                            copse_tensor *x, const uint32_t *axes, size_t axis_count,
                            bool keep_dims)
{
    const char *name = op->name;
    bool is_reduced[COPSE_MAX_RANK] = { false };
    char text[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(name, g, x));
    if (axis_count && !axes)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: axes is NULL", name);
    for (size_t i = 0; i < axis_count; i++) {
        if (axes[i] >= x->shape.rank || is_reduced[axes[i]])
            return copse__refuse(
                g, COPSE_ERR_SHAPE,
                "%s: axis %u of operand %s: expected different axes below its rank", name,
                (unsigned)axes[i], copse__shape_text(x->shape, text));
        is_reduced[axes[i]] = true;
    }
    for (uint32_t i = 0; axis_count == 0 && i < x->shape.rank; i++)
        is_reduced[i] = true;

    copse_shape shape = COPSE_SCALAR;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        if (keep_dims || !is_reduced[i])
            shape.dims[shape.rank++] = is_reduced[i] ? 1 : x->shape.dims[i];
    if (x->shape.rank == 0) /* also checks the type */
        return reduce_middle(g, op, kind, x, 1, 1, 1, shape);
    copse_tensor *y = reduce_flagged(g, op, kind, x, is_reduced);
    return copse_reshape(g, y, shape);
}

/* ---- sum and repeat, the transpose of each other; mean ---- */

static const struct copse_op op_sum;

copse_tensor *copse__sum_middle(copse_graph *g, copse_tensor *x, uint32_t outer, uint32_t count,
                                uint32_t inner, copse_shape shape)
{
    return reduce_middle(g, &op_sum, COPSE_AXIS_SUM, x, outer, count, inner, shape);
}

static copse_status repeat_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct copse_reduce_attr *)y->attr)->shape;
    *type = y->in[0]->type;
    return COPSE_OK;
}

static void repeat_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct copse_reduce_attr *a = y->attr;
    dx[0] = copse__sum_middle(g, dy, a->outer, a->count, a->inner, y->in[0]->shape);
}

static copse_status repeat_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_reduce_attr *a = y->attr;
    const uint32_t strides[] = { a->inner, 0, 1 };
    return copse__lower_copy(l, y->type, COPSE_SHAPE(a->outer, a->count, a->inner), strides, 0,
                             false, y->in[0], y);
}

static const struct copse_op op_repeat = {
    .name = "repeat",
    .attr_size = sizeof(struct copse_reduce_attr),
    .infer = repeat_infer,
    .gradient = repeat_gradient,
    .lower = repeat_lower,
};

copse_tensor *copse__repeat_back(copse_graph *g, const copse_tensor *y, copse_tensor *t)
{
    struct copse_reduce_attr a = *(const struct copse_reduce_attr *)y->attr;
    a.shape = y->in[0]->shape;
    return COPSE_NODE(g, &op_repeat, &a, t);
}

static void sum_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    dx[0] = copse__repeat_back(g, y, dy);
}

static void mean_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    const struct copse_reduce_attr *a = y->attr;
    dy = copse__divide_by(g, dy, (float)a->count);
    dx[0] = copse__repeat_back(g, y, dy);
}

static const struct copse_op op_sum = {
    .name = "sum",
    .attr_size = sizeof(struct copse_reduce_attr),
    .infer = copse__reduce_infer,
    .gradient = sum_gradient,
    .lower = copse__reduce_lower,
};
static const struct copse_op op_mean = {
    .name = "mean",
    .attr_size = sizeof(struct copse_reduce_attr),
    .infer = copse__reduce_infer,
    .gradient = mean_gradient,
    .lower = copse__reduce_lower,
};

copse_tensor *copse_sum(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t axis_count,
                        bool keep_dims)
{
    return copse__reduce(g, &op_sum, COPSE_AXIS_SUM, x, axes, axis_count, keep_dims);
}

copse_tensor *copse_mean(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t axis_count,
                         bool keep_dims)
{
    return copse__reduce(g, &op_mean, COPSE_AXIS_MEAN, x, axes, axis_count, keep_dims);
}

copse_tensor *copse__sum_to(copse_graph *g, copse_tensor *x, copse_shape shape)
{
    bool is_reduced[COPSE_MAX_RANK];
    const uint32_t missing = x->shape.rank - shape.rank;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        is_reduced[i] = i < missing || shape.dims[i - missing] != x->shape.dims[i];
    x = reduce_flagged(g, &op_sum, COPSE_AXIS_SUM, x, is_reduced);
    return copse_reshape(g, x, shape);
}

/* ---- reference ---- */

static double reduce_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t i)
{
    const struct copse_params_reduce *p = params;
    const size_t lane = i % p->inner, line = i / p->inner;
    const size_t chunk = line % p->chunks, outer = line / p->chunks;
    double y = spec[0] == COPSE_AXIS_MAX ? (double)-INFINITY : 0;
    for (size_t k = chunk; k < p->count; k += p->chunks) {
        const double x = copse__load(&args[0], (outer * p->count + k) * p->inner + lane);
        if (spec[0] != COPSE_AXIS_MAX)
            y += x;
        else if (x > y || isnan(x))
            y = isnan(y) ? y : x;
    }
    return spec[0] == COPSE_AXIS_MEAN ? y / (double)p->divisor : y;
}

static void reduce_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_reduce *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[1], i, reduce_at(params, spec, args, i));
}

/* ---- self-tests ---- */

static void reduce_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_reduce p = {
        .n = 12, .count = COPSE_TEST_LINE, .chunks = 2, .inner = 2, .divisor = 64.0f
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 3 * COPSE_TEST_LINE * 2, p.n);
}

/* ---- laws ---- */

static struct copse_elements reduce_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_reduce *p = params;
    (void)spec;
    return (struct copse_elements){ p->n, 1 + p->count / COPSE_MAX(p->chunks, 1u) };
}

/* A mean is rounded once more, a maximum is an element. */
static void reduce_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    if (spec[0] == COPSE_AXIS_MEAN)
        limit->ulp = 1;
    if (spec[0] == COPSE_AXIS_MAX)
        limit->ulp = limit->ratio = 0;
}

const struct copse_law copse_law_reduce = {
    .host = reduce_host,
    .at = reduce_at,
    .elements = reduce_elements,
    .limit = { .ulp = 0.5, .ratio = 4 },
    .limit_of = reduce_limit,
    .self_test = reduce_test,
};
