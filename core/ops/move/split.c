/* SPDX-License-Identifier: MIT */
/* Split and stack, made of slice, reshape and concat. */
#include "core/graph/type.h"
#include "core/ops/ops.h"

static copse_status check_sizes(const copse_tensor *x, uint32_t axis, const uint32_t *sizes,
                                size_t count)
{
    char text[96];
    uint64_t sum = 0;
    copse__shape_text(x->shape, text);
    if (axis >= x->shape.rank)
        return copse_fail(COPSE_ERR_SHAPE, "split: operand %s has no axis %u", text,
                          (unsigned)axis);
    const uint32_t length = x->shape.dims[axis];
    if (!sizes && length % count != 0)
        return copse_fail(COPSE_ERR_SHAPE,
                          "split: operand %s: axis %u does not split into %zu equal parts", text,
                          (unsigned)axis, count);
    for (size_t i = 0; sizes && i < count; i++)
        sum += sizes[i];
    if (sizes && sum != length)
        return copse_fail(COPSE_ERR_SHAPE,
                          "split: operand %s: the sizes sum to %llu, axis %u has %u", text,
                          (unsigned long long)sum, (unsigned)axis, (unsigned)length);
    return COPSE_OK;
}

static void split_tensor(copse_graph *g, copse_tensor *x, uint32_t axis, const uint32_t *sizes,
                         size_t count, copse_tensor **parts)
{
    uint32_t start[COPSE_MAX_RANK] = { 0 };
    COPSE_LATCH_VOID(g, copse_need("split", g, x));
    COPSE_LATCH_VOID(g, COPSE_CHECK_OPERANDS("split", g, x));
    if (count == 0)
        COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_ARGUMENT, "split: needs at least one part"));
    COPSE_LATCH_VOID(g, check_sizes(x, axis, sizes, count));
    copse_shape part = x->shape;
    for (size_t i = 0; i < count; i++) {
        part.dims[axis] = sizes ? sizes[i] : x->shape.dims[axis] / (uint32_t)count;
        parts[i] = copse__noted(g, copse_slice(g, x, start, part.dims), "while adding split");
        if (copse__is_failed(parts[i]))
            return;
        start[axis] += part.dims[axis];
    }
}

void copse_split(copse_graph *g, copse_tensor *x, uint32_t axis, const uint32_t *sizes,
                 size_t count, copse_tensor **parts)
{
    COPSE_LATCH_VOID(g, copse_need("split", parts));
    split_tensor(g, x, axis, sizes, count, parts);
    for (size_t i = 0; (!g || g->status != COPSE_OK) && i < count; i++)
        parts[i] = copse__failed(g, COPSE_ERR_ARGUMENT);
}

static copse_status check_stack(copse_tensor *const *x, size_t count, uint32_t axis)
{
    char first[96], other[96];
    for (size_t i = 0; i < count; i++) {
        if (!x[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "stack: operand %zu is NULL", i);
        if (x[i]->type != x[0]->type || !copse__shape_equal(x[i]->shape, x[0]->shape))
            return copse_fail(COPSE_ERR_SHAPE,
                              "stack: operands %s%s and %s%s: expected one type and one shape",
                              copse_type_name(x[0]->type), copse__shape_text(x[0]->shape, first),
                              copse_type_name(x[i]->type), copse__shape_text(x[i]->shape, other));
    }
    if (axis > x[0]->shape.rank || x[0]->shape.rank == COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_SHAPE,
                          "stack: operand %s: a new axis %u needs a rank from %u to %d",
                          copse__shape_text(x[0]->shape, first), (unsigned)axis, (unsigned)axis,
                          COPSE_MAX_RANK - 1);
    return COPSE_OK;
}

copse_tensor *copse_stack(copse_graph *g, copse_tensor *const *x, size_t count, uint32_t axis)
{
    if (count == 0 || count > UINT32_MAX)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "stack: needs at least one tensor");
    COPSE_LATCH(g, copse_need("stack", g, x));
    COPSE_LATCH(g, copse__check_operands("stack", g, x, count));
    COPSE_LATCH(g, check_stack(x, count, axis));
    copse_shape shape = { .rank = x[0]->shape.rank + 1 };
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dims[i] = i == axis ? 1 : x[0]->shape.dims[i - (i > axis)];
    copse_tensor **parts = copse__alloc(&g->ctx->base.mem, count, sizeof(copse_tensor *));
    if (!parts)
        return copse__failed(g, copse_no_memory("stack: %zu tensors", count));
    for (size_t i = 0; i < count; i++)
        parts[i] = copse_reshape(g, x[i], shape);
    copse_tensor *y = copse_concat(g, parts, count, axis);
    copse__free(&g->ctx->base.mem, parts);
    return copse__noted(g, y, "while adding stack");
}
