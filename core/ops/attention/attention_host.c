/* SPDX-License-Identifier: MIT */
/* Host functions of the kernels of attention. */
#include <math.h>

#include "core/ops/attention/attention_map.h"
#include "core/ops/attention/attention_sizes.h"
#include "core/ops/attention/attention_tests.h"

#define STATE COPSE_ATTENTION_STATE

/* ---- references ---- */

static bool sees_a_key(const struct copse_attention_map *m, size_t i, size_t keys)
{
    return keys > 0 && (i < keys || i - (keys - 1) < m->window);
}

/* bend: the derivative of the score by scale q k, which is 1 - tanh^2 with a cap [NULL: not wanted] */
static double score_of(const struct copse_attention_map *m, const struct copse_host_arg *args,
                       size_t item, size_t h, size_t i, size_t j, double *bend)
{
    double s =
        m->scale * copse__attention_dot(&args[0], copse__attention_q(m, item, h, i), &args[1],
                                        copse__attention_k(m, item, h, j), m->width);
    if (bend) {
        const double c = m->cap > 0 ? cosh(s / m->cap) : 1;
        *bend = 1 / (c * c);
    }
    if (m->cap > 0)
        s = m->cap * tanh(s / m->cap);
    return s + copse__attention_bias(m, &args[3], item, h, i, j);
}

enum { KEPT_SCORES = 512 };

static void attention_line(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args, size_t row)
{
    const struct copse_params_attention *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 2);
    const struct copse_host_arg *v = &args[2], *state = &args[5], *y = &args[6];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    const bool is_last = end == m.keys, has_values = spec[1] != 0;
    const size_t i = row % m.queries, h = row / m.queries % m.heads,
                 item = row / m.queries / m.heads;
    const size_t to = copse__attention_y(&m, item, h, i);
    const size_t keys = copse__attention_keys(&m, copse__attention_length(&m, &args[4], item), i);
    const double before = p->first ? copse__load(state, STATE * row) : -INFINITY;
    double sums[COPSE_ATTENTION_WIDTH] = { 0 }, top = before;
    double scores[KEPT_SCORES]; /* of the first keys; others are computed twice */
    for (size_t j = p->first; j < end; j++) {
        if (!copse__attention_sees(&m, i, j, keys))
            continue;
        const double s = score_of(&m, args, item, h, i, j, NULL);
        if (j - p->first < KEPT_SCORES)
            scores[j - p->first] = s;
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
        const double s = j - p->first < KEPT_SCORES ? scores[j - p->first]
                                                    : score_of(&m, args, item, h, i, j, NULL);
        const double e = exp(s - shift);
        total += e;
        for (size_t c = 0; has_values && c < m.width; c++)
            sums[c] += e * copse__load(v, copse__attention_v(&m, item, h, j) + c);
    }
    const bool is_empty = m.has_mask ? total == 0 : !sees_a_key(&m, i, keys);
    copse__store(state, STATE * row, is_last && is_empty ? 0 : top);
    copse__store(state, STATE * row + 1, !is_last ? total : is_empty ? 0 : 1 / total);
    copse__store(state, STATE * row + 2, 0);
    copse__store(state, STATE * row + 3, (double)keys);
    for (size_t c = 0; has_values && c < m.width; c++)
        copse__store(y, to + c, !is_last ? sums[c] : is_empty ? 0 : sums[c] / total);
}

static void attention_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_attention *p = params;
    for (size_t row = 0; row < p->rows; row++)
        attention_line(params, spec, args, row);
}

/* P of a query and a key from its score and the state. */
static double share_of(const struct copse_host_arg *state, size_t row, double score)
{
    return exp(score - copse__load(state, STATE * row)) * copse__load(state, STATE * row + 1);
}

