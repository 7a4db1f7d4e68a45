/* SPDX-License-Identifier: MIT */
/* Rows of a table by index. The derivative sorts the positions by row and sums each row's part of
   dy in one order. */
#include <math.h>

#include "core/ops/ops.h"
#include "core/ops/self_tests.h"
#include "core/ops/sort/row_gradient.h"
#include "core/ops/sort/row_sort.h"

static uint32_t width_of(copse_shape table)
{
    uint32_t width = 1;
    for (uint32_t i = 1; i < table.rank; i++)
        width *= table.dims[i];
    return width;
}

static copse_status gather_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const copse_shape table = y->in[0]->shape, indices = y->in[1]->shape;
    if (y->in[0]->type != COPSE_F32 || y->in[1]->type != COPSE_I32 || table.rank < 1)
        return copse__shape_error(y, "expected an f32 table [rows, ...] and i32 indices");
    if (indices.rank + table.rank - 1 > COPSE_MAX_RANK)
        return copse__shape_error(y, "the result has more than %d axes", COPSE_MAX_RANK);
    *shape = indices;
    for (uint32_t i = 1; i < table.rank; i++)
        shape->dims[shape->rank++] = table.dims[i];
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status gather_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const copse_shape table = y->in[0]->shape;
    struct copse_params_gather p = { .n = (uint32_t)copse__elements(y->shape),
                                     .width = width_of(table),
                                     .rows = table.dims[0] };
    if (p.rows == 0) /* every index is out of range, and there is no memory to bind */
        return copse__lower_fill(l, y, NAN);
    copse__divisor(p.width, &p.m, &p.h);
    return COPSE_LAUNCH(l, gather, NULL, p, copse__groups_for(l, COPSE_KERNEL_gather, p.n),
                        copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y));
}

/* ---- the derivative of the table, from dy and the indices ---- */

struct grad_attr {
    copse_shape table;
};

static copse_status grad_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct grad_attr *)y->attr)->table;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t positions = (uint32_t)copse__elements(y->in[1]->shape), rows = y->shape.dims[0];
    struct copse_row_sort sorted;
    if (positions == 0 || copse__elements(y->shape) == 0)
        return copse__lower_fill(l, y, 0.0);
    COPSE_TRY(copse__lower_row_sort(l, y->in[1], rows, &sorted));
    return copse__lower_row_sums(l, positions, rows, width_of(y->shape), copse__of(y->in[0]),
                                 &sorted, copse__of(y));
}

static void grad_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    dx[0] = copse_gather(g, dy, y->in[1]);
}

static const struct copse_op op_grad = {
    .name = "gather_grad",
    .attr_size = sizeof(struct grad_attr),
    .infer = grad_infer,
    .gradient = grad_gradient,
    .lower = grad_lower,
};

static void gather_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct grad_attr a = { y->in[0]->shape };
    if (copse__elements(y->in[1]->shape) > COPSE_MAX_SORTED) {
        (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                            "gather: the derivative takes at most %u indices, not %llu",
                            COPSE_MAX_SORTED, (unsigned long long)copse__elements(y->in[1]->shape));
        return;
    }
    if (g->keeps_rows && y->in[0]->takes_rows) {
        dx[0] = copse__row_gradient(g, dy, y->in[1], a.table);
        return;
    }
    dx[0] = COPSE_NODE(g, &op_grad, &a, dy, y->in[1]);
}

static const struct copse_op op_gather = {
    .name = "gather",
    .infer = gather_infer,
    .gradient = gather_gradient,
    .lower = gather_lower,
};

copse_tensor *copse_gather(copse_graph *g, copse_tensor *table, copse_tensor *indices)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("gather", g, table, indices));
    return COPSE_NODE(g, &op_gather, NULL, table, indices);
}

/* ---- references ---- */

static double gather_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t i)
{
    const struct copse_params_gather *p = params;
    const uint32_t row = (uint32_t)copse__load_i(&args[1], i / p->width);
    (void)spec;
    return row < p->rows ? copse__load(&args[0], (size_t)row * p->width + i % p->width)
                         : (double)NAN;
}

static void gather_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_gather *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, gather_at(params, spec, args, i));
}

/* ---- self-tests ---- */

static void gather_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_gather p = { .n = COPSE_TEST_N, .width = 7, .rows = 3 };
    copse__divisor(p.width, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.rows * p.width, (COPSE_TEST_N + 6) / 7,
                    p.n);
    t->words[1][3] = (uint32_t)-1;
}

/* ---- laws ---- */

const struct copse_law copse_law_gather = {
    .host = gather_host,
    .at = gather_at,
    .self_test = gather_test,
};
