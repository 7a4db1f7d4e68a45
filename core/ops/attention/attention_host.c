/* SPDX-License-Identifier: MIT */
/* Host functions and self-tests of the kernels of attention. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/ops/attention/attention_map.h"
#include "core/ops/attention/attention_sizes.h"
#include "core/ops/self_tests.h"

#define WIDEST 128
#define STATE  COPSE_ATTENTION_STATE

/* ---- references ---- */

static bool sees_a_key(const struct copse_attention_map *m, size_t i, size_t keys)
{
    return keys > 0 && (i < keys || i - (keys - 1) < m->window);
}

static double score_of(const struct copse_attention_map *m, const struct copse_host_arg *args,
                       size_t item, size_t h, size_t i, size_t j)
{
    return m->scale * copse__attention_dot(&args[0], copse__attention_q(m, item, h, i), &args[1],
                                           copse__attention_k(m, item, h, j), m->width) +
           copse__attention_bias(m, &args[3], item, h, i, j);
}

static void attention_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_attention *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 2);
    const struct copse_host_arg *v = &args[2], *state = &args[5], *y = &args[6];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    const bool is_last = end == m.keys, has_values = spec[1] != 0;
    for (size_t row = 0; row < p->rows; row++) {
        const size_t i = row % m.queries, h = row / m.queries % m.heads,
                     item = row / m.queries / m.heads;
        const size_t to = copse__attention_y(&m, item, h, i);
        const size_t keys =
            copse__attention_keys(&m, copse__attention_length(&m, &args[4], item), i);
        const double before = p->first ? copse__load(state, STATE * row) : -INFINITY;
        double sums[WIDEST] = { 0 }, top = before;
        for (size_t j = p->first; j < end; j++) {
            if (!copse__attention_sees(&m, i, j, keys))
                continue;
            const double s = score_of(&m, args, item, h, i, j);
            if (s > top)
                top = s;
        }
        const double shift = top == -INFINITY ? 0 : top, keep = exp(before - shift);
        double total = p->first ? copse__load(state, STATE * row + 1) * keep : 0;
        for (size_t c = 0; has_values && p->first && c < m.width; c++)
            sums[c] = copse__load(y, to + c) * keep;
        for (size_t j = p->first; j < end; j++) {
            if (!copse__attention_sees(&m, i, j, keys))
                continue;
            const double e = exp(score_of(&m, args, item, h, i, j) - shift);
            total += e;
            for (size_t c = 0; has_values && c < m.width; c++)
                sums[c] += e * copse__load(v, copse__attention_v(&m, item, h, j) + c);
        }
        const bool is_empty = m.has_mask ? total == 0 : !sees_a_key(&m, i, keys);
        copse__store(state, STATE * row, is_last && is_empty ? 0 : top);
        copse__store(state, STATE * row + 1, !is_last ? total : is_empty ? 0 : 1 / total);
        copse__store(state, STATE * row + 3, (double)keys);
        for (size_t c = 0; has_values && c < m.width; c++)
            copse__store(y, to + c, !is_last ? sums[c] : is_empty ? 0 : sums[c] / total);
    }
}

/* P of a query and a key from its score and the state. */
static double share_of(const struct copse_host_arg *state, size_t row, double score)
{
    return exp(score - copse__load(state, STATE * row)) * copse__load(state, STATE * row + 1);
}

