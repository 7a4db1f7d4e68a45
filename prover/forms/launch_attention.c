/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of attention. */
#include "core/ops/attention/attention_map.h"
#include "core/ops/ops.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES, INDEX = COPSE_CONTENT_INDEX };

#define STATE COPSE_ATTENTION_STATE
#define TILE  64u
#define HEADS 4u
#define SHARE 2u /* query heads of a key head */
/* The operands begin behind other words. */
#define Q_FIRST 2u
#define K_FIRST 1u
#define V_FIRST 3u

/* Of an item. Heads of 4 numbers have windows, with which the last query of 7 sees none of 4 keys;
   the others have 5. In the regime of few groups there are three tiles, and the launch does not
   take the last one. */
struct sizes {
    uint32_t rows, queries, keys, width, window, q_stride, k_stride;
};

/* Words of the masks of `items` items: a row for each query or, with windows, one row for each
   item. */
static bool has_window(struct sizes z)
{
    return z.window != UINT32_MAX;
}
static size_t mask_words(struct sizes z, size_t items)
{
    return items * (has_window(z) ? 1 : HEADS * z.queries) * z.keys;
}
#define MASK_OF(z)                                                          \
    .mask_item = has_window(z) ? (z).keys : HEADS * (z).queries * (z).keys, \
    .mask_head = has_window(z) ? 0 : (z).queries * (z).keys,                \
    .mask_query = has_window(z) ? 0 : (z).keys

/* Lengths from 0 to all keys; the class of edges also has larger ones. */
static size_t lengths_of(struct copse_launch *l, struct sizes z, size_t items)
{
    l->range = z.keys + 1;
    return items;
}

static struct sizes sizes_of(const struct copse_launch *l, uint32_t width)
{
    const bool is_few = l->regime == COPSE_REGIME_FEW;
    return (struct sizes){ (uint32_t)copse__launch_extent(l, copse__launch_group(l)),
                           is_few ? 150 : 7,
                           is_few ? 140 : 4,
                           width,
                           width == 4 ? 3 : UINT32_MAX,
                           HEADS * width,
                           HEADS / SHARE * width };
}

/* Lines of a long form: each walks many keys, or queries, and there are few of them. */
#define LINES 12u
#define WALKS (COPSE_LONG_LINE + TILE - COPSE_LONG_LINE % TILE) /* of a launch, whole tiles */

static struct sizes plain_sizes_of(const struct copse_launch *l, uint32_t width, bool is_of_keys)
{
    struct sizes z = sizes_of(l, width);
    if (l->form->is_long) {
        z.rows = LINES;
        z.queries = is_of_keys ? COPSE_LONG_LINE : 3;
        z.keys = is_of_keys ? 6 : COPSE_LONG_LINE;
    }
    return z;
}

#define SCALE copse__launch_either(l, 0.5f, -0.25f)
#define CAP   copse__launch_either(l, 2.0f, 0.5f)
#define PARAMS_OF(z)                                                                              \
    .rows = (z).rows, .queries = (z).queries, .keys = (z).keys, .heads = HEADS, .share = SHARE,   \
    .width = (z).width, .window = (z).window, .q_stride = (z).q_stride, .k_stride = (z).k_stride, \
    .q_first = Q_FIRST, .k_first = K_FIRST, .v_first = V_FIRST,                                   \
    .count = l->form->is_long ? WALKS : 2 * TILE, .scale = SCALE, .cap = CAP, MASK_OF(z)

static void plan_forward(struct copse_launch *l, uint32_t width, uint32_t first)
{
    const struct sizes z = plain_sizes_of(l, width, false);
    struct copse_params_attention p = { PARAMS_OF(z), .first = first };
    const size_t items = (p.rows + HEADS * z.queries - 1) / (HEADS * z.queries),
                 q = items * z.queries * z.q_stride;
    const size_t k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, mask_words(z, items),
                      lengths_of(l, z, items), STATE * (size_t)p.rows, l->spec[1] ? q : 1);
}

#define PLAN(name, function, ...)            \
    static void name(struct copse_launch *l) \
    {                                        \
        function(l, __VA_ARGS__);            \
    }
PLAN(plan_attention, plan_forward, 5, 0)
PLAN(plan_attention_window, plan_forward, 4, 0)
PLAN(plan_attention_last, plan_forward, 5, TILE)
PLAN(plan_attention_window_last, plan_forward, 4, TILE)

