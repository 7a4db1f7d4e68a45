/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of update rules. */
#include <math.h>

#include "core/rule/eight_bit.h"
#include "core/rule/rule.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES, STEP = COPSE_CONTENT_STEP };

static uint32_t optim_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, (uint64_t)copse__launch_group(l) * l->per);
}

static uint32_t blocks_of(uint32_t n)
{
    return (n + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK;
}

/* ---- updates ---- */

#define DECAY      copse__launch_either(l, 0.25f, 0.125f)
#define BETA1      copse__launch_either(l, 0.9f, 0.75f)
#define BETA2      copse__launch_either(l, 0.99f, 0.875f)
#define EPSILON    copse__launch_either(l, 1e-8f, 1e-3f)
#define REST(beta) (float)(1.0 - (double)(beta))

static void plan_sgd(struct copse_launch *l)
{
    const struct copse_params_sgd p = { optim_extent(l), DECAY, copse__launch_either(l, 1.0f, 0.5f),
                                        COPSE_STEP_GROUP };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, COPSE_STEP_WORDS);
}

static void plan_momentum(struct copse_launch *l)
{
    const struct copse_params_momentum p = { optim_extent(l), DECAY,
                                             copse__launch_either(l, 0.9f, 0.5f),
                                             COPSE_STEP_GROUP };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n, COPSE_STEP_WORDS);
}

static void plan_adam(struct copse_launch *l)
{
    const float beta1 = BETA1, beta2 = copse__launch_either(l, 0.999f, 0.9f);
    const struct copse_params_adam p = { .n = optim_extent(l),
                                         .decay = DECAY,
                                         .beta1 = beta1,
                                         .beta2 = beta2,
                                         .rest1 = REST(beta1),
                                         .rest2 = REST(beta2),
                                         .epsilon = EPSILON,
                                         .group = COPSE_STEP_GROUP };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, 2 * (size_t)p.n, COPSE_STEP_WORDS);
}

/* The second moments are squares. A fifth of the elements has zero gradient and zero moments: 0 /
   (0 + epsilon). */
static void arrange_moments(uint32_t *grad, uint32_t *slots, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        slots[n + i] &= 0x7fffffffu;
        if (i % 5 == 3)
            grad[i] = slots[i] = slots[n + i] = 0;
    }
}

static void arrange_adam(const struct copse_launch *l, uint32_t *const *words)
{
    arrange_moments(words[0], words[2], l->counts[0]);
}

static void plan_adopt(struct copse_launch *l)
{
    const float beta1 = BETA1;
    const struct copse_params_adopt p = { .n = optim_extent(l),
                                          .decay = DECAY,
                                          .beta1 = beta1,
                                          .beta2 = BETA2,
                                          .rest1 = REST(beta1),
                                          .epsilon = EPSILON,
                                          .group = COPSE_STEP_GROUP };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, 2 * (size_t)p.n, COPSE_STEP_WORDS);
}

/* The slots of each rule of kernel `adaptive`. */
static uint32_t slots_of(const struct copse_launch *l)
{
    switch (l->spec[2]) {
    case COPSE_ADAPTIVE_AMSGRAD:
        return 3;
    case COPSE_ADAPTIVE_RMSPROP:
        return 1u + (l->spec[4] != 0) + (l->spec[5] != 0);
    case COPSE_ADAPTIVE_ADADELTA:
    case COPSE_ADAPTIVE_ADAMAX:
    case COPSE_ADAPTIVE_NADAM:
    case COPSE_ADAPTIVE_FTRL:
        return 2;
    default:
        return 1;
    }
}

static void plan_adaptive(struct copse_launch *l)
{
    const float beta1 = BETA1, beta2 = BETA2;
    const struct copse_params_adaptive p = {
        .n = optim_extent(l),
        .decay = DECAY,
        .momentum = copse__launch_either(l, 0.5f, 0.25f),
        .beta1 = beta1,
        .beta2 = beta2,
        .rest1 = REST(beta1),
        .rest2 = REST(beta2),
        .epsilon = EPSILON,
        .l1 = copse__launch_either(l, 0.5f, 0.25f),
        .l2 = copse__launch_either(l, 0.25f, 0.125f),
        .group = COPSE_STEP_GROUP,
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, slots_of(l) * (size_t)p.n, COPSE_STEP_WORDS);
}