static void grad_query_line(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args, size_t row)
{
    const struct copse_params_attention_grad_query *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 1);
    const struct copse_host_arg *k = &args[1], *v = &args[2], *y = &args[4], *dy = &args[5],
                                *state = &args[6], *to = &args[7];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    const size_t i = row % m.queries, h = row / m.queries % m.heads,
                 item = row / m.queries / m.heads;
    const size_t of_y = copse__attention_y(&m, item, h, i);
    const size_t keys = m.lengths ? (size_t)copse__load(state, STATE * row + 3) : m.keys;
    const size_t at = (item * m.queries + i) * p->to_stride + p->to_first + h * m.width;
    const double along = copse__attention_dot(dy, of_y, y, of_y, m.width);
    double sums[COPSE_ATTENTION_WIDTH] = { 0 };
    for (size_t j = p->first; j < end; j++) {
        if (!copse__attention_sees(&m, i, j, keys))
            continue;
        const size_t of_k = copse__attention_k(&m, item, h, j),
                     of_v = copse__attention_v(&m, item, h, j);
        double bend;
        const double share = share_of(state, row, score_of(&m, args, item, h, i, j, &bend));
        const double slope =
            share * (copse__attention_dot(dy, of_y, v, of_v, m.width) - along) * m.scale * bend;
        for (size_t c = 0; c < m.width; c++)
            sums[c] += slope * copse__load(k, of_k + c);
    }
    copse__store(state, STATE * row + 2, along);
    for (size_t c = 0; c < m.width; c++)
        copse__store(to, at + c, sums[c] + (p->first ? copse__load(to, at + c) : 0));
}

static void attention_grad_query_host(const void *params, const int32_t *spec,
                                      const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query *p = params;
    for (size_t row = 0; row < p->rows; row++)
        grad_query_line(params, spec, args, row);
}

static void grad_key_line(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args, size_t row)
{
    const struct copse_params_attention_grad_key *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 1);
    const struct copse_host_arg *q = &args[0], *v = &args[2], *dy = &args[4], *state = &args[5],
                                *to = &args[6];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.queries),
                 kv_heads = m.heads / m.share;
    const size_t j = row % m.keys, kv = row / m.keys % kv_heads, item = row / m.keys / kv_heads;
    const size_t h = kv * m.share + p->head, at = (item * m.keys + j) * p->to_stride + kv * m.width;
    const size_t of_v = copse__attention_v(&m, item, h, j);
    const size_t length = copse__attention_state_length(&m, state, item, h);
    const bool adds = p->first + p->head > 0;
    double sums_k[COPSE_ATTENTION_WIDTH] = { 0 }, sums_v[COPSE_ATTENTION_WIDTH] = { 0 };
    for (size_t i = p->first; i < end; i++) {
        if (!copse__attention_sees(&m, i, j, copse__attention_keys(&m, length, i)))
            continue;
        const size_t of_q = copse__attention_q(&m, item, h, i),
                     of_y = copse__attention_y(&m, item, h, i);
        const size_t line = (item * m.heads + h) * m.queries + i;
        double bend;
        const double share = share_of(state, line, score_of(&m, args, item, h, i, j, &bend));
        const double slope = share * m.scale * bend *
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

static void attention_grad_key_host(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key *p = params;
    for (size_t row = 0; row < p->rows; row++)
        grad_key_line(params, spec, args, row);
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

/* ---- the kernels for GPUs ---- */

static void attention_tile_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_attention p = copse__attention_of_tile(params);
    attention_host(&p, spec, args);
}

static void attention_grad_query_tile_host(const void *params, const int32_t *spec,
                                           const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_tile(params);
    attention_grad_query_host(&p, spec, args);
}

static void attention_grad_key_tile_host(const void *params, const int32_t *spec,
                                         const struct copse_host_arg *args)
{
    struct copse_params_attention_grad_key p = copse__attention_key_of_tile(params);
    for (; p.head < p.share; p.head++)
        attention_grad_key_host(&p, spec, args);
}

/* ---- lines: rows of queries, or of keys ---- */

static uint64_t count_lines(const void *params)
{
    return ((const struct copse_params_attention *)params)->rows;
}

static uint64_t count_query_lines(const void *params)
{
    return ((const struct copse_params_attention_grad_query *)params)->rows;
}

static uint64_t count_key_lines(const void *params)
{
    return ((const struct copse_params_attention_grad_key *)params)->rows;
}

static size_t words_of_line(const void *params, const int32_t *spec, size_t line,
                            struct copse_line_words out[COPSE_LINE_WORDS])
{
    const struct copse_params_attention *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 2);
    const size_t i = line % m.queries, h = line / m.queries % m.heads,
                 item = line / m.queries / m.heads;
    out[0] = (struct copse_line_words){ 5, STATE * line, STATE };
    out[1] = (struct copse_line_words){ 6, copse__attention_y(&m, item, h, i), m.width };
    return spec[1] != 0 ? 2 : 1;
}

