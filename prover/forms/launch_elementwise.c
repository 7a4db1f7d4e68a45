/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of one element by one element. */
#include <math.h>

#include "copse/matmul.h"
#include "core/ops/elementwise/elementwise_chain.h"
#include "core/ops/elementwise/function_numbers.h"
#include "core/ops/ops.h"
#include "prover/forms/lines.h"

enum {
    RESULT = COPSE_CONTENT_RESULT,
    WORDS = COPSE_CONTENT_WORDS,
    VALUES = COPSE_CONTENT_VALUES,
    WHOLE = COPSE_CONTENT_WHOLE
};

/* ---- one operand ---- */

static void plan_unary(struct copse_launch *l)
{
    const struct copse_params_unary p = { (uint32_t)copse__launch_extent(l, copse__launch_group(l)),
                                          -1.0f, copse__launch_either(l, 1.0f, 2.0f) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n);
}

/* A power of -0 has the sign of -0. */
static void plan_power_odd(struct copse_launch *l)
{
    plan_unary(l);
    const struct copse_params_unary p = { (uint32_t)l->counts[0], 3.0f, 1.0f };
    memcpy(l->params, &p, sizeof p);
}

/* The least of the exponents that are all even. */
static void plan_power(struct copse_launch *l)
{
    plan_unary(l);
    const struct copse_params_unary p = { (uint32_t)l->counts[0], 16777216.0f, 1.0f };
    memcpy(l->params, &p, sizeof p);
}

static void plan_unary_grad(struct copse_launch *l)
{
    const struct copse_params_unary_grad p = { (uint32_t)copse__launch_extent(
                                                   l, copse__launch_group(l)),
                                               -1.0f, copse__launch_either(l, 1.0f, 2.0f) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n);
}

static void plan_unary_grad_set(struct copse_launch *l)
{
    plan_unary_grad(l);
    const struct copse_params_unary_grad p = { (uint32_t)l->counts[0],
                                               l->spec[0] == UNARY_pow ? -0.5f : 0.3f, 1.0f };
    memcpy(l->params, &p, sizeof p);
}

/* 32 elements to an invocation of the kernels for wide vectors. */
static void plan_unary_wide(struct copse_launch *l)
{
    const struct copse_params_unary_wide p = { (uint32_t)copse__launch_extent(l, 32), -1.0f,
                                               copse__launch_either(l, 1.0f, 2.0f), 32 };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n);
}

static void plan_power_odd_wide(struct copse_launch *l)
{
    plan_unary_wide(l);
    const struct copse_params_unary_wide p = { (uint32_t)l->counts[0], 3.0f, 1.0f, 32 };
    memcpy(l->params, &p, sizeof p);
}

static void plan_unary_grad_wide(struct copse_launch *l)
{
    const struct copse_params_unary_grad_wide p = { (uint32_t)copse__launch_extent(l, 32),
                                                    copse__launch_either(l, -1.0f, -0.5f),
                                                    copse__launch_either(l, 1.0f, 2.0f), 32 };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n);
}

/* ---- two operands ---- */

/* Operands of mode 2. Of two axes the inner one has 7 elements: the first operand repeats along it,
   the second one along the outer one. Of six axes the inner ones have 3 elements: the first operand
   has the axes 1, 3 and 5, the second one 0, 2, 4. */
#define INNER 7u

struct walk {
    uint32_t n, d[5], m[5], h[5], strides[2][6];
    size_t words[2]; /* of the operands */
};

static struct walk walk_of(const struct copse_launch *l)
{
    const uint32_t axes = (uint32_t)l->spec[3];
    struct walk w = { .n = (uint32_t)copse__launch_extent(l, copse__launch_group(l)),
                      .words = { 1, 1 } };
    uint32_t rest = w.n;
    for (uint32_t i = 0; i < axes; i++) {
        const uint32_t size = i + 1 == axes ? rest : axes == 2 ? INNER : 3, owner = i % 2 == 0;
        if (i + 1 < axes) {
            w.d[i] = size;
            copse__divisor(size, &w.m[i], &w.h[i]);
            rest = (rest + size - 1) / size;
        }
        w.strides[owner][i] = (uint32_t)w.words[owner];
        w.words[owner] *= size;
    }
    for (uint32_t i = 0; i < 2; i++)
        w.words[i] = l->spec[1 + i] == 0 ? w.n : l->spec[1 + i] == 1 ? 1 : w.words[i];
    return w;
}