/* Slots that hold sums or means of squares, of each rule: a bit for each slot. */
static const unsigned squares[] = {
    [COPSE_ADAPTIVE_ADAGRAD] = 1, [COPSE_ADAPTIVE_ADADELTA] = 3, [COPSE_ADAPTIVE_RMSPROP] = 1,
    [COPSE_ADAPTIVE_AMSGRAD] = 6, [COPSE_ADAPTIVE_ADAMAX] = 2,   [COPSE_ADAPTIVE_NADAM] = 2,
    [COPSE_ADAPTIVE_FTRL] = 1,    [COPSE_ADAPTIVE_PROXIMAL] = 1,
};

/* Squares are positive; those of FTRL and of proximal Adagrad are not zero, because they begin with
   a positive number. A mean of squares exceeds the square of the mean. A fifth of the elements has
   zero gradient and zero slots. */
static void arrange_adaptive(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t n = l->counts[0], count = slots_of(l);
    const bool begins = l->spec[2] == COPSE_ADAPTIVE_FTRL || l->spec[2] == COPSE_ADAPTIVE_PROXIMAL;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++) {
            uint32_t *at = &words[2][k * n + i];
            if (i % 5 == 3)
                words[0][i] = *at = 0;
            if (squares[l->spec[2]] >> k & 1)
                *at &= 0x7fffffffu;
            if (begins && k == 0 && *at < 0x3dcccccdu)
                *at = 0x3dcccccdu;    /* 0.1f */
            if (l->spec[4] && k == 1) /* a mean below half of the root of v */
                *at = 0x3d800000u | (*at & 0x80000000u);
            if (l->spec[4] && k == 0 && *at < 0x3f800000u)
                *at = 0x3f800000u;
        }
}

/* ---- rules that trust ---- */

static void plan_trust(struct copse_launch *l)
{
    const float beta1 = BETA1, beta2 = BETA2;
    const struct copse_params_trust p = { .n = optim_extent(l),
                                          .decay = DECAY,
                                          .momentum = copse__launch_either(l, 0.5f, 0.25f),
                                          .beta1 = beta1,
                                          .beta2 = beta2,
                                          .rest1 = REST(beta1),
                                          .rest2 = REST(beta2),
                                          .epsilon = copse__launch_either(l, 1e-6f, 1e-3f),
                                          .group = COPSE_STEP_GROUP };
    const size_t slots = l->spec[2] == COPSE_TRUST_LAMB ? 2 : 1;
    COPSE_LAUNCH_PLAN(l, p, l->want, blocks_of(p.n), p.n, p.n, slots * p.n, COPSE_STEP_WORDS);
}

static void plan_adam8(struct copse_launch *l)
{
    const float beta1 = BETA1, beta2 = BETA2;
    const struct copse_params_adam8 p = {
        .n = (uint32_t)copse__launch_extent(l, COPSE_RULE_BLOCK),
        .decay = DECAY,
        .beta1 = beta1,
        .beta2 = beta2,
        .rest1 = REST(beta1),
        .rest2 = REST(beta2),
        .epsilon = EPSILON,
        .group = COPSE_STEP_GROUP,
    };
    const size_t words = ((size_t)p.n + 3) / 4;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, 2 * (words + blocks_of(p.n)), COPSE_STEP_WORDS);
}

/* Every code, and scales from 2^-10 to 2^10, some of them 0; a code of an m that is not finite is
   rare. The last bytes of a slot without an element are 0. */
static void arrange_adam8(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t n = l->counts[1], codes = (n + 3) / 4, blocks = blocks_of((uint32_t)n);
    for (size_t k = 0; k < 2; k++) {
        uint32_t *at = words[2] + k * (codes + blocks);
        unsigned char *bytes = (unsigned char *)at;
        for (size_t i = 0; i < 4 * codes; i++)
            bytes[i] = i < n ? (unsigned char)(37 * i + i / 251 + k) : 0;
        for (size_t i = 0; i < n && k == 0; i++)
            if (bytes[i] == COPSE_CODE_NOT_FINITE && (l->values != COPSE_VALUES_NANS || i % 5 > 0))
                bytes[i] = 3;
        for (size_t b = 0; b < blocks; b++) {
            const float scale =
                b % 11 == 4 ? 0.0f : ldexpf(1.0f + (float)(b % 127) / 128.0f, (int)(b % 21) - 10);
            memcpy(&at[codes + b], &scale, sizeof scale);
        }
    }
}

