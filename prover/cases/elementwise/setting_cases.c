/* SPDX-License-Identifier: MIT */
/* Cases of the functions of one tensor with settings. */
#include <math.h>

#include "prover/cases/cases.h"

struct setting {
    copse_tensor *(*one)(copse_graph *g, copse_tensor *x, float alpha);
    float alpha, beta; /* beta: of clip, whose `one` is NULL */
};

static copse_tensor *setting_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    return s->one ? s->one(g, in[0], s->alpha) : copse_clip(g, in[0], s->alpha, s->beta);
}

#define OP(function, class, ...)                                                              \
    {                                                                                         \
        .name = #function, .accuracy = COPSE_ACCURACY_##class, .call = setting_build,         \
        .user = &(const struct setting){ __VA_ARGS__ }, .in = { F32_OF(2, 2) }, .in_count = 1 \
    }
static const struct copse_case_op ops[] = {
    OP(leaky_relu, rounded, copse_leaky_relu, 0.1f, 0),
    OP(elu, exponential, copse_elu, 1.0f, 0),
    OP(pow, erf, copse_pow, 2.0f, 0),
    OP(clip, exact, NULL, 0.0f, 1.0f),
    OP(multiply_by, rounded, copse_multiply_by, 2.0f, 0),
    { .name = "huber", .accuracy = COPSE_ACCURACY_division }, /* not public: a part of losses */
    /* not public: the division of means */
    { .name = "divide_by", .accuracy = COPSE_ACCURACY_division },
};

#define SPEED(function, ...)                                                             \
    {                                                                                    \
        .op = #function, .name = OF_SQUARE, .build = setting_build,                      \
        .user = &(const struct setting){ __VA_ARGS__ }, .in = { SQUARE }, .in_count = 1, \
        .bytes = 2 * MATRIX                                                              \
    }
static const struct copse_case speeds[] = {
    SPEED(leaky_relu, copse_leaky_relu, 0.1f, 0),
    SPEED(elu, copse_elu, 1.0f, 0),
    SPEED(pow, copse_pow, 1.7f, 0),
    SPEED(clip, NULL, 0.2f, 0.8f),
};

static void setting_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    REFUSES(r, ARGUMENT, "NaN", copse_leaky_relu(g, x, NAN));
    REFUSES(r, ARGUMENT, "NaN", copse_elu(g, x, NAN));
    REFUSES(r, ARGUMENT, "finite", copse_pow(g, x, INFINITY));
    REFUSES(r, ARGUMENT, "finite", copse_pow(g, x, NAN));
    REFUSES(r, ARGUMENT, "low 2 is above high 1", copse_clip(g, x, 2, 1));
    REFUSES(r, ARGUMENT, "NaN", copse_clip(g, x, NAN, 0));
    REFUSES(r, ARGUMENT, "NaN", copse_multiply_by(g, x, NAN));
}

#define ROW(function, label, setting_, in_, ulp_, ulp_g_, ...)                                   \
    {                                                                                            \
        .op = function, .name = label, .build = setting_build,                                   \
        .user = &(const struct setting){ UNWRAP setting_ }, .in = { UNWRAP in_ }, .in_count = 1, \
        .forward = { .ulp = ulp_ }, .backward = { .ulp = ulp_g_ }, __VA_ARGS__                   \
    }

