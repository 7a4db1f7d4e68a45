/* SPDX-License-Identifier: MIT */
/* Rows of a table by index. The derivative sorts the positions by row and sums each row's part of dy in one order. */
#include <math.h>

#include "core/device/host_at.h"
#include "core/ops/ops.h"
#include "core/ops/row_sort.h"
#include "core/ops/self_tests.h"

#define CHUNK 64u          /* terms of the shortest sums */
#define RUN   (256u * CHUNK)

static uint32_t width_of(copse_shape table)
{
    uint32_t width = 1;
    for (uint32_t i = 1; i < table.rank; i++)
        width *= table.dims[i];
    return width;
}

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
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

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    const copse_shape table = y->in[0]->shape;
    struct copse_params_gather p = { .n = (uint32_t)copse__elements(y->shape), .width = width_of(table),
                                     .rows = table.dims[0] };
    copse__divisor(p.width, &p.m, &p.h);
    return COPSE_LAUNCH(l, gather, NULL, p, copse__groups_for(l, COPSE_KERNEL_gather, p.n), copse__of(y->in[0]),
                        copse__of(y->in[1]), copse__of(y));
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

/* The columns of a row that a group sums: one for each lane, but fewer where rows have many positions on average. CPUs
   through Vulkan, whose barriers are slow, get no lanes that share a column. The result does not depend on it. */
static uint32_t columns_of_group(const struct copse_limits *limits, uint32_t group, uint32_t width,
                                 uint32_t positions, uint32_t rows)
{
    enum { MOST_CHUNKS = 16 };
    const uint32_t chunks = COPSE_MIN(positions / rows, MOST_CHUNKS);
    uint32_t cols = 1;
    if (limits->has_fast_texels)
        return group;
    while (cols < width && cols < group)
        cols *= 2;
    while (cols > 1 && group / cols < chunks)
        cols /= 2;
    return cols;
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const uint32_t positions = (uint32_t)copse__elements(y->in[1]->shape);
    struct copse_params_gather_grad p = { .rows = y->shape.dims[0], .width = width_of(y->shape) };
    struct copse_row_sort sorted;
    if (positions == 0 || p.rows == 0 || p.width == 0)
        return copse__lower_fill(l, y, 0.0);
    const uint32_t group = copse__group_size(l, COPSE_KERNEL_gather_grad);
    p.cols = columns_of_group(copse__limits(l), group, p.width, positions, p.rows);
    p.tiles = (p.width + p.cols - 1) / p.cols;
    const int32_t spec[COPSE_MAX_SPECS] = { p.cols < group };
    p.count = 3 * RUN * COPSE_MIN(group / p.cols, 8); /* at most 56,000 rounds of all loops */
    COPSE_TRY(copse__lower_row_sort(l, y->in[1], p.rows, &sorted));
    for (; p.first < positions; p.first += p.count)
        COPSE_TRY(COPSE_LAUNCH(l, gather_grad, spec, p, (uint64_t)p.rows * p.tiles, copse__of(y->in[0]), sorted.order,
                               sorted.starts, copse__of(y)));
    return COPSE_OK;
}

static const struct copse_op op_grad = {
    .name = "gather_grad",
    .attr_size = sizeof(struct grad_attr),
    .infer = grad_infer,
    .lower = grad_lower,
};

static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    const struct grad_attr a = { y->in[0]->shape };
    if (copse__elements(y->in[1]->shape) > COPSE_MAX_SORTED)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "gather: the derivative takes at most %u indices, not %llu",
                          COPSE_MAX_SORTED, (unsigned long long)copse__elements(y->in[1]->shape));
    return COPSE_NODE(g, &op_grad, &a, &dx[0], dy, y->in[1]);
}

static const struct copse_op op_gather = {
    .name = "gather",
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};

copse_status copse_gather(copse_graph *g, copse_tensor *table, copse_tensor *indices, copse_tensor **out)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("gather", g, out, table, indices));
    return COPSE_NODE(g, &op_gather, NULL, out, table, indices);
}

/* ---- references ---- */

double copse_at_gather(const void *params, const int32_t *spec, const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_gather *p = params;
    const uint32_t row = (uint32_t)copse__load_i(&args[1], i / p->width);
    (void)spec;
    return row < p->rows ? copse__load(&args[0], (size_t)row * p->width + i % p->width) : (double)NAN;
}

void copse_host_gather(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_gather *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, copse_at_gather(params, spec, args, i));
}

void copse_host_gather_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_gather_grad *p = params;
    (void)spec;
    for (size_t row = 0; row < p->rows; row++) {
        const size_t end = (size_t)copse__load_i(&args[2], row + 1);
        const size_t start = COPSE_MIN((size_t)copse__load_i(&args[2], row) + p->first, end);
        for (size_t col = 0; col < p->width; col++) {
            double sum = p->first > 0 ? copse__load(&args[3], row * p->width + col) : 0;
            for (size_t k = start; k < COPSE_MIN(start + p->count, end); k++)
                sum += copse__load(&args[0], (size_t)copse__load_i(&args[1], k) * p->width + col);
            copse__store(&args[3], row * p->width + col, sum);
        }
    }
}

/* ---- self-tests ---- */

void copse_self_test_gather(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_gather p = { .n = COPSE_TEST_N, .width = 7, .rows = 3 };
    copse__divisor(p.width, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.rows * p.width, (COPSE_TEST_N + 6) / 7, p.n);
    t->words[1][3] = (uint32_t)-1;
}

/* Three rows with 0, 130 and 20 of 150 positions, in reverse order. */
void copse_self_test_gather_grad(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { POSITIONS = 150, WIDTH = 9 };
    const uint32_t group = k->group_x * k->group_y;
    const uint32_t cols = k->spec[0] ? COPSE_MIN(group, 8) : group;
    const struct copse_params_gather_grad p = {
        .rows = 3, .width = WIDTH, .tiles = (WIDTH + cols - 1) / cols, .cols = cols, .count = RUN
    };
    COPSE_SELF_TEST(t, p, (uint64_t)p.rows * p.tiles, POSITIONS * WIDTH, POSITIONS, p.rows + 1, p.rows * WIDTH);
    for (uint32_t i = 0; i < POSITIONS; i++)
        t->words[1][i] = POSITIONS - 1 - i;
    memcpy(t->words[2], (const uint32_t[]){ 0, 0, 130, POSITIONS }, 4 * sizeof(uint32_t));
}