#define FIVE(x) (x)[0], (x)[1], (x)[2], (x)[3], (x)[4]
#define WALK(w)                                                                                \
    {                                                                                          \
        (w).n, FIVE((w).d), FIVE((w).m), FIVE((w).h), FIVE((w).strides[0]), (w).strides[0][5], \
            FIVE((w).strides[1]), (w).strides[1][5]                                            \
    }

static void plan_binary(struct copse_launch *l)
{
    const struct walk w = walk_of(l);
    const struct copse_params_binary p = WALK(w);
    COPSE_LAUNCH_PLAN(l, p, l->want, w.words[0], w.words[1], w.n);
}

static void plan_binary_grad(struct copse_launch *l)
{
    const struct walk w = walk_of(l);
    const struct copse_params_binary_grad p = WALK(w);
    COPSE_LAUNCH_PLAN(l, p, l->want, w.words[0], w.words[1], w.n, w.n);
}

static void plan_compare(struct copse_launch *l)
{
    const struct walk w = walk_of(l);
    const struct copse_params_compare_i32 p = WALK(w);
    COPSE_LAUNCH_PLAN(l, p, l->want, w.words[0], w.words[1], w.n);
}

/* ---- bias, where ---- */

static void plan_bias(struct copse_launch *l)
{
    const struct copse_params_bias_activation p = {
        (uint32_t)copse__launch_extent(l, copse__launch_group(l)), 13
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.count, p.n, p.count);
}

#define PLAN_WHERE(kernel)                                                                   \
    static void plan_##kernel(struct copse_launch *l)                                        \
    {                                                                                        \
        uint32_t m, h;                                                                       \
        copse__divisor(INNER, &m, &h);                                                       \
        const uint32_t n = (uint32_t)copse__launch_extent(l, copse__launch_group(l));        \
        const struct copse_params_##kernel p = { n, INNER, m, h, INNER, m, h, INNER, m, h }; \
        COPSE_LAUNCH_PLAN(l, p, l->want, l->spec[0] ? INNER : n, l->spec[1] ? INNER : n,     \
                          l->spec[2] ? INNER : n, n);                                        \
    }
PLAN_WHERE(where)
PLAN_WHERE(where_i32)

/* ---- chains ---- */

#define CHAIN_LINK(function, mode, order) \
    (COPSE_LINK_##function + COPSE_LINK_MODE * COPSE_LINK_##mode + order)
#define SWAPPED COPSE_LINK_SWAPS

static void plan_chain(struct copse_launch *l)
{
    struct copse_params_chain p = { .n = (uint32_t)copse__launch_extent(l, copse__launch_group(l)),
                                    .period = l->regime == COPSE_REGIME_SHORT ? 13 : INNER,
                                    .alpha0 = copse__launch_either(l, 0.75f, -1.5f),
                                    .alpha1 = copse__launch_either(l, -1.25f, 0.5f),
                                    .alpha2 = copse__launch_either(l, 2.0f, -0.75f),
                                    .alpha3 = copse__launch_either(l, -0.5f, 3.0f) };
    size_t words[COPSE_MOST_LINKS];
    copse__divisor(p.period, &p.m, &p.h);
    for (uint32_t i = 0; i < COPSE_MOST_LINKS; i++) {
        const int32_t mode = l->spec[i] / COPSE_LINK_MODE % 4;
        words[i] = mode == COPSE_LINK_EACH ? p.n : mode == COPSE_LINK_ONE ? 1 : p.period;
    }
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, words[0], words[1], words[2], words[3], p.n);
}

/* ---- losses of pairs ---- */

#define PLAN_PAIR(kernel, ...)                                                        \
    static void plan_##kernel(struct copse_launch *l)                                 \
    {                                                                                 \
        uint32_t m, h;                                                                \
        copse__divisor(INNER, &m, &h);                                                \
        const uint32_t n = (uint32_t)copse__launch_extent(l, copse__launch_group(l)); \
        const struct copse_params_##kernel p = { n, INNER, m, h };                    \
        COPSE_LAUNCH_PLAN(l, p, l->want, n, n, INNER, __VA_ARGS__);                   \
    }
PLAN_PAIR(pair_loss, n)
PLAN_PAIR(pair_loss_grad, n, n)

