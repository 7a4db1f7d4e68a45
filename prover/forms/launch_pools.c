/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of pooling and resizing. */
#include "core/ops/ops.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static uint32_t pools_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

/* ---- pooling: windows of 3 x 2 that overlap, on images of 5 x 4 ---- */

static struct copse_params_pool pool_params(const struct copse_launch *l)
{
    return (struct copse_params_pool){ .count = pools_extent(l),
                                       .channels = 3,
                                       .in_h = 5,
                                       .in_w = 4,
                                       .out_h = 3,
                                       .out_w = 4,
                                       .stride_h = 2,
                                       .stride_w = 1,
                                       .step_h = 1,
                                       .step_w = 2,
                                       .before_h = 1,
                                       .before_w = 1,
                                       .divisor = l->regime == COPSE_REGIME_FEW ? 6 : 0 };
}

static void plan_pool(struct copse_launch *l)
{
    const struct copse_params_pool p = pool_params(l);
    const size_t images = divide_up(p.count, p.out_h * p.out_w * p.channels);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.channels, p.count);
}

static void plan_pool_grad(struct copse_launch *l)
{
    const struct copse_params_pool p = pool_params(l);
    const size_t image = p.in_h * p.in_w * p.channels, images = divide_up(p.count, image);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * image, images * p.out_h * p.out_w * p.channels,
                      p.count);
}

/* Lines of pixels with 17 channels: two vectors that overlap. The last of several groups is a
   surplus one. */
#define POOL_LINES(l)                                                                         \
    {                                                                                         \
        .lines = (uint32_t)(l)->want - ((l)->want > 1), .channels = 17, .in_h = 5, .in_w = 2, \
        .out_h = 3, .out_w = 2, .stride_h = 2, .stride_w = 1, .step_h = 1, .step_w = 2,       \
        .before_h = 1, .before_w = 1, .divisor = (l)->regime == COPSE_REGIME_FEW ? 6 : 0      \
    }

static void plan_pool_wide(struct copse_launch *l)
{
    const struct copse_params_pool_wide p = POOL_LINES(l);
    const size_t images = divide_up(p.lines, p.out_h);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.channels,
                      (size_t)p.lines * p.out_w * p.channels);
}

static void plan_pool_grad_wide(struct copse_launch *l)
{
    const struct copse_params_pool_grad_wide p = POOL_LINES(l);
    const size_t images = divide_up(p.lines, p.in_h);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.channels,
                      images * p.out_h * p.out_w * p.channels,
                      (size_t)p.lines * p.in_w * p.channels);
}

/* ---- resizing: lines of 5 elements become 7, and back; in the regime of few groups 17, which an
   element reaches more of ---- */

static uint32_t pools_resized(const struct copse_launch *l)
{
    return l->regime == COPSE_REGIME_FEW ? 17 : 7;
}

static void plan_resize(struct copse_launch *l)
{
    const struct copse_params_resize p = {
        .count = pools_extent(l), .size = 5, .to = pools_resized(l), .inner = 3
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, divide_up(p.count, p.to * p.inner) * p.size * p.inner,
                      p.count);
}

static void plan_resize_grad(struct copse_launch *l)
{
    const struct copse_params_resize_grad p = {
        .count = pools_extent(l), .size = 5, .to = pools_resized(l), .inner = 3
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, divide_up(p.count, p.size * p.inner) * p.to * p.inner,
                      p.count);
}

/* ---- the forms ---- */

#define CAP .cap = 0x1p50f
#define POOL(kernel_, label, kind, ...)                                                  \
    {                                                                                    \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, RESULT }, \
        .plan = plan_##kernel_, .spec = { kind, 3, 2 }, __VA_ARGS__                      \
    }
#define POOL_GRAD(kernel_, label, kind)                                                          \
    {                                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, VALUES, RESULT }, \
        .plan = plan_##kernel_, .spec = { kind, 3, 2 }, CAP, .is_rare = true                     \
    }
#define RESIZE(kernel_, label, kind)                                                     \
    {                                                                                    \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, RESULT }, \
        .plan = plan_##kernel_, .spec = { kind }, CAP                                    \
    }

static const struct copse_launch_form forms[] = {
    POOL(pool, "largest", 0, .why = NULL),
    POOL(pool, "mean", 1, CAP),
    POOL_GRAD(pool_grad, "largest", 0),
    POOL_GRAD(pool_grad, "mean", 1),
    POOL(pool_wide, "largest", 0, .why = NULL),
    POOL(pool_wide, "mean", 1, CAP),
    POOL_GRAD(pool_grad_wide, "largest", 0),
    POOL_GRAD(pool_grad_wide, "mean", 1),
    RESIZE(resize, "nearest", 0),
    RESIZE(resize, "linear", 1),
    RESIZE(resize, "area", 2),
    RESIZE(resize_grad, "nearest", 0),
    RESIZE(resize_grad, "linear", 1),
    RESIZE(resize_grad, "area", 2),
};

/* ---- the lines that an invocation, or a group, walks ---- */

#define WINDOWS "no case yet: windows are small here"

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(pool, WINDOWS),      COPSE_NO_LINE(pool_grad, WINDOWS),
    COPSE_NO_LINE(pool_wide, WINDOWS), COPSE_NO_LINE(pool_grad_wide, WINDOWS),
    COPSE_NO_LINE(resize, WINDOWS),    COPSE_NO_LINE(resize_grad, WINDOWS),
};

const struct copse_launch_list copse_launch_pools = { forms, COPSE_COUNT(forms), lines,
                                                      COPSE_COUNT(lines) };
