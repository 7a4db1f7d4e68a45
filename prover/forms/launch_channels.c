/* SPDX-License-Identifier: MIT */
/* Forms of the kernels that normalise channels. */
#include "core/ops/norm/channel_norm.h"
#include "core/ops/ops.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };
enum { MEAN, SPREAD, SLOPES }; /* of kernels/norm/channel_sums.cl */

#define CHANNELS 5u

static uint32_t channels_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

/* Two chunks of a channel, the second shorter; in the regime of few groups longer than a chain of
   additions. */
static void plan_sums(struct copse_launch *l)
{
    struct copse_params_channel_sums p = {
        .n = channels_extent(l), .places = 7, .channels = CHANNELS, .chunks = 2, .rows = 4
    };
    if (l->regime == COPSE_REGIME_FEW) {
        p.places = 135;
        p.rows = 70;
    }
    const size_t batches = (p.n + CHANNELS * p.chunks - 1) / (CHANNELS * p.chunks),
                 at = batches * CHANNELS;
    p.second = (uint32_t)at;
    COPSE_LAUNCH_PLAN(l, p, l->want, at * p.places, at * p.places, 2 * at, at, 2 * (size_t)p.n);
}

/* Chunks of more elements than the levels of a sum take at once. */
static void plan_sums_long(struct copse_launch *l)
{
    const struct copse_params_channel_sums p = { .n = 2 * CHANNELS,
                                                 .places = 8400,
                                                 .channels = CHANNELS,
                                                 .chunks = 2,
                                                 .rows = 64 * 66 + 1,
                                                 .second = CHANNELS };
    COPSE_LAUNCH_PLAN(l, p, (p.n + copse__launch_group(l) - 1) / copse__launch_group(l),
                      (size_t)CHANNELS * p.places, (size_t)CHANNELS * p.places, 2 * CHANNELS,
                      CHANNELS, 2 * (size_t)p.n);
}

static void plan_merge(struct copse_launch *l)
{
    const uint32_t group = l->spec[0] == SLOPES ? 1 : 3, groups = 2;
    const struct copse_params_channel_merge p = { .n = channels_extent(l),
                                                  .chunks = l->regime == COPSE_REGIME_FEW ? 70 : 2,
                                                  .channels = group * groups,
                                                  .group = group,
                                                  .count = 6.0f };
    const size_t batches = (p.n + groups - 1) / groups;
    COPSE_LAUNCH_PLAN(l, p, l->want, 2 * batches * p.chunks * p.channels,
                      (l->spec[0] == MEAN ? 1 : 2) * (size_t)p.n * group);
}

static void plan_merge_long(struct copse_launch *l)
{
    const uint32_t group = l->spec[0] == SLOPES ? 1 : 40, groups = 2, n = 3;
    const struct copse_params_channel_merge p = { n, group > 1 ? 8400 / group : 131 * 64 + 1,
                                                  group * groups, group, 8400.0f };
    const size_t batches = (n + groups - 1) / groups;
    COPSE_LAUNCH_PLAN(l, p, 1, 2 * batches * p.chunks * p.channels,
                      (l->spec[0] == MEAN ? 1 : 2) * (size_t)n * group);
}

static void plan_finish(struct copse_launch *l)
{
    const struct copse_params_channel_finish p = { channels_extent(l),
                                                   copse__launch_either(l, 1.0f, 0.25f) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * (size_t)p.n,
                      (l->spec[0] == COPSE_CHANNEL_CENTRE ? 2 : 1) * (size_t)p.n);
}

/* Shares, or what is added. */
static size_t shares_words(const struct copse_launch *l, size_t n, size_t second)
{
    return l->spec[0] == COPSE_CHANNEL_SUM || l->spec[0] == COPSE_CHANNEL_RELU_OF_SUM ? n
                                                                                      : 2 * second;
}