static void plan_query(struct copse_launch *l, uint32_t width, uint32_t first)
{
    const struct sizes z = plain_sizes_of(l, width, false);
    struct copse_params_attention_grad_query p = { PARAMS_OF(z), .first = first, .to_first = 3,
                                                   .to_stride = z.q_stride };
    const size_t items = (p.rows + HEADS * z.queries - 1) / (HEADS * z.queries),
                 q = items * z.queries * z.q_stride;
    const size_t k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, mask_words(z, items), q,
                      q, STATE * (size_t)p.rows, q + p.to_first);
}

PLAN(plan_attention_grad_query, plan_query, 5, 0)
PLAN(plan_attention_grad_query_window, plan_query, 4, 0)
PLAN(plan_attention_grad_query_later, plan_query, 5, TILE)

/* dk and dv are parts of one row. */
static void plan_key(struct copse_launch *l, uint32_t width, uint32_t first, uint32_t head)
{
    const struct sizes z = plain_sizes_of(l, width, true);
    struct copse_params_attention_grad_key p = { PARAMS_OF(z), .first = first, .head = head,
                                                 .to_v = z.k_stride, .to_stride = 2 * z.k_stride };
    const uint32_t lines = HEADS / SHARE * z.keys;
    const size_t items = (p.rows + lines - 1) / lines, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, mask_words(z, items), q,
                      STATE * items * HEADS * z.queries, 2 * k);
}

PLAN(plan_attention_grad_key, plan_key, 5, 0, 0)
PLAN(plan_attention_grad_key_window, plan_key, 4, 0, 0)
PLAN(plan_attention_grad_key_later, plan_key, 5, TILE, 1)
PLAN(plan_attention_grad_key_head, plan_key, 5, 0, 1)

/* ---- for wide vectors: 16 queries or keys to a group ---- */

/* In the regime of few groups one line has three of them, the last partly used by heads of 5
   numbers. */
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
        if (l->form->is_long)
            *(is_of_keys ? &z.queries : &z.keys) = COPSE_LONG_LINE;
    } else if (l->regime == COPSE_REGIME_AXIS) {
        z.queries = is_of_keys ? 1 : 2;
        z.keys = 2;
    }
    return z;
}

#define WIDE_PARAMS_OF(z)                                                                         \
    .queries = (z).queries, .keys = (z).keys, .heads = HEADS, .share = SHARE, .width = (z).width, \
    .window = (z).window, .q_stride = (z).q_stride, .k_stride = (z).k_stride, .q_first = Q_FIRST, \
    .k_first = K_FIRST, .v_first = V_FIRST, .scale = SCALE, .cap = CAP,                           \
    .blocks = (uint32_t)l->want, MASK_OF(z)

static void plan_wide(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = wide_sizes_of(l, width, false);
    const struct copse_params_attention_wide p = { WIDE_PARAMS_OF(z) };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, mask_words(z, items),
                      lengths_of(l, z, items), STATE * (size_t)z.rows * z.queries,
                      l->spec[1] ? q : 1);
}

static void plan_wide_query(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = wide_sizes_of(l, width, false);
    const struct copse_params_attention_grad_query_wide p = { WIDE_PARAMS_OF(z), .to_first = 3,
                                                              .to_stride = z.q_stride };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, mask_words(z, items), q,
                      q, STATE * (size_t)z.rows * z.queries, q + p.to_first);
}

static void plan_wide_key(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = wide_sizes_of(l, width, true);
    const struct copse_params_attention_grad_key_wide p = { WIDE_PARAMS_OF(z), .to_v = z.k_stride,
                                                            .to_stride = 2 * z.k_stride };
    const uint32_t lines = HEADS / SHARE;
    const size_t items = (z.rows + lines - 1) / lines, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + Q_FIRST, k + K_FIRST, k + V_FIRST, mask_words(z, items), q,
                      STATE * items * HEADS * z.queries, 2 * k);
}

PLAN(plan_attention_wide, plan_wide, 5)
PLAN(plan_attention_wide_window, plan_wide, 4)
PLAN(plan_attention_grad_query_wide, plan_wide_query, 5)
PLAN(plan_attention_grad_query_wide_window, plan_wide_query, 4)
PLAN(plan_attention_grad_key_wide, plan_wide_key, 5)
PLAN(plan_attention_grad_key_wide_window, plan_wide_key, 4)

/* ---- for fast texels: each invocation has four queries or keys of a line, heads are whole texels
   ---- */

/* In the regime of few groups each of the heads of one item has several blocks, the last one partly
   used by heads of 8 numbers, which walk 140 keys, or queries. */
