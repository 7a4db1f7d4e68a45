/* SPDX-License-Identifier: MIT */
/* Views of an operand: with another shape, or without a derivative. */
#include "core/ops/ops.h"

static copse_status reshape_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    char text[96];
    *shape = *(const copse_shape *)y->attr;
    *type = y->in[0]->type;
    if (copse__elements(*shape) != copse__elements(y->in[0]->shape))
        return copse__shape_error(y, "expected as many elements as the new shape %s has",
                                  copse__shape_text(*shape, text));
    return COPSE_OK;
}

static void reshape_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    dx[0] = copse_reshape(g, dy, y->in[0]->shape);
}

static const struct copse_op op_reshape = {
    .name = "reshape",
    .attr_size = sizeof(copse_shape),
    .takes_stored = true,
    .infer = reshape_infer,
    .gradient = reshape_gradient,
};

copse_tensor *copse_reshape(copse_graph *g, copse_tensor *x, copse_shape shape)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("reshape", g, x));
    if (shape.rank > COPSE_MAX_RANK)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "reshape: rank %u is above %d",
                             (unsigned)shape.rank, COPSE_MAX_RANK);
    if (copse__shape_equal(x->shape, shape))
        return copse__own(g, x);
    return COPSE_NODE(g, &op_reshape, &shape, x);
}

/* ---- a view without a derivative ---- */

static copse_status detach_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = y->in[0]->type;
    return COPSE_OK;
}

static void detach_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    (void)g, (void)y, (void)dy, (void)dx; /* zero */
}

static const struct copse_op op_detach = {
    .name = "detach",
    .takes_stored = true,
    .infer = detach_infer,
    .gradient = detach_gradient,
};

copse_tensor *copse__detach(copse_graph *g, copse_tensor *x)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("detach", g, x));
    return COPSE_NODE(g, &op_detach, NULL, x);
}
