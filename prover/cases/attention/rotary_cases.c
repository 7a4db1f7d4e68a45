/* SPDX-License-Identifier: MIT */
/* Cases of rotary positions. */
#include <math.h>

#include "copse/ops/rotary.h"
#include "prover/cases/cases.h"

struct settings {
    struct copse_rotary_params params;
    bool has_turns; /* in[1] is the table */
};

static copse_tensor *rotary_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    return s->has_turns ? copse_rotary_by(g, in[0], in[1], &s->params)
                        : copse_rotary(g, in[0], &s->params);
}

/* ---- the magnitudes of the terms ---- */

/* The magnitudes of cosines or of sines, the others 0: f32 [length, R]. */
static copse_tensor *half_table(copse_graph *g, const struct copse_rotary_params *p,
                                uint32_t length, uint32_t width, bool has_sines)
{
    enum { MOST = 4096 };
    static float table[MOST];
    const uint32_t pairs = width / 2;
    const double base = p->base > 0 ? (double)p->base : 10000;
    if ((size_t)length * width > MOST)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "rotary: a case of more than %d angles",
                             MOST / 2);
    for (size_t t = 0; t < length; t++)
        for (size_t k = 0; k < pairs; k++) {
            const double angle = (double)(t + p->offset) * pow(base, -2.0 * (double)k / width);
            table[t * width + k] = has_sines ? 0 : (float)fabs(cos(angle));
            table[t * width + pairs + k] = has_sines ? (float)fabs(sin(angle)) : 0;
        }
    return copse_constant(g, COPSE_F32, COPSE_SHAPE(length, width), table);
}

/* |cosines| with zeros, or zeros with |sines|, of the table of in[1]. */
static copse_tensor *half_operand(copse_graph *g, copse_tensor *turns, bool has_sines)
{
    copse_tensor *parts[2];
    turns = copse_abs(g, turns);
    copse_split(g, turns, turns->shape.rank - 1, NULL, 2, parts);
    parts[!has_sines] = copse_sub(g, parts[!has_sines], parts[!has_sines]);
    return copse_concat(g, parts, 2, turns->shape.rank - 1);
}

/* |x cos| + |x' sin|, x' the other number of the pair. Elements that do not turn count twice. */
static copse_tensor *rotary_terms(copse_graph *g, copse_tensor *x, copse_tensor *turns,
                                  const struct settings *s)
{
    const copse_shape shape = x->shape;
    const uint32_t *of_x = &shape.dims[0] + shape.rank - 3,
                   width = s->params.width ? s->params.width : of_x[2];
    copse_tensor *part[2];
    x = copse_abs(g, x);
    for (int i = 0; i < 2; i++) {
        part[i] = turns ? half_operand(g, turns, i == 1)
                        : half_table(g, &s->params, of_x[0], width, i == 1);
        part[i] = copse_rotary_by(g, x, part[i], &s->params);
        part[i] = copse_abs(g, part[i]);
    }
    return copse_add(g, part[0], part[1]);
}

static copse_tensor *size_of_y(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    return rotary_terms(g, in[0], s->has_turns ? in[1] : NULL, s);
}

static copse_tensor *size_of_dx(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    return rotary_terms(g, in[s->has_turns ? 2 : 1], s->has_turns ? in[1] : NULL, s);
}

/* ---- the ops ---- */

static const struct settings
    plain = { .params = { .base = 0 } },
    adjacent = { .params = { .is_interleaved = true } },
    part = { .params = { .width = 4, .heads = 2, .offset = 7 } },
    adjacent_part = { .params = { .width = 6, .heads = 1, .base = 100, .is_interleaved = true } },
    far = { .params = { .offset = 99990 } },
    far_adjacent = { .params = { .offset = 99990, .is_interleaved = true } },
    wide_part = { .params = { .width = 32, .heads = 2 } },
    wide_adjacent = { .params = { .width = 32, .heads = 2, .is_interleaved = true } },
    given = { .has_turns = true },
    given_adjacent = { .params = { .is_interleaved = true, .heads = 1, .width = 4 },
                       .has_turns = true };

static copse_tensor *random_rotary(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    const copse_shape shape = in[0]->shape;
    copse_tensor *x = copse_stack(g, (copse_tensor *[]){ in[0], in[0] }, 2, shape.rank);
    x = copse_reshape(g, x,
                      shape.rank == 3
                          ? COPSE_SHAPE(shape.dims[0], shape.dims[1], 1, 2 * shape.dims[2])
                          : COPSE_SHAPE(shape.dims[0], 1, 2 * shape.dims[1]));
    x = copse_rotary(g, x, &s->params);
    x = copse_reshape(g, x,
                      shape.rank == 3 ? COPSE_SHAPE(shape.dims[0], shape.dims[1], shape.dims[2], 2)
                                      : COPSE_SHAPE(shape.dims[0], shape.dims[1], 2));
    return copse_mean(g, x, &shape.rank, 1, false);
}

