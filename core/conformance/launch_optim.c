/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of update rules. */
#include "core/audit/bound.h"
#include "core/conformance/launch.h"
#include "core/rule/rule.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES, STEP = COPSE_CONTENT_STEP };

static uint32_t extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, (uint64_t)copse__launch_group(l) * l->per);
}

static uint32_t blocks_of(uint32_t n)
{
    return (n + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK;
}

/* ---- updates ---- */

#define DECAY 0.25f

static void plan_sgd(struct copse_launch *l)
{
    const struct copse_params_sgd p = { extent(l), DECAY };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, COPSE_STEP_WORDS);
}

static void plan_momentum(struct copse_launch *l)
{
    const struct copse_params_momentum p = { extent(l), DECAY, 0.9f };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n, COPSE_STEP_WORDS);
}

static void plan_adam(struct copse_launch *l)
{
    const struct copse_params_adam p = { .n = extent(l), .decay = DECAY, .beta1 = 0.9f, .beta2 = 0.999f,
                                         .rest1 = (float)(1.0 - (double)0.9f),
                                         .rest2 = (float)(1.0 - (double)0.999f), .epsilon = 1e-8f };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, 2 * (size_t)p.n, COPSE_STEP_WORDS);
}

/* The second moments are squares. A fifth of the elements has zero gradient and zero moments: 0 / (0 + epsilon). */
static void arrange_adam(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t n = l->counts[0];
    for (size_t i = 0; i < n; i++) {
        words[2][n + i] &= 0x7fffffffu;
        if (i % 5 == 3)
            words[0][i] = words[2][i] = words[2][n + i] = 0;
    }
}

/* ---- averages, clipping, norms ---- */

/* The averages follow one slot of the update. */
static void plan_average(struct copse_launch *l)
{
    const struct copse_params_average p = { extent(l), extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * (size_t)p.n, COPSE_STEP_WORDS);
}

/* The bound is 1, a number of class edges. */
static void plan_clip(struct copse_launch *l)
{
    const struct copse_params_clip p = { extent(l), 0.5f };
    COPSE_LAUNCH_PLAN(l, p, l->want, COPSE_STEP_WORDS, p.n);
}

static void plan_square_sum(struct copse_launch *l)
{
    const struct copse_params_square_sum p = {
        (uint32_t)copse__launch_extent(l, (uint64_t)copse__launch_group(l) * COPSE_RULE_BLOCK)
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * blocks_of(p.n));
}

/* The second block has zeros and subnormal numbers only. */
static void arrange_square_sum(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = COPSE_RULE_BLOCK; i < COPSE_MIN(l->counts[0], 2 * COPSE_RULE_BLOCK); i++)
        if (l->values == COPSE_VALUES_ZEROS || l->values == COPSE_VALUES_SUBNORMALS)
            words[0][i] = l->values == COPSE_VALUES_ZEROS ? 0 : (uint32_t)i;
}

static void plan_block_scale(struct copse_launch *l)
{
    const struct copse_params_block_scale p = { extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, blocks_of(p.n), p.n);
}

/* ---- the forms ---- */

#define STREAM(kernel_, label, ...)                                                                         \
    { .kernel = COPSE_KERNEL_##kernel_, .name = label, .plan = plan_##kernel_, .is_stream = true,           \
      .is_single = true, __VA_ARGS__ }
#define SGD(label, decays)                                                                                  \
    STREAM(sgd, label, .spec = { 0, 0, decays }, .contents = { VALUES, VALUES, STEP })
#define MOMENTUM(label, decays, nesterov)                                                                   \
    STREAM(momentum, label, .spec = { 0, 0, decays, nesterov }, .contents = { VALUES, VALUES, VALUES, STEP })
/* The limit of one step: 8 half-ULPs of the change and the rounding of the result. The host's own errors are in it. */
#define ADAM(label, decay)                                                                                  \
    STREAM(adam, label, .spec = { 0, 0, decay }, .contents = { VALUES, VALUES, VALUES, STEP },              \
           .arrange = arrange_adam, .size = copse__size_adam, .limit = { .ulp = 1, .ratio = 8 })

static const struct copse_launch_form forms[] = {
    SGD("", 0), SGD("decay", 1),
    MOMENTUM("", 0, 0), MOMENTUM("decay", 1, 0), MOMENTUM("nesterov", 0, 1), MOMENTUM("nesterov, decay", 1, 1),
    ADAM("", 0), ADAM("decay", 1), ADAM("adamw", 2),
    STREAM(average, "", .contents = { VALUES, VALUES, STEP }),
    STREAM(clip, "", .contents = { STEP, VALUES }),
    { .kernel = COPSE_KERNEL_square_sum, .name = "", .contents = { VALUES, RESULT }, .plan = plan_square_sum,
      .arrange = arrange_square_sum, .is_single = true, .is_rare = true },
    STREAM(block_scale, "", .contents = { VALUES, VALUES }),
};

const struct copse_launch_list copse_launch_optim = { forms, COPSE_COUNT(forms) };
