/* SPDX-License-Identifier: MIT */
/* Cases of dropout. Its random numbers have the same bits on every device; the zeros in the
   results, for ones and for other inputs, show which elements are dropped. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *dropout_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_dropout(g, in[0], *(const float *)user, true);
}

static const float half = 0.5f;
static const struct copse_case_op ops[] = {
    { .name = "dropout",
      .accuracy = COPSE_ACCURACY_rounded,
      .divides = true,
      .call = dropout_build,
      .user = &half,
      .in = { F32_OF(2, 2) },
      .in_count = 1 },
};

static const struct copse_case speeds[] = {
    { .op = "dropout",
      .name = OF_SQUARE,
      .build = dropout_build,
      .user = &half,
      .in = { SQUARE },
      .in_count = 1,
      .family = "dropout",
      .bytes = 2 * MATRIX },
};

static void dropout_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    REFUSES(r, ARGUMENT, "rate 1", copse_dropout(g, x, 1.0f, true));
    REFUSES(r, ARGUMENT, "rate -0.1", copse_dropout(g, x, -0.1f, true));
    REFUSES(r, ARGUMENT, "rate", copse_dropout(g, x, NAN, true));
    REFUSES(r, SHAPE, "dropout: operand i32[4]", copse_dropout(g, n, 0.5f, true));
}

#define PLAIN(label, rate, input, ...)                                                          \
    {                                                                                           \
        .op = "dropout", .name = label, .build = dropout_build, .user = &(const float){ rate }, \
        .in = { UNWRAP input }, .in_count = 1, __VA_ARGS__                                      \
    }
#define ROW(label, rate, input, ...) PLAIN(label, rate, input, .family = "dropout", __VA_ARGS__)
#define ROUNDED                      .forward = { .ulp = 1 }, .backward = { .ulp = 1 }

/* Step, seed, first example. */
static const uint32_t step_1[COPSE_STEP_WORDS] = { 1, 0, 0, 0 };
static const uint32_t step_2[COPSE_STEP_WORDS] = { 2, 0x12345678u, 1, 100 };
static const uint32_t far[COPSE_STEP_WORDS] = { 0xffffffffu, 0xfedcba98u, 0x76543210u,
                                                0xfffffff0u };
static const uint32_t last[COPSE_STEP_WORDS] = { 5, 6, 7, 0xfffffffdu };
static const double ones[] = { 1 };

static const struct copse_case cases[] = {
    ROW("rate 0.5: exact", 0.5f, FILL(INTEGERS, DIMS(12, 33)), .step = step_2,
        .skips_differences = true, QUICK),
    ROW("rate 0.3", 0.3f, UNIFORM(-2, 2, DIMS(11, 97)), ROUNDED, .step = step_1, QUICK),
    ROW("another step and seed", 0.3f, UNIFORM(-2, 2, DIMS(11, 97)), ROUNDED, .step = step_2,
        STANDARD),
    ROW("places beyond 32 bits", 0.3f, UNIFORM(-2, 2, DIMS(11, 97)), ROUNDED, .step = far,
        STANDARD),
    ROW("rate 0.75 of ones: the random bits", 0.75f, VALUES(ones, DIMS(64, 1024)),
        .skips_differences = true, .backward = { .ulp = 0 }, .step = far, STANDARD),
    ROW("rate 0.999", 0.999f, UNIFORM(-2, 2, DIMS(64, 65)), ROUNDED, .is_poor = true,
        .step = step_1, STANDARD),
    PLAIN("rate 0: everything", 0.0f, FILL(NORMAL, DIMS(7, 5)), .step = step_1, STANDARD),
    ROW("one element more than a group", 0.3f, UNIFORM(-2, 2, DIMS(257)), ROUNDED, .step = step_1,
        STANDARD),
    ROW("rows of one", 0.3f, UNIFORM(-2, 2, DIMS(255, 1)), ROUNDED, .step = step_2, FULL),
    ROW("four axes", 0.3f, UNIFORM(-2, 2, DIMS(3, 5, 7, 2)), ROUNDED, .step = step_2, STANDARD),
    ROW("a batch of one", 0.3f, UNIFORM(-2, 2, DIMS(1, 300)), ROUNDED, .step = step_2, STANDARD),
    ROW("a scalar", 0.3f, UNIFORM(-2, 2, NO_DIMS), ROUNDED, .step = step_1, STANDARD),
    ROW("examples beyond 2^32 within a vector", 0.5f, UNIFORM(-2, 2, DIMS(40, 5)), ROUNDED,
        .step = last, STANDARD),
    ROW("one element more than an invocation of the wide kernel", 0.3f, UNIFORM(-2, 2, DIMS(2049)),
        ROUNDED, .step = step_2, STANDARD),
    ROW("nothing", 0.3f, UNIFORM(-2, 2, DIMS(0, 5)), ROUNDED, .step = step_1, STANDARD),
};

COPSE_CASE_TABLE(dropout, OPS, SPEEDS, .refusals = dropout_refusals)