static void attention_grad_query_host(const void *params, const int32_t *spec,
                                      const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 1);
    const struct copse_host_arg *k = &args[1], *v = &args[2], *y = &args[4], *dy = &args[5],
                                *state = &args[6], *to = &args[7];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    for (size_t row = 0; row < p->rows; row++) {
        const size_t i = row % m.queries, h = row / m.queries % m.heads,
                     item = row / m.queries / m.heads;
        const size_t of_y = copse__attention_y(&m, item, h, i);
        const size_t keys = m.lengths ? (size_t)copse__load(state, STATE * row + 3) : m.keys;
        const size_t at = (item * m.queries + i) * p->to_stride + p->to_first + h * m.width;
        const double along = copse__attention_dot(dy, of_y, y, of_y, m.width);
        double sums[WIDEST] = { 0 };
        for (size_t j = p->first; j < end; j++) {
            if (!copse__attention_sees(&m, i, j, keys))
                continue;
            const size_t of_k = copse__attention_k(&m, item, h, j),
                         of_v = copse__attention_v(&m, item, h, j);
            const double share = share_of(state, row, score_of(&m, args, item, h, i, j));
            const double slope =
                share * (copse__attention_dot(dy, of_y, v, of_v, m.width) - along) * m.scale;
            for (size_t c = 0; c < m.width; c++)
                sums[c] += slope * copse__load(k, of_k + c);
        }
        copse__store(state, STATE * row + 2, along);
        for (size_t c = 0; c < m.width; c++)
            copse__store(to, at + c, sums[c] + (p->first ? copse__load(to, at + c) : 0));
    }
}

static void attention_grad_key_host(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 1);
    const struct copse_host_arg *q = &args[0], *v = &args[2], *dy = &args[4], *state = &args[5],
                                *to = &args[6];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.queries),
                 kv_heads = m.heads / m.share;
    for (size_t row = 0; row < p->rows; row++) {
        const size_t j = row % m.keys, kv = row / m.keys % kv_heads, item = row / m.keys / kv_heads;
        const size_t h = kv * m.share + p->head,
                     at = (item * m.keys + j) * p->to_stride + kv * m.width;
        const size_t of_v = copse__attention_v(&m, item, h, j);
        const size_t length = copse__attention_state_length(&m, state, item, h);
        const bool adds = p->first + p->head > 0;
        double sums_k[WIDEST] = { 0 }, sums_v[WIDEST] = { 0 };
        for (size_t i = p->first; i < end; i++) {
            if (!copse__attention_sees(&m, i, j, copse__attention_keys(&m, length, i)))
                continue;
            const size_t of_q = copse__attention_q(&m, item, h, i),
                         of_y = copse__attention_y(&m, item, h, i);
            const size_t line = (item * m.heads + h) * m.queries + i;
            const double share = share_of(state, line, score_of(&m, args, item, h, i, j));
            const double slope = share * m.scale *
                                 (copse__attention_dot(dy, of_y, v, of_v, m.width) -
                                  copse__load(state, STATE * line + 2));
            for (size_t c = 0; c < m.width; c++) {
                sums_k[c] += slope * copse__load(q, of_q + c);
                sums_v[c] += share * copse__load(dy, of_y + c);
            }
        }
        for (size_t c = 0; c < m.width; c++) {
            copse__store(to, p->to_k + at + c,
                         sums_k[c] + (adds ? copse__load(to, p->to_k + at + c) : 0));
            copse__store(to, p->to_v + at + c,
                         sums_v[c] + (adds ? copse__load(to, p->to_v + at + c) : 0));
        }
    }
}

/* ---- the wide kernels: 16 queries or keys to an invocation, in one launch ---- */

static void attention_wide_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_attention p = copse__attention_of_wide(params);
    attention_host(&p, spec, args);
}

static void attention_grad_query_wide_host(const void *params, const int32_t *spec,
                                           const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_wide(params);
    attention_grad_query_host(&p, spec, args);
}

static void attention_grad_key_wide_host(const void *params, const int32_t *spec,
                                         const struct copse_host_arg *args)
{
    struct copse_params_attention_grad_key p = copse__attention_key_of_wide(params);
    for (; p.head < p.share; p.head++)
        attention_grad_key_host(&p, spec, args);
}

/* ---- the kernels for fast texels ---- */

static void attention_texel_host(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_attention p = copse__attention_of_texel(params);
    attention_host(&p, spec, args);
}

static void attention_grad_query_texel_host(const void *params, const int32_t *spec,
                                            const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_texel(params);
    attention_grad_query_host(&p, spec, args);
}