static void plan_norm(struct copse_launch *l)
{
    struct copse_params_channel_norm p = { .n = channels_extent(l),
                                           .channels = CHANNELS,
                                           .size = CHANNELS * 7 };
    const uint32_t batches = (p.n + p.size - 1) / p.size;
    p.second = batches * CHANNELS;
    copse__divisor(p.channels, &p.m, &p.h);
    copse__divisor(p.size, &p.size_m, &p.size_h);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * (size_t)p.second, p.second, CHANNELS,
                      l->spec[0] == COPSE_CHANNEL_GRADIENT ? p.n : CHANNELS,
                      shares_words(l, p.n, p.second), p.n);
}

/* ---- the kernels for wide vectors: the last vector of channels overlaps the one before ---- */

#define WIDE_CHANNELS 17u
#define STRIP         64u /* channels of an invocation */

/* As plan_sums, with 17 channels, one strip, or a strip and 6 channels. The last of several groups
   is a surplus one. */
static void plan_sums_wide(struct copse_launch *l)
{
    const bool is_axis = l->regime == COPSE_REGIME_AXIS, is_few = l->regime == COPSE_REGIME_FEW;
    const uint32_t channels = is_axis || l->regime == COPSE_REGIME_ONE ? WIDE_CHANNELS
                              : l->regime == COPSE_REGIME_TAIL         ? STRIP
                                                                       : STRIP + 6;
    const uint32_t lines = ((uint32_t)l->want - (l->want > 1)) / (channels > STRIP ? 2 : 1);
    struct copse_params_channel_sums_wide p = { .places = is_few    ? 135
                                                          : is_axis ? 3
                                                                    : 7,
                                                .channels = channels,
                                                .chunks = 2,
                                                .rows = is_few    ? 70
                                                        : is_axis ? 2
                                                                  : 4 };
    const size_t batches = (lines + p.chunks - 1) / p.chunks, at = batches * p.channels;
    p.n = lines * p.channels;
    p.second = (uint32_t)at;
    COPSE_LAUNCH_PLAN(l, p, l->want, at * p.places, at * p.places, 2 * at, at, 2 * (size_t)p.n);
}

static void plan_sums_wide_long(struct copse_launch *l)
{
    const struct copse_params_channel_sums_wide p = { .n = 2 * WIDE_CHANNELS,
                                                      .places = 8400,
                                                      .channels = WIDE_CHANNELS,
                                                      .chunks = 2,
                                                      .rows = 64 * 66 + 1,
                                                      .second = WIDE_CHANNELS };
    COPSE_LAUNCH_PLAN(l, p, 2, (size_t)WIDE_CHANNELS * p.places, (size_t)WIDE_CHANNELS * p.places,
                      2 * WIDE_CHANNELS, WIDE_CHANNELS, 2 * (size_t)p.n);
}

/* Three blocks of places for each batch, the last one shorter, and surplus groups; one group has
   all places. */
static void plan_norm_wide(struct copse_launch *l)
{
    const bool is_one = l->regime == COPSE_REGIME_ONE;
    const uint32_t places = 5, batches = is_one ? 1 : (uint32_t)l->want / 3;
    const struct copse_params_channel_norm_wide p = { batches * places * WIDE_CHANNELS,
                                                      WIDE_CHANNELS, places * WIDE_CHANNELS,
                                                      batches * WIDE_CHANNELS, is_one ? 6 : 2 };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * (size_t)p.second, p.second, WIDE_CHANNELS,
                      l->spec[0] == COPSE_CHANNEL_GRADIENT ? p.n : WIDE_CHANNELS,
                      shares_words(l, p.n, p.second), p.n);
}

/* ---- the forms ---- */

/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define APART .cap = 4, .is_rare = true, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define SUMS_OF(kernel_, label, op, plan_, ...)                                                   \
    {                                                                                             \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { op },                          \
        .contents = { VALUES, VALUES, VALUES, VALUES, RESULT }, .plan = plan_, APART, __VA_ARGS__ \
    }
#define SUMS(label, op, plan_, ...)      SUMS_OF(channel_sums, label, op, plan_, __VA_ARGS__)
#define SUMS_WIDE(label, op, plan_, ...) SUMS_OF(channel_sums_wide, label, op, plan_, __VA_ARGS__)
#define LONG                                                        \
    .no_values = COPSE_ALL_VALUES & ~COPSE_BIT(COPSE_VALUES_USUAL), \
    .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW), \
    .why = "long sums take one launch"
