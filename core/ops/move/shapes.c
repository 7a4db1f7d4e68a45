/* SPDX-License-Identifier: MIT */
/* Ops that only move elements: broadcast, transpose, pad, slice, concat. */
#include "core/ops/ops.h"

/* ---- gathers ---- */

/* Elements of the result, in the order of `walk`, are strided in the operand. */

struct gather_attr {
    copse_shape shape, walk; /* both have the same number of elements */
    uint32_t strides[COPSE_MAX_RANK], offset;
};

static copse_status gather_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct gather_attr *)y->attr)->shape;
    *type = y->in[0]->type;
    return COPSE_OK;
}

static copse_status gather_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct gather_attr *a = y->attr;
    return copse__lower_copy(l, y->type, a->walk, a->strides, a->offset, false, y->in[0], y);
}

static void broadcast_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                               copse_tensor **dx)
{
    dx[0] = copse__sum_to(g, dy, y->in[0]->shape);
}

static const struct copse_op op_broadcast_to = {
    .name = "broadcast_to",
    .attr_size = sizeof(struct gather_attr),
    .infer = gather_infer,
    .gradient = broadcast_gradient,
    .lower = gather_lower,
};

copse_tensor *copse_broadcast_to(copse_graph *g, copse_tensor *x, copse_shape shape)
{
    struct gather_attr a = { .shape = shape, .walk = shape };
    copse_shape both;
    char from[96], to[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("broadcast_to", g, x));
    if (shape.rank > COPSE_MAX_RANK || !copse__broadcast(x->shape, shape, &both) ||
        !copse__shape_equal(both, shape))
        return copse__refuse(g, COPSE_ERR_SHAPE,
                             "broadcast_to: operand %s does not broadcast to %s",
                             copse__shape_text(x->shape, from), copse__shape_text(shape, to));
    if (copse__shape_equal(x->shape, shape))
        return copse__own(g, x);
    copse__broadcast_strides(x->shape, shape, a.strides);
    return COPSE_NODE(g, &op_broadcast_to, &a, x);
}

/* ---- transpose ---- */

struct transpose_attr {
    struct gather_attr gather; /* first */
    uint32_t order[COPSE_MAX_RANK];
};

static void transpose_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                               copse_tensor **dx)
{
    const struct transpose_attr *a = y->attr;
    uint32_t back[COPSE_MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < y->shape.rank; i++)
        back[a->order[i]] = i;
    dx[0] = copse_transpose(g, dy, back);
}

static const struct copse_op op_transpose = {
    .name = "transpose",
    .attr_size = sizeof(struct transpose_attr),
    .infer = gather_infer,
    .gradient = transpose_gradient,
    .lower = gather_lower,
};

copse_tensor *copse_transpose(copse_graph *g, copse_tensor *x, const uint32_t *order)
{
    struct transpose_attr a = { .gather.offset = 0 };
    uint32_t own[COPSE_MAX_RANK];
    bool is_used[COPSE_MAX_RANK] = { false };
    char text[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("transpose", g, x));
    if (!order)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "transpose: order is NULL");
    copse__strides(x->shape, own);
    a.gather.shape.rank = x->shape.rank;
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        if (order[i] >= x->shape.rank || is_used[order[i]])
            return copse__refuse(g, COPSE_ERR_SHAPE,
                                 "transpose: operand %s: order[%u] is %u: expected "
                                 "each axis once",
                                 copse__shape_text(x->shape, text), (unsigned)i,
                                 (unsigned)order[i]);
        is_used[order[i]] = true;
        a.order[i] = order[i];
        a.gather.shape.dims[i] = x->shape.dims[order[i]];
        a.gather.strides[i] = own[order[i]];
    }
    a.gather.walk = a.gather.shape;
    return COPSE_NODE(g, &op_transpose, &a, x);
}

/* ---- pad: the transpose of slice ---- */

struct pad_attr {
    struct gather_attr gather; /* first */
    double value;
};

static copse_status pad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct gather_attr *a = y->attr;
    COPSE_TRY(copse__lower_fill(l, y, ((const struct pad_attr *)y->attr)->value));
    return copse__lower_copy(l, y->type, a->walk, a->strides, a->offset, true, y->in[0], y);
}

static void slice_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                           copse_tensor **dx);
static void pad_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                         copse_tensor **dx);

static const struct copse_op op_pad = {
    .name = "pad",
    .attr_size = sizeof(struct pad_attr),
    .infer = gather_infer,
    .gradient = pad_gradient,
    .lower = pad_lower,
};
static const struct copse_op op_slice = {
    .name = "slice",
    .attr_size = sizeof(struct gather_attr),
    .infer = gather_infer,
    .gradient = slice_gradient,
    .lower = gather_lower,
};

static void slice_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                           copse_tensor **dx)
{
    struct pad_attr a = { .gather = *(const struct gather_attr *)y->attr };
    a.gather.shape = y->in[0]->shape;
    dx[0] = COPSE_NODE(g, &op_pad, &a, dy);
}

