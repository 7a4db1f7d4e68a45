/* SPDX-License-Identifier: MIT */
/* The measuring instruments of the conformance room: how results are compared, on data made by
   hand, what inputs are filled with, and which known failures a driver has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "prover/conformance/verdict/conformance.h"

#define COUNT(n) (sizeof(n) / sizeof *(n))

static const struct copse_case_limit exact;

static bool is_within(const struct copse_case_limit *limit, double expected, double got,
                      bool flushes)
{
    struct copse_comparison c;
    copse__compare(limit, &expected, NULL, &got, 1, flushes, &c);
    return c.is_within;
}

static double *numbers(size_t n)
{
    double *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

static float next(float x, int steps)
{
    for (; steps > 0; steps--)
        x = nextafterf(x, INFINITY);
    for (; steps < 0; steps++)
        x = nextafterf(x, -INFINITY);
    return x;
}

/* ---- comparison ---- */

static void one_wrong_element_in_a_million_is_found(void **state)
{
    (void)state;
    enum { N = 1000000 };
    double *expected = numbers(N), *got = numbers(N), *magnitude = numbers(N);
    static const struct copse_case_limit limits[] = {
        { .ulp = 0 },
        { .ulp = 3 },
        { .ratio = 4 },
        { .of_max = 1e-6 },
    };
    for (size_t k = 0; k < N; k++) {
        expected[k] = got[k] = (double)(float)sin((double)k);
        magnitude[k] = 1;
    }
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct copse_comparison c;
        got[765432] = expected[765432];
        copse__compare(&limits[i], expected, magnitude, got, N, false, &c);
        assert_true(c.is_within);
        assert_true(c.worst <= c.limit && !c.is_poor);
        got[765432] += 2e-6;
        copse__compare(&limits[i], expected, magnitude, got, N, false, &c);
        assert_false(c.is_within);
        assert_int_equal(c.index, 765432);
        assert_true(c.worst > c.limit);
        assert_true(c.got == got[765432] && c.expected == expected[765432]);
        assert_true(c.nmse > 0 && c.nmse < 1e-15); /* which alone would have let it pass */
    }
    free(expected);
    free(got);
    free(magnitude);
}

static void one_unit_over_the_limit_fails(void **state)
{
    (void)state;
    static const float at[] = { 1.3f, -1.3f, 1e-20f, 3e38f, 1e-39f, 7.0f };
    const struct copse_case_limit limit = { .ulp = 3 };
    for (size_t i = 0; i < COUNT(at); i++) {
        const double y = (double)at[i];
        assert_true(is_within(&limit, y, (double)next(at[i], 3), false));
        assert_true(is_within(&limit, y, (double)next(at[i], -3), false));
        assert_false(is_within(&limit, y, (double)next(at[i], 4), false));
        assert_false(is_within(&limit, y, (double)next(at[i], -4), false));
        assert_false(is_within(&limit, y, -y, false));
        assert_true(is_within(&exact, y, y, false));
        assert_false(is_within(&exact, y, (double)next(at[i], 1), false));
    }
    /* Above a power of two the floats are twice as far apart as below, where the unit is taken. */
    assert_true(is_within(&limit, 1, (double)next(1, -3), false));
    assert_true(is_within(&limit, 1, (double)next(1, 1), false));
    assert_false(is_within(&limit, 1, (double)next(1, 2), false));
    /* Against the exact value, not against its float. */
    const struct copse_case_limit half = { .ulp = 0.5 };
    assert_true(is_within(&half, 1.5 + 0x1p-25, 1.5, false));
    assert_false(is_within(&half, 1.5 + 0x1.8p-24, 1.5, false));
    assert_true(is_within(&exact, 1.5 + 0x1p-25, 1.5, false));
    assert_false(is_within(&exact, 0.0, -0.0, false)); /* the same bits */
    assert_false(is_within(&exact, -0.0, 0.0, false));
    /* a flushed number has a zero of either sign */
    assert_true(is_within(&exact, 0.0, -0.0, true));
}

