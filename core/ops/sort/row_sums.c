/* SPDX-License-Identifier: MIT */
/* Sums of rows at sorted positions, with kernel gather_grad: see row_sort.h. */
#include "core/device/kernel/launch_split.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"
#include "core/ops/sort/row_sort.h"

#define CHUNK 64u /* terms of the shortest sums */
#define RUN   (256u * CHUNK)

/* The columns of a row that a group sums: one for each lane, but fewer where rows have many
   positions on average. CPUs through Vulkan, whose barriers are slow, get no lanes that share a
   column. The result does not depend on it. */
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

copse_status copse__lower_row_sums(struct copse_lowering *l, uint32_t positions, uint32_t rows,
                                   uint32_t width, struct copse_operand terms,
                                   const struct copse_row_sort *sorted, struct copse_operand to)
{
    const uint32_t group = copse__group_size(l, COPSE_KERNEL_gather_grad);
    struct copse_params_gather_grad p = { .rows = rows, .width = width };
    const uint32_t lanes = columns_of_group(copse__limits(l), group, width, positions, rows);
    /* Most rows of a large table have no positions: their zeros are written in quads, where a row
       has quads for all lanes. */
    const bool is_shared = lanes < group,
               is_in_quads = !is_shared && width % 4 == 0 && width >= 4 * group;
    p.cols = is_in_quads ? 4 * lanes : lanes;
    p.tiles = (width + p.cols - 1) / p.cols;
    const int32_t spec[COPSE_MAX_SPECS] = { is_shared, is_in_quads };
    p.count = 3 * RUN * COPSE_MIN(group / lanes, 8); /* at most 56,000 rounds of all loops */
    for (; p.first < positions; p.first += p.count)
        COPSE_TRY(COPSE_LAUNCH(l, gather_grad, spec, p, (uint64_t)rows * p.tiles, terms,
                               sorted->order, sorted->starts, to));
    return COPSE_OK;
}

/* ---- reference and self-test ---- */

static void gather_grad_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
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

/* Three rows with 0, 130 and 20 of 150 positions, in reverse order. */
static void gather_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { POSITIONS = 150 };
    const uint32_t group = k->group_x * k->group_y, width = k->spec[1] ? 12 : 9;
    const uint32_t cols = k->spec[0] ? COPSE_MIN(group, 8) : k->spec[1] ? 4 * group : group;
    const struct copse_params_gather_grad p = {
        .rows = 3, .width = width, .tiles = (width + cols - 1) / cols, .cols = cols, .count = RUN
    };
    COPSE_SELF_TEST(t, p, (uint64_t)p.rows * p.tiles, POSITIONS * width, POSITIONS, p.rows + 1,
                    p.rows * width);
    for (uint32_t i = 0; i < POSITIONS; i++)
        t->words[1][i] = POSITIONS - 1 - i;
    memcpy(t->words[2], (const uint32_t[]){ 0, 0, 130, POSITIONS }, 4 * sizeof(uint32_t));
}

/* ---- laws ---- */

/* Columns of the table; the order of the indices is shared. */
static bool gather_grad_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_gather_grad *p = COPSE_SPLIT_PARAMS(gather_grad, o);
    if (p->width == 0)
        return false;
    copse__split_pieces(o, 0, copse__split_size(c, 0) / p->width, p->width, 1);
    copse__split_buffer(o, 1, 0);
    copse__split_buffer(o, 2, 0);
    copse__split_pieces(o, 3, p->rows, p->width, 1);
    o->units = p->width;
    copse__split_count(o, &p->width, 1);
    return true;
}

/* Chunks of 64 positions, runs of 256 chunks, earlier content. */
static struct copse_sum gather_grad_sum(const void *params, const int32_t *spec)
{
    const uint64_t count = ((const struct copse_params_gather_grad *)params)->count;
    const uint64_t chunks = (count + 63) / 64, runs = (chunks + 255) / 256;
    (void)spec;
    return (struct copse_sum){ COPSE_MIN(count, 64) + COPSE_MIN(chunks, 256) + runs, 1 };
}

const struct copse_law copse_law_gather_grad = {
    .host = gather_grad_host,
    .split = gather_grad_split,
    .limit = { .ulp = 0.5, .ratio = 4 },
    .sum = gather_grad_sum,
    .self_test = gather_grad_test,
};