/* The cases of every setting; `tier_` is the tier of the first two rows. */
#define SETTING_CASES(tier_, function, label, setting_, from, to, ulp, ulp_g)                      \
    ROW(function, label, setting_, UNIFORM(from, to, DIMS(7, 300)), ulp, ulp_g, tier_),            \
        ROW(function, label ", special values", setting_, FILL(SPECIAL, DIMS(128)), ulp, 0,        \
            .has_no_gradient = true, tier_),                                                       \
        ROW(function, label ", 2^16 bit patterns", setting_, FILL(PATTERNS, DIMS(65536)), ulp, 0,  \
            .has_no_gradient = true, STANDARD),                                                    \
        ROW(function, label ", 2^20 bit patterns", setting_, FILL(PATTERNS, DIMS(1048576)), ulp,   \
            0, .has_no_gradient = true, FULL),                                                     \
        ROW(function, label ", nothing", setting_, UNIFORM(from, to, DIMS(0, 2)), ulp, ulp_g,      \
            FULL),                                                                                 \
        ROW(function, label ", a scalar", setting_, UNIFORM(from, to, NO_DIMS), ulp, ulp_g, FULL), \
        ROW(function, label ", one element more than a group", setting_,                           \
            UNIFORM(from, to, DIMS(257)), ulp, ulp_g, FULL)

static const struct copse_case cases[] = {
    SETTING_CASES(QUICK, "leaky_relu", "slope 0.1", (copse_leaky_relu, 0.1f, 0), -4, 4, 1, 1),
    SETTING_CASES(STANDARD, "leaky_relu", "slope -2", (copse_leaky_relu, -2.0f, 0), -4, 4, 0, 0),
    SETTING_CASES(QUICK, "elu", "alpha 1", (copse_elu, 1.0f, 0), -20, 4, 3, 4),
    SETTING_CASES(STANDARD, "elu", "alpha 0.3", (copse_elu, 0.3f, 0), -20, 4, 3, 4),
    SETTING_CASES(STANDARD, "elu", "alpha 0.5 near zero", (copse_elu, 0.5f, 0), -0.2, 0.2, 3, 4),
    SETTING_CASES(QUICK, "pow", "exponent 2", (copse_pow, 2.0f, 0), -30, 30, 16, 16),
    SETTING_CASES(STANDARD, "pow", "exponent 3, odd", (copse_pow, 3.0f, 0), -30, 30, 16, 16),
    SETTING_CASES(STANDARD, "pow", "exponent 0.5", (copse_pow, 0.5f, 0), 0.01, 30, 16, 16),
    SETTING_CASES(STANDARD, "pow", "exponent -1.5", (copse_pow, -1.5f, 0), 0.5, 30, 16, 16),
    SETTING_CASES(STANDARD, "pow", "exponent 20.7", (copse_pow, 20.7f, 0), 0.5, 2, 16, 16),
    SETTING_CASES(STANDARD, "pow", "exponent 1e-9", (copse_pow, 1e-9f, 0), 0.5, 30, 16, 16),
    SETTING_CASES(STANDARD, "pow", "exponent 1", (copse_pow, 1.0f, 0), -30, 30, 16, 16),
    ROW("pow", "exponent 0", (copse_pow, 0.0f, 0), UNIFORM(-30, 30, DIMS(7, 300)), 0, 0,
        .is_poor = true, STANDARD),
    ROW("pow", "exponent 0, special values", (copse_pow, 0.0f, 0), FILL(SPECIAL, DIMS(128)), 0, 0,
        .is_poor = true, .has_no_gradient = true, STANDARD),
    SETTING_CASES(QUICK, "multiply_by", "0.3", (copse_multiply_by, 0.3f, 0), -4, 4, 1, 1),
    SETTING_CASES(QUICK, "clip", "-0.5003 to 1.5003", (NULL, -0.5003f, 1.5003f), -4, 4, 0, 0),
    ROW("clip", "equal ends", (NULL, 0.25f, 0.25f), UNIFORM(-4, 4, DIMS(300)), 0, 0,
        .is_poor = true, STANDARD),
    SETTING_CASES(QUICK, "huber", "delta 1", (copse__huber, 1.0f, 0), -4, 4, 3, 3),
    SETTING_CASES(STANDARD, "huber", "delta 0.3", (copse__huber, 0.3f, 0), -1, 1, 3, 3),
    SETTING_CASES(STANDARD, "divide_by", "3", (copse__divide_by, 3.0f, 0), -4, 4, 3, 3),
};

COPSE_CASE_TABLE(setting, OPS, SPEEDS, .refusals = setting_refusals)