static struct sizes texel_sizes_of(const struct copse_launch *l, uint32_t width,
                                   uint32_t lines_of_item, bool is_of_keys)
{
    struct sizes z = sizes_of(l, width);
    const uint32_t extent = (uint32_t)copse__launch_extent(l, copse__launch_group(l));
    z.queries = z.keys = l->regime == COPSE_REGIME_AXIS ? 1 : width == 4 ? 4 : 3;
    z.rows = extent; /* lines */
    if (l->regime == COPSE_REGIME_FEW) {
        z.rows = lines_of_item;
        z.queries = z.keys = extent / lines_of_item * 4 - (width == 4 ? 0 : 2);
        *(is_of_keys ? &z.queries : &z.keys) = l->form->is_long ? COPSE_LONG_LINE : 140;
    }
    return z;
}

#define TEXEL_PARAMS_OF(z)                                                                        \
    .lines = (z).rows, .queries = (z).queries, .keys = (z).keys, .heads = HEADS, .share = SHARE,  \
    .width = (z).width, .window = (z).window, .q_stride = (z).q_stride, .k_stride = (z).k_stride, \
    .q_first = 4 * Q_FIRST, .k_first = 4 * K_FIRST, .v_first = 4 * V_FIRST,                       \
    .count = l->form->is_long ? WALKS : 1024, .scale = SCALE, .cap = CAP, MASK_OF(z)

static void plan_texel(struct copse_launch *l, uint32_t width, uint32_t first)
{
    const struct sizes z = texel_sizes_of(l, width, HEADS, false);
    const struct copse_params_attention_texel p = { TEXEL_PARAMS_OF(z), .first = first };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + 4 * Q_FIRST, k + 4 * K_FIRST, k + 4 * V_FIRST,
                      mask_words(z, items), lengths_of(l, z, items),
                      STATE * (size_t)z.rows * z.queries, l->spec[1] ? q : 1);
}

static void plan_texel_query(struct copse_launch *l, uint32_t width, uint32_t first)
{
    const struct sizes z = texel_sizes_of(l, width, HEADS, false);
    const struct copse_params_attention_grad_query_texel p = { TEXEL_PARAMS_OF(z), .first = first,
                                                               .to_first = 3,
                                                               .to_stride = z.q_stride };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + 4 * Q_FIRST, k + 4 * K_FIRST, k + 4 * V_FIRST,
                      mask_words(z, items), q, q, STATE * (size_t)z.rows * z.queries,
                      q + p.to_first);
}

static void plan_texel_key(struct copse_launch *l, uint32_t width, uint32_t first, uint32_t head)
{
    const uint32_t lines = HEADS / SHARE;
    const struct sizes z = texel_sizes_of(l, width, lines, true);
    const struct copse_params_attention_grad_key_texel p = { TEXEL_PARAMS_OF(z), .first = first,
                                                             .head = head, .to_v = z.k_stride,
                                                             .to_stride = 2 * z.k_stride };
    const size_t items = (z.rows + lines - 1) / lines, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + 4 * Q_FIRST, k + 4 * K_FIRST, k + 4 * V_FIRST,
                      mask_words(z, items), q, STATE * items * HEADS * z.queries, 2 * k);
}

PLAN(plan_attention_texel, plan_texel, 8, 0)
PLAN(plan_attention_texel_window, plan_texel, 4, 0)
PLAN(plan_attention_texel_last, plan_texel, 8, 8)
PLAN(plan_attention_grad_query_texel, plan_texel_query, 8, 0)
PLAN(plan_attention_grad_query_texel_window, plan_texel_query, 4, 0)
PLAN(plan_attention_grad_query_texel_later, plan_texel_query, 8, 8)
PLAN(plan_attention_grad_key_texel, plan_texel_key, 8, 0, 0)
PLAN(plan_attention_grad_key_texel_window, plan_texel_key, 4, 0, 0)
PLAN(plan_attention_grad_key_texel_later, plan_texel_key, 8, 8, 1)

/* ---- for GPUs: 64 queries or keys to a group, heads of 32, 64 or 128 numbers ---- */

/* Heads of 64 numbers have windows. In the regime of few groups one line has three of them, the last
   partly used but for heads of 128 numbers, and walks three tiles. */
static struct sizes tile_sizes_of(const struct copse_launch *l, uint32_t width, bool is_of_keys)
{
    struct sizes z = sizes_of(l, width);
    z.window = width == 64 ? 3 : UINT32_MAX;
    z.rows = (uint32_t)l->want; /* lines */
    if (l->regime == COPSE_REGIME_FEW) {
        const uint32_t groups = (uint32_t)l->want * 64;
        z.queries = is_of_keys ? 140 : width == 128 ? groups : groups - 27;
        z.keys = !is_of_keys ? 140 : width == 128 ? groups : groups - 27;
        z.window = width == 64 ? 70 : UINT32_MAX;
        z.rows = 1;
        if (l->form->is_long)
            *(is_of_keys ? &z.queries : &z.keys) = COPSE_LONG_LINE;
    }
    return z;
}

