/* SPDX-License-Identifier: MIT */
/* The statistics of rows that softmax and the cross-entropy share: (m, t) = the maximum, and the
   sum of exp(x - m) without the largest element. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/row_held.h"
#include "core/ops/softmax/softmax.h"

struct stats {
    struct copse_row_work of;
    const copse_tensor *x, *y;
};

/* ---- launches ---- */

copse_status copse__lower_row_stats(struct copse_lowering *l, uint32_t rows, uint32_t cols,
                                    bool are_pairs, struct copse_operand from,
                                    struct copse_operand to)
{
    struct copse_params_row_stats p = { .chunks = cols };
    int32_t spec[COPSE_MAX_SPECS] = { !are_pairs };
    do {
        p.count = p.chunks;
        p.chunks = (p.count + COPSE_CHAIN - 1) / COPSE_CHAIN;
        p.n = rows * p.chunks;
        struct copse_operand part = to;
        if (p.chunks > 1 && p.n > 0)
            COPSE_TRY(copse__scratch(l, 2 * (uint64_t)p.n, &part));
        COPSE_TRY(COPSE_LAUNCH(l, row_stats, spec, p,
                               copse__groups_for(l, COPSE_KERNEL_row_stats, p.n), from, part));
        from = part;
        spec[0] = 0;
    } while (p.chunks > 1);
    return COPSE_OK;
}

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct stats *w = work;
    return copse__lower_row_stats(l, w->of.rows, w->of.cols, false, copse__of(w->x),
                                  copse__of(w->y));
}

static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct stats *)work)->of.cols <= COPSE_WIDE_COLS;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct stats *w = work;
    const struct copse_params_row_stats_wide p = { w->of.rows, w->of.cols,
                                                   copse__rows_each(w->of.cols) };
    return COPSE_LAUNCH(l, row_stats_wide, NULL, p, copse__row_groups(p.rows, p.cols, p.each),
                        copse__of(w->x), copse__of(w->y));
}

static bool fits_held(const struct copse_limits *limits, const void *work)
{
    const struct stats *w = work;
    struct copse_held held;
    return copse__held_rows(limits, COPSE_KERNEL_row_stats_held, w->of.rows, w->of.cols, &held);
}

static copse_status lower_held(struct copse_lowering *l, const void *work)
{
    const struct stats *w = work;
    const struct copse_params_row_stats_held p = { w->of.rows, w->of.cols };
    struct copse_held held;
    copse__held_rows(copse__limits(l), COPSE_KERNEL_row_stats_held, p.rows, p.cols, &held);
    const int32_t spec[COPSE_MAX_SPECS] = { held.log_lanes, held.more, held.in_quads };
    return COPSE_LAUNCH(l, row_stats_held, spec, p, held.groups, copse__of(w->x), copse__of(w->y));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_row_stats, { 0, 1, 0, 1 }, .lower = lower_plain },
    { "wide", COPSE_KERNEL_row_stats_wide, { 1, 0, 1, 2 }, .fits = fits_wide, .lower = lower_wide },
    { "held",
      COPSE_KERNEL_row_stats_held,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = fits_held,
      .lower = lower_held },
};

static copse_tensor *row_stats_build(copse_graph *g, const struct copse_tune_job *j,
                                     copse_tensor *const *in)
{
    (void)j;
    return copse__row_stats(g, in[0]);
}

const struct copse_family copse_family_row_stats = {
    .name = "row_stats",
    COPSE_VARIANTS(variants),
    .slack = 1e-5f,
    .sizes = { { COPSE_ROW_SIZES } },
    .size = copse__row_size,
    .job = copse__row_job,
    .operations = { 20 },
    .build = row_stats_build,
};

/* ---- the op ---- */

static copse_status row_stats_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(copse__row_count(y->in[0]->shape), 2);
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status row_stats_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct stats w = { copse__row_work(y->in[0]->shape), y->in[0], y };
    return copse__lower_variant(l, &copse_family_row_stats, &w);
}