static void attention_grad_key_texel_host(const void *params, const int32_t *spec,
                                          const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_texel(params);
    attention_grad_key_host(&p, spec, args);
}

/* ---- self-tests ---- */

#define QUERIES    5u
#define KEYS       7u
#define HEADS      2u
#define ROWS       (HEADS * QUERIES)
#define WIDTH      9u
#define MASK_WORDS (ROWS * KEYS)

/* Two heads with one key head; windows of 4. */
#define PARAMS_OF                                                                                  \
    .queries = QUERIES, .keys = KEYS, .heads = HEADS, .share = HEADS, .width = WIDTH, .window = 4, \
    .q_stride = HEADS * WIDTH, .k_stride = WIDTH, .mask_head = QUERIES * KEYS, .mask_query = KEYS, \
    .scale = 0.0625f / WIDTH

/* In the tests with lengths the item has three keys, or three keys and queries. */

static void set_state(struct copse_self_test *t, uint32_t buffer)
{
    for (uint32_t row = 0; row < ROWS; row++) {
        copse__test_set(t, buffer, STATE * row, 0.25f * (float)(row % 3));
        copse__test_set(t, buffer, STATE * row + 1, 0.125f * (float)(1 + row % 2));
        copse__test_set(t, buffer, STATE * row + 2, (float)(row % 4));
        copse__test_set(t, buffer, STATE * row + 3, row % QUERIES < 3 ? 3.0f : 0.0f);
    }
}

static void attention_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention p = { PARAMS_OF, .rows = ROWS, .count = 64 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.rows), ROWS * WIDTH, KEYS * WIDTH, KEYS * WIDTH,
                    MASK_WORDS, 1, STATE * ROWS, ROWS * WIDTH);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void attention_grad_query_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_query p = { PARAMS_OF, .rows = ROWS, .count = 64,
                                                         .to_stride = HEADS * WIDTH };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.rows), ROWS * WIDTH, KEYS * WIDTH, KEYS * WIDTH,
                    MASK_WORDS, ROWS * WIDTH, ROWS * WIDTH, STATE * ROWS, ROWS * WIDTH);
    set_state(t, 6);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void attention_grad_key_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_key p = { PARAMS_OF, .rows = KEYS, .count = 64,
                                                       .to_v = KEYS * WIDTH, .to_stride = WIDTH };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.rows), ROWS * WIDTH, KEYS * WIDTH, KEYS * WIDTH,
                    MASK_WORDS, ROWS * WIDTH, STATE * ROWS, 2 * KEYS * WIDTH);
    set_state(t, 5);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void attention_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_wide p = { PARAMS_OF, .blocks = HEADS };
    attention_test(k, t);
    memset(t->params, 0, sizeof t->params);
    memcpy(t->params, &p, sizeof p);
    t->groups = p.blocks;
}

static void attention_grad_query_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_query_wide p = { PARAMS_OF, .blocks = HEADS,
                                                              .to_stride = HEADS * WIDTH };
    attention_grad_query_test(k, t);
    memset(t->params, 0, sizeof t->params);
    memcpy(t->params, &p, sizeof p);
    t->groups = p.blocks;
}

static void attention_grad_key_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_key_wide p = { PARAMS_OF, .blocks = 1,
                                                            .to_v = KEYS * WIDTH,
                                                            .to_stride = WIDTH };
    attention_grad_key_test(k, t);
    memset(t->params, 0, sizeof t->params);
    memcpy(t->params, &p, sizeof p);
    t->groups = p.blocks;
}

/* Their heads are whole texels, as many as the kernel was made for. */
#define TEXEL_PARAMS_OF(width_)                                                                 \
    .queries = QUERIES, .keys = KEYS, .heads = HEADS, .share = HEADS, .width = width_,          \
    .window = 4, .q_stride = HEADS * (width_), .k_stride = width_, .mask_head = QUERIES * KEYS, \
    .mask_query = KEYS, .count = 64, .scale = 0.0625f / (float)(width_)

