/* SPDX-License-Identifier: MIT */
/* Reshape: a view of the operand. */
#include "core/ops/ops.h"

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    char text[96];
    *shape = *(const copse_shape *)y->attr;
    *type = y->in[0]->type;
    if (copse__elements(*shape) != copse__elements(y->in[0]->shape))
        return copse__shape_error(y, "expected as many elements as the new shape %s has",
                                  copse__shape_text(*shape, text));
    return COPSE_OK;
}

static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    return copse_reshape(g, dy, y->in[0]->shape, &dx[0]);
}

static const struct copse_op op_reshape = {
    .name = "reshape",
    .attr_size = sizeof(copse_shape),
    .takes_stored = true,
    .infer = infer,
    .gradient = gradient,
};

copse_status copse_reshape(copse_graph *g, copse_tensor *x, copse_shape shape, copse_tensor **out)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("reshape", g, out, x));
    if (shape.rank > COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT, "reshape: rank %u is above %d", (unsigned)shape.rank,
                          COPSE_MAX_RANK);
    if (copse__shape_equal(x->shape, shape))
        return copse__own(g, x, out);
    return COPSE_NODE(g, &op_reshape, &shape, out, x);
}
