/* SPDX-License-Identifier: MIT */
/* Forms of the kernels that hold rows in registers. */
#include "prover/forms/arranged_rows.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES, INDEX = COPSE_CONTENT_INDEX };
enum { FORWARD, GRADIENT, SCALE_GRADIENT, BOTH }; /* of kernels/norm/layer_norm_held.cl */

/* ---- plans ---- */

/* LOG_LANES, MORE and IN_QUADS. */
static const int32_t *held_of(const struct copse_launch *l)
{
    switch (l->form->kernel) {
    case COPSE_KERNEL_layer_norm_held:
        return l->spec + 3;
    case COPSE_KERNEL_softmax_held:
    case COPSE_KERNEL_softmax_grad_held:
        return l->spec + 1;
    default:
        return l->spec;
    }
}

static uint32_t held_rows(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l) >> held_of(l)[0]);
}

/* Rows of seven elements or a quad less than the registers have, so that the last lanes have none of the last
   quads; whole ones where that is a row of 128. */
static uint32_t held_cols(const struct copse_launch *l)
{
    const int32_t *of = held_of(l);
    const uint32_t room = 4 * (1u + (uint32_t)of[1]) << of[0];
    if (l->form->is_long)
        return COPSE_LONG_LINE;
    if (l->regime == COPSE_REGIME_AXIS)
        return of[2] ? 4 : 5;
    return room == 128 ? room : of[2] ? room - 4 : room - 7;
}

static void plan_stats_held(struct copse_launch *l)
{
    const struct copse_params_row_stats_held p = { held_rows(l), held_cols(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.rows * p.cols, 2 * (size_t)p.rows);
}

static void plan_softmax_held(struct copse_launch *l)
{
    const struct copse_params_softmax_held p = { held_rows(l), held_cols(l) };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n);
}

static void plan_softmax_grad_held(struct copse_launch *l)
{
    const struct copse_params_softmax_grad_held p = { held_rows(l), held_cols(l) };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, n);
}

static void plan_loss_grad_held(struct copse_launch *l)
{
    const struct copse_params_cross_entropy_grad_held p = { held_rows(l), held_cols(l),
                                                            copse__launch_either(l, 4.0f, 8.0f) };
    const size_t n = (size_t)p.rows * p.cols;
    l->range = p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, p.rows, 2 * (size_t)p.rows, 1, n);
}

static void plan_norm_held(struct copse_launch *l)
{
    const struct copse_params_layer_norm_held p = { held_rows(l), held_cols(l),
                                                    copse__launch_either(l, 0.125f, 0.5f) };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, p.cols, l->spec[0] == FORWARD ? p.cols : n, n, n,
                      copse__words_of_norm_z(l, n));
}

/* ---- the forms ---- */

#define SHARES .zero_why = "a share and the logarithm of one that is 0 have no sign"
/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define APART     .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define ALL_SIZES .no_regimes = 0
#define LANES(n)  .least_group = (n)
#define SPEC(...) .spec = { __VA_ARGS__ }

#define STATS(label, ...)                                                                     \
    {                                                                                         \
        .kernel = COPSE_KERNEL_row_stats_held, .name = label, .contents = { VALUES, RESULT }, \
        .plan = plan_stats_held, .is_rare = true, SHARES, __VA_ARGS__                         \
    }
#define SOFTMAX(label, ...)                                                                 \
    {                                                                                       \
        .kernel = COPSE_KERNEL_softmax_held, .name = label, .contents = { VALUES, RESULT }, \
        .plan = plan_softmax_held, .is_rare = true, SHARES, __VA_ARGS__                     \
    }
#define SOFTMAX_GRAD(label, ...)                                                              \
    {                                                                                         \
        .kernel = COPSE_KERNEL_softmax_grad_held, .name = label,                              \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_softmax_grad_held,               \
        .arrange = copse__arrange_softmax_grad, .cap = 4, .is_rare = true, APART, __VA_ARGS__ \
    }
#define LOSS_GRAD(label, ...)                                                               \
    {                                                                                       \
        .kernel = COPSE_KERNEL_cross_entropy_grad_held, .name = label,                      \
        .contents = { VALUES, INDEX, VALUES, VALUES, RESULT }, .plan = plan_loss_grad_held, \
        .arrange = copse__arrange_loss_grad, .is_rare = true, SHARES, __VA_ARGS__           \
    }
#define NORM(label, ...)                                                                        \
    {                                                                                           \
        .kernel = COPSE_KERNEL_layer_norm_held, .name = label,                                  \
        .contents = { VALUES, VALUES, VALUES, VALUES, RESULT, RESULT }, .plan = plan_norm_held, \
        .cap = 4, .is_rare = true, APART, __VA_ARGS__                                           \
    }