#define TILE_PARAMS_OF(z)                                                                  \
    .blocks = (uint32_t)l->want, .queries = (z).queries, .keys = (z).keys, .heads = HEADS, \
    .share = SHARE, .width = (z).width, .window = (z).window, .q_stride = (z).q_stride,    \
    .k_stride = (z).k_stride, .q_first = 4 * Q_FIRST, .k_first = 4 * K_FIRST,              \
    .v_first = 4 * V_FIRST, .scale = SCALE * 4 / (float)(z).width, .cap = CAP, MASK_OF(z)

static void plan_tile(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = tile_sizes_of(l, width, false);
    const struct copse_params_attention_tile p = { TILE_PARAMS_OF(z) };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + 4 * Q_FIRST, k + 4 * K_FIRST, k + 4 * V_FIRST,
                      mask_words(z, items), lengths_of(l, z, items),
                      STATE * (size_t)z.rows * z.queries, l->spec[1] ? q : 1);
}

static void plan_tile_query(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = tile_sizes_of(l, width, false);
    const struct copse_params_attention_grad_query_tile p = { TILE_PARAMS_OF(z), .to_first = 3,
                                                              .to_stride = z.q_stride };
    const size_t items = (z.rows + HEADS - 1) / HEADS, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + 4 * Q_FIRST, k + 4 * K_FIRST, k + 4 * V_FIRST,
                      mask_words(z, items), q, q, STATE * (size_t)z.rows * z.queries,
                      q + p.to_first);
}

static void plan_tile_key(struct copse_launch *l, uint32_t width)
{
    const struct sizes z = tile_sizes_of(l, width, true);
    const struct copse_params_attention_grad_key_tile p = { TILE_PARAMS_OF(z), .to_v = z.k_stride,
                                                            .to_stride = 2 * z.k_stride };
    const uint32_t lines = HEADS / SHARE;
    const size_t items = (z.rows + lines - 1) / lines, q = items * z.queries * z.q_stride,
                 k = items * z.keys * z.k_stride;
    COPSE_LAUNCH_PLAN(l, p, l->want, q + 4 * Q_FIRST, k + 4 * K_FIRST, k + 4 * V_FIRST,
                      mask_words(z, items), q, STATE * items * HEADS * z.queries, 2 * k);
}

#define TILE_PLANS(name, function)    \
    PLAN(name, function, 32)          \
    PLAN(name##_window, function, 64) \
    PLAN(name##_128, function, 128)
TILE_PLANS(plan_attention_tile, plan_tile)
TILE_PLANS(plan_attention_grad_query_tile, plan_tile_query)
TILE_PLANS(plan_attention_grad_key_tile, plan_tile_key)

/* The sums of exponentials before the launch are positive. */
static void arrange_state(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = 1; i < l->counts[5]; i += STATE)
        words[5][i] &= 0x7fffffffu;
}

/* With usual numbers the first item has all keys: a launch with one item and no keys would prove
   little. */
static void arrange_items(const struct copse_launch *l, uint32_t *const *words)
{
    if (l->values == COPSE_VALUES_USUAL)
        words[4][0] = l->range - 1;
}

/* The fourth word of a query is the length of its item, or 0 after that length. Most items have at
   least half of the keys. */
static void arrange_lengths(const struct copse_launch *l, const struct copse_attention_map *m,
                            size_t count, uint32_t *state)
{
    for (size_t row = 0; row < count / STATE; row++) {
        const size_t item = row / m->queries / m->heads;
        const size_t length =
            item % 8 == 3 ? 0 : m->keys - (item * 2654435761u + l->seed) % (m->keys / 2 + 1);
        const float keys = (float)copse__attention_keys(m, length, row % m->queries);
        memcpy(&state[row * STATE + 3], &keys, sizeof keys);
    }
}

#define ARRANGE(name, kernel, buffer)                                             \
    static void name(const struct copse_launch *l, uint32_t *const *words)        \
    {                                                                             \
        struct copse_params_##kernel p;                                           \
        memcpy(&p, l->params, sizeof p);                                          \
        const struct copse_attention_map m = COPSE_ATTENTION_MAP(&p, l->spec, 1); \
        arrange_lengths(l, &m, l->counts[buffer], words[buffer]);                 \
    }
ARRANGE(arrange_query, attention_grad_query, 6)
ARRANGE(arrange_key, attention_grad_key, 5)
ARRANGE(arrange_query_wide, attention_grad_query_wide, 6)
ARRANGE(arrange_key_wide, attention_grad_key_wide, 5)
ARRANGE(arrange_query_texel, attention_grad_query_texel, 6)
ARRANGE(arrange_key_texel, attention_grad_key_texel, 5)
ARRANGE(arrange_query_tile, attention_grad_query_tile, 6)
ARRANGE(arrange_key_tile, attention_grad_key_tile, 5)

/* ---- the forms ---- */

/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define SOME .cap = 4, .is_rare = true, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define LATER                                                       \
    .no_values = COPSE_ALL_VALUES & ~COPSE_BIT(COPSE_VALUES_USUAL), \
    .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW), \
    .why = "sums of several launches take one case"
