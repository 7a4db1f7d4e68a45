/* SPDX-License-Identifier: MIT */
/* Self-tests of the kernels of ops, but for products: see struct copse_self_test. */
#include "core/ops/self_tests.h"

#define N 100u /* elements of what goes element by element */

copse_self_test_fn copse_self_test_unary, copse_self_test_unary_grad, copse_self_test_binary,
    copse_self_test_binary_grad, copse_self_test_compare_i32, copse_self_test_copy,
    copse_self_test_copy_i32, copse_self_test_fill, copse_self_test_fill_i32,
    copse_self_test_step_scalar, copse_self_test_to_f32, copse_self_test_to_i32,
    copse_self_test_dropout, copse_self_test_reduce, copse_self_test_argmax,
    copse_self_test_row_stats, copse_self_test_softmax, copse_self_test_cross_entropy,
    copse_self_test_cross_entropy_grad, copse_self_test_dense_grad,
    copse_self_test_column_sum_wide;

/* ---- element by element ---- */

/* Accepted for a row of the tables: what is within 1 ULP is exact with a few bits. */
static float slack_of(double ulp)
{
    return ulp > 1 ? COPSE_SELF_TEST_SLACK : 0.0f;
}

static float unary_slack(int32_t op, bool is_gradient)
{
    switch (op) {
#define UNARY(name, number, f, g, reference, slope, low, high, ulp, ulp_g, class)                  \
    case number:                                                                                   \
        return slack_of(is_gradient ? ulp_g : ulp);
#define SCALED UNARY
#include "kernels/unary.def"
#undef UNARY
#undef SCALED
    }
    return COPSE_SELF_TEST_SLACK;
}

void copse_self_test_unary(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_unary p = { N, 0.5f, 1.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N, N);
    t->slack = unary_slack(k->spec[0], false);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 0);
}

void copse_self_test_unary_grad(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_unary_grad p = { N, 0.5f, 1.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N, N, N);
    t->slack = unary_slack(k->spec[0], true);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 0);
}

/* A tensor of as many axes as the kernel was made for; both operands by strides: the first one is the
   same along the innermost axis, the second one transposed. */
#define ALL 120u
static const copse_shape shapes[COPSE_MAX_RANK] = {
    { 1, { 5 } }, { 2, { 4, 5 } }, { 3, { 3, 4, 5 } }, { 4, { 2, 3, 4, 5 } },
    { 5, { 1, 2, 3, 4, 5 } }, { 6, { 1, 1, 2, 3, 4, 5 } },
};
static const uint32_t dims[COPSE_MAX_RANK] = { 5, 4, 3, 2, 1, 1 }; /* from the innermost one */
static const uint32_t repeated[COPSE_MAX_RANK] = { 0, 1, 4, 12, 24, 24 };
static const uint32_t turned[COPSE_MAX_RANK] = { 24, 6, 2, 1, 0, 0 };

static uint32_t rank_of(int32_t spec)
{
    return (uint32_t)COPSE_MIN(COPSE_MAX(spec, 1), COPSE_MAX_RANK);
}

static struct copse_walk walk_of(uint32_t rank)
{
    struct copse_walk w = { .rank = rank };
    memcpy(w.dims, dims, sizeof dims);
    memcpy(w.a, repeated, sizeof repeated);
    memcpy(w.b, turned, sizeof turned);
    for (uint32_t i = 0; i < COPSE_MAX_RANK; i++)
        copse__divisor(dims[i], &w.m[i], &w.h[i]);
    return w;
}

#define PARAMS(w, n)                                                                               \
    {                                                                                              \
        n, (w).dims[0], (w).dims[1], (w).dims[2], (w).dims[3], (w).dims[4], (w).m[0], (w).m[1],    \
            (w).m[2], (w).m[3], (w).m[4], (w).h[0], (w).h[1], (w).h[2], (w).h[3], (w).h[4],        \
            (w).a[0], (w).a[1], (w).a[2], (w).a[3], (w).a[4], (w).a[5], (w).b[0], (w).b[1],        \
            (w).b[2], (w).b[3], (w).b[4], (w).b[5]                                                 \
    }

static float binary_slack(int32_t op, bool is_gradient)
{
    switch (op) {
#define BINARY(name, number, f, da, db, reference, ref_a, ref_b, ulp, ulp_g, class)                \
    case number:                                                                                   \
        return slack_of(is_gradient ? ulp_g : ulp);
#define COMPARE(name, number, f)                                                                   \
    case number:                                                                                   \
        return 0.0f;
#include "kernels/binary.def"
#undef BINARY
#undef COMPARE
    }
    return COPSE_SELF_TEST_SLACK;
}

void copse_self_test_binary(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = rank_of(k->spec[3]), n = (uint32_t)copse__elements(shapes[rank - 1]);
    const struct copse_walk w = walk_of(rank);
    const struct copse_params_binary p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), ALL, ALL, n);
    t->slack = binary_slack(k->spec[0], false);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 1);
}

void copse_self_test_binary_grad(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = rank_of(k->spec[3]), n = (uint32_t)copse__elements(shapes[rank - 1]);
    const struct copse_walk w = walk_of(rank);
    const struct copse_params_binary_grad p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), ALL, ALL, n, n);
    t->slack = binary_slack(k->spec[0], true);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 1);
}