/* Its users compute the complete derivative through their own operand x, so it needs none. */
static const struct copse_op op_row_stats = {
    .name = "row_stats",
    .infer = row_stats_infer,
    .lower = row_stats_lower,
};

copse_tensor *copse__row_stats(copse_graph *g, copse_tensor *x)
{
    return COPSE_NODE(g, &op_row_stats, NULL, x);
}

/* ---- references ---- */

static void row_stats_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_row_stats *p = params;
    const size_t step = spec[0] ? 1 : 2;
    for (size_t i = 0; i < p->n; i++) {
        const size_t chunk = i % p->chunks, first = i / p->chunks * p->count;
        size_t best = chunk;
        double m = -INFINITY, t = 0;
        for (size_t k = chunk; k < p->count; k += p->chunks) {
            const double x = copse__load(&args[0], step * (first + k));
            if (!isnan(m) && (x > m || isnan(x))) {
                m = x;
                best = k;
            }
        }
        for (size_t k = chunk; k < p->count; k += p->chunks) {
            const double x = copse__load(&args[0], step * (first + k));
            const double rest = spec[0] ? 0 : copse__load(&args[0], step * (first + k) + 1);
            t += k == best        ? rest
                 : x == -INFINITY ? 0
                                  : (1 + rest) * exp(x - (m == -INFINITY ? 0 : m));
        }
        copse__store(&args[1], 2 * i, m);
        copse__store(&args[1], 2 * i + 1, p->chunks == 1 && isinf(m) ? NAN : t);
    }
}

static void row_stats_wide_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_row_stats_wide *p = params;
    const struct copse_params_row_stats one_pass = { p->rows, p->cols, 1 };
    (void)spec;
    row_stats_host(&one_pass, (int32_t[COPSE_MAX_SPECS]){ 1 }, args);
}

static void row_stats_held_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_row_stats_held *p = params;
    const struct copse_params_row_stats one_pass = { p->rows, p->cols, 1 };
    (void)spec;
    row_stats_host(&one_pass, (int32_t[COPSE_MAX_SPECS]){ 1 }, args);
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_COLS

static void row_stats_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_row_stats p = { .n = R, .count = C, .chunks = 1 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), R * C * (k->spec[0] ? 1 : 2), 2 * R);
    copse__test_quarters(t, 0);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void row_stats_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_row_stats_wide p = { R, COPSE_TEST_LINE, 2 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, R * p.cols, 2 * R);
    copse__test_quarters(t, 0);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void row_stats_held_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_row_stats_held p = { R, copse__held_test_cols(k->spec) };
    COPSE_SELF_TEST(t, p, copse__held_test_groups(k, k->spec[0]), R * p.cols, 2 * R);
    copse__test_quarters(t, 0);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- laws ---- */

static bool row_stats_split(const struct copse_command *c, struct copse_split *o)
{
    const struct copse_params_row_stats *p = COPSE_SPLIT_PARAMS(row_stats, o);
    const uint64_t words = (c->kernel->spec[0] ? 1 : 2) * (uint64_t)p->count;
    return COPSE_SPLIT_EACH(o, p->chunks, words, 2 * (uint64_t)p->chunks);
}

static bool row_stats_wide_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 1, o->params[1], 2);
}

const struct copse_law copse_law_row_stats = {
    .host = row_stats_host,
    .split = row_stats_split,
    .limit = { .ulp = 16 },
    .self_test = row_stats_test,
};
const struct copse_law copse_law_row_stats_wide = {
    .host = row_stats_wide_host,
    .split = row_stats_wide_split,
    .limit = { .ulp = 16 },
    .self_test = row_stats_wide_test,
};
const struct copse_law copse_law_row_stats_held = {
    .host = row_stats_held_host,
    .split = row_stats_wide_split,
    .limit = { .ulp = 16 },
    .self_test = row_stats_held_test,
};
