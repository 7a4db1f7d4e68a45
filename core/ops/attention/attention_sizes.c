/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of attention: see struct copse_limit. A score s of magnitude sum A has an
   error of A, so that exp(s - m) has a relative one of 1 + A + |s - m|. */
#include "core/ops/attention/attention_sizes.h"

#include <math.h>

#include "core/ops/attention/attention_map.h"

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126
#define STATE COPSE_ATTENTION_STATE

static double attention_sizes_magnitude(const struct copse_host_arg *a, size_t i,
                                        const struct copse_host_arg *b, size_t j, size_t width)
{
    double sum = LEAST;
    for (size_t c = 0; c < width; c++)
        sum += fabs(copse__load(a, i + c) * copse__load(b, j + c));
    return sum;
}

/* The score of query and key, its magnitude, and the error of its derivative by the product, which is
   at most 1. */
struct score {
    double s, a, bend;
};

/* False: the mask hides the key. */
static bool score_of(const struct copse_attention_map *m, const struct copse_host_arg *args,
                     size_t item, size_t h, size_t i, size_t j, struct score *out)
{
    const size_t of_q = copse__attention_q(m, item, h, i), of_k = copse__attention_k(m, item, h, j);
    const double bias = copse__attention_bias(m, &args[3], item, h, i, j);
    out->s = m->scale * copse__attention_dot(&args[0], of_q, &args[1], of_k, m->width);
    out->a = fabs(m->scale) * attention_sizes_magnitude(&args[0], of_q, &args[1], of_k, m->width);
    out->bend = 0;
    if (m->cap > 0) {
        out->bend = 1 + out->a / m->cap;
        out->s = m->cap * tanh(out->s / m->cap);
        out->a += fabs(out->s);
    }
    out->s += bias;
    out->a += fabs(bias);
    return bias != -INFINITY;
}

void copse__attention_line_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args, size_t row)
{
    const struct copse_params_attention *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec, 2);
    const struct copse_host_arg *v = &args[2], *state = &args[5], *y = &args[6];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    const size_t i = row % m.queries, h = row / m.queries % m.heads,
                 item = row / m.queries / m.heads;
    const size_t to = copse__attention_y(&m, item, h, i);
    const size_t keys = copse__attention_keys(&m, copse__attention_length(&m, &args[4], item), i);
    const double before = p->first ? copse__load(state, STATE * row) : -INFINITY;
    double top = before, most = 0, total = 0, size = 0, sizes[COPSE_ATTENTION_WIDTH] = { 0 },
           sums[COPSE_ATTENTION_WIDTH] = { 0 };
    for (size_t j = p->first; j < end; j++) {
        struct score s;
        if (!copse__attention_sees(&m, i, j, keys) || !score_of(&m, args, item, h, i, j, &s))
            continue;
        top = s.s > top ? s.s : top;
        most = fmax(most, s.a);
    }
    const double shift = top == -INFINITY ? 0 : top;
    if (p->first) {
        const double keep = exp(before - shift), old = copse__load(state, STATE * row + 1) * keep;
        const double error = keep > 0 ? 1 + shift - before + most : 1;
        total = old;
        size = fabs(old) * error;
        for (size_t c = 0; spec[1] && c < m.width; c++) {
            sums[c] = copse__load(y, to + c) * keep;
            sizes[c] = fabs(sums[c]) * error;
        }
    }
    for (size_t j = p->first; j < end; j++) {
        struct score s;
        if (!copse__attention_sees(&m, i, j, keys) || !score_of(&m, args, item, h, i, j, &s))
            continue;
        const double e = exp(s.s - shift), error = e * (1 + s.a + fabs(s.s - shift) + most) + LEAST;
        total += e;
        size += error;
        for (size_t c = 0; spec[1] && c < m.width; c++) {
            const double x = copse__load(v, copse__attention_v(&m, item, h, j) + c);
            sums[c] += e * x;
            sizes[c] += error * fabs(x) + LEAST;
        }
    }
    const bool is_last = end == m.keys;
    copse__store(state, STATE * row, fmax(most, fabs(before) < INFINITY ? fabs(before) : 0));
    copse__store(state, STATE * row + 1, !is_last ? size : total != 0 ? size / (total * total) : 0);
    copse__store(state, STATE * row + 2, 0);
    copse__store(state, STATE * row + 3, 0);
    for (size_t c = 0; spec[1] && c < m.width; c++)
        copse__store(y, to + c,
                     !is_last     ? sizes[c]
                     : total != 0 ? (sizes[c] + fabs(sums[c] / total) * size) / fabs(total)
                                  : 0);
}

void copse__attention_size(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_attention *p = params;
    for (size_t row = 0; row < p->rows; row++)
        copse__attention_line_size(params, spec, args, row);
}

/* |P| of a query and a key from the state, with its relative error and `more`. */
static double share_size(const struct copse_host_arg *state, size_t row, struct score s,
                         double more)
{
    const double x = s.s - copse__load(state, STATE * row);
    return exp(x) * fabs(copse__load(state, STATE * row + 1)) * (1 + s.a + fabs(x) + more) + LEAST;
}

