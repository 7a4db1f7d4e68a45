/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of attention. */
#include "core/audit/bound.h"
#include "core/conformance/launch.h"
#include "core/ops/ops.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

#define STATE 3u /* words of a query: kernels/attention/attention.clh */
#define TILE  64u
#define HEADS 4u
#define SHARE 2u /* query heads of a key head */
/* The operands begin behind other words. */
#define Q_FIRST 2u
#define K_FIRST 1u
#define V_FIRST 3u

/* Of an item. Heads of 4 numbers have windows, with which the last query of 7 sees none of 4 keys; the others have 5. In the
   regime of few groups there are three tiles, and the launch does not take the last one. */
struct sizes {
    uint32_t rows, queries, keys, width, window, q_stride, k_stride;
};

static struct sizes sizes_of(const struct copse_launch *l, uint32_t width)
{
    const bool is_few = l->regime == COPSE_REGIME_FEW;
    return (struct sizes){ (uint32_t)copse__launch_extent(l, copse__launch_group(l)), is_few ? 150 : 7, is_few ? 140 : 4, width,
                           width % 2 ? UINT32_MAX : 3, HEADS * width, HEADS / SHARE * width };
}

#define PARAMS_OF(z)                                                                                                       \
    .rows = (z).rows, .queries = (z).queries, .keys = (z).keys, .heads = HEADS, .share = SHARE, .width = (z).width,        \
    .window = (z).window, .q_stride = (z).q_stride, .k_stride = (z).k_stride, .q_first = Q_FIRST,      \
    .k_first = K_FIRST, .v_first = V_FIRST, .count = 2 * TILE, .scale = 0.5f

static void plan_forward(struct copse_launch *l, uint32_t width, uint32_t first)
{
    const struct sizes z = sizes_of(l, width);
    struct copse_params_attention p = { PARAMS_OF(z), .first = first };
    const size_t items = (p.rows + HEADS * z.queries - 1) / (HEADS * z.queries), q = items * z.queries * z.q_stride;
    const size_t k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, STATE * (size_t)p.rows, l->spec[1] ? q : 1);
}

#define PLAN(name, function, ...)                                                                                          \
    static void name(struct copse_launch *l)                                                                               \
    {                                                                                                                      \
        function(l, __VA_ARGS__);                                                                                          \
    }
PLAN(plan_attention, plan_forward, 5, 0)
PLAN(plan_attention_window, plan_forward, 4, 0)
PLAN(plan_attention_last, plan_forward, 5, TILE)
PLAN(plan_attention_window_last, plan_forward, 4, TILE)

static void plan_query(struct copse_launch *l, uint32_t width, uint32_t first)
{
    const struct sizes z = sizes_of(l, width);
    struct copse_params_attention_grad_query p = { PARAMS_OF(z), .first = first, .to_first = 3, .to_stride = z.q_stride };
    const size_t items = (p.rows + HEADS * z.queries - 1) / (HEADS * z.queries), q = items * z.queries * z.q_stride;
    const size_t k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, q, q, STATE * (size_t)p.rows, q + p.to_first);
}

PLAN(plan_attention_grad_query, plan_query, 5, 0)
PLAN(plan_attention_grad_query_window, plan_query, 4, 0)
PLAN(plan_attention_grad_query_later, plan_query, 5, TILE)

/* dk and dv are parts of one row. */
static void plan_key(struct copse_launch *l, uint32_t width, uint32_t first, uint32_t head)
{
    const struct sizes z = sizes_of(l, width);
    struct copse_params_attention_grad_key p = { PARAMS_OF(z), .first = first, .head = head, .to_v = z.k_stride,
                                                 .to_stride = 2 * z.k_stride };
    const uint32_t lines = HEADS / SHARE * z.keys;
    const size_t items = (p.rows + lines - 1) / lines, q = items * z.queries * z.q_stride, k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, q, STATE * items * HEADS * z.queries, 2 * k);
}

PLAN(plan_attention_grad_key, plan_key, 5, 0, 0)
PLAN(plan_attention_grad_key_window, plan_key, 4, 0, 0)
PLAN(plan_attention_grad_key_later, plan_key, 5, TILE, 1)
PLAN(plan_attention_grad_key_head, plan_key, 5, 0, 1)