static size_t words_of_query_line(const void *params, const int32_t *spec, size_t line,
                                  struct copse_line_words out[COPSE_LINE_WORDS])
{
    const struct copse_params_attention_grad_query *p = params;
    const size_t i = line % p->queries, h = line / p->queries % p->heads,
                 item = line / p->queries / p->heads;
    (void)spec;
    out[0] = (struct copse_line_words){ 6, STATE * line, STATE };
    out[1] = (struct copse_line_words){
        7, (item * p->queries + i) * p->to_stride + p->to_first + h * p->width, p->width
    };
    return 2;
}

static size_t words_of_key_line(const void *params, const int32_t *spec, size_t line,
                                struct copse_line_words out[COPSE_LINE_WORDS])
{
    const struct copse_params_attention_grad_key *p = params;
    const size_t kv_heads = p->heads / p->share, j = line % p->keys, kv = line / p->keys % kv_heads,
                 item = line / p->keys / kv_heads;
    const size_t at = (item * p->keys + j) * p->to_stride + kv * p->width;
    (void)spec;
    out[0] = (struct copse_line_words){ 6, p->to_k + at, p->width };
    out[1] = (struct copse_line_words){ 6, p->to_v + at, p->width };
    return 2;
}

/* All heads that share a key head, as the wide kernel and the one for GPUs compute them. */
static void add_heads(copse_host_line_fn *of_head, const void *params, const int32_t *spec,
                      const struct copse_host_arg *args, size_t line)
{
    struct copse_params_attention_grad_key p =
        *(const struct copse_params_attention_grad_key *)params;
    for (; p.head < p.share; p.head++)
        of_head(&p, spec, args, line);
}

static void grad_key_wide_line(const void *params, const int32_t *spec,
                               const struct copse_host_arg *args, size_t line)
{
    add_heads(grad_key_line, params, spec, args, line);
}

static void grad_key_wide_line_size(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args, size_t line)
{
    add_heads(copse__attention_grad_key_line_size, params, spec, args, line);
}

static const struct copse_lines lines_of_queries = { count_lines, attention_line,
                                                     copse__attention_line_size, words_of_line };
static const struct copse_lines lines_of_query_gradients = { count_query_lines, grad_query_line,
                                                             copse__attention_grad_query_line_size,
                                                             words_of_query_line };
static const struct copse_lines lines_of_key_gradients = { count_key_lines, grad_key_line,
                                                           copse__attention_grad_key_line_size,
                                                           words_of_key_line };
static const struct copse_lines lines_of_key_gradients_wide = { count_key_lines, grad_key_wide_line,
                                                                grad_key_wide_line_size,
                                                                words_of_key_line };

static void wide_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention p = copse__attention_of_wide(params);
    memcpy(out, &p, sizeof p);
}

static void query_wide_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_wide(params);
    memcpy(out, &p, sizeof p);
}

static void key_wide_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_wide(params);
    memcpy(out, &p, sizeof p);
}

static void texel_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention p = copse__attention_of_texel(params);
    memcpy(out, &p, sizeof p);
}

static void query_texel_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_texel(params);
    memcpy(out, &p, sizeof p);
}

static void key_texel_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_texel(params);
    memcpy(out, &p, sizeof p);
}

