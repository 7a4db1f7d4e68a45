/* SPDX-License-Identifier: MIT */
/* One-hot: a comparison with the numbers of the classes. */
#include "core/graph/type.h"
#include "core/ops/ops.h"

copse_tensor *copse_one_hot(copse_graph *g, copse_tensor *indices, uint32_t classes)
{
    char text[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("one_hot", g, indices));
    copse_shape shape = indices->shape;
    if (indices->type != COPSE_I32 || shape.rank >= COPSE_MAX_RANK)
        return copse__refuse(
            g, COPSE_ERR_SHAPE, "one_hot: operand %s%s: expected i32 indices of at most %d axes",
            copse_type_name(indices->type), copse__shape_text(shape, text), COPSE_MAX_RANK - 1);
    if (classes < 1 || classes > INT32_MAX)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "one_hot: %u classes are not 1 to 2^31-1",
                             (unsigned)classes);
    int32_t *numbers = copse__alloc(&g->ctx->base.mem, classes, sizeof *numbers);
    if (!numbers)
        return copse__failed(g, copse_no_memory("one_hot: %u classes", (unsigned)classes));
    for (uint32_t i = 0; i < classes; i++)
        numbers[i] = (int32_t)i;
    copse_tensor *all = copse_constant(g, COPSE_I32, COPSE_SHAPE(classes), numbers);
    copse__free(&g->ctx->base.mem, numbers);
    shape.dims[shape.rank++] = 1;
    copse_tensor *each = copse_reshape(g, indices, shape);
    return copse__noted(g, copse_equal(g, each, all), "while adding one_hot");
}
