/* SPDX-License-Identifier: MIT */
/* Cases of top-k. The first pass makes sorted lists from 64 elements, later ones merge pairs of
   lists. */
#include <math.h>

#include "copse/ops/scan.h"
#include "prover/cases/cases.h"

static copse_tensor *top_k_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_top_k(g, in[0], *(const uint32_t *)user, NULL);
}

static copse_tensor *build_indices(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *indices;
    (void)copse_top_k(g, in[0], *(const uint32_t *)user, &indices);
    return indices;
}

#define OF(k)         \
    &(const uint32_t) \
    {                 \
        k             \
    }

static const struct copse_case_op ops[] = {
    { .name = "top_k",
      .accuracy = COPSE_ACCURACY_exact,
      .call = top_k_build,
      .user = OF(2),
      .in = { F32_OF(2, 2) },
      .in_count = 1 },
};

static const struct copse_case speeds[] = {
    { .op = "top_k",
      .name = "10 of rows of " OF_SQUARE,
      .build = build_indices,
      .user = OF(10),
      .in = { SQUARE },
      .in_count = 1,
      .bytes = MATRIX },
};

static const struct copse_case stress[] = {
    { .op = "top_k",
      .name = "70,001 elements",
      .build = build_indices,
      .user = OF(70001),
      ONE_INPUT(FILL(NORMAL, DIMS(70001))) },
};

static void top_k_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *i, *v, *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *s = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    REFUSES(r, SHAPE, "top_k: operand f32[4, 6]: expected f32 [..., m] and k from 1 to m, not 7",
            copse_top_k(g, x, 7, &i));
    REFUSES(r, SHAPE, "not 0", copse_top_k(g, x, 0, &i));
    REFUSES(r, SHAPE, "top_k: operand i32[4]", copse_top_k(g, n, 2, &i));
    REFUSES(r, SHAPE, "expected f32 [..., m]", copse_top_k(g, s, 1, &i));
    REFUSES(r, SHAPE, "not 8", copse_top_k(g, x, 8, &v));
}

#define VALUES_ROW(label, k, in_, ...)                                                           \
    {                                                                                            \
        .op = "top_k", .name = label, .build = top_k_build, .user = OF(k), .in = { UNWRAP in_ }, \
        .in_count = 1, .is_poor = true, __VA_ARGS__                                              \
    }
#define INDICES_ROW(label, k, in_, ...)                                                            \
    {                                                                                              \
        .op = "top_k", .name = label ", indices", .build = build_indices, .user = OF(k),           \
        .in = { UNWRAP in_ }, .in_count = 1, .has_no_gradient = true, .is_poor = true, __VA_ARGS__ \
    }
#define ROW(label, k, in_, ...) \
    VALUES_ROW(label, k, in_, __VA_ARGS__), INDICES_ROW(label, k, in_, __VA_ARGS__)
#define STATED(label, k, list, shape_, values_, indices_)                                        \
    VALUES_ROW(label, k, VALUES(list, shape_), .want = values_, QUICK, .has_no_gradient = true), \
        INDICES_ROW(label, k, VALUES(list, shape_), .want = indices_, QUICK)

#define N NAN
#define I INFINITY
static const double given[] = { 3, 1, 2, 9, 3, 3, 0, -1, -2, -1, -3, -1, -4, -1 };
static const double given_values[] = { 9, 3, 3, 3, -1, -1, -1, -1 };
static const double given_indices[] = { 3, 0, 4, 5, 0, 2, 4, 6 };
static const double special[] = { 1, N, I, -I, N, -0.0, 0, 0, -I, N };
static const double special_values[] = { N, N, I, 1, -I, N, -0.0, 0, 0, -I };
static const double special_indices[] = { 1, 4, 2, 0, 3, 4, 0, 1, 2, 3 };

static const struct copse_case cases[] = {
    STATED("stated: equal ones by index", 4, given, DIMS(2, 7), given_values, given_indices),
    STATED("stated: NaN, infinities, zeros", 5, special, DIMS(2, 5), special_values,
           special_indices),
    ROW("3 of 10", 3, FILL(NORMAL, DIMS(5, 10)), QUICK),
    ROW("5 of 200, lists are merged", 5, FILL(NORMAL, DIMS(3, 2, 200)), QUICK),
    ROW("the largest of 10", 1, FILL(NORMAL, DIMS(5, 10)), STANDARD),
    ROW("all of 10", 10, FILL(NORMAL, DIMS(2, 3, 10)), STANDARD),
    ROW("one element", 1, FILL(NORMAL, DIMS(1)), STANDARD),
    ROW("no rows", 2, FILL(NORMAL, DIMS(0, 5)), STANDARD),
    ROW("all of 64, one pass", 64, FILL(NORMAL, DIMS(9, 64)), STANDARD),
    ROW("all of 65, two passes", 65, FILL(NORMAL, DIMS(9, 65)), STANDARD,
        .skips_differences = true),
    ROW("7 of 65", 7, FILL(NORMAL, DIMS(9, 65)), STANDARD, .skips_differences = true),
    ROW("100 of 128", 100, FILL(NORMAL, DIMS(9, 128)), STANDARD, .skips_differences = true),
    ROW("63 of 4097", 63, FILL(NORMAL, DIMS(3, 4097)), STANDARD, .skips_differences = true),
    ROW("all of 4097", 4097, FILL(NORMAL, DIMS(3, 4097)), STANDARD, .skips_differences = true),
    ROW("50 of 50,257", 50, FILL(NORMAL, DIMS(4, 50257)), STANDARD, .skips_differences = true),
    ROW("all of 70,001", 70001, FILL(NORMAL, DIMS(70001)), FULL, .skips_differences = true),
    ROW("2 of 70,001 rows of 3", 2, FILL(NORMAL, DIMS(70001, 3)), STANDARD,
        .skips_differences = true),
    ROW("many equal", 40, WHOLE(0, 3, DIMS(30, 200)), STANDARD, .skips_differences = true),
    VALUES_ROW("special values, rows of 94", 70, FILL(SPECIAL, DIMS(3, 94)), STANDARD,
               .has_no_gradient = true),
    INDICES_ROW("special values, rows of 94", 70, FILL(SPECIAL, DIMS(3, 94)), STANDARD),
    VALUES_ROW("bit patterns, rows of 67", 60, FILL(PATTERNS, DIMS(97, 67)), STANDARD,
               .has_no_gradient = true),
    INDICES_ROW("bit patterns, rows of 67", 60, FILL(PATTERNS, DIMS(97, 67)), STANDARD),
    VALUES_ROW("more than 65,535 groups", 2, FILL(NORMAL, DIMS(8388609, 3)), FULL,
               .has_no_gradient = true),
};

COPSE_CASE_TABLE(top_k, OPS, STRESS, SPEEDS, .refusals = top_k_refusals)