/* Targets are not negative. Beside infinities no product of a target and its weight vanishes: its
   term is 0, where the exact one is infinite. */
static void arrange_pair(const struct copse_launch *l, uint32_t *const *words)
{
    const float one = 1.0f;
    float y, w;
    for (size_t i = 0; i < l->counts[1]; i++) {
        words[1][i] &= 0x7fffffffu;
        memcpy(&y, &words[1][i], sizeof y);
        memcpy(&w, &words[2][i % INNER], sizeof w);
        if (l->values == COPSE_VALUES_MIXED && y != 0.0f && w != 0.0f && y * w == 0.0f)
            memcpy(&words[1][i], &one, sizeof one);
    }
}

/* ---- the forms ---- */

#define ONE(kernel_, op, ...)                                                          \
    {                                                                                  \
        .kernel = COPSE_KERNEL_##kernel_, .name = #op, .spec = { UNARY_##op },         \
        .contents = { VALUES, RESULT }, .plan = plan_##kernel_, SIGNS(op), __VA_ARGS__ \
    }
#define ONE_GRAD(kernel_, op, ...)                                                            \
    {                                                                                         \
        .kernel = COPSE_KERNEL_##kernel_, .name = #op, .spec = { UNARY_##op },                \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_##kernel_, NO_SIGNS, __VA_ARGS__ \
    }
#define ONE_GRAD_SET(op, label)                                                                \
    {                                                                                          \
        .kernel = COPSE_KERNEL_unary_grad, .name = #op ", " label, .spec = { UNARY_##op },     \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_unary_grad_set, EVERY_DERIVATIVE, \
        NO_SIGNS                                                                               \
    }