/* ---- for wide vectors: 16 queries or keys to a group ---- */

/* In the regime of few groups one line has three of them, the last partly used by heads of 5 numbers. */
static struct sizes wide_sizes_of(const struct copse_launch *l, uint32_t width, bool is_of_keys)
{
    struct sizes z = sizes_of(l, width);
    z.queries = is_of_keys ? 9 : width % 2 ? 7 : 16;
    z.keys = !is_of_keys ? 4 : width % 2 ? 9 : 16;
    z.rows = (uint32_t)l->want; /* lines */
    if (l->regime == COPSE_REGIME_FEW) {
        z.queries = is_of_keys ? 140 : width % 2 ? 37 : 48;
        z.keys = !is_of_keys ? 140 : width % 2 ? 37 : 48;
        z.rows = 1;
    } else if (l->regime == COPSE_REGIME_AXIS) {
        z.queries = is_of_keys ? 1 : 2;
        z.keys = 2;
    }
    return z;
}

#define WIDE_PARAMS_OF(z)                                                                                                  \
    .queries = (z).queries, .keys = (z).keys, .heads = HEADS, .share = SHARE, .width = (z).width,                          \
    .window = (z).window, .q_stride = (z).q_stride, .k_stride = (z).k_stride, .q_first = Q_FIRST,                          \
    .k_first = K_FIRST, .v_first = V_FIRST, .scale = 0.5f, .blocks = (uint32_t)l->want

static void plan_wide(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = wide_sizes_of(l, width, false);
    const struct copse_params_attention_wide p = { WIDE_PARAMS_OF(z) };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride, k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, STATE * (size_t)z.rows * z.queries,
                      l->spec[1] ? q : 1);
}

static void plan_wide_query(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = wide_sizes_of(l, width, false);
    const struct copse_params_attention_grad_query_wide p = { WIDE_PARAMS_OF(z), .to_first = 3, .to_stride = z.q_stride };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride, k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, q, q, STATE * (size_t)z.rows * z.queries,
                      q + p.to_first);
}

static void plan_wide_key(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = wide_sizes_of(l, width, true);
    const struct copse_params_attention_grad_key_wide p = { WIDE_PARAMS_OF(z), .to_v = z.k_stride, .to_stride = 2 * z.k_stride };
    const uint32_t lines = HEADS / SHARE;
    const size_t items = (z.rows + lines - 1) / lines, q = items * z.queries * z.q_stride, k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, q, STATE * items * HEADS * z.queries, 2 * k);
}

PLAN(plan_attention_wide, plan_wide, 5)
PLAN(plan_attention_wide_window, plan_wide, 4)
PLAN(plan_attention_grad_query_wide, plan_wide_query, 5)
PLAN(plan_attention_grad_query_wide_window, plan_wide_query, 4)
PLAN(plan_attention_grad_key_wide, plan_wide_key, 5)
PLAN(plan_attention_grad_key_wide_window, plan_wide_key, 4)

/* The sums of exponentials before the launch are positive. */
static void arrange_state(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = 1; i < l->counts[3]; i += STATE)
        words[3][i] &= 0x7fffffffu;
}

/* ---- the forms ---- */

/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define LIMITS .limit = { .ulp = 1, .ratio = 16 }, .cap = 4, .is_rare = true, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define LATER                                                                                                              \
    .no_values = COPSE_ALL_VALUES & ~COPSE_BIT(COPSE_VALUES_USUAL),                                                        \
    .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW), .why = "sums of several launches take one case"
#define FORWARD(label, is_causal, has_values, plan_)                                                                       \
    { .kernel = COPSE_KERNEL_attention, .name = label, .spec = { is_causal, has_values },                                  \
      .contents = { VALUES, VALUES, VALUES, RESULT, RESULT }, .plan = plan_, .size = copse__size_attention, LIMITS }
#define FORWARD_LAST(label, is_causal, has_values, plan_)                                                                  \
    { .kernel = COPSE_KERNEL_attention, .name = label, .spec = { is_causal, has_values },                                  \
      .contents = { VALUES, VALUES, VALUES, VALUES, VALUES }, .plan = plan_, .arrange = arrange_state,                     \
      .size = copse__size_attention, LIMITS, LATER }
