/* SPDX-License-Identifier: MIT */
/* Sums down columns: the op, and its kernel variants with their launches. Several sums of matrices
   of so many rows share a launch of the variant `group`. */
#include <math.h>
#include <stdio.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/reduce/column_sum.h"
#include "core/ops/self_tests.h"

enum { MOST_SUMS = 4 }; /* of a launch */

struct column_sum {
    uint32_t rows, cols, count;   /* cols: of the first one */
    const copse_tensor *const *y; /* [count] */
};

/* ---- launches ---- */

static copse_status lower_reduce(struct copse_lowering *l, const void *work)
{
    const struct column_sum *s = work;
    for (uint32_t i = 0; i < s->count; i++)
        COPSE_TRY(copse__lower_reduce(l, COPSE_AXIS_SUM, 1, s->rows, s->y[i]->shape.dims[0],
                                      copse__of(s->y[i]->in[0]), copse__of(s->y[i])));
    return COPSE_OK;
}

static bool has_elements(const struct copse_limits *limits, const void *work)
{
    const struct column_sum *s = work;
    (void)limits;
    return s->rows > 0 && s->cols > 0;
}

static copse_status sum_wide(struct copse_lowering *l, const copse_tensor *y)
{
    enum { BLOCK = 4096 }; /* rows that an invocation sums */
    struct copse_operand from = copse__of(y->in[0]), to;
    uint32_t rows = y->in[0]->shape.dims[0];
    const uint32_t cols = y->shape.dims[0];
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

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct column_sum *s = work;
    for (uint32_t i = 0; i < s->count; i++)
        COPSE_TRY(sum_wide(l, s->y[i]));
    return COPSE_OK;
}

/* kernels/reduce/column_sums.cl: rows that two passes of at most COPSE_CHAIN sum; and its WIDTH. */
#define MOST_ROWS (COPSE_CHAIN * COPSE_CHAIN)
enum { WIDTH = 16 };

/* Passes of `reduce` until few enough rows are left. */
static copse_status reduce_rows(struct copse_lowering *l, uint32_t cols, uint32_t *rows,
                                struct copse_operand *from)
{
    const int32_t spec[COPSE_MAX_SPECS] = { COPSE_AXIS_SUM };
    while (*rows > MOST_ROWS) {
        const uint32_t chunks = (*rows + COPSE_CHAIN - 1) / COPSE_CHAIN;
        const struct copse_params_reduce p = { chunks * cols, *rows, chunks, cols, (float)*rows };
        struct copse_operand part;
        COPSE_TRY(copse__scratch(l, p.n, &part));
        COPSE_TRY(COPSE_LAUNCH(l, reduce, spec, p, copse__groups_for(l, COPSE_KERNEL_reduce, p.n),
                               *from, part));
        *from = part;
        *rows = chunks;
    }
    return COPSE_OK;
}

/* A matrix that is absent is bound as the first one, its sums as words that nothing writes. */
static copse_status lower_group(struct copse_lowering *l, const void *work)
{
    const struct column_sum *s = work;
    const int32_t spec[COPSE_MAX_SPECS] = { (int32_t)s->count };
    const uint32_t width = COPSE_MIN(copse__group_size(l, COPSE_KERNEL_column_sums), WIDTH);
    struct copse_operand args[2 * MOST_SUMS];
    uint32_t rows = s->rows, cols[MOST_SUMS] = { 0 };
    uint64_t groups = 0;
    for (uint32_t i = 0; i < MOST_SUMS; i++) {
        if (i < s->count) {
            rows = s->rows;
            cols[i] = s->y[i]->shape.dims[0];
            groups += (cols[i] + width - 1) / width;
            args[i] = copse__of(s->y[i]->in[0]);
            args[MOST_SUMS + i] = copse__of(s->y[i]);
            COPSE_TRY(reduce_rows(l, cols[i], &rows, &args[i]));
        } else {
            args[i] = args[0];
            COPSE_TRY(copse__scratch(l, 1, &args[MOST_SUMS + i]));
        }
    }
    const struct copse_params_column_sums p = { rows,    (rows + COPSE_CHAIN - 1) / COPSE_CHAIN,
                                                cols[0], cols[1],
                                                cols[2], cols[3] };
    return copse__launch(l, COPSE_KERNEL_column_sums, spec, &p, groups, args, 2 * MOST_SUMS);
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "reduce", COPSE_KERNEL_reduce, { 0, 1, 1, 1 }, .lower = lower_reduce },
    { "wide",
      COPSE_KERNEL_column_sum_wide,
      { 1, 0, 2, 2 },
      .fits = has_elements,
      .lower = lower_wide },
    { "group",
      COPSE_KERNEL_column_sums,
      { 2, 2, 0, 0 },
      .fits = has_elements,
      .lower = lower_group,
      COPSE_NEEDS(COPSE_KERNEL_reduce) },
};