static void plan_lamb_sum(struct copse_launch *l)
{
    const float beta1 = BETA1, beta2 = BETA2;
    const struct copse_params_lamb_sum p = {
        .n = (uint32_t)copse__launch_extent(l, (uint64_t)copse__launch_group(l) * COPSE_RULE_BLOCK),
        .decay = DECAY,
        .beta1 = beta1,
        .beta2 = beta2,
        .rest1 = REST(beta1),
        .rest2 = REST(beta2),
        .epsilon = copse__launch_either(l, 1e-6f, 1e-3f),
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, 2 * (size_t)p.n, COPSE_STEP_WORDS,
                      2 * blocks_of(p.n));
}

static void arrange_trust(const struct copse_launch *l, uint32_t *const *words)
{
    if (l->spec[2] == COPSE_TRUST_LAMB)
        arrange_moments(words[1], words[3], l->counts[1]);
}

static void arrange_lamb_sum(const struct copse_launch *l, uint32_t *const *words)
{
    arrange_moments(words[0], words[2], l->counts[0]);
}

/* ---- averages, clipping, norms ---- */

/* The averages follow one slot of the update. */
static void plan_average(struct copse_launch *l)
{
    const struct copse_params_average p = { optim_extent(l), optim_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * (size_t)p.n, COPSE_STEP_WORDS);
}

/* The bound is 1, a number of class edges. */
static void plan_clip(struct copse_launch *l)
{
    const struct copse_params_clip p = { optim_extent(l), copse__launch_either(l, 0.5f, 1.0f) };
    COPSE_LAUNCH_PLAN(l, p, l->want, COPSE_STEP_WORDS, p.n);
}

static void plan_square_sum(struct copse_launch *l)
{
    const struct copse_params_square_sum p = { (uint32_t)copse__launch_extent(
        l, (uint64_t)copse__launch_group(l) * COPSE_RULE_BLOCK) };
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
    const struct copse_params_block_scale p = { optim_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, blocks_of(p.n), p.n);
}

/* ---- the forms ---- */

#define STREAM(kernel_, label, ...)                                              \
    {                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .plan = plan_##kernel_, \
        .is_stream = true, .is_single = true, __VA_ARGS__                        \
    }
#define SGD(label, decays, proximal) \
    STREAM(sgd, label, .spec = { 0, 0, decays, proximal }, .contents = { VALUES, VALUES, STEP })
#define MOMENTUM(label, decays, nesterov)                       \
    STREAM(momentum, label, .spec = { 0, 0, decays, nesterov }, \
           .contents = { VALUES, VALUES, VALUES, STEP })
#define ADAM(label, decay)                                                                     \
    STREAM(adam, label, .spec = { 0, 0, decay }, .contents = { VALUES, VALUES, VALUES, STEP }, \
           .arrange = arrange_adam)
#define ADOPT(label, decay)                                                                     \
    STREAM(adopt, label, .spec = { 0, 0, decay }, .contents = { VALUES, VALUES, VALUES, STEP }, \
           .arrange = arrange_adam)