static void tile_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention p = copse__attention_of_tile(params);
    memcpy(out, &p, sizeof p);
}

static void query_tile_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_tile(params);
    memcpy(out, &p, sizeof p);
}

static void key_tile_line_params(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS])
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_tile(params);
    memcpy(out, &p, sizeof p);
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

static uint64_t attention_tile_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention p = copse__attention_of_tile(params);
    return attention_work(&p, spec);
}

static uint64_t attention_grad_query_tile_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_tile(params);
    return attention_grad_query_work(&p, spec);
}

static uint64_t attention_grad_key_tile_work(const void *params, const int32_t *spec)
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_tile(params);
    return p.share * attention_grad_key_work(&p, spec);
}

const struct copse_law copse_law_attention = {
    .host = attention_host,
    .lines = &lines_of_queries,
    .work = attention_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_size },
    .self_test = copse__attention_test,
};
const struct copse_law copse_law_attention_grad_query = {
    .host = attention_grad_query_host,
    .lines = &lines_of_query_gradients,
    .work = attention_grad_query_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_size },
    .self_test = copse__attention_grad_query_test,
};
const struct copse_law copse_law_attention_grad_key = {
    .host = attention_grad_key_host,
    .lines = &lines_of_key_gradients,
    .work = attention_grad_key_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_size },
    .self_test = copse__attention_grad_key_test,
};
const struct copse_law copse_law_attention_wide = {
    .host = attention_wide_host,
    .lines = &lines_of_queries,
    .line_params = wide_line_params,
    .work = attention_wide_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_wide_size },
    .self_test = copse__attention_wide_test,
};
const struct copse_law copse_law_attention_grad_query_wide = {
    .host = attention_grad_query_wide_host,
    .lines = &lines_of_query_gradients,
    .line_params = query_wide_line_params,
    .work = attention_grad_query_wide_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_wide_size },
    .self_test = copse__attention_grad_query_wide_test,
};
const struct copse_law copse_law_attention_grad_key_wide = {
    .host = attention_grad_key_wide_host,
    .lines = &lines_of_key_gradients_wide,
    .line_params = key_wide_line_params,
    .work = attention_grad_key_wide_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_wide_size },
    .self_test = copse__attention_grad_key_wide_test,
};
const struct copse_law copse_law_attention_texel = {
    .host = attention_texel_host,
    .lines = &lines_of_queries,
    .line_params = texel_line_params,
    .work = attention_texel_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_texel_size },
    .self_test = copse__attention_texel_test,
};
const struct copse_law copse_law_attention_grad_query_texel = {
    .host = attention_grad_query_texel_host,
    .lines = &lines_of_query_gradients,
    .line_params = query_texel_line_params,
    .work = attention_grad_query_texel_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_texel_size },
    .self_test = copse__attention_grad_query_texel_test,
};
const struct copse_law copse_law_attention_grad_key_texel = {
    .host = attention_grad_key_texel_host,
    .lines = &lines_of_key_gradients,
    .line_params = key_texel_line_params,
    .work = attention_grad_key_texel_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_texel_size },
    .self_test = copse__attention_grad_key_texel_test,
};
const struct copse_law copse_law_attention_tile = {
    .host = attention_tile_host,
    .lines = &lines_of_queries,
    .line_params = tile_line_params,
    .work = attention_tile_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_tile_size },
    .self_test = copse__attention_tile_test,
};
const struct copse_law copse_law_attention_grad_query_tile = {
    .host = attention_grad_query_tile_host,
    .lines = &lines_of_query_gradients,
    .line_params = query_tile_line_params,
    .work = attention_grad_query_tile_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_query_tile_size },
    .self_test = copse__attention_grad_query_tile_test,
};
const struct copse_law copse_law_attention_grad_key_tile = {
    .host = attention_grad_key_tile_host,
    .lines = &lines_of_key_gradients_wide,
    .line_params = key_tile_line_params,
    .work = attention_grad_key_tile_work,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__attention_grad_key_tile_size },
    .self_test = copse__attention_grad_key_tile_test,
};