static bool column_sum_size(const void *work, struct copse_size *out)
{
    const struct column_sum *s = work;
    out->of[0] = s->rows;
    out->of[1] = s->cols;
    return s->rows > 0 && s->cols > 0;
}

static void column_sum_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct column_sum s = { .rows = at->of[0], .cols = at->of[1], .count = 1 };
    COPSE_JOB_WORK(j, s);
    j->in[0] = COPSE_SHAPE(s.rows, s.cols);
}

static copse_tensor *column_sum_build(copse_graph *g, const struct copse_tune_job *j,
                                      copse_tensor *const *in)
{
    (void)j;
    return copse__column_sum(g, in[0]);
}

const struct copse_family copse_family_column_sum = {
    .name = "column_sum",
    COPSE_VARIANTS(variants),
    .sizes = { { 32, 256, 2048 }, { 8, 32, 128, 512 } },
    .size = column_sum_size,
    .job = column_sum_job,
    .operations = { 1 },
    .build = column_sum_build,
};

/* ---- the op ---- */

static copse_status column_sum_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(y->in[0]->shape.dims[1]);
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower_many(struct copse_lowering *l, const copse_tensor *const *y,
                               uint32_t count)
{
    const struct column_sum s = { y[0]->in[0]->shape.dims[0], y[0]->shape.dims[0], count, y };
    return copse__lower_variant(l, &copse_family_column_sum, &s);
}

static uint32_t most_sums(const struct copse_lowering *l, const copse_tensor *y)
{
    const struct column_sum s = { y->in[0]->shape.dims[0], y->shape.dims[0], 1, &y };
    const struct copse_variant *v;
    const bool is_chosen = copse__choose(l, &copse_family_column_sum, &s, &v) == COPSE_OK;
    return is_chosen && v->kernel == COPSE_KERNEL_column_sums && s.rows <= MOST_ROWS ? MOST_SUMS
                                                                                     : 1;
}

static bool has_as_many_rows(const copse_tensor *a, const copse_tensor *b)
{
    return a->in[0]->shape.dims[0] == b->in[0]->shape.dims[0] && b->shape.dims[0] > 0;
}

static copse_status column_sum_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_many(l, &y, 1);
}

static void column_sum_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                copse_tensor **dx)
{
    dx[0] = copse_broadcast_to(g, dy, y->in[0]->shape);
}

static const struct copse_op op_bias_grad = {
    .name = "bias_grad",
    .infer = column_sum_infer,
    .gradient = column_sum_gradient,
    .lower = column_sum_lower,
    .lower_many = lower_many,
    .most = most_sums,
    .joins = has_as_many_rows,
};

copse_tensor *copse__column_sum(copse_graph *g, copse_tensor *x)
{
    return COPSE_NODE(g, &op_bias_grad, NULL, x);
}

/* ---- references ---- */

/* Line `line` of a launch is a column of a matrix. */
struct column {
    uint32_t matrix, cols;
    size_t at;
};

static struct column column_of(const struct copse_params_column_sums *p, size_t line)
{
    const uint32_t cols[MOST_SUMS] = { p->cols0, p->cols1, p->cols2, p->cols3 };
    uint32_t m = 0;
    while (m + 1 < MOST_SUMS && line >= cols[m])
        line -= cols[m++];
    return (struct column){ m, cols[m], line };
}

static uint64_t count_columns(const void *params)
{
    const struct copse_params_column_sums *p = params;
    return (uint64_t)p->cols0 + p->cols1 + p->cols2 + p->cols3;
}

static void sum_column(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                       size_t line)
{
    const struct copse_params_column_sums *p = params;
    const struct column c = column_of(p, line);
    double sum = 0;
    (void)spec;
    for (size_t i = 0; i < p->rows; i++)
        sum += copse__load(&args[c.matrix], i * c.cols + c.at);
    copse__store(&args[MOST_SUMS + c.matrix], c.at, sum);
}