/* Single elements of 4 lanes, quads of 8 lanes, whose sums end with a pair. */
#define NORMS(label, op, is_centered, adds)                                   \
    NORM(label ", elements", SPEC(op, is_centered, adds, 2, 4, 0), LANES(4)), \
        NORM(label ", quads", SPEC(op, is_centered, adds, 3, 4, 1), LANES(8))

static const struct copse_launch_form forms[] = {
    STATS("elements", SPEC(2, 4, 0), LANES(4)),
    STATS("quads", SPEC(3, 4, 1), LANES(8)),
    STATS("short rows", SPEC(2, 0, 0), LANES(4)),
    STATS("64 lanes", SPEC(6, 3, 1), LANES(64)),
    STATS("long", SPEC(8, 4, 0), LANES(256), COPSE_LONG),
    SOFTMAX("softmax, elements", SPEC(0, 2, 4, 0), LANES(4)),
    SOFTMAX("softmax, quads", SPEC(0, 3, 4, 1), LANES(8)),
    SOFTMAX("logarithm, elements", SPEC(1, 2, 4, 0), LANES(4)),
    SOFTMAX("logarithm, quads", SPEC(1, 3, 4, 1), LANES(8)),
    SOFTMAX("short rows", SPEC(0, 2, 0, 0), LANES(4)),
    SOFTMAX("64 lanes", SPEC(0, 6, 3, 1), LANES(64)),
    SOFTMAX("all registers", SPEC(1, 2, 7, 1), LANES(4)),
    SOFTMAX("long", SPEC(0, 8, 4, 0), LANES(256), COPSE_LONG),
    SOFTMAX_GRAD("softmax, elements", SPEC(0, 2, 4, 0), LANES(4)),
    SOFTMAX_GRAD("softmax, quads", SPEC(0, 3, 4, 1), LANES(8)),
    SOFTMAX_GRAD("logarithm, elements", SPEC(1, 2, 4, 0), LANES(4)),
    SOFTMAX_GRAD("logarithm, quads", SPEC(1, 3, 4, 1), LANES(8)),
    SOFTMAX_GRAD("32 lanes", SPEC(0, 5, 7, 0), LANES(32)),
    SOFTMAX_GRAD("long", SPEC(0, 8, 4, 0), LANES(256), COPSE_LONG),
    LOSS_GRAD("elements", SPEC(2, 4, 0), LANES(4)),
    LOSS_GRAD("quads", SPEC(3, 4, 1), LANES(8)),
    LOSS_GRAD("short rows", SPEC(2, 0, 0), LANES(4)),
    LOSS_GRAD("long", SPEC(8, 4, 0), LANES(256), COPSE_LONG),
    NORMS("forward", FORWARD, 1, 0),
    NORMS("forward of a sum", FORWARD, 1, 1),
    NORMS("gradient", GRADIENT, 1, 0),
    NORMS("gradient, added", GRADIENT, 1, 1),
    NORMS("gradient of the scale", SCALE_GRADIENT, 1, 0),
    NORMS("both gradients", BOTH, 1, 0),
    NORMS("both gradients, added", BOTH, 1, 1),
    NORMS("RMS", FORWARD, 0, 0),
    NORMS("RMS of a sum", FORWARD, 0, 1),
    NORMS("RMS, gradient", GRADIENT, 0, 0),
    NORMS("RMS, gradient, added", GRADIENT, 0, 1),
    NORMS("RMS, gradient of the scale", SCALE_GRADIENT, 0, 0),
    NORMS("RMS, both gradients", BOTH, 0, 0),
    NORMS("RMS, both gradients, added", BOTH, 0, 1),
    NORM("64 lanes", SPEC(GRADIENT, 1, 0, 6, 3, 1), LANES(64)),
    NORM("all registers", SPEC(BOTH, 1, 1, 2, 7, 0), LANES(4)),
    NORM("large mean", SPEC(FORWARD, 1, 0, 5, 3, 0), LANES(32), .arrange = copse__arrange_norm_mean,
         .no_values = COPSE_ALL_VALUES & ~1u, COPSE_FEW_ALONE,
         .why = "large means take one launch"),
    NORM("long", SPEC(BOTH, 1, 1, 8, 4, 0), LANES(256), COPSE_LONG),
};

/* ---- the lines that a group walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_LINE(row_stats_held, cols),    COPSE_LINE(softmax_held, cols),
    COPSE_LINE(softmax_grad_held, cols), COPSE_LINE(cross_entropy_grad_held, cols),
    COPSE_LINE(layer_norm_held, cols),
};

const struct copse_launch_list copse_launch_held = { forms, COPSE_COUNT(forms), lines,
                                                     COPSE_COUNT(lines) };