static const struct copse_case_op ops[] = {
    { .name = "rotary",
      .accuracy = COPSE_ACCURACY_rotary,
      .divides = true,
      .call = rotary_build,
      .user = &plain,
      .in = { F32_OF(1, 2, 2, 4) },
      .in_count = 1,
      .random = random_rotary },
    { .name = "rotary_by",
      .accuracy = COPSE_ACCURACY_rotary,
      .divides = true,
      .call = rotary_build,
      .user = &given,
      .in = { F32_OF(1, 2, 2, 4), F32_OF(2, 4) },
      .in_count = 2 },
};

static const struct copse_case speeds[] = {
    { .op = "rotary",
      .name = "16 x 1024 x 4 x 32",
      .build = rotary_build,
      .user = &plain,
      .in = { F32_OF(16, 1024, 4, 32) },
      .in_count = 1,
      .family = "rotary",
      .bytes = 8.0 * 16 * 1024 * 4 * 32 },
};

static void rotary_refusals(struct copse_refusals *r)
{
    static const struct copse_rotary_params endless = { .base = INFINITY },
                                            negative = { .base = -1 }, odd = { .width = 3 },
                                            large = { .width = 10 }, heads = { .heads = 4 };
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 3, 8));
    copse_tensor *flat = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 8));
    copse_tensor *odd_heads = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 2, 7));
    copse_tensor *empty = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 2, 0));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 5, 3, 8));
    copse_tensor *turns = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 8));
    copse_tensor *short_turns = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 8));
    copse_tensor *narrow = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 6));
    copse_tensor *other_items = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 5, 8));
    REFUSES(r, SHAPE, "rotary: x f32[5, 8]: expected f32 [.., length, heads, width]",
            copse_rotary(g, flat, NULL));
    REFUSES(r, SHAPE, "rotary: operands i32[2, 5, 3, 8] and f32[5, 8]: expected f32 operands",
            copse_rotary(g, n, NULL));
    REFUSES(
        r, SHAPE,
        "rotary: 7 numbers of each head of x [5, 2, 7] turn: expected an even number from 2 to 7",
        copse_rotary(g, odd_heads, NULL));
    REFUSES(r, SHAPE, "0 numbers of each head", copse_rotary(g, empty, NULL));
    REFUSES(r, SHAPE, "3 numbers of each head", copse_rotary(g, x, &odd));
    REFUSES(r, SHAPE, "10 numbers of each head", copse_rotary(g, x, &large));
    REFUSES(r, SHAPE, "rotary: 4 heads of x [2, 5, 3, 8] turn: expected at most 3",
            copse_rotary(g, x, &heads));
    REFUSES(r, ARGUMENT, "rotary: base inf is not a finite number above 0",
            copse_rotary(g, x, &endless));
    REFUSES(r, ARGUMENT, "base -1 is not", copse_rotary(g, x, &negative));
    REFUSES(
        r, SHAPE,
        "rotary: operands f32[2, 5, 3, 8] and f32[4, 8]: expected f32 turns [.., length, 8] of x",
        copse_rotary_by(g, x, short_turns, NULL));
    REFUSES(r, SHAPE, "expected f32 turns [.., length, 8]", copse_rotary_by(g, x, narrow, NULL));
    REFUSES(r, SHAPE, "expected f32 turns [.., length, 8]",
            copse_rotary_by(g, x, other_items, NULL));
    REFUSES(r, SHAPE, "expected f32 operands", copse_rotary_by(g, x, n, NULL));
    REFUSES(r, SHAPE, "rotary_by: x f32[5, 8]", copse_rotary_by(g, flat, turns, NULL));
    REFUSES(r, ARGUMENT, "rotary_by: operand 1 is NULL", copse_rotary_by(g, x, NULL, NULL));
}

/* ---- the cases ---- */

#define LIMITS                                                                 \
    .forward = { .ulp = 1, .ratio = 4 }, .backward = { .ulp = 1, .ratio = 4 }, \
    .magnitude = size_of_y, .slope_magnitude = { size_of_dx }, .family = "rotary"
#define ROW(label, settings, input, ...)                                                          \
    {                                                                                             \
        .op = "rotary", .name = label, .build = rotary_build, .user = settings, ONE_INPUT(input), \
        LIMITS, __VA_ARGS__                                                                       \
    }
#define NORMAL(...) FILL(NORMAL, DIMS(__VA_ARGS__))
/* The derivative of the table is a sum over heads: its cases are in tests/ops/test_rotary.c. */
#define CONSTANT(...)              \
    ({ .type = COPSE_F32,          \
       .shape = DIMS(__VA_ARGS__), \
       .fill = COPSE_FILL_NORMAL,  \
       .is_constant = true })
