/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of rotary positions and of gated units. */
#include "core/device/device.h"
#include "core/ops/ops.h"
#include "prover/conformance/launch/launch.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

/* ---- rotary positions ---- */

/* Three heads; the first two are rotated. The table has five rows. */
enum { HEADS = 3, TURNED = 2, ROWS = 5 };

static void plan_rotary(struct copse_launch *l)
{
    enum { WIDTH = 11, PAIRS = 4 };
    struct copse_params_rotary p = { .n = (uint32_t)copse__launch_extent(l, copse__launch_group(l)),
                                     .width = WIDTH,
                                     .heads = HEADS,
                                     .rows = ROWS,
                                     .turned = TURNED,
                                     .pairs = PAIRS,
                                     .factor = copse__launch_either(l, -1, 1) };
    copse__divisor(WIDTH, &p.width_m, &p.width_h);
    copse__divisor(HEADS, &p.heads_m, &p.heads_h);
    copse__divisor(ROWS, &p.rows_m, &p.rows_h);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n + PAIRS, 2 * ROWS * PAIRS, p.n);
}

/* Rows per invocation of the kernels for wide vectors. */
static uint32_t each_of(const struct copse_launch *l)
{
    return l->want > COPSE_AXIS_GROUPS ? 1 : 2;
}

/* Rows have elements after the pairs. With many groups each group has one row of one head. */
static void plan_rotary_wide(struct copse_launch *l)
{
    enum { WIDTH = 35, PAIRS = 16 };
    const uint32_t each = each_of(l), heads = each == 1 ? 1 : HEADS;
    const struct copse_params_rotary_wide p = { (uint32_t)copse__launch_extent(l, each) * heads *
                                                    WIDTH,
                                                WIDTH,
                                                heads,
                                                ROWS,
                                                COPSE_MIN(heads, TURNED),
                                                PAIRS,
                                                copse__launch_either(l, 1, -1),
                                                each };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * ROWS * PAIRS, p.n);
}

/* The magnitudes of the terms, which the last specialisation constant selects. */
static void size_rotary(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const int32_t of_size[COPSE_MAX_SPECS] = { spec[0], [5] = 1 };
    copse__row(COPSE_KERNEL_rotary)->law->host(params, of_size, args);
}

/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define ROTARY(kernel_, label, is_interleaved)                                               \
    {                                                                                        \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { is_interleaved },         \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_##kernel_, .size = size_rotary, \
        .cap = 65536, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)                            \
    }

/* ---- gated units ---- */

enum {
#define UNARY(name, number, ...)  UNARY_##name = number,
#define SCALED(name, number, ...) UNARY_##name = number,
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
    UNARY_none = -1
};

/* Elements of a row: more than one vector; one vector with two tensors; few with many groups. */
enum { COLS = 21, VECTOR = 16, FEW = 3 };

static uint32_t of_group(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

static uint32_t cols_of(const struct copse_launch *l, uint32_t cols)
{
    return each_of(l) == 1 ? FEW : cols;
}

static uint32_t of_rows(const struct copse_launch *l, uint32_t cols)
{
    return (uint32_t)copse__launch_extent(l, each_of(l)) * cols;
}

#define PACKED(n) (2 * (size_t)(n) + 2 * COLS) /* words of whole rows */

static void plan_glu(struct copse_launch *l)
{
    struct copse_params_glu p = { of_group(l), COLS, 2 * COLS, COLS, 0, 0 };
    copse__divisor(COLS, &p.m, &p.h);
    COPSE_LAUNCH_PLAN(l, p, l->want, PACKED(p.n), PACKED(p.n), p.n);
}

static void plan_glu_two(struct copse_launch *l)
{
    struct copse_params_glu p = { of_group(l), VECTOR, VECTOR, 0, 0, 0 };
    copse__divisor(VECTOR, &p.m, &p.h);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n);
}