static void what_is_not_a_number_is_expected_or_wrong(void **state)
{
    (void)state;
    const struct copse_case_limit wide = { .ulp = 1e9, .of_max = 1e9 };
    const struct copse_case_limit *const limits[] = { &exact, &wide };
    for (size_t i = 0; i < COUNT(limits); i++) {
        assert_false(is_within(limits[i], 1, NAN, false));
        assert_false(is_within(limits[i], NAN, 1, false));
        assert_false(is_within(limits[i], NAN, INFINITY, false));
        assert_true(is_within(limits[i], NAN, -NAN, false));
        assert_true(is_within(limits[i], INFINITY, INFINITY, false));
        assert_false(is_within(limits[i], INFINITY, -INFINITY, false));
        assert_false(is_within(limits[i], INFINITY, (double)FLT_MAX, false));
        assert_false(is_within(limits[i], INFINITY, NAN, false));
        assert_true(is_within(limits[i], 1e300, INFINITY, false)); /* too large for f32 */
        assert_false(is_within(limits[i], -1e300, INFINITY, false));
    }
    /* Within its units a result may overflow early or late. */
    const struct copse_case_limit limit = { .ulp = 3 };
    assert_true(is_within(&limit, (double)next(FLT_MAX, -1), INFINITY, false));
    assert_false(is_within(&limit, (double)next(FLT_MAX, -4), INFINITY, false));
    assert_true(is_within(&limit, 0x1.000001p128, (double)FLT_MAX, false));
    assert_false(is_within(&limit, 0x1.00001p128, (double)FLT_MAX, false));
    assert_false(is_within(&exact, (double)FLT_MAX, INFINITY, false));
}

static void zero_for_a_subnormal_only_where_they_are_not_kept(void **state)
{
    (void)state;
    const struct copse_case_limit limit = { .ulp = 3 };
    assert_false(is_within(&limit, 1e-39, 0, false));
    assert_true(is_within(&limit, 1e-39, 0, true));
    assert_true(is_within(&limit, -1e-39, 0, true));
    assert_true(is_within(&exact, 1e-39, 0, true));
    assert_false(is_within(&exact, 1e-39, 0, false));
    assert_false(is_within(&limit, 1.2e-38, 0, true));                 /* a normal number */
    assert_true(is_within(&limit, (double)next(FLT_MIN, 1), 0, true)); /* within its units */
    assert_true(is_within(&limit, 3 * 0x1p-149, 0, false));
}

/* A tree of f32 additions, as devices do. */
static float tree_sum(const float *x, size_t n)
{
    return n == 1 ? x[0] : tree_sum(x, n / 2) + tree_sum(x + n / 2, n - n / 2);
}

static void honest_sums_that_cancel_pass(void **state)
{
    (void)state;
    enum { ROWS = 200, N = 1024 };
    static float x[N];
    static double expected[ROWS], got[ROWS], magnitude[ROWS];
    static const struct copse_case_limit limits[] = { { .ratio = 4 }, { .ratio = 16 } };
    struct copse_comparison c;
    srand(1);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t k = 0; k < N; k++) {
            const float v = 1 + (float)rand() / (float)RAND_MAX;
            x[k] = k < N / 2 ? v : -x[k - N / 2] + 1e-6f * v;
            expected[r] += (double)x[k];
            magnitude[r] += fabs((double)x[k]);
        }
        got[r] = (double)tree_sum(x, N);
    }
    for (size_t i = 0; i < COUNT(limits); i++) {
        copse__compare(&limits[i], expected, magnitude, got, ROWS, false, &c);
        assert_true(c.is_within);
        assert_true(c.nmse > 1e-10); /* the error is large beside what is left */
        assert_string_equal(c.metric, "R");
        assert_true(c.limit == limits[i].ratio);
    }
    got[77] += 1; /* a term that was left out */
    copse__compare(&limits[1], expected, magnitude, got, ROWS, false, &c);
    assert_false(c.is_within);
    assert_int_equal(c.index, 77);
}

static void many_small_errors_raise_the_second_alarm(void **state)
{
    (void)state;
    enum { N = 10000 };
    static double expected[N], got[N], magnitude[N];
    const struct copse_case_limit product = { .ratio = 16 };
    struct copse_comparison c;
    for (size_t k = 0; k < N; k++) {
        expected[k] = sin((double)k); /* of sums 64 times as large */
        magnitude[k] = 64;
        got[k] = expected[k] + (k % 2 ? 12 : -12) * 0x1p-24 * 64;
    }
    copse__compare(&product, expected, magnitude, got, N, false, &c);
    assert_true(c.worst <= 16 && c.nmse > 1e-10);
    assert_false(c.is_within);
    for (size_t k = 1; k < N; k++)
        got[k] = expected[k]; /* one alone may be as far off */
    copse__compare(&product, expected, magnitude, got, N, false, &c);
    assert_true(c.is_within);
}