#define QUERY(label, is_causal, plan_, target, ...)                                                                        \
    { .kernel = COPSE_KERNEL_attention_grad_query, .name = label, .spec = { is_causal },                                   \
      .contents = { VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, target }, .plan = plan_,                               \
      .size = copse__size_attention_grad_query, LIMITS, __VA_ARGS__ }
#define KEY(label, is_causal, plan_, target, ...)                                                                          \
    { .kernel = COPSE_KERNEL_attention_grad_key, .name = label, .spec = { is_causal },                                     \
      .contents = { VALUES, VALUES, VALUES, VALUES, VALUES, target }, .plan = plan_,                                       \
      .size = copse__size_attention_grad_key, LIMITS, __VA_ARGS__ }

#define WIDE(kernel_, label, is_causal, has_values, plan_, ...)                                                            \
    { .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { is_causal, has_values }, .contents = { __VA_ARGS__ },     \
      .plan = plan_, .size = copse__size_##kernel_, LIMITS }
#define WIDE_FORWARD(label, is_causal, has_values, plan_)                                                                  \
    WIDE(attention_wide, label, is_causal, has_values, plan_, VALUES, VALUES, VALUES, RESULT, RESULT)
#define WIDE_QUERY(label, is_causal, plan_)                                                                                \
    WIDE(attention_grad_query_wide, label, is_causal, 0, plan_, VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, RESULT)
#define WIDE_KEY(label, is_causal, plan_)                                                                                  \
    WIDE(attention_grad_key_wide, label, is_causal, 0, plan_, VALUES, VALUES, VALUES, VALUES, VALUES, RESULT)

static const struct copse_launch_form forms[] = {
    WIDE_FORWARD("every key", 0, 1, plan_attention_wide), WIDE_FORWARD("causal", 1, 1, plan_attention_wide),
    WIDE_FORWARD("window", 0, 1, plan_attention_wide_window), WIDE_FORWARD("causal, window", 1, 1, plan_attention_wide_window),
    WIDE_FORWARD("state alone", 1, 0, plan_attention_wide), WIDE_QUERY("every key", 0, plan_attention_grad_query_wide),
    WIDE_QUERY("causal", 1, plan_attention_grad_query_wide), WIDE_QUERY("window", 0, plan_attention_grad_query_wide_window),
    WIDE_KEY("every query", 0, plan_attention_grad_key_wide), WIDE_KEY("causal", 1, plan_attention_grad_key_wide),
    WIDE_KEY("window", 0, plan_attention_grad_key_wide_window),
    WIDE_KEY("causal, window", 1, plan_attention_grad_key_wide_window),
    FORWARD("every key", 0, 1, plan_attention), FORWARD("causal", 1, 1, plan_attention),
    FORWARD("window", 0, 1, plan_attention_window), FORWARD("causal, window", 1, 1, plan_attention_window),
    FORWARD("state alone", 1, 0, plan_attention), FORWARD_LAST("later keys", 0, 1, plan_attention_last),
    FORWARD_LAST("later keys, causal, window", 1, 1, plan_attention_window_last),
    QUERY("every key", 0, plan_attention_grad_query, RESULT, .why = NULL),
    QUERY("causal", 1, plan_attention_grad_query, RESULT, .why = NULL),
    QUERY("window", 0, plan_attention_grad_query_window, RESULT, .why = NULL),
    QUERY("later keys", 0, plan_attention_grad_query_later, VALUES, LATER),
    KEY("every query", 0, plan_attention_grad_key, RESULT, .why = NULL),
    KEY("causal", 1, plan_attention_grad_key, RESULT, .why = NULL),
    KEY("window", 0, plan_attention_grad_key_window, RESULT, .why = NULL),
    KEY("causal, window", 1, plan_attention_grad_key_window, RESULT, .why = NULL),
    KEY("later queries", 0, plan_attention_grad_key_later, VALUES, LATER),
    KEY("another head", 0, plan_attention_grad_key_head, VALUES, LATER),
};

const struct copse_launch_list copse_launch_attention = { forms, COPSE_COUNT(forms) };