static void pad_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    struct gather_attr a = *(const struct gather_attr *)y->attr;
    a.shape = a.walk;
    dx[0] = COPSE_NODE(g, &op_slice, &a, dy);
}

copse_tensor *copse_slice(copse_graph *g, copse_tensor *x, const uint32_t *start,
                          const uint32_t *size)
{
    struct gather_attr a = { .offset = 0 };
    char text[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("slice", g, x));
    if (x->shape.rank && (!start || !size))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "slice: start or size is NULL");
    a.shape.rank = x->shape.rank;
    copse__strides(x->shape, a.strides);
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        if (start[i] > x->shape.dims[i] || size[i] > x->shape.dims[i] - start[i])
            return copse__refuse(g, COPSE_ERR_SHAPE,
                                 "slice: operand %s: %u elements from %u on exceed "
                                 "axis %u",
                                 copse__shape_text(x->shape, text), (unsigned)size[i],
                                 (unsigned)start[i], (unsigned)i);
        a.shape.dims[i] = size[i];
        a.offset += start[i] * a.strides[i];
    }
    a.walk = a.shape;
    return COPSE_NODE(g, &op_slice, &a, x);
}

copse_tensor *copse_pad(copse_graph *g, copse_tensor *x, const uint32_t *before,
                        const uint32_t *after, double value)
{
    struct pad_attr a = { .value = value };
    char text[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("pad", g, x));
    if (x->shape.rank && (!before || !after))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "pad: before or after is NULL");
    a.gather.walk = a.gather.shape = x->shape;
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        const uint64_t length = (uint64_t)before[i] + x->shape.dims[i] + after[i];
        if (length > INT32_MAX)
            return copse__refuse(g, COPSE_ERR_SHAPE, "pad: operand %s: axis %u becomes too long",
                                 copse__shape_text(x->shape, text), (unsigned)i);
        a.gather.shape.dims[i] = (uint32_t)length;
    }
    copse__strides(a.gather.shape, a.gather.strides);
    for (uint32_t i = 0; i < x->shape.rank; i++)
        a.gather.offset += before[i] * a.gather.strides[i];
    return COPSE_NODE(g, &op_pad, &a, x);
}

/* ---- concat ---- */

struct concat_attr {
    uint32_t axis;
};

static copse_status concat_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const uint32_t axis = ((const struct concat_attr *)y->attr)->axis;
    uint64_t length = 0;
    *shape = y->in[0]->shape;
    *type = y->in[0]->type;
    if (axis >= shape->rank)
        return copse__shape_error(y, "there is no axis %u", (unsigned)axis);
    for (uint32_t i = 0; i < y->in_count; i++) {
        copse_shape s = y->in[i]->shape;
        if (s.rank == shape->rank) {
            length += s.dims[axis];
            s.dims[axis] = shape->dims[axis];
        }
        if (!copse__shape_equal(s, *shape) || y->in[i]->type != *type)
            return copse__shape_error(y, "expected one type and equal shapes but for axis %u",
                                      (unsigned)axis);
    }
    if (length > UINT32_MAX)
        return copse__shape_error(y, "the result is too long");
    shape->dims[axis] = (uint32_t)length;
    return COPSE_OK;
}

static copse_status concat_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t axis = ((const struct concat_attr *)y->attr)->axis;
    uint32_t strides[COPSE_MAX_RANK], at = 0;
    copse__strides(y->shape, strides);
    for (uint32_t i = 0; i < y->in_count; i++) {
        COPSE_TRY(copse__lower_copy(l, y->type, y->in[i]->shape, strides, at * strides[axis], true,
                                    y->in[i], y));
        at += y->in[i]->shape.dims[axis];
    }
    return COPSE_OK;
}

static void concat_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const uint32_t axis = ((const struct concat_attr *)y->attr)->axis;
    uint32_t start[COPSE_MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < y->in_count; i++) {
        if (y->in[i]->needs_gradient)
            dx[i] = copse_slice(g, dy, start, y->in[i]->shape.dims);
        start[axis] += y->in[i]->shape.dims[axis];
    }
}

static const struct copse_op op_concat = {
    .name = "concat",
    .attr_size = sizeof(struct concat_attr),
    .infer = concat_infer,
    .gradient = concat_gradient,
    .lower = concat_lower,
};

copse_tensor *copse_concat(copse_graph *g, copse_tensor *const *x, size_t count, uint32_t axis)
{
    const struct concat_attr a = { axis };
    COPSE_LATCH(g, copse_need("concat", g));
    if (count > 0)
        COPSE_LATCH(g, copse_need("concat", x));
    if (count == 0 || count > UINT32_MAX)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "concat: needs at least one tensor");
    return copse__node(g, &op_concat, &a, x, (uint32_t)count);
}
