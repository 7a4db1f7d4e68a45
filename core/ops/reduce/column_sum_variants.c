/* SPDX-License-Identifier: MIT */
/* Sums down columns: the op, and its kernel variants with their launches. */
#include <stdio.h>

#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/reduce/column_sum.h"
#include "core/ops/self_tests.h"

struct column_sum {
    uint32_t rows, cols;
    const copse_tensor *y;
};

/* ---- launches ---- */

static copse_status lower_reduce(struct copse_lowering *l, const void *work)
{
    const struct column_sum *s = work;
    return copse__lower_reduce(l, COPSE_AXIS_SUM, 1, s->rows, s->cols, copse__of(s->y->in[0]),
                               copse__of(s->y));
}

static bool has_elements(const struct copse_limits *limits, const void *work)
{
    const struct column_sum *s = work;
    (void)limits;
    return s->rows > 0 && s->cols > 0;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { BLOCK = 4096 }; /* rows that an invocation sums */
    const struct column_sum *s = work;
    struct copse_operand from = copse__of(s->y->in[0]), to;
    uint32_t rows = s->rows;
    for (;;) {
        const struct copse_params_column_sum_wide p = { rows, s->cols, BLOCK };
        const uint32_t blocks = (rows + BLOCK - 1) / BLOCK;
        to = copse__of(s->y);
        if (blocks > 1)
            COPSE_TRY(copse__scratch(l, (uint64_t)blocks * s->cols, &to));
        COPSE_TRY(COPSE_LAUNCH(l, column_sum_wide, NULL, p,
                               (uint64_t)blocks * ((s->cols + 31) / 32), from, to));
        if (blocks == 1)
            return COPSE_OK;
        from = to;
        rows = blocks;
    }
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "reduce", COPSE_KERNEL_reduce, { 0, 1, 0, 0 }, .lower = lower_reduce },
    { "wide",
      COPSE_KERNEL_column_sum_wide,
      { 1, 0, 1, 1 },
      .fits = has_elements,
      .lower = lower_wide },
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
    const struct column_sum s = { .rows = at->of[0], .cols = at->of[1] };
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

static copse_status column_sum_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct column_sum s = { y->in[0]->shape.dims[0], y->shape.dims[0], y };
    return copse__lower_variant(l, &copse_family_column_sum, &s);
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
};

copse_tensor *copse__column_sum(copse_graph *g, copse_tensor *x)
{
    return COPSE_NODE(g, &op_bias_grad, NULL, x);
}

/* ---- self-test ---- */

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

/* ---- laws ---- */

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