void copse_self_test_compare_i32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = rank_of(k->spec[3]), n = (uint32_t)copse__elements(shapes[rank - 1]);
    const struct copse_walk w = walk_of(rank);
    const struct copse_params_compare_i32 p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), ALL, ALL, n);
}
#undef PARAMS

/* ---- moving ---- */

#define PARAMS(w, n)                                                                               \
    {                                                                                              \
        n, 3, (w).dims[0], (w).dims[1], (w).dims[2], (w).dims[3], (w).dims[4], (w).m[0], (w).m[1], \
            (w).m[2], (w).m[3], (w).m[4], (w).h[0], (w).h[1], (w).h[2], (w).h[3], (w).h[4],        \
            (w).b[0], (w).b[1], (w).b[2], (w).b[3], (w).b[4], (w).b[5]                             \
    }

void copse_self_test_copy(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = rank_of(k->spec[0]), n = (uint32_t)copse__elements(shapes[rank - 1]);
    const struct copse_walk w = walk_of(rank);
    const struct copse_params_copy p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), k->spec[1] ? n : ALL + 3,
                    k->spec[1] ? ALL + 3 : n);
}

void copse_self_test_copy_i32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = rank_of(k->spec[0]), n = (uint32_t)copse__elements(shapes[rank - 1]);
    const struct copse_walk w = walk_of(rank);
    const struct copse_params_copy_i32 p = PARAMS(w, n);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), k->spec[1] ? n : ALL + 3,
                    k->spec[1] ? ALL + 3 : n);
}
#undef PARAMS

void copse_self_test_fill(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_fill p = { N, 2.5f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N);
}

void copse_self_test_fill_i32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_fill_i32 p = { N, -7 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N);
}

void copse_self_test_step_scalar(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_step_scalar p = { COPSE_STEP_RATE };
    (void)k;
    COPSE_SELF_TEST(t, p, 1, COPSE_STEP_WORDS, 1);
    copse__test_set(t, 0, COPSE_STEP_RATE, 2.5f);
}

void copse_self_test_to_f32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_f32 p = { N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N, N);
}

void copse_self_test_to_i32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_to_i32 p = { N };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N, N);
    for (uint32_t i = 0; i < N; i += 2)
        copse__test_set(t, 0, i, 0.25f * ((float)i - 50.0f));
}

void copse_self_test_dropout(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_dropout p = { .n = N, .row_elements = 7, .stream = 3,
                                      .threshold = 0x80000000u, .scale = 2.0f };
    copse__divisor(p.row_elements, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), N, COPSE_STEP_WORDS, N);
}

/* ---- along an axis ---- */

#define LINE 70u /* two chunks */

void copse_self_test_reduce(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_reduce p = { .n = 12, .count = LINE, .chunks = 2, .inner = 2,
                                           .divisor = 64.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 3 * LINE * 2, p.n);
}

void copse_self_test_argmax(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool is_first = k->spec[0] != 0;
    struct copse_params_argmax p = { .extent = LINE, .inner = 2 };
    p.count = is_first ? LINE : 4;
    p.chunks = is_first ? 2 : 1;
    p.n = 3 * p.chunks * p.inner;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 3 * LINE * 2, is_first ? 4 : 3 * 4 * 2, p.n);
    for (uint32_t i = 0; i < 3 * 4 * 2; i++)
        t->words[1][i] = i * 17 % LINE;
}

#define ROWS 3u
#define COLS 9u

void copse_self_test_row_stats(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_row_stats p = { .n = ROWS, .count = COLS, .chunks = 1 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), ROWS * COLS * (k->spec[0] ? 1 : 2), 2 * ROWS);
    copse__test_quarters(t, 0);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse_self_test_softmax(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_softmax p = { .n = ROWS * COLS, .cols = COLS };
    copse__divisor(COLS, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, 2 * ROWS, p.n);
    copse__test_quarters(t, 1);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse_self_test_cross_entropy(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_cross_entropy p = { ROWS, COLS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, ROWS), ROWS * COLS, ROWS, 2 * ROWS, ROWS);
    copse__test_quarters(t, 2);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse_self_test_cross_entropy_grad(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_cross_entropy_grad p = { .n = ROWS * COLS, .cols = COLS, .divisor = 4.0f };
    copse__divisor(COLS, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, ROWS, 2 * ROWS, 1, p.n);
    copse__test_quarters(t, 2);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- dense layers ---- */

void copse_self_test_dense_grad(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_dense_grad p = { N };
    const uint64_t each = (uint64_t)COPSE_MAX(k->spec[0], 1);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, (N + each - 1) / each), N, N, N);
    copse__test_quarters(t, 0);
}

static void sum_columns(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_column_sum_wide *p = params;
    (void)spec;
    for (size_t j = 0; j < p->cols; j++) {
        double sum = 0;
        for (size_t i = 0; i < p->rows; i++)
            sum += copse__load(&args[0], i * p->cols + j);
        copse__store(&args[1], j, sum);
    }
}

void copse_self_test_column_sum_wide(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_column_sum_wide p = { 50, 40, 4096 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, p.rows * p.cols, p.cols);
    t->truth = sum_columns;
}