#define ADAPTIVE(label, rule, decay, variance, momentum)                                        \
    STREAM(adaptive, label, .spec = { 0, 0, COPSE_ADAPTIVE_##rule, decay, variance, momentum }, \
           .contents = { VALUES, VALUES, VALUES, STEP }, .arrange = arrange_adaptive,           \
           .has_squares = COPSE_ADAPTIVE_##rule == COPSE_ADAPTIVE_FTRL)

#define TRUST(label, rule)                                     \
    STREAM(trust, label, .spec = { 0, 0, COPSE_TRUST_##rule }, \
           .contents = { VALUES, VALUES, VALUES, VALUES, STEP }, .arrange = arrange_trust)

#define ADAM8(label, decay)                                                                    \
    {                                                                                          \
        .kernel = COPSE_KERNEL_adam8, .name = label, .spec = { decay }, .plan = plan_adam8,    \
        .is_single = true, .contents = { VALUES, VALUES, COPSE_CONTENT_ARRANGED, STEP },       \
        .arrange = arrange_adam8, .is_rare = true, .no_regimes = COPSE_BIT(COPSE_REGIME_AXIS), \
        .why = "the buffers of so many groups take 80 MiB"                                     \
    }

static const struct copse_launch_form forms[] = {
    SGD("", 0, 0),
    SGD("decay", 1, 0),
    SGD("proximal", 0, 1),
    SGD("proximal, decay", 1, 1),
    MOMENTUM("", 0, 0),
    MOMENTUM("decay", 1, 0),
    MOMENTUM("nesterov", 0, 1),
    MOMENTUM("nesterov, decay", 1, 1),
    ADAM("", 0),
    ADAM("decay", 1),
    ADAM("adamw", 2),
    ADOPT("", 0),
    ADOPT("decay", 1),
    ADAPTIVE("adagrad", ADAGRAD, 0, 0, 0),
    ADAPTIVE("adagrad, decay", ADAGRAD, 1, 0, 0),
    ADAPTIVE("adadelta", ADADELTA, 0, 0, 0),
    ADAPTIVE("rmsprop", RMSPROP, 0, 0, 0),
    ADAPTIVE("rmsprop, centred", RMSPROP, 0, 1, 0),
    ADAPTIVE("rmsprop, momentum", RMSPROP, 0, 0, 1),
    ADAPTIVE("rmsprop, centred, momentum", RMSPROP, 0, 1, 1),
    ADAPTIVE("rmsprop, epsilon in the root", RMSPROP, 0, 2, 0),
    ADAPTIVE("rmsprop, centred, epsilon in the root", RMSPROP, 0, 3, 0),
    ADAPTIVE("rmsprop, centred, momentum, epsilon in the root", RMSPROP, 0, 3, 1),
    ADAPTIVE("amsgrad", AMSGRAD, 0, 0, 0),
    ADAPTIVE("adamax", ADAMAX, 0, 0, 0),
    ADAPTIVE("nadam", NADAM, 0, 0, 0),
    ADAPTIVE("lion", LION, 0, 0, 0),
    ADAPTIVE("lion, decay", LION, 2, 0, 0),
    ADAPTIVE("ftrl", FTRL, 0, 0, 0),
    ADAPTIVE("proximal adagrad", PROXIMAL, 0, 0, 0),
    TRUST("lars", LARS),
    TRUST("lamb", LAMB),
    ADAM8("", 0),
    ADAM8("decay", 1),
    ADAM8("decoupled decay", 2),
    { .kernel = COPSE_KERNEL_lamb_sum,
      .name = "",
      .contents = { VALUES, VALUES, VALUES, STEP, RESULT },
      .plan = plan_lamb_sum,
      .arrange = arrange_lamb_sum,
      .is_single = true,
      .is_rare = true,
      .no_regimes = COPSE_BIT(COPSE_REGIME_AXIS),
      .why = "the buffers of so many groups take 128 MiB" },
    STREAM(average, "", .contents = { VALUES, VALUES, STEP }),
    STREAM(clip, "", .contents = { STEP, VALUES }),
    { .kernel = COPSE_KERNEL_square_sum,
      .name = "",
      .contents = { VALUES, RESULT },
      .plan = plan_square_sum,
      .arrange = arrange_square_sum,
      .is_single = true,
      .is_rare = true },
    STREAM(block_scale, "", .contents = { VALUES, VALUES }),
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(adaptive, COPSE_WALKS_NONE, .no_flags = "a rule uses its own settings alone"),
    COPSE_NO_LINE(adam8, COPSE_WALKS_BLOCKS),
    COPSE_NO_LINE(lamb_sum, COPSE_WALKS_BLOCKS),
    COPSE_NO_LINE(square_sum, COPSE_WALKS_BLOCKS),
};

const struct copse_launch_list copse_launch_optim = { forms, COPSE_COUNT(forms), lines,
                                                      COPSE_COUNT(lines) };
