/* SPDX-License-Identifier: MIT */
/* Cases of where: results are exact; derivatives are exact where nothing is broadcast, otherwise
   sums. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *where_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_where(g, in[0], in[1], in[2]);
}

static copse_tensor *random_choice(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const copse_shape s = in[0]->shape;
    float flags[8];
    (void)user;
    for (uint32_t i = 0; i < COPSE_COUNT(flags); i++)
        flags[i] = (float)(i % 3);
    copse_tensor *rows = copse_fill(g, COPSE_F32, s, 1);
    if (s.dims[s.rank - 1] <= COPSE_COUNT(flags))
        rows = copse_constant(g, COPSE_F32, COPSE_SHAPE(s.dims[s.rank - 1]), flags);
    copse_tensor *t = copse_tanh(g, in[1]);
    return copse_where(g, rows, in[0], t);
}

static const struct copse_case_op ops[] = {
    { .name = "where",
      .accuracy = COPSE_ACCURACY_gather,
      .takes_any_type = true,
      .call = where_build,
      .in = { F32_OF(2, 2), F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 3,
      .random = random_choice },
};

static const struct copse_case speeds[] = {
    { .op = "where",
      .name = OF_SQUARE,
      .build = where_build,
      .in = { SQUARE, SQUARE, SQUARE },
      .in_count = 3,
      .bytes = 4 * MATRIX },
};

static void where_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    REFUSES(r, SHAPE, "where: operands f32[4, 6], f32[4, 6] and i32[4, 6]: expected",
            copse_where(g, x, x, n));
    REFUSES(r, SHAPE, "one element type", copse_where(g, n, n, x));
    REFUSES(r, SHAPE, "equal or 1", copse_where(g, v, x, x));
    REFUSES(r, SHAPE, "equal or 1", copse_where(g, n, x, v));
    REFUSES(r, ARGUMENT, "where: operand 2 is NULL", copse_where(g, x, x, NULL));
}

#define ROW(label, condition, a, b, ...)                                                   \
    {                                                                                      \
        .op = "where", .name = label, .build = where_build, THREE_INPUTS(condition, a, b), \
        __VA_ARGS__                                                                        \
    }
#define FLAGS(...)                       \
    ({ .type = COPSE_F32,                \
       .shape = __VA_ARGS__,             \
       .fill = COPSE_FILL_VALUES,        \
       .values = bits,                   \
       .value_count = COPSE_COUNT(bits), \
       .is_constant = true })
#define FLAGS_I(...) I32_UNIFORM(-1, 1, __VA_ARGS__)
#define ANY(...)     FILL(NORMAL, __VA_ARGS__)
#define I32(...)     I32_UNIFORM(-1000000000, 1000000000, __VA_ARGS__)
#define SHAPES(label, c, a, b, ...)                                                            \
    ROW(label, FLAGS(DIMS c), ANY(DIMS a), ANY(DIMS b), .backward = { .ratio = 4 },            \
        .skips_differences = true, __VA_ARGS__),                                               \
        ROW(label ", i32", FLAGS_I(DIMS c), I32(DIMS a), I32(DIMS b), .has_no_gradient = true, \
            __VA_ARGS__)

#define N NAN
#define I INFINITY
static const double bits[] = { 0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1 };
static const double flags[] = { 0, 1, -0.0, N, I, 1e-40, -1, 0 };
static const double left[] = { N, 1, I, 2, 3, 4, -I, N }, right[] = { 5, N, 6, N, I, N, -I, N };
static const double chosen[] = { 5, 1, 6, 2, 3, 4, -I, N };

static const double column[] = { 1, 0 }, row[] = { 4, 5, 6 }, table[] = { 1, 2, 3, 7, 8, 9 },
                    ends[] = { 0, 1, 1 };
static const double by_column[] = { 4, 5, 6, 7, 8, 9 }, by_row[] = { 1, 5, 6, 7, 5, 6 };

static const struct copse_case cases[] = {
    ROW("a mask", FLAGS(DIMS(13, 33)), ANY(DIMS(13, 33)), ANY(DIMS(13, 33)), QUICK,
        .skips_differences = true),
    ROW("stated: NaN is true, the other operand's NaN has no effect", VALUES(flags, DIMS(8)),
        VALUES(left, DIMS(8)), VALUES(right, DIMS(8)), .want = chosen, .has_no_gradient = true,
        QUICK),
    ROW("stated: a condition of a column", VALUES(column, DIMS(2, 1)), VALUES(row, DIMS(3)),
        VALUES(table, DIMS(2, 3)), .want = by_column, .has_no_gradient = true, QUICK),
    ROW("stated: a condition of a row", I32_VALUES(ends, DIMS(3)), VALUES(row, DIMS(1, 3)),
        VALUES(table, DIMS(2, 3)), .want = by_row, .has_no_gradient = true, QUICK),
    ROW("special values", FILL(SPECIAL, DIMS(96, 96)), FILL(SPECIAL, DIMS(96, 96)),
        FILL(PATTERNS, DIMS(96, 96)), .has_no_gradient = true, STANDARD),
    ROW("an i32 condition", FLAGS_I(DIMS(9, 40)), ANY(DIMS(9, 40)), ANY(DIMS(9, 40)), STANDARD,
        .skips_differences = true),
    ROW("differences", FLAGS(DIMS(7)), ANY(DIMS(3, 7)), ANY(NO_DIMS), .backward = { .ratio = 4 },
        STANDARD),
    SHAPES("a mask of the last axes", (5, 7), (3, 2, 5, 7), (3, 2, 5, 7), STANDARD),
    SHAPES("a scalar for the others", (3, 300), (3, 300), (1), STANDARD),
    SHAPES("a column", (5, 1), (5, 70), (5, 70), STANDARD),
    SHAPES("a column and a row", (70), (5, 1), (1, 70), STANDARD),
    SHAPES("axes between", (2, 1, 4, 1), (3, 1, 5), (2, 3, 4, 5), STANDARD),
    SHAPES("one element", (1), (1), (1), STANDARD, .is_poor = true),
    SHAPES("one choice for all", (1, 1), (9, 33), (9, 33), STANDARD, .is_poor = true),
    SHAPES("nothing", (0, 3), (3), (1, 3), STANDARD),
    SHAPES("more than 65,535 groups", (257), (65537, 257), (1), FULL),
};

COPSE_CASE_TABLE(where, OPS, SPEEDS, .refusals = where_refusals)