/* The constants of forms without a mask, with one, with lengths, and with a cap. */
#define NO_MASK        0, COPSE_ATTENTION_ALL, 0
#define A_MASK         1, COPSE_ATTENTION_ALL, 0
#define OF_KEYS        0, COPSE_ATTENTION_OF_KEYS, 0
#define OF_BOTH        0, COPSE_ATTENTION_OF_BOTH, 0
#define A_MASK_OF_BOTH 1, COPSE_ATTENTION_OF_BOTH, 0
#define A_CAP          0, COPSE_ATTENTION_ALL, 1
#define A_CAP_AND_ALL  1, COPSE_ATTENTION_OF_BOTH, 1
#define SPEC_OF(...)   .spec = { __VA_ARGS__ }
#define TOO_WIDE       "gradients of 65,536 groups of such heads take more than 33 MiB"
/* Kernels for GPUs have one size of groups. */
#define IS_TILE(kernel_)                                                 \
    (COPSE_KERNEL_##kernel_ == COPSE_KERNEL_attention_tile ||            \
     COPSE_KERNEL_##kernel_ == COPSE_KERNEL_attention_grad_query_tile || \
     COPSE_KERNEL_##kernel_ == COPSE_KERNEL_attention_grad_key_tile)
#define OF_KERNEL(kernel_, label)                    \
    .kernel = COPSE_KERNEL_##kernel_, .name = label, \
    .least_group = IS_TILE(kernel_) ? COPSE_ATTENTION_TILE_GROUP : 0

#define FORWARD(kernel_, label, plan_, ...)                                                       \
    {                                                                                             \
        OF_KERNEL(kernel_, label), SPEC_OF(__VA_ARGS__),                                          \
            .contents = { VALUES, VALUES, VALUES, VALUES, INDEX, RESULT, RESULT }, .plan = plan_, \
            .arrange = arrange_items,                                                             \
            .no_regimes = IS_TILE(kernel_) ? COPSE_BIT(COPSE_REGIME_AXIS) : 0,                    \
            .why = IS_TILE(kernel_) ? TOO_WIDE : NULL, SOME                                       \
    }
#define FORWARD_LAST(kernel_, label, plan_, ...)                                                  \
    {                                                                                             \
        OF_KERNEL(kernel_, label), SPEC_OF(__VA_ARGS__),                                          \
            .contents = { VALUES, VALUES, VALUES, VALUES, INDEX, VALUES, VALUES }, .plan = plan_, \
            .arrange = arrange_state, SOME, LATER                                                 \
    }
#define QUERY_FORM(kernel_, arrange_, label, plan_, target, ...)                        \
    OF_KERNEL(kernel_, label), SPEC_OF(__VA_ARGS__),                                    \
        .contents = { VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, target }, \
        .plan = plan_, .arrange = arrange_, .underflows = true, SOME
#define KEY_FORM(kernel_, arrange_, label, plan_, target, ...)                                 \
    OF_KERNEL(kernel_, label), SPEC_OF(__VA_ARGS__),                                           \
        .contents = { VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, target }, .plan = plan_, \
        .arrange = arrange_, .underflows = true, SOME
#define QUERY(label, plan_, ...)                                                           \
    {                                                                                      \
        QUERY_FORM(attention_grad_query, arrange_query, label, plan_, RESULT, __VA_ARGS__) \
    }
#define QUERY_LATER(label, plan_, ...)                                                            \
    {                                                                                             \
        QUERY_FORM(attention_grad_query, arrange_query, label, plan_, VALUES, __VA_ARGS__), LATER \
    }
#define QUERY_WIDE(label, plan_, ...)                                                   \
    {                                                                                   \
        QUERY_FORM(attention_grad_query_wide, arrange_query_wide, label, plan_, RESULT, \
                   __VA_ARGS__)                                                         \
    }
#define QUERY_TEXEL(label, plan_, ...)                                                    \
    {                                                                                     \
        QUERY_FORM(attention_grad_query_texel, arrange_query_texel, label, plan_, RESULT, \
                   __VA_ARGS__)                                                           \
    }
#define KEY_TEXEL(label, plan_, ...)                                                             \
    {                                                                                            \
        KEY_FORM(attention_grad_key_texel, arrange_key_texel, label, plan_, RESULT, __VA_ARGS__) \
    }
#define QUERY_TILE(label, plan_, ...)                                                   \
    {                                                                                   \
        QUERY_FORM(attention_grad_query_tile, arrange_query_tile, label, plan_, RESULT, \
                   __VA_ARGS__),                                                        \
            .no_regimes = COPSE_BIT(COPSE_REGIME_AXIS), .why = TOO_WIDE                 \
    }
#define KEY_TILE(label, plan_, ...)                                                             \
    {                                                                                           \
        KEY_FORM(attention_grad_key_tile, arrange_key_tile, label, plan_, RESULT, __VA_ARGS__), \
            .no_regimes = COPSE_BIT(COPSE_REGIME_AXIS), .why = TOO_WIDE                         \
    }
#define KEY(label, plan_, ...)                                                       \
    {                                                                                \
        KEY_FORM(attention_grad_key, arrange_key, label, plan_, RESULT, __VA_ARGS__) \
    }
#define KEY_LATER(label, plan_, ...)                                                        \
    {                                                                                       \
        KEY_FORM(attention_grad_key, arrange_key, label, plan_, VALUES, __VA_ARGS__), LATER \
    }
#define KEY_WIDE(label, plan_, ...)                                                            \
    {                                                                                          \
        KEY_FORM(attention_grad_key_wide, arrange_key_wide, label, plan_, RESULT, __VA_ARGS__) \
    }

/* Forms with windows have masks with a row for each item. `more` has the constants after the common
   ones: heads of 8 numbers, and of 4 with windows. */
#define FORWARDS(kernel_, plan_, more, more_window)                                     \
    FORWARD(kernel_, "every key", plan_, 0, 1, NO_MASK, more),                          \
        FORWARD(kernel_, "causal", plan_, 1, 1, NO_MASK, more),                         \
        FORWARD(kernel_, "window", plan_##_window, 0, 1, NO_MASK, more_window),         \
        FORWARD(kernel_, "causal, window", plan_##_window, 1, 1, NO_MASK, more_window), \
        FORWARD(kernel_, "state alone", plan_, 1, 0, NO_MASK, more),                    \
        FORWARD(kernel_, "mask", plan_, 0, 1, A_MASK, more),                            \
        FORWARD(kernel_, "lengths", plan_, 0, 1, OF_KEYS, more),                        \
        FORWARD(kernel_, "lengths of both, causal", plan_, 1, 1, OF_BOTH, more),        \
        FORWARD(kernel_, "window, mask, lengths", plan_##_window, 0, 1, A_MASK_OF_BOTH, \
                more_window),                                                           \
        FORWARD(kernel_, "cap", plan_, 0, 1, A_CAP, more),                              \
        FORWARD(kernel_, "cap, state alone", plan_, 1, 0, A_CAP, more),                 \
        FORWARD(kernel_, "cap, causal, window, mask, lengths", plan_##_window, 1, 1,    \
                A_CAP_AND_ALL, more_window)
#define GRADS(form, plan_, all, more, more_window)                                      \
    form(all, plan_, 0, NO_MASK, more), form("causal", plan_, 1, NO_MASK, more),        \
        form("window", plan_##_window, 0, NO_MASK, more_window),                        \
        form("causal, window", plan_##_window, 1, NO_MASK, more_window),                \
        form("mask", plan_, 0, A_MASK, more), form("lengths", plan_, 0, OF_KEYS, more), \
        form("lengths of both, causal", plan_, 1, OF_BOTH, more),                       \
        form("window, mask, lengths", plan_##_window, 0, A_MASK_OF_BOTH, more_window),  \
        form("cap", plan_, 0, A_CAP, more),                                             \
        form("cap, causal, window, mask, lengths", plan_##_window, 1, A_CAP_AND_ALL, more_window)

/* Lines that are long, with the common constants; and the other combinations of the constants. */
#define FORWARD_OF(kernel_, label, plan_, ...)                                                \
    OF_KERNEL(kernel_, label), SPEC_OF(__VA_ARGS__),                                          \
        .contents = { VALUES, VALUES, VALUES, VALUES, INDEX, RESULT, RESULT }, .plan = plan_, \
        .arrange = arrange_items, SOME
#define SELDOM COPSE_FEW_ALONE, .tier = COPSE_CONFORM_STANDARD
#define OTHER(kernel_, plan_, more, c, v, m, n)                                       \
    {                                                                                 \
        FORWARD_OF(kernel_, "flags " #c #v #m #n, plan_, c, v, m, n, 0, more), SELDOM \
    }
#define OTHERS(kernel_, plan_, more)                                                      \
    { FORWARD_OF(kernel_, "long", plan_, 0, 1, NO_MASK, more), COPSE_LONG },              \
        OTHER(kernel_, plan_, more, 0, 0, 0, 0), OTHER(kernel_, plan_, more, 0, 0, 0, 1), \
        OTHER(kernel_, plan_, more, 0, 0, 0, 2), OTHER(kernel_, plan_, more, 0, 0, 1, 0), \
        OTHER(kernel_, plan_, more, 0, 0, 1, 1), OTHER(kernel_, plan_, more, 0, 0, 1, 2), \
        OTHER(kernel_, plan_, more, 1, 0, 0, 1), OTHER(kernel_, plan_, more, 1, 0, 0, 2), \
        OTHER(kernel_, plan_, more, 1, 0, 1, 0), OTHER(kernel_, plan_, more, 1, 0, 1, 1), \
        OTHER(kernel_, plan_, more, 1, 0, 1, 2), OTHER(kernel_, plan_, more, 0, 1, 0, 2), \
        OTHER(kernel_, plan_, more, 0, 1, 1, 1), OTHER(kernel_, plan_, more, 1, 1, 0, 1), \
        OTHER(kernel_, plan_, more, 1, 1, 1, 0), OTHER(kernel_, plan_, more, 1, 1, 1, 1), \
        OTHER(kernel_, plan_, more, 1, 1, 1, 2)
#define GRAD_OTHERS(FORM, kernel_, arrange_, plan_, more)                                  \
    { FORM(kernel_, arrange_, "long", plan_, RESULT, 0, NO_MASK, more), COPSE_LONG },      \
        { FORM(kernel_, arrange_, "flags 002", plan_, RESULT, 0, 0, 2, 0, more), SELDOM }, \
        { FORM(kernel_, arrange_, "flags 011", plan_, RESULT, 0, 1, 1, 0, more), SELDOM }, \
        { FORM(kernel_, arrange_, "flags 101", plan_, RESULT, 1, 0, 1, 0, more), SELDOM }, \
        { FORM(kernel_, arrange_, "flags 110", plan_, RESULT, 1, 1, 0, 0, more), SELDOM }, \
        { FORM(kernel_, arrange_, "flags 111", plan_, RESULT, 1, 1, 1, 0, more), SELDOM }, \
    {                                                                                      \
        FORM(kernel_, arrange_, "flags 112", plan_, RESULT, 1, 1, 2, 0, more), SELDOM      \
    }

static const struct copse_launch_form forms[] = {
    OTHERS(attention_tile, plan_attention_tile, 0),
    GRAD_OTHERS(QUERY_FORM, attention_grad_query_tile, arrange_query_tile,
                plan_attention_grad_query_tile, 0),
    GRAD_OTHERS(KEY_FORM, attention_grad_key_tile, arrange_key_tile, plan_attention_grad_key_tile,
                0),
    FORWARDS(attention_tile, plan_attention_tile, 0, 1),
    FORWARD(attention_tile, "heads of 128", plan_attention_tile_128, 0, 1, NO_MASK, 2),
    FORWARD(attention_tile, "heads of 128, causal, mask, lengths", plan_attention_tile_128, 1, 1,
            A_MASK_OF_BOTH, 2),
    GRADS(QUERY_TILE, plan_attention_grad_query_tile, "every key", 0, 1),
    QUERY_TILE("heads of 128", plan_attention_grad_query_tile_128, 0, NO_MASK, 2),
    QUERY_TILE("heads of 128, causal, mask, lengths", plan_attention_grad_query_tile_128, 1,
               A_MASK_OF_BOTH, 2),
    GRADS(KEY_TILE, plan_attention_grad_key_tile, "every query", 0, 1),
    KEY_TILE("heads of 128", plan_attention_grad_key_tile_128, 0, NO_MASK, 2),
    KEY_TILE("heads of 128, causal, mask, lengths", plan_attention_grad_key_tile_128, 1,
             A_MASK_OF_BOTH, 2),
    OTHERS(attention, plan_attention, 0),
    OTHERS(attention_wide, plan_attention_wide, 0),
    OTHERS(attention_texel, plan_attention_texel, 2),
    GRAD_OTHERS(QUERY_FORM, attention_grad_query, arrange_query, plan_attention_grad_query, 0),
    GRAD_OTHERS(QUERY_FORM, attention_grad_query_wide, arrange_query_wide,
                plan_attention_grad_query_wide, 0),
    GRAD_OTHERS(QUERY_FORM, attention_grad_query_texel, arrange_query_texel,
                plan_attention_grad_query_texel, 2),
    GRAD_OTHERS(KEY_FORM, attention_grad_key, arrange_key, plan_attention_grad_key, 0),
    GRAD_OTHERS(KEY_FORM, attention_grad_key_wide, arrange_key_wide, plan_attention_grad_key_wide,
                0),
    GRAD_OTHERS(KEY_FORM, attention_grad_key_texel, arrange_key_texel,
                plan_attention_grad_key_texel, 2),
    FORWARDS(attention_wide, plan_attention_wide, 0, 0),
    GRADS(QUERY_WIDE, plan_attention_grad_query_wide, "every key", 0, 0),
    GRADS(KEY_WIDE, plan_attention_grad_key_wide, "every query", 0, 0),
    FORWARDS(attention, plan_attention, 0, 0),
    FORWARD_LAST(attention, "later keys", plan_attention_last, 0, 1, NO_MASK),
    FORWARD_LAST(attention, "later keys, causal, window", plan_attention_window_last, 1, 1,
                 NO_MASK),
    FORWARD_LAST(attention, "later keys, mask, lengths", plan_attention_last, 0, 1, A_MASK_OF_BOTH),
    FORWARDS(attention_texel, plan_attention_texel, 2, 1),
    FORWARD_LAST(attention_texel, "later keys", plan_attention_texel_last, 0, 1, NO_MASK, 2),
    FORWARD_LAST(attention_texel, "later keys, causal, mask, lengths", plan_attention_texel_last, 1,
                 1, A_MASK_OF_BOTH, 2),
    GRADS(QUERY_TEXEL, plan_attention_grad_query_texel, "every key", 2, 1),
    { QUERY_FORM(attention_grad_query_texel, arrange_query_texel, "later keys, mask, lengths",
                 plan_attention_grad_query_texel_later, VALUES, 0, A_MASK_OF_BOTH, 2),
      LATER },
    GRADS(KEY_TEXEL, plan_attention_grad_key_texel, "every query", 2, 1),
    { KEY_FORM(attention_grad_key_texel, arrange_key_texel,
               "later queries, another head, mask, lengths", plan_attention_grad_key_texel_later,
               VALUES, 0, A_MASK_OF_BOTH, 2),
      LATER },
    GRADS(QUERY, plan_attention_grad_query, "every key", 0, 0),
    QUERY_LATER("later keys", plan_attention_grad_query_later, 0, NO_MASK),
    QUERY_LATER("later keys, mask, lengths", plan_attention_grad_query_later, 0, A_MASK_OF_BOTH),
    GRADS(KEY, plan_attention_grad_key, "every query", 0, 0),
    KEY_LATER("later queries", plan_attention_grad_key_later, 0, NO_MASK),
    KEY_LATER("later queries, mask, lengths", plan_attention_grad_key_later, 0, A_MASK_OF_BOTH),
    KEY_LATER("another head", plan_attention_grad_key_head, 0, NO_MASK),
};

/* ---- the lines that an invocation, or a group, walks ---- */

#define OF_WIDTHS(kernel_, axis)                                                                \
    {                                                                                           \
        .kernel = COPSE_KERNEL_##kernel_,                                                       \
        .word = offsetof(struct copse_params_##kernel_, axis) / 4 + 1,                          \
        .no_flags = "heads of 32 numbers have all others, and heads of 64 and 128 some of them" \
    }

static const struct copse_launch_line lines[] = {
    COPSE_LINE(attention, keys),
    COPSE_LINE(attention_wide, keys),
    COPSE_LINE(attention_texel, keys),
    COPSE_LINE(attention_grad_query, keys),
    COPSE_LINE(attention_grad_query_wide, keys),
    COPSE_LINE(attention_grad_query_texel, keys),
    COPSE_LINE(attention_grad_key, queries),
    COPSE_LINE(attention_grad_key_wide, queries),
    COPSE_LINE(attention_grad_key_texel, queries),
    OF_WIDTHS(attention_tile, keys),
    OF_WIDTHS(attention_grad_query_tile, keys),
    OF_WIDTHS(attention_grad_key_tile, queries),
};

const struct copse_launch_list copse_launch_attention = { forms, COPSE_COUNT(forms), lines,
                                                          COPSE_COUNT(lines) };