#define GIVEN(label, settings, input, table, ...)                                  \
    {                                                                              \
        .op = "rotary_by", .name = label, .build = rotary_build, .user = settings, \
        TWO_INPUTS(input, table), LIMITS, __VA_ARGS__                              \
    }

static const double numbers[] = { 1, 2, 3, 4 };
static const double quarter[] = { 0, 0, 1, 1 };
static const double turned[] = { -3, -4, 1, 2 }, turned_adjacent[] = { -2, 1, -4, 3 };
#define N NAN
#define I INFINITY
static const double special[] = { I, 1, N, 2, -0.0, 0, 5, 6 },
                    special_want[] = { N, -2, N, 1, -5, -6, 0, 0 };

static const struct copse_case cases[] = {
    { .op = "rotary_by",
      .name = "stated: right angles",
      .build = rotary_build,
      .user = &given,
      TWO_INPUTS(VALUES(numbers, DIMS(1, 1, 4)), VALUES(quarter, DIMS(1, 4))),
      LIMITS,
      .want = turned,
      .has_no_gradient = true,
      QUICK },
    { .op = "rotary_by",
      .name = "stated: right angles of adjacent pairs",
      .build = rotary_build,
      .user = &(const struct settings){ .params = { .is_interleaved = true }, .has_turns = true },
      TWO_INPUTS(VALUES(numbers, DIMS(1, 1, 4)), VALUES(quarter, DIMS(1, 4))),
      LIMITS,
      .want = turned_adjacent,
      .has_no_gradient = true,
      QUICK },
    { .op = "rotary_by",
      .name = "stated: NaN, infinities, zeros",
      .build = rotary_build,
      .user = &given,
      TWO_INPUTS(VALUES(special, DIMS(2, 1, 4)), VALUES(quarter, DIMS(2, 4))),
      LIMITS,
      .want = special_want,
      .has_no_gradient = true,
      .is_poor = true,
      QUICK },
    ROW("halves", &plain, NORMAL(2, 5, 2, 6), QUICK),
    ROW("adjacent pairs", &adjacent, NORMAL(2, 5, 2, 6), QUICK),
    ROW("a part of each head, of some heads", &part, NORMAL(2, 5, 3, 7), QUICK),
    ROW("adjacent pairs, a part", &adjacent_part, NORMAL(2, 5, 3, 7), STANDARD),
    ROW("positions around 100,000", &far, NORMAL(1, 20, 2, 16), STANDARD),
    ROW("positions around 100,000, adjacent pairs", &far_adjacent, NORMAL(1, 20, 2, 16), STANDARD),
    ROW("one position", &plain, NORMAL(3, 1, 2, 4), STANDARD),
    ROW("one pair", &plain, NORMAL(2, 4, 1, 2), STANDARD),
    ROW("rank 3", &plain, NORMAL(5, 2, 4), STANDARD),
    ROW("rank 6", &adjacent, NORMAL(2, 1, 2, 3, 2, 4), STANDARD),
    ROW("heads of 32: one vector", &plain, NORMAL(2, 9, 3, 32), STANDARD),
    ROW("heads of 32: adjacent pairs", &adjacent, NORMAL(2, 9, 3, 32), STANDARD),
    ROW("32 of 37 numbers of two heads", &wide_part, NORMAL(2, 9, 3, 37), STANDARD),
    ROW("32 of 37 numbers of two heads, adjacent pairs", &wide_adjacent, NORMAL(2, 9, 3, 37),
        STANDARD),
    ROW("heads of 128", &plain, NORMAL(1, 30, 2, 128), STANDARD),
    ROW("one row more than an invocation of the wide kernel", &plain, NORMAL(1, 33, 4, 32),
        STANDARD, .skips_differences = true),
    ROW("large and small numbers", &plain, SPREAD(-60, 60, DIMS(2, 9, 3, 32)), STANDARD,
        .skips_differences = true),
    { .op = "rotary",
      .name = "nothing",
      .build = rotary_build,
      .user = &plain,
      ONE_INPUT(NORMAL(2, 0, 2, 4)),
      STANDARD },
    GIVEN("a table for all items", &given, NORMAL(2, 3, 2, 4), CONSTANT(3, 4), QUICK),
    GIVEN("a table for each item", &given, NORMAL(2, 3, 2, 4), CONSTANT(2, 3, 4), QUICK),
    GIVEN("a table for each item, a part", &given_adjacent, NORMAL(2, 3, 2, 5), CONSTANT(2, 3, 4),
          STANDARD),
    GIVEN("a table for each item, vectors", &given, NORMAL(2, 3, 2, 64), CONSTANT(2, 3, 64),
          STANDARD),
};

COPSE_CASE_TABLE(rotary, OPS, SPEEDS, .refusals = rotary_refusals)