#define TWO(op, label, axes, a_mode, b_mode, ...)                                              \
    {                                                                                          \
        .kernel = COPSE_KERNEL_binary, .name = #op label,                                      \
        .spec = { BINARY_##op, a_mode, b_mode, axes }, .contents = { VALUES, VALUES, RESULT }, \
        .plan = plan_binary, .has_zero_signs = true, __VA_ARGS__                               \
    }
#define TWO_GRAD_OF(op, label, a_mode, b_mode, side, ...)                                   \
    {                                                                                       \
        .kernel = COPSE_KERNEL_binary_grad, .name = #op label ", side " #side,              \
        .spec = { BINARY_##op, a_mode, b_mode, 2, side },                                   \
        .contents = { VALUES, VALUES, VALUES, RESULT }, .plan = plan_binary_grad, NO_SIGNS, \
        __VA_ARGS__                                                                         \
    }
#define TWO_GRAD(op, side, ...) TWO_GRAD_OF(op, , 0, side == 1 ? 2 : 0, side, __VA_ARGS__)
#define TWO_WHOLE_OF(op, label, a_mode, b_mode, ...)                                      \
    {                                                                                     \
        .kernel = COPSE_KERNEL_compare_i32, .name = #op label,                            \
        .spec = { BINARY_##op, a_mode, b_mode, 2 }, .contents = { WHOLE, WHOLE, RESULT }, \
        .plan = plan_compare, .is_poor = true, NO_REALS, __VA_ARGS__                      \
    }
#define TWO_WHOLE(op, a_mode, b_mode) TWO_WHOLE_OF(op, , a_mode, b_mode, QUICK)
#define NO_SIGNS                      .zero_why = "the sign of a derivative that is 0 is not promised"
/* A function of a zero has the sign of its definition, but for these, which compute with |x| or e^x
   - 1. */
#define SIGNS(op)                      \
    .has_zero_signs = !LOSES_SIGN(op), \
    .zero_why = LOSES_SIGN(op) ? "the function loses the sign of a zero" : NULL
#define LOSES_SIGN(op)                                                                    \
    (UNARY_##op == UNARY_tanh || UNARY_##op == UNARY_elu || UNARY_##op == UNARY_selu ||   \
     UNARY_##op == UNARY_sin || UNARY_##op == UNARY_tan || UNARY_##op == UNARY_asin ||    \
     UNARY_##op == UNARY_atan || UNARY_##op == UNARY_sinh || UNARY_##op == UNARY_asinh || \
     UNARY_##op == UNARY_atanh)
#define WHERE(label, c_mode, a_mode, b_mode, ...)                                        \
    {                                                                                    \
        .kernel = COPSE_KERNEL_where, .name = label, .spec = { c_mode, a_mode, b_mode }, \
        .contents = { VALUES, VALUES, VALUES, RESULT }, .plan = plan_where, __VA_ARGS__  \
    }
#define WHERE_I32(label, c_mode, a_mode, b_mode, ...)                                        \
    {                                                                                        \
        .kernel = COPSE_KERNEL_where_i32, .name = label, .spec = { c_mode, a_mode, b_mode }, \
        .contents = { VALUES, WHOLE, WHOLE, WORDS }, .plan = plan_where_i32, __VA_ARGS__     \
    }
/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define CHAIN(label, ...)                                                         \
    {                                                                             \
        .kernel = COPSE_KERNEL_chain, .name = label, .spec = { __VA_ARGS__ },     \
        .contents = { VALUES, VALUES, VALUES, VALUES, VALUES, RESULT }, .cap = 4, \
        .plan = plan_chain, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)           \
    }
#define QUICK  .tier = COPSE_CONFORM_QUICK
#define SELDOM COPSE_FEW_ALONE, .tier = COPSE_CONFORM_STANDARD
/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define PAIR(kernel_, label, kind, ...)                                                       \
    {                                                                                         \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { kind },                    \
        .contents = { __VA_ARGS__, RESULT }, .plan = plan_##kernel_, .arrange = arrange_pair, \
        .cap = 65536, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)                             \
    }
#define BIAS(label, has_bias, activation, ...)                                                   \
    {                                                                                            \
        .kernel = COPSE_KERNEL_bias_activation, .name = label, .spec = { has_bias, activation }, \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_bias,                               \
        .has_zero_signs = activation != COPSE_TANH,                                              \
        .zero_why = activation == COPSE_TANH ? "the function loses the sign of a zero" : NULL,   \
        __VA_ARGS__                                                                              \
    }
#define NO_REALS \
    .no_values = COPSE_ALL_VALUES & ~COPSE_WHOLE_VALUES, .why = "integers have no such numbers"
#define QUOTIENTS                                                                       \
    .no_values = COPSE_BIT(COPSE_VALUES_SUBNORMALS) | COPSE_BIT(COPSE_VALUES_EXTREMES), \
    .why = "the quotient of the operands overflows where the derivative does not"

#define TIER(op)                                                                                 \
    .tier = UNARY_##op <= UNARY_square || UNARY_##op == UNARY_exp || UNARY_##op == UNARY_relu || \
                    UNARY_##op == UNARY_tanh || UNARY_##op == UNARY_clip                         \
                ? COPSE_CONFORM_QUICK                                                            \
                : COPSE_CONFORM_STANDARD

#define EVERY_VALUE      .every = COPSE_EVERY_VALUE
#define EVERY_DERIVATIVE .every = COPSE_EVERY_DERIVATIVE

/* The kernels for wide vectors have the text of the others: these functions have all of its
   operations. */
#define WIDE(op) ONE(unary_wide, op, TIER_WIDE(op)), ONE_GRAD(unary_grad_wide, op, TIER_WIDE(op))
#define TIER_WIDE(op)                                                                  \
    .tier = UNARY_##op == UNARY_relu || UNARY_##op == UNARY_gelu ? COPSE_CONFORM_QUICK \
                                                                 : COPSE_CONFORM_STANDARD

static const struct copse_launch_form forms[] = {
/* Every function of the table; the commonest ones in tier quick. */
#define UNARY(op, number, f, g, ref, ref_g, low, high, ulp_, ulp_g, class) \
    ONE(unary, op, TIER(op), EVERY_VALUE), ONE_GRAD(unary_grad, op, TIER(op), EVERY_DERIVATIVE),
#define SCALED UNARY
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
    WIDE(relu),
    WIDE(gelu),
    WIDE(exp),
    WIDE(log),
    WIDE(sqrt),
    WIDE(sigmoid),
    WIDE(tanh),
    WIDE(silu),
    WIDE(pow),
    WIDE(sin),
    WIDE(gelu_tanh),
    WIDE(mish),
    { .kernel = COPSE_KERNEL_unary,
      .name = "pow, exponent 2^24",
      .spec = { UNARY_pow },
      .contents = { VALUES, RESULT },
      .plan = plan_power,
      EVERY_VALUE,
      .is_poor = true,
      .tier = COPSE_CONFORM_STANDARD,
      SIGNS(pow) },
    { .kernel = COPSE_KERNEL_unary,
      .name = "pow, exponent 3",
      .spec = { UNARY_pow },
      .contents = { VALUES, RESULT },
      .plan = plan_power_odd,
      EVERY_VALUE,
      SIGNS(pow) },
    { .kernel = COPSE_KERNEL_unary_wide,
      .name = "pow, exponent 3",
      .spec = { UNARY_pow },
      .contents = { VALUES, RESULT },
      .plan = plan_power_odd_wide,
      SIGNS(pow) },
    ONE_GRAD_SET(pow, "exponent -0.5"),
    ONE_GRAD_SET(elu, "alpha 0.3"),
    TWO(add, "", 2, 0, 0, QUICK),
    TWO(mul, ", scalar", 2, 0, 1, QUICK),
    TWO(div, ", 6 axes", 6, 2, 2, QUICK),
    TWO(sub, ", repeated", 2, 2, 0, QUICK),
    TWO(maximum, ", both repeated", 2, 2, 2, QUICK),
    TWO(minimum, "", 2, 0, 0, QUICK),
    TWO(less, "", 2, 0, 2, .is_poor = true),
    TWO(equal, "", 2, 0, 0, .is_poor = true),
    TWO_GRAD(mul, 0, QUICK),
    TWO_GRAD(mul, 1, QUICK),
    TWO_GRAD(div, 0, QUOTIENTS),
    TWO_GRAD(div, 1, QUOTIENTS),
    TWO_GRAD(maximum, 0, QUICK),
    TWO_GRAD(maximum, 1, QUICK),
    TWO_GRAD(minimum, 0, QUICK),
    TWO_GRAD(minimum, 1, QUICK),
    TWO(prelu, "", 2, 0, 2, QUICK),
    TWO(not_equal, "", 2, 0, 0, .is_poor = true),
    TWO(greater, "", 2, 2, 0, .is_poor = true),
    TWO(less_equal, "", 2, 0, 0, .is_poor = true),
    TWO(logical_and, "", 2, 0, 0, .is_poor = true),
    TWO(logical_or, "", 2, 0, 1, .is_poor = true),
    TWO(logical_xor, "", 2, 0, 0, .is_poor = true),
    TWO_GRAD(prelu, 0, QUICK),
    TWO_GRAD(prelu, 1, QUICK),
    TWO(add, ", scalar first", 2, 1, 0, QUICK),
    TWO(sub, ", scalar and repeated", 2, 1, 2, SELDOM),
    TWO(mul, ", repeated and scalar", 2, 2, 1, SELDOM),
    TWO(div, ", two scalars", 2, 1, 1, SELDOM, .is_poor = true),
    TWO_GRAD_OF(mul, ", repeated", 0, 2, 0, SELDOM),
    TWO_GRAD_OF(mul, ", not repeated", 0, 0, 1, SELDOM),
    TWO_WHOLE_OF(less, ", scalar", 0, 1, SELDOM),
    TWO_WHOLE_OF(less, ", both repeated", 2, 2, SELDOM),
    TWO_WHOLE_OF(less, ", scalar first", 1, 0, SELDOM),
    TWO_WHOLE_OF(less, ", scalar and repeated", 1, 2, SELDOM),
    TWO_WHOLE_OF(less, ", two scalars", 1, 1, SELDOM),
    TWO_WHOLE(equal, 0, 0),
    TWO_WHOLE(less, 0, 2),
    TWO_WHOLE(greater_equal, 2, 1),
    TWO_WHOLE(not_equal, 0, 0),
    TWO_WHOLE(greater, 2, 0),
    TWO_WHOLE(less_equal, 0, 0),
    TWO_WHOLE(logical_and, 0, 0),
    TWO_WHOLE(logical_or, 0, 2),
    TWO_WHOLE(logical_xor, 0, 0),
    WHERE("", 0, 0, 0, QUICK),
    WHERE("repeated", 1, 0, 1, QUICK),
    WHERE("repeated operands", 0, 1, 0, QUICK),
    WHERE("repeated b", 0, 0, 1, SELDOM),
    WHERE("repeated a, b", 0, 1, 1, SELDOM),
    WHERE("repeated condition", 1, 0, 0, SELDOM),
    WHERE("repeated condition, a", 1, 1, 0, SELDOM),
    WHERE("all repeated", 1, 1, 1, SELDOM),
    WHERE_I32("", 0, 0, 0, QUICK),
    WHERE_I32("repeated", 1, 0, 1, QUICK),
    WHERE_I32("repeated a", 0, 1, 0, SELDOM),
    WHERE_I32("repeated b", 0, 0, 1, SELDOM),
    WHERE_I32("repeated a, b", 0, 1, 1, SELDOM),
    WHERE_I32("repeated condition", 1, 0, 0, SELDOM),
    WHERE_I32("repeated condition, a", 1, 1, 0, SELDOM),
    WHERE_I32("all repeated", 1, 1, 1, SELDOM),
    PAIR(pair_loss, "binary", 0, VALUES, VALUES, VALUES),
    PAIR(pair_loss, "divergence", 1, VALUES, VALUES, VALUES),
    PAIR(pair_loss_grad, "binary", 0, VALUES, VALUES, VALUES, VALUES),
    PAIR(pair_loss_grad, "divergence", 1, VALUES, VALUES, VALUES, VALUES),
    CHAIN("sum, relu", CHAIN_LINK(ADD, EACH, 0), CHAIN_LINK(RELU, EACH, 0)),
    CHAIN("sum, slope of relu", CHAIN_LINK(ADD, EACH, 0), CHAIN_LINK(SLOPE, EACH, 0)),
    CHAIN("difference, factor, sum", CHAIN_LINK(SUB, EACH, 0), CHAIN_LINK(SCALE, EACH, 0),
          CHAIN_LINK(ADD, EACH, SWAPPED)),
    CHAIN("norm by averages", CHAIN_LINK(SUB, PERIOD, 0), CHAIN_LINK(MUL, PERIOD, 0),
          CHAIN_LINK(MUL, PERIOD, 0), CHAIN_LINK(ADD, PERIOD, 0)),
    CHAIN("swapped, repeated", CHAIN_LINK(MUL, EACH, SWAPPED), CHAIN_LINK(SUB, PERIOD, SWAPPED),
          CHAIN_LINK(SLOPE, PERIOD, 0), CHAIN_LINK(SUB, EACH, SWAPPED)),
    CHAIN("single elements", CHAIN_LINK(ADD, ONE, 0), CHAIN_LINK(MUL, ONE, SWAPPED),
          CHAIN_LINK(SUB, ONE, SWAPPED), CHAIN_LINK(MUL, EACH, 0)),
    CHAIN("functions", CHAIN_LINK(SCALE, EACH, 0), CHAIN_LINK(SQUARE, EACH, 0),
          CHAIN_LINK(SCALE, EACH, 0), CHAIN_LINK(SCALE, EACH, 0)),
    CHAIN("functions of a difference", CHAIN_LINK(SUB, EACH, 0), CHAIN_LINK(SCALE, EACH, 0),
          CHAIN_LINK(RELU, EACH, 0), CHAIN_LINK(SQUARE, EACH, 0)),
    BIAS("bias", 1, COPSE_LINEAR, QUICK),
    BIAS("relu", 0, COPSE_RELU, QUICK),
    BIAS("bias, relu", 1, COPSE_RELU, QUICK),
    BIAS("sigmoid", 0, COPSE_SIGMOID, QUICK),
    BIAS("tanh", 0, COPSE_TANH, QUICK),
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(chain, COPSE_WALKS_NONE),
    COPSE_NO_LINE(unary, COPSE_WALKS_NONE),
    COPSE_NO_LINE(unary_grad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(unary_wide, COPSE_WALKS_NONE),
    COPSE_NO_LINE(unary_grad_wide, COPSE_WALKS_NONE),
    COPSE_NO_LINE(binary, COPSE_WALKS_NONE),
    COPSE_NO_LINE(binary_grad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(compare_i32, COPSE_WALKS_NONE),
    COPSE_NO_LINE(where, COPSE_WALKS_NONE),
    COPSE_NO_LINE(where_i32, COPSE_WALKS_NONE),
    COPSE_NO_LINE(pair_loss, COPSE_WALKS_NONE),
    COPSE_NO_LINE(pair_loss_grad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(bias_activation, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_elementwise = { forms, COPSE_COUNT(forms), lines,
                                                            COPSE_COUNT(lines) };