void copse__attention_grad_query_line_size(const void *params, const int32_t *spec,
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
    const double along = attention_sizes_magnitude(dy, of_y, y, of_y, m.width);
    double sums[COPSE_ATTENTION_WIDTH] = { 0 };
    for (size_t j = p->first; j < end; j++) {
        struct score s;
        if (!copse__attention_sees(&m, i, j, keys) || !score_of(&m, args, item, h, i, j, &s))
            continue;
        const size_t of_k = copse__attention_k(&m, item, h, j),
                     of_v = copse__attention_v(&m, item, h, j);
        const double slope = share_size(state, row, s, s.bend) * fabs(m.scale) *
                                 (attention_sizes_magnitude(dy, of_y, v, of_v, m.width) + along) +
                             LEAST;
        for (size_t c = 0; c < m.width; c++)
            sums[c] += slope * fabs(copse__load(k, of_k + c)) + LEAST;
    }
    copse__store(state, STATE * row + 2, along);
    for (size_t c = 0; c < m.width; c++)
        copse__store(to, at + c, sums[c] + (p->first ? fabs(copse__load(to, at + c)) : 0));
}

void copse__attention_grad_query_size(const void *params, const int32_t *spec,
                                      const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query *p = params;
    for (size_t row = 0; row < p->rows; row++)
        copse__attention_grad_query_line_size(params, spec, args, row);
}

void copse__attention_grad_key_line_size(const void *params, const int32_t *spec,
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
        struct score s;
        if (!copse__attention_sees(&m, i, j, copse__attention_keys(&m, length, i)) ||
            !score_of(&m, args, item, h, i, j, &s))
            continue;
        const size_t of_q = copse__attention_q(&m, item, h, i),
                     of_y = copse__attention_y(&m, item, h, i);
        const size_t line = (item * m.heads + h) * m.queries + i;
        const double share = share_size(state, line, s, 0);
        const double slope = share_size(state, line, s, s.bend) * fabs(m.scale) *
                                 (attention_sizes_magnitude(dy, of_y, v, of_v, m.width) +
                                  fabs(copse__load(state, STATE * line + 2))) +
                             LEAST;
        for (size_t c = 0; c < m.width; c++) {
            sums_k[c] += slope * fabs(copse__load(q, of_q + c)) + LEAST;
            sums_v[c] += share * fabs(copse__load(dy, of_y + c)) + LEAST;
        }
    }
    for (size_t c = 0; c < m.width; c++) {
        copse__store(to, p->to_k + at + c,
                     sums_k[c] + (adds ? fabs(copse__load(to, p->to_k + at + c)) : 0));
        copse__store(to, p->to_v + at + c,
                     sums_v[c] + (adds ? fabs(copse__load(to, p->to_v + at + c)) : 0));
    }
}

void copse__attention_grad_key_size(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key *p = params;
    for (size_t row = 0; row < p->rows; row++)
        copse__attention_grad_key_line_size(params, spec, args, row);
}

/* ---- the wide kernels ---- */

void copse__attention_wide_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_attention p = copse__attention_of_wide(params);
    copse__attention_size(&p, spec, args);
}

void copse__attention_grad_query_wide_size(const void *params, const int32_t *spec,
                                           const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_wide(params);
    copse__attention_grad_query_size(&p, spec, args);
}

void copse__attention_grad_key_wide_size(const void *params, const int32_t *spec,
                                         const struct copse_host_arg *args)
{
    struct copse_params_attention_grad_key p = copse__attention_key_of_wide(params);
    for (; p.head < p.share; p.head++)
        copse__attention_grad_key_size(&p, spec, args);
}

/* ---- the kernels for fast texels ---- */

void copse__attention_texel_size(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_attention p = copse__attention_of_texel(params);
    copse__attention_size(&p, spec, args);
}

void copse__attention_grad_query_texel_size(const void *params, const int32_t *spec,
                                            const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_texel(params);
    copse__attention_grad_query_size(&p, spec, args);
}

void copse__attention_grad_key_texel_size(const void *params, const int32_t *spec,
                                          const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key p = copse__attention_key_of_texel(params);
    copse__attention_grad_key_size(&p, spec, args);
}

/* ---- the kernels for GPUs ---- */

void copse__attention_tile_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_attention p = copse__attention_of_tile(params);
    copse__attention_size(&p, spec, args);
}

void copse__attention_grad_query_tile_size(const void *params, const int32_t *spec,
                                           const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query p = copse__attention_query_of_tile(params);
    copse__attention_grad_query_size(&p, spec, args);
}

void copse__attention_grad_key_tile_size(const void *params, const int32_t *spec,
                                         const struct copse_host_arg *args)
{
    struct copse_params_attention_grad_key p = copse__attention_key_of_tile(params);
    for (; p.head < p.share; p.head++)
        copse__attention_grad_key_size(&p, spec, args);
}