static uint32_t texel_width(const struct copse_kernel *k, uint32_t spec)
{
    return 4 * (uint32_t)COPSE_MAX(k->spec[spec], 1);
}

static void attention_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = texel_width(k, 4);
    const struct copse_params_attention_texel p = { TEXEL_PARAMS_OF(width), .lines = HEADS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, 2 * p.lines), ROWS * width, KEYS * width,
                    KEYS * width, MASK_WORDS, 1, STATE * ROWS, ROWS * width);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void attention_grad_query_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = texel_width(k, 3);
    const struct copse_params_attention_grad_query_texel p = { TEXEL_PARAMS_OF(width),
                                                               .lines = HEADS,
                                                               .to_stride = HEADS * width };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, 2 * p.lines), ROWS * width, KEYS * width,
                    KEYS * width, MASK_WORDS, ROWS * width, ROWS * width, STATE * ROWS,
                    ROWS * width);
    set_state(t, 6);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void attention_grad_key_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = texel_width(k, 3);
    const struct copse_params_attention_grad_key_texel p = { TEXEL_PARAMS_OF(width), .lines = 1,
                                                             .to_v = KEYS * width,
                                                             .to_stride = width };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, 2 * p.lines), ROWS * width, KEYS * width,
                    KEYS * width, MASK_WORDS, ROWS * width, STATE * ROWS, 2 * KEYS * width);
    set_state(t, 5);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- units: items, whose queries see only their own keys ---- */

/* Of a launch, and the parameter that is a number of items times `per`. */
struct items {
    uint64_t count, per;
    const uint32_t *word;
};

static struct items items_of(const uint32_t *word, uint64_t per)
{
    return (struct items){ per > 0 && *word % per == 0 ? *word / per : 0, per, word };
}

/* `rows` rows of an item, `stride` words apart. `used` words of a row belong to this operand: with
   others in the same rows, or from *first on, alone. */
static void split_rows(struct copse_split *o, uint32_t buffer, uint64_t rows, uint64_t stride,
                       uint32_t *first, uint64_t used)
{
    copse__split_buffer(o, buffer, rows * stride);
    if (*first + used > stride) {
        o->buffers[buffer].first = *first;
        *first = 0;
    }
}

static bool split_operands(struct copse_split *o, const struct copse_attention_map *m,
                           uint32_t *q_first, uint32_t *k_first, uint32_t *v_first,
                           struct items items)
{
    const uint64_t kv = m->heads / COPSE_MAX(m->share, 1) * m->width;
    split_rows(o, 0, m->queries, m->q_stride, q_first, (uint64_t)m->heads * m->width);
    split_rows(o, 1, m->keys, m->k_stride, k_first, kv);
    split_rows(o, 2, m->keys, m->k_stride, v_first, kv);
    copse__split_buffer(o, 3, m->has_mask ? m->mask_item : 0);
    copse__split_count(o, items.word, items.per);
    o->units = items.count;
    return items.count > 0;
}

/* Words of an item: outputs or their gradients, states. */
static uint64_t item_outputs(const struct copse_attention_map *m)
{
    return (uint64_t)m->queries * m->heads * m->width;
}
static uint64_t item_states(const struct copse_attention_map *m)
{
    return (uint64_t)m->queries * m->heads * STATE;
}

static void split_forward(struct copse_split *o, const struct copse_attention_map *m,
                          bool has_values)
{
    copse__split_buffer(o, 4, m->lengths ? 1 : 0);
    copse__split_buffer(o, 5, item_states(m));
    copse__split_buffer(o, 6, has_values ? item_outputs(m) : 0);
}

static void split_grad_query(struct copse_split *o, const struct copse_attention_map *m,
                             uint32_t *to_first, uint32_t to_stride)
{
    copse__split_buffer(o, 4, item_outputs(m));
    copse__split_buffer(o, 5, item_outputs(m));
    copse__split_buffer(o, 6, item_states(m));
    split_rows(o, 7, m->queries, to_stride, to_first, (uint64_t)m->heads * m->width);
}

