/* SPDX-License-Identifier: MIT */
/* Constants: values in the graph. A program writes them to its memory once, when it is made. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/graph/type.h"

struct constant_attr {
    copse_type type;
    copse_shape shape;
    const void *values; /* in the graph's arena */
};

static copse_status constant_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct constant_attr *a = y->attr;
    *shape = a->shape;
    *type = a->type;
    return COPSE_OK;
}

const struct copse_op copse_op_constant = {
    .name = "constant",
    .attr_size = sizeof(struct constant_attr),
    .infer = constant_infer,
};

const void *copse__constant_values(const copse_tensor *t)
{
    return ((const struct constant_attr *)t->attr)->values;
}

copse_tensor *copse_constant(copse_graph *g, copse_type type, copse_shape shape, const void *values)
{
    char text[96];
    COPSE_LATCH(g, copse_need("constant", g, values));
    if (!copse__type_is_computed(type) || shape.rank > COPSE_MAX_RANK)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "constant: needs the type f32 or i32 and a rank of at most %d",
                             COPSE_MAX_RANK);
    const uint64_t count = copse__elements(shape);
    if (count >= (uint64_t)1 << 31)
        return copse__refuse(g, COPSE_ERR_SHAPE, "constant: shape %s has 2^31 elements or more",
                             copse__shape_text(shape, text));
    const size_t bytes = (size_t)count * copse__type_bytes(type);
    void *copy = copse__arena_alloc(&g->arena, COPSE_MAX(bytes, 1), 1);
    if (!copy)
        return copse__refuse(g, COPSE_ERR_NO_MEMORY, "constant: no memory for %zu bytes", bytes);
    memcpy(copy, values, bytes);
    const struct constant_attr a = { type, shape, copy };
    return copse__node(g, &copse_op_constant, &a, NULL, 0);
}