static void poor_results_are_noticed(void **state)
{
    (void)state;
    double v[100] = { 0 };
    struct copse_comparison c;
    const struct copse_case_limit limit = { .ulp = 1 };
    copse__compare(&limit, v, NULL, v, 100, false, &c);
    assert_true(c.is_within && c.is_poor);
    copse__compare(&limit, v, NULL, v, 1, false, &c);
    assert_false(c.is_poor); /* a scalar may be zero */
    copse__compare(&limit, v, NULL, v, 0, false, &c);
    assert_true(c.is_within && !c.is_poor);
    for (size_t k = 0; k < 100; k++)
        v[k] = 7;
    copse__compare(&limit, v, NULL, v, 100, false, &c);
    assert_true(c.is_poor);
    v[3] = 8;
    copse__compare(&limit, v, NULL, v, 100, false, &c);
    assert_false(c.is_poor);
}

/* ---- inputs ---- */

static struct copse_case with(enum copse_fill_kind fill, copse_shape shape, size_t in_count)
{
    struct copse_case c = { .op = "op", .name = "name", .in_count = in_count };
    for (size_t i = 0; i < in_count; i++)
        c.in[i] = (struct copse_case_input){ .type = COPSE_F32, .shape = shape, .fill = fill };
    return c;
}

static void the_name_gives_the_seed(void **state)
{
    (void)state;
    double a[50], b[50];
    assert_true(copse__case_seed("softmax", "row") == copse__case_seed("softmax", "row"));
    assert_true(copse__case_seed("softmax", "row") != copse__case_seed("softmax", "rows"));
    assert_true(copse__case_seed("soft", "max") != copse__case_seed("softm", "ax"));
    for (int fill = COPSE_FILL_UNIFORM; fill <= COPSE_FILL_SPREAD; fill++) {
        struct copse_case c = with((enum copse_fill_kind)fill, COPSE_SHAPE(5, 10), 2);
        c.in[0].high = c.in[1].high = fill == COPSE_FILL_SPREAD ? 9 : 1;
        copse__fill(&c, 0, 5, 50, a);
        copse__fill(&c, 0, 5, 50, b);
        assert_memory_equal(a, b, sizeof a);
        for (size_t k = 0; k < 50; k++)
            assert_true(a[k] == (double)(float)a[k]);
        copse__fill(&c, 0, 6, 50, b);
        assert_memory_not_equal(a, b, sizeof a);
        copse__fill(&c, 1, 5, 50, b);
        assert_memory_not_equal(a, b, sizeof a);
    }
}