/* Gradients of keys and values are in the rows of one array, or in two arrays, one after the other.
   False: they are elsewhere. */
static bool split_grad_key(struct copse_split *o, const struct copse_attention_map *m,
                           uint32_t *to_k, uint32_t *to_v, uint32_t to_stride, uint64_t items)
{
    const uint64_t each = (uint64_t)m->keys * to_stride,
                   kv = m->heads / COPSE_MAX(m->share, 1) * m->width;
    copse__split_buffer(o, 4, item_outputs(m));
    copse__split_buffer(o, 5, item_states(m));
    copse__split_buffer(o, 6, each);
    if (*to_k + kv <= to_stride && *to_v + kv <= to_stride)
        return true;
    if (*to_v < *to_k + items * each)
        return false;
    o->buffers[6] = (struct copse_split_buffer){
        .pieces = 2, .pitch = *to_v - *to_k, .each = each, .first = *to_k
    };
    copse__split_count(o, to_v, each);
    *to_k = 0;
    return true;
}

#define OPERANDS(p) &(p)->q_first, &(p)->k_first, &(p)->v_first

/* Blocks of 16 of a number of queries or keys. */
static uint64_t blocks_of(uint32_t n)
{
    return ((uint64_t)n + COPSE_ATTENTION_LANES - 1) / COPSE_ATTENTION_LANES;
}

static bool attention_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention *p = COPSE_SPLIT_PARAMS(attention, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 2);
    const struct items items = items_of(&p->rows, (uint64_t)p->heads * p->queries);
    split_forward(o, &m, copse__law_spec(c)[1] != 0);
    return split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_grad_query_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_grad_query *p = COPSE_SPLIT_PARAMS(attention_grad_query, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 1);
    const struct items items = items_of(&p->rows, (uint64_t)p->heads * p->queries);
    split_grad_query(o, &m, &p->to_first, p->to_stride);
    return split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_grad_key_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_grad_key *p = COPSE_SPLIT_PARAMS(attention_grad_key, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 1);
    const struct items items =
        items_of(&p->rows, (uint64_t)(p->heads / COPSE_MAX(p->share, 1)) * p->keys);
    return split_grad_key(o, &m, &p->to_k, &p->to_v, p->to_stride, items.count) &&
           split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_wide_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_wide *p = COPSE_SPLIT_PARAMS(attention_wide, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 2);
    const struct items items = items_of(&p->blocks, (uint64_t)p->heads * blocks_of(p->queries));
    split_forward(o, &m, copse__law_spec(c)[1] != 0);
    return split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_grad_query_wide_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_grad_query_wide *p =
        COPSE_SPLIT_PARAMS(attention_grad_query_wide, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 1);
    const struct items items = items_of(&p->blocks, (uint64_t)p->heads * blocks_of(p->queries));
    split_grad_query(o, &m, &p->to_first, p->to_stride);
    return split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_grad_key_wide_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_grad_key_wide *p = COPSE_SPLIT_PARAMS(attention_grad_key_wide, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 1);
    const struct items items =
        items_of(&p->blocks, (uint64_t)(p->heads / COPSE_MAX(p->share, 1)) * blocks_of(p->keys));
    return split_grad_key(o, &m, &p->to_k, &p->to_v, p->to_stride, items.count) &&
           split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_texel_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_texel *p = COPSE_SPLIT_PARAMS(attention_texel, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 2);
    const struct items items = items_of(&p->lines, p->heads);
    split_forward(o, &m, copse__law_spec(c)[1] != 0);
    return split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_grad_query_texel_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_grad_query_texel *p =
        COPSE_SPLIT_PARAMS(attention_grad_query_texel, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 1);
    const struct items items = items_of(&p->lines, p->heads);
    split_grad_query(o, &m, &p->to_first, p->to_stride);
    return split_operands(o, &m, OPERANDS(p), items);
}