#define MERGE(label, op, plan_, ...)                                         \
    {                                                                        \
        .kernel = COPSE_KERNEL_channel_merge, .name = label, .spec = { op }, \
        .contents = { VALUES, RESULT }, .plan = plan_, APART, __VA_ARGS__    \
    }
#define FINISH(label, op)                                                     \
    {                                                                         \
        .kernel = COPSE_KERNEL_channel_finish, .name = label, .spec = { op }, \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_finish, APART    \
    }
#define NORM(kernel_, label, op, plan_)                                                        \
    {                                                                                          \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { op },                       \
        .contents = { VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, RESULT }, .plan = plan_, \
        APART                                                                                  \
    }

static const struct copse_launch_form forms[] = {
    SUMS("mean", MEAN, plan_sums, .why = NULL),
    SUMS("variance", SPREAD, plan_sums, .why = NULL),
    SUMS("gradient", SLOPES, plan_sums, .why = NULL),
    SUMS("mean, long", MEAN, plan_sums_long, LONG),
    SUMS("variance, long", SPREAD, plan_sums_long, LONG),
    SUMS("gradient, long", SLOPES, plan_sums_long, LONG),
    MERGE("mean", MEAN, plan_merge, .why = NULL),
    MERGE("variance", SPREAD, plan_merge, .why = NULL),
    MERGE("gradient", SLOPES, plan_merge, .why = NULL),
    MERGE("mean, long", MEAN, plan_merge_long, LONG),
    MERGE("variance, long", SPREAD, plan_merge_long, LONG),
    MERGE("gradient, long", SLOPES, plan_merge_long, LONG),
    FINISH("mean and rest", COPSE_CHANNEL_CENTRE),
    FINISH("1 / sigma", COPSE_CHANNEL_INVERSE),
    FINISH("variance", COPSE_CHANNEL_VARIANCE),
    NORM(channel_norm, "forward", COPSE_CHANNEL_FORWARD, plan_norm),
    NORM(channel_norm, "gradient", COPSE_CHANNEL_GRADIENT, plan_norm),
    NORM(channel_norm, "relu", COPSE_CHANNEL_RELU, plan_norm),
    NORM(channel_norm, "sum", COPSE_CHANNEL_SUM, plan_norm),
    NORM(channel_norm, "relu of a sum", COPSE_CHANNEL_RELU_OF_SUM, plan_norm),
    SUMS_WIDE("mean", MEAN, plan_sums_wide, .why = NULL),
    SUMS_WIDE("variance", SPREAD, plan_sums_wide, .why = NULL),
    SUMS_WIDE("gradient", SLOPES, plan_sums_wide, .why = NULL),
    SUMS_WIDE("mean, long", MEAN, plan_sums_wide_long, LONG),
    SUMS_WIDE("variance, long", SPREAD, plan_sums_wide_long, LONG),
    SUMS_WIDE("gradient, long", SLOPES, plan_sums_wide_long, LONG),
    NORM(channel_norm_wide, "forward", COPSE_CHANNEL_FORWARD, plan_norm_wide),
    NORM(channel_norm_wide, "gradient", COPSE_CHANNEL_GRADIENT, plan_norm_wide),
    NORM(channel_norm_wide, "relu", COPSE_CHANNEL_RELU, plan_norm_wide),
    NORM(channel_norm_wide, "sum", COPSE_CHANNEL_SUM, plan_norm_wide),
    NORM(channel_norm_wide, "relu of a sum", COPSE_CHANNEL_RELU_OF_SUM, plan_norm_wide),
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_LINE(channel_sums, rows),
    COPSE_LINE(channel_merge, chunks),
    COPSE_NO_LINE(channel_finish, COPSE_WALKS_NONE),
    COPSE_NO_LINE(channel_norm, COPSE_WALKS_NONE),
    COPSE_LINE(channel_sums_wide, rows),
    COPSE_NO_LINE(channel_norm_wide, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_channels = { forms, COPSE_COUNT(forms), lines,
                                                         COPSE_COUNT(lines) };
