/* SPDX-License-Identifier: MIT */
/* See column_sum.h: which kernel sums, and its launches. */
#include <stdio.h>

#include "core/ops/column_sum.h"
#include "core/ops/ops.h"

enum variant { REDUCE, WIDE };

static const char *const names[] = { "reduce", "column_sum_wide" };

void copse__column_sum_class(uint32_t rows, uint32_t cols, char name[COPSE_COLUMN_SUM_CLASS])
{
    static const uint32_t row_sizes[] = COPSE_COLUMN_SUM_ROWS, col_sizes[] = COPSE_COLUMN_SUM_COLS;
    snprintf(name, COPSE_COLUMN_SUM_CLASS, "%u-%u",
             (unsigned)copse__size_class(row_sizes, COPSE_COUNT(row_sizes), rows),
             (unsigned)copse__size_class(col_sizes, COPSE_COUNT(col_sizes), cols));
}

static copse_status choose(const struct copse_lowering *l, uint32_t rows, uint32_t cols, size_t *out)
{
    const bool can[] = { copse__can_launch(l, COPSE_KERNEL_reduce),
                         copse__can_launch(l, COPSE_KERNEL_column_sum_wide) };
    const char *name = copse__choice(l, "column_sum");
    char size_class[COPSE_COLUMN_SUM_CLASS];
    *out = REDUCE;
    if (rows == 0 || cols == 0)
        return COPSE_OK;
    if (!name) {
        copse__column_sum_class(rows, cols, size_class);
        *out = copse__fastest(l, "column_sum", size_class, names, can, COPSE_COUNT(names),
                              can[WIDE] && copse__limits(l)->has_wide_vectors ? WIDE : REDUCE);
        return COPSE_OK;
    }
    while (*out < COPSE_COUNT(names) && strcmp(name, names[*out]) != 0)
        (*out)++;
    if (*out == COPSE_COUNT(names))
        return copse_fail(COPSE_ERR_ARGUMENT, "column_sum: there is no variant '%s'", name);
    return can[*out] ? COPSE_OK : copse__refuse_variant(l, "column_sum", name);
}

static copse_status lower_wide(struct copse_lowering *l, uint32_t rows, uint32_t cols,
                               const copse_tensor *y)
{
    enum { BLOCK = 4096 }; /* rows that an invocation adds */
    struct copse_operand from = copse__of(y->in[0]), to;
    for (;;) {
        const struct copse_params_column_sum_wide p = { rows, cols, BLOCK };
        const uint32_t blocks = (rows + BLOCK - 1) / BLOCK;
        to = copse__of(y);
        if (blocks > 1)
            COPSE_TRY(copse__scratch(l, (uint64_t)blocks * cols, &to));
        COPSE_TRY(COPSE_LAUNCH(l, column_sum_wide, NULL, p, (uint64_t)blocks * ((cols + 31) / 32),
                               from, to));
        if (blocks == 1)
            return COPSE_OK;
        from = to;
        rows = blocks;
    }
}

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(y->in[0]->shape.dims[1]);
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t rows = y->in[0]->shape.dims[0], cols = y->shape.dims[0];
    size_t v;
    COPSE_TRY(choose(l, rows, cols, &v));
    return v == WIDE ? lower_wide(l, rows, cols, y)
                     : copse__lower_reduce(l, COPSE_AXIS_SUM, 1, rows, cols, copse__of(y->in[0]),
                                           copse__of(y));
}

static const struct copse_op op_bias_grad = {
    .name = "bias_grad",
    .infer = infer,
    .lower = lower,
};

copse_status copse__column_sum(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    return COPSE_NODE(g, &op_bias_grad, NULL, out, x);
}