static bool attention_grad_key_texel_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_attention_grad_key_texel *p =
        COPSE_SPLIT_PARAMS(attention_grad_key_texel, o);
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, copse__law_spec(c), 1);
    const struct items items = items_of(&p->lines, p->heads / COPSE_MAX(p->share, 1));
    return split_grad_key(o, &m, &p->to_k, &p->to_v, p->to_stride, items.count) &&
           split_operands(o, &m, OPERANDS(p), items);
}

/* ---- laws ---- */

/* Scores and sums: products of each query and key that the launch takes, as often as it reads
   both. */
static uint64_t work_of(uint32_t rows, uint32_t others, uint32_t width, uint64_t times)
{
    return (uint64_t)rows * others * width * times;
}

static uint64_t attention_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention *p = params;
    (void)spec;
    return work_of(p->rows, COPSE_MIN(p->count, p->keys), p->width, 3);
}

static uint64_t attention_grad_query_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_query *p = params;
    (void)spec;
    return work_of(p->rows, COPSE_MIN(p->count, p->keys), p->width, 3);
}

static uint64_t attention_grad_key_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_key *p = params;
    (void)spec;
    return work_of(p->rows, COPSE_MIN(p->count, p->queries), p->width, 4);
}

static uint64_t attention_wide_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention p = copse__attention_of_wide(params);
    return attention_work(&p, spec);
}

static uint64_t attention_grad_query_wide_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_wide(params);
    return attention_grad_query_work(&p, spec);
}

static uint64_t attention_grad_key_wide_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_wide(params);
    return p.share * attention_grad_key_work(&p, spec);
}

static uint64_t attention_texel_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention p = copse__attention_of_texel(params);
    return attention_work(&p, spec);
}

static uint64_t attention_grad_query_texel_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_texel(params);
    return attention_grad_query_work(&p, spec);
}

static uint64_t attention_grad_key_texel_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_texel(params);
    return attention_grad_key_work(&p, spec);
}

const struct copse_law copse_law_attention = {
    .host = attention_host,
    .split = attention_split,
    .work = attention_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_size },
    .self_test = attention_test,
};
const struct copse_law copse_law_attention_grad_query = {
    .host = attention_grad_query_host,
    .split = attention_grad_query_split,
    .work = attention_grad_query_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_size },
    .self_test = attention_grad_query_test,
};
const struct copse_law copse_law_attention_grad_key = {
    .host = attention_grad_key_host,
    .split = attention_grad_key_split,
    .work = attention_grad_key_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_size },
    .self_test = attention_grad_key_test,
};
const struct copse_law copse_law_attention_wide = {
    .host = attention_wide_host,
    .split = attention_wide_split,
    .work = attention_wide_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_wide_size },
    .self_test = attention_wide_test,
};
const struct copse_law copse_law_attention_grad_query_wide = {
    .host = attention_grad_query_wide_host,
    .split = attention_grad_query_wide_split,
    .work = attention_grad_query_wide_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_wide_size },
    .self_test = attention_grad_query_wide_test,
};
const struct copse_law copse_law_attention_grad_key_wide = {
    .host = attention_grad_key_wide_host,
    .split = attention_grad_key_wide_split,
    .work = attention_grad_key_wide_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_wide_size },
    .self_test = attention_grad_key_wide_test,
};
const struct copse_law copse_law_attention_texel = {
    .host = attention_texel_host,
    .split = attention_texel_split,
    .work = attention_texel_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_texel_size },
    .self_test = attention_texel_test,
};
const struct copse_law copse_law_attention_grad_query_texel = {
    .host = attention_grad_query_texel_host,
    .split = attention_grad_query_texel_split,
    .work = attention_grad_query_texel_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_texel_size },
    .self_test = attention_grad_query_texel_test,
};
const struct copse_law copse_law_attention_grad_key_texel = {
    .host = attention_grad_key_texel_host,
    .split = attention_grad_key_texel_split,
    .work = attention_grad_key_texel_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_texel_size },
    .self_test = attention_grad_key_texel_test,
};