static void whole_numbers_sum_exactly_in_any_order(void **state)
{
    (void)state;
    enum { N = 300 * 300 };
    struct copse_case c = with(COPSE_FILL_INTEGERS, COPSE_SHAPE(300, 300), 2);
    double *a = numbers(N), *b = numbers(N), worst = 0;
    copse__fill(&c, 0, 1, N, a);
    copse__fill(&c, 1, 1, N, b);
    for (size_t k = 0; k < N; k++) {
        assert_true(a[k] == floor(a[k]));
        worst += fabs(a[k] * b[k]);
    }
    assert_true(worst > 0 && worst < 0x1p24);
    c.in[0].type = COPSE_I32;
    c.in[0].low = -1;
    c.in[0].high = 2;
    size_t seen[4] = { 0 };
    for (int fill = 0; fill < 2; fill++) {
        c.in[0].fill = fill ? COPSE_FILL_INTEGERS : COPSE_FILL_UNIFORM;
        copse__fill(&c, 0, 1, N, a);
        for (size_t k = 0; k < N; k++) {
            assert_true(a[k] == floor(a[k]) && a[k] >= -1 && a[k] <= 2);
            seen[(int)a[k] + 1]++;
        }
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(seen[i] > N / 4);
    free(a);
    free(b);
}

static void neighbours_cancel_along_every_axis(void **state)
{
    (void)state;
    enum { N = 6 * 8 * 10 };
    const struct copse_case c = with(COPSE_FILL_CANCELLING, COPSE_SHAPE(6, 8, 10), 1);
    static const size_t strides[] = { 80, 10, 1 };
    double v[N];
    copse__fill(&c, 0, 3, N, v);
    for (size_t k = 0; k < N; k++)
        for (size_t axis = 0; axis < 3; axis++) {
            const size_t s = strides[axis], at = k / s % (axis == 0 ? 6 : axis == 1 ? 8 : 10);
            if (at % 2 == 0)
                assert_true(fabs(v[k] + v[k + s]) < 0.01 && fabs(v[k]) >= 1);
        }
}

static void every_pair_of_special_values_is_met(void **state)
{
    (void)state;
    enum { N = 10000, T = 94 };
    static bool met[T][T];
    struct copse_case c = with(COPSE_FILL_SPECIAL, COPSE_SHAPE(N), 2);
    double *a = numbers(N), *b = numbers(N), table[T];
    size_t pairs = 0, nans = 0, subnormals = 0;
    copse__fill(&c, 0, 1, N, a);
    copse__fill(&c, 1, 1, N, b);
    memcpy(table, a, sizeof table); /* input 0 walks through the values */
    for (size_t i = 0; i < T; i++) {
        nans += isnan(table[i]) != 0;
        subnormals += table[i] != 0 && fabs(table[i]) < (double)FLT_MIN;
        assert_true(isnan(table[i]) || table[i] == (double)(float)table[i]);
    }
    assert_true(nans == 2 && subnormals >= 8);
    for (size_t k = 0; k < N; k++) {
        size_t i = 0, j = 0;
        while (memcmp(&table[i], &a[k], 8) != 0)
            i++;
        while (memcmp(&table[j], &b[k], 8) != 0)
            j++;
        assert_true(i < T && j < T);
        pairs += !met[i][j];
        met[i][j] = true;
    }
    assert_int_equal(pairs, T * T);
    copse__fill(&c, 0, 1, T, b); /* few elements still meet every value */
    for (size_t i = 0; i < T; i++) {
        size_t j = 0;
        while (j < T && memcmp(&table[i], &b[j], 8) != 0)
            j++;
        assert_true(j < T);
    }
    free(a);
    free(b);
}

static void patterns_reach_all_of_f32(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    const struct copse_case c = with(COPSE_FILL_PATTERNS, COPSE_SHAPE(N), 1);
    const uint64_t stride = copse__pattern_stride(N);
    double *v = numbers(N);
    bool has_nan = false, has_subnormal = false, has_negative = false;
    assert_true(stride * N >= (uint64_t)1 << 32 && stride < 66000);
    for (uint64_t d = 2; d * d <= stride; d++)
        assert_true(stride % d);
    copse__fill(&c, 0, 2 * stride + 7, N, v);
    for (size_t k = 0; k < N; k++) {
        const float f = (float)v[k];
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        has_nan |= isnan(f) != 0;
        has_subnormal |= fpclassify(f) == FP_SUBNORMAL;
        has_negative |= f < 0;
        if (!isnan(f))
            assert_int_equal(bits, (uint32_t)(7 + k * stride));
    }
    assert_true(has_nan && has_subnormal && has_negative);
    free(v);
}

/* ---- known failures ---- */

static void known_failures_have_a_device_and_driver_versions(void **state)
{
    (void)state;
    static const struct copse_known ranges[] = { { "exp", "*", "*tiny*", "3.2", "3.10", "r", NULL },
                                                 { .op = NULL } };
    const struct copse_case_result exp = { .mode = "run", .op = "exp", .name = "x" };
    const struct copse_case_result expm1 = { .mode = "run", .op = "expm1", .name = "x" };
    static const struct {
        const char *driver;
        bool is_in;
    } drivers[] = {
        { "tiny 3.1", false },       { "tiny 3.2", true },   { "tiny v3.9.1 of 2024", true },
        { "tiny 3.10", true },       { "tiny 3.11", false }, { "tiny 4", false },
        { "OpenThing 3.2.0", true }, { "none", false },
    };
    for (size_t i = 0; i < COUNT(drivers); i++) {
        if ((copse__known_find(ranges, &exp, "a tiny one", drivers[i].driver) != NULL) !=
            drivers[i].is_in)
            fail_msg("driver '%s'", drivers[i].driver);
    }
    assert_null(copse__known_find(ranges, &expm1, "a tiny one", "3.5"));
    assert_null(copse__known_find(ranges, &exp, "a large one", "3.5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_wrong_element_in_a_million_is_found),
        cmocka_unit_test(one_unit_over_the_limit_fails),
        cmocka_unit_test(what_is_not_a_number_is_expected_or_wrong),
        cmocka_unit_test(zero_for_a_subnormal_only_where_they_are_not_kept),
        cmocka_unit_test(honest_sums_that_cancel_pass),
        cmocka_unit_test(many_small_errors_raise_the_second_alarm),
        cmocka_unit_test(poor_results_are_noticed),
        cmocka_unit_test(the_name_gives_the_seed),
        cmocka_unit_test(whole_numbers_sum_exactly_in_any_order),
        cmocka_unit_test(neighbours_cancel_along_every_axis),
        cmocka_unit_test(every_pair_of_special_values_is_met),
        cmocka_unit_test(patterns_reach_all_of_f32),
        cmocka_unit_test(known_failures_have_a_device_and_driver_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