static void column_size(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t line)
{
    const struct copse_params_column_sums *p = params;
    const struct column c = column_of(p, line);
    double sum = 0;
    (void)spec;
    for (size_t i = 0; i < p->rows; i++)
        sum += fabs(copse__load(&args[c.matrix], i * c.cols + c.at));
    copse__store(&args[MOST_SUMS + c.matrix], c.at, sum);
}

static size_t words_of_column(const void *params, const int32_t *spec, size_t line,
                              struct copse_line_words out[COPSE_LINE_WORDS])
{
    const struct column c = column_of(params, line);
    (void)spec;
    out[0] = (struct copse_line_words){ MOST_SUMS + c.matrix, c.at, 1 };
    return 1;
}

static void column_sums_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const uint64_t count = count_columns(params);
    for (size_t line = 0; line < count; line++)
        sum_column(params, spec, args, line);
}

static double column_sum_wide_at(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_column_sum_wide *p = params;
    const size_t first = place / p->cols * p->block;
    double sum = 0;
    (void)spec;
    for (size_t i = first; i < COPSE_MIN(first + p->block, p->rows); i++)
        sum += copse__load(&args[0], i * p->cols + place % p->cols);
    return sum;
}

static void column_sum_wide_host(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_column_sum_wide *p = params;
    for (size_t i = 0; i < ((size_t)p->rows + p->block - 1) / p->block * p->cols; i++)
        copse__store(&args[1], i, column_sum_wide_at(params, spec, args, i));
}

static void column_sum_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_column_sum_wide p = { 50, 40, 4096 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, p.rows * p.cols, p.cols);
}

/* ---- self-tests ---- */

static void column_sums_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = COPSE_MIN(k->group_x * k->group_y, WIDTH);
    static const uint32_t most[MOST_SUMS] = { 18, 3, 17, 5 };
    const uint32_t rows = COPSE_TEST_LINE;
    uint32_t cols[MOST_SUMS] = { 0 };
    uint64_t groups = 0;
    for (int32_t m = 0; m < COPSE_MIN(k->spec[0], MOST_SUMS); m++) {
        cols[m] = most[m];
        groups += (cols[m] + width - 1) / width;
    }
    const struct copse_params_column_sums p = { rows, 2, cols[0], cols[1], cols[2], cols[3] };
    COPSE_SELF_TEST(t, p, groups, rows * most[0], rows * most[1], rows * most[2], rows * most[3],
                    most[0], most[1], most[2], most[3]);
}

/* ---- laws ---- */

static const struct copse_lines columns = { count_columns, sum_column, column_size,
                                            words_of_column };

static uint64_t column_sums_work(const void *params, const int32_t *spec)
{
    const struct copse_params_column_sums *p = params;
    (void)spec;
    return p->rows * count_columns(params);
}

/* 8 sums of 8 in a chunk, and 8 of 8 chunks. */
static struct copse_sum column_sums_sum(const void *params, const int32_t *spec)
{
    (void)params, (void)spec;
    return (struct copse_sum){ 2 * (8 + 3), 1 };
}

const struct copse_law copse_law_column_sums = {
    .host = column_sums_host,
    .lines = &columns,
    .work = column_sums_work,
    .limit = { .ulp = 0.5, .ratio = 4 },
    .sum = column_sums_sum,
    .self_test = column_sums_test,
};

static struct copse_elements column_sum_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_column_sum_wide *p = params;
    (void)spec;
    return (struct copse_elements){ copse__round_up(p->rows, p->block) / p->block * p->cols,
                                    p->block };
}

/* 64 rows in a chain, four chains, 8 sums of these, 8 of those. */
static struct copse_sum column_sum_wide_sum(const void *params, const int32_t *spec)
{
    (void)params, (void)spec;
    return (struct copse_sum){ 63 + 2 + 7 + 7, 1 };
}

const struct copse_law copse_law_column_sum_wide = {
    .host = column_sum_wide_host,
    .at = column_sum_wide_at,
    .elements = column_sum_wide_elements,
    .limit = { .ulp = 0.5, .ratio = 4 },
    .sum = column_sum_wide_sum,
    .self_test = column_sum_wide_test,
};