static void plan_glu_wide(struct copse_launch *l)
{
    const uint32_t cols = cols_of(l, COLS);
    const struct copse_params_glu_wide p = { of_rows(l, cols), cols, 2 * cols, cols, each_of(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, 2 * (size_t)p.n, 2 * (size_t)p.n, p.n);
}

static void plan_glu_wide_two(struct copse_launch *l)
{
    const uint32_t cols = cols_of(l, VECTOR);
    const struct copse_params_glu_wide p = { of_rows(l, cols), cols, cols, 0, each_of(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n);
}

/* Whole rows: every word of the result is written. */
static void plan_glu_grad(struct copse_launch *l)
{
    struct copse_params_glu_grad p = {
        (of_group(l) + COLS - 1) / COLS * COLS, COLS, 2 * COLS, COLS, 2 * COLS, COLS, 0, 0
    };
    copse__divisor(COLS, &p.m, &p.h);
    const uint32_t group = copse__launch_group(l);
    COPSE_LAUNCH_PLAN(l, p, (p.n + group - 1) / group, 2 * (size_t)p.n, 2 * (size_t)p.n, p.n,
                      2 * (size_t)p.n);
}

static void plan_glu_grad_two(struct copse_launch *l)
{
    struct copse_params_glu_grad p = { of_group(l), VECTOR, VECTOR, 0, VECTOR, 0, 0, 0 };
    p.to_first = p.n;
    copse__divisor(VECTOR, &p.m, &p.h);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n, 2 * (size_t)p.n);
}

static void plan_glu_grad_wide(struct copse_launch *l)
{
    const uint32_t cols = cols_of(l, COLS);
    const struct copse_params_glu_grad_wide p = { of_rows(l, cols), cols, 2 * cols,  cols,
                                                  2 * cols,         cols, each_of(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, 2 * (size_t)p.n, 2 * (size_t)p.n, p.n, 2 * (size_t)p.n);
}

static void plan_glu_grad_wide_two(struct copse_launch *l)
{
    const uint32_t cols = cols_of(l, VECTOR), n = of_rows(l, cols);
    const struct copse_params_glu_grad_wide p = { n, cols, cols, 0, cols, n, each_of(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n, 2 * (size_t)p.n);
}

static void size_glu_grad(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const int32_t of_size[COPSE_MAX_SPECS] = { spec[0], [5] = 1 };
    copse__row(COPSE_KERNEL_glu_grad)->law->host(params, of_size, args);
}

#define APART COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define GLU(kernel_, label, op, plan_, ulp_)                                              \
    {                                                                                     \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { UNARY_##op },          \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_, .limit = { .ulp = ulp_ },  \
        .cap = 65536, .apart = APART, .zero_why = "the function loses the sign of a zero" \
    }
#define SLOPES(kernel_, label, op, plan_, ulp_, ratio_)                                          \
    {                                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { UNARY_##op },                 \
        .contents = { VALUES, VALUES, VALUES, RESULT }, .plan = plan_,                           \
        .limit = { .ulp = ulp_, .ratio = ratio_ },                                               \
        .zero_why = "the sign of a derivative that is 0 is not promised", .size = size_glu_grad, \
        .cap = 65536, .apart = APART                                                             \
    }
/* Every activation of rows in one tensor, and silu of two tensors. */
#define GATED(kernel_)                                                                             \
    GLU(kernel_, "silu", silu, plan_##kernel_, 6), GLU(kernel_, "gelu", gelu, plan_##kernel_, 17), \
        GLU(kernel_, "sigmoid", sigmoid, plan_##kernel_, 6),                                       \
        GLU(kernel_, "tanh", tanh, plan_##kernel_, 6),                                             \
        GLU(kernel_, "relu", relu, plan_##kernel_, 1),                                             \
        GLU(kernel_, "no function", none, plan_##kernel_, 1),                                      \
        GLU(kernel_, "silu, two tensors", silu, plan_##kernel_##_two, 6)
#define GATED_SLOPES(kernel_)                                       \
    SLOPES(kernel_, "silu", silu, plan_##kernel_, 8, 3),            \
        SLOPES(kernel_, "gelu", gelu, plan_##kernel_, 18, 8),       \
        SLOPES(kernel_, "sigmoid", sigmoid, plan_##kernel_, 8, 0),  \
        SLOPES(kernel_, "tanh", tanh, plan_##kernel_, 8, 0),        \
        SLOPES(kernel_, "relu", relu, plan_##kernel_, 2, 0),        \
        SLOPES(kernel_, "no function", none, plan_##kernel_, 2, 0), \
        SLOPES(kernel_, "silu, two tensors", silu, plan_##kernel_##_two, 8, 3)

static const struct copse_launch_form forms[] = {
    GATED(glu),
    GATED(glu_wide),
    GATED_SLOPES(glu_grad),
    GATED_SLOPES(glu_grad_wide),
    ROTARY(rotary, "halves", 0),
    ROTARY(rotary, "adjacent", 1),
    ROTARY(rotary_wide, "halves", 0),
    ROTARY(rotary_wide, "adjacent", 1),
};

const struct copse_launch_list copse_launch_decoders = { forms, COPSE_COUNT(forms) };
