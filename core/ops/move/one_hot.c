/* SPDX-License-Identifier: MIT */
/* One-hot: a comparison with the numbers of the classes. */
#include "core/graph/type.h"
#include "core/ops/ops.h"

copse_status copse_one_hot(copse_graph *g, copse_tensor *indices, uint32_t classes,
                           copse_tensor **out)
{
    copse_tensor *all, *each;
    char text[96];
    COPSE_TRY(COPSE_CHECK_OPERANDS("one_hot", g, out, indices));
    copse_shape shape = indices->shape;
    if (indices->type != COPSE_I32 || shape.rank >= COPSE_MAX_RANK)
        return copse_fail(
            COPSE_ERR_SHAPE, "one_hot: operand %s%s: expected i32 indices of at most %d axes",
            copse__type_name(indices->type), copse__shape_text(shape, text), COPSE_MAX_RANK - 1);
    if (classes < 1 || classes > INT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "one_hot: %u classes are not 1 to 2^31-1",
                          (unsigned)classes);
    int32_t *numbers = copse__alloc(&g->ctx->base.mem, classes, sizeof *numbers);
    if (!numbers)
        return copse_fail(COPSE_ERR_NO_MEMORY, "one_hot: no memory for %u classes",
                          (unsigned)classes);
    for (uint32_t i = 0; i < classes; i++)
        numbers[i] = (int32_t)i;
    const copse_status s = copse_constant(g, COPSE_I32, COPSE_SHAPE(classes), numbers, &all);
    copse__free(&g->ctx->base.mem, numbers);
    COPSE_TRY(s);
    shape.dims[shape.rank++] = 1;
    COPSE_TRY(copse_note(copse_reshape(g, indices, shape, &each), "while adding one_hot"));
    return copse_note(copse_equal(g, each, all, out), "while adding one_hot");
}
