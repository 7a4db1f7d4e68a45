/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of attention: see bound.h. A score s of magnitude sum A has an error of A, so that exp(s - m) has a
   relative one of 1 + A + |s - m|. */
#include <math.h>

#include "core/audit/bound.h"
#include "core/device/attention_map.h"

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126
#define STATE 3u /* words of a query: kernels/attention/attention.clh */
#define WIDEST 128

static double magnitude(const struct copse_host_arg *a, size_t i, const struct copse_host_arg *b, size_t j, size_t width)
{
    double sum = LEAST;
    for (size_t c = 0; c < width; c++)
        sum += fabs(copse__load(a, i + c) * copse__load(b, j + c));
    return sum;
}

/* The score of query and key, and its magnitude. */
struct score {
    double s, a;
};

static struct score score_of(const struct copse_attention_map *m, const struct copse_host_arg *q, size_t of_q,
                             const struct copse_host_arg *k, size_t of_k)
{
    return (struct score){ m->scale * copse__attention_dot(q, of_q, k, of_k, m->width),
                           fabs(m->scale) * magnitude(q, of_q, k, of_k, m->width) };
}

void copse__size_attention(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_attention *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec);
    const struct copse_host_arg *q = &args[0], *k = &args[1], *v = &args[2], *state = &args[3], *y = &args[4];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    for (size_t row = 0; row < p->rows; row++) {
        const size_t i = row % m.queries, h = row / m.queries % m.heads, item = row / m.queries / m.heads;
        const size_t of_q = copse__attention_q(&m, item, h, i), to = copse__attention_y(&m, item, h, i);
        const double before = p->first ? copse__load(state, STATE * row) : -INFINITY;
        double top = before, most = 0, total = 0, size = 0, sizes[WIDEST] = { 0 }, sums[WIDEST] = { 0 };
        for (size_t j = p->first; j < end; j++) {
            const struct score s = score_of(&m, q, of_q, k, copse__attention_k(&m, item, h, j));
            if (!copse__attention_sees(&m, i, j))
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
            if (!copse__attention_sees(&m, i, j))
                continue;
            const struct score s = score_of(&m, q, of_q, k, copse__attention_k(&m, item, h, j));
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
        copse__store(state, STATE * row + 1, is_last ? size / (total * total) : size);
        for (size_t c = 0; spec[1] && c < m.width; c++)
            copse__store(y, to + c, !is_last     ? sizes[c]
                                    : total != 0 ? (sizes[c] + fabs(sums[c] / total) * size) / fabs(total)
                                                 : 0);
    }
}

/* |P| of a query and a key from the state, with its relative error. */
static double share_size(const struct copse_host_arg *state, size_t row, struct score s)
{
    const double x = s.s - copse__load(state, STATE * row);
    return exp(x) * fabs(copse__load(state, STATE * row + 1)) * (1 + s.a + fabs(x)) + LEAST;
}

void copse__size_attention_grad_query(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec);
    const struct copse_host_arg *q = &args[0], *k = &args[1], *v = &args[2], *y = &args[3], *dy = &args[4],
                                *state = &args[5], *to = &args[6];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.keys);
    for (size_t row = 0; row < p->rows; row++) {
        const size_t i = row % m.queries, h = row / m.queries % m.heads, item = row / m.queries / m.heads;
        const size_t of_q = copse__attention_q(&m, item, h, i), of_y = copse__attention_y(&m, item, h, i);
        const size_t at = (item * m.queries + i) * p->to_stride + p->to_first + h * m.width;
        const double along = magnitude(dy, of_y, y, of_y, m.width);
        double sums[WIDEST] = { 0 };
        for (size_t j = p->first; j < end; j++) {
            if (!copse__attention_sees(&m, i, j))
                continue;
            const size_t of_k = copse__attention_k(&m, item, h, j), of_v = copse__attention_v(&m, item, h, j);
            const double slope = share_size(state, row, score_of(&m, q, of_q, k, of_k)) * fabs(m.scale) *
                                     (magnitude(dy, of_y, v, of_v, m.width) + along) + LEAST;
            for (size_t c = 0; c < m.width; c++)
                sums[c] += slope * fabs(copse__load(k, of_k + c)) + LEAST;
        }
        copse__store(state, STATE * row + 2, along);
        for (size_t c = 0; c < m.width; c++)
            copse__store(to, at + c, sums[c] + (p->first ? fabs(copse__load(to, at + c)) : 0));
    }
}

void copse__size_attention_grad_key(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key *p = params;
    const struct copse_attention_map m = COPSE_ATTENTION_MAP(p, spec);
    const struct copse_host_arg *q = &args[0], *k = &args[1], *v = &args[2], *dy = &args[3], *state = &args[4], *to = &args[5];
    const size_t end = COPSE_MIN((size_t)p->first + p->count, m.queries), kv_heads = m.heads / m.share;
    for (size_t row = 0; row < p->rows; row++) {
        const size_t j = row % m.keys, kv = row / m.keys % kv_heads, item = row / m.keys / kv_heads;
        const size_t h = kv * m.share + p->head, at = (item * m.keys + j) * p->to_stride + kv * m.width;
        const size_t of_k = copse__attention_k(&m, item, h, j), of_v = copse__attention_v(&m, item, h, j);
        const bool adds = p->first + p->head > 0;
        double sums_k[WIDEST] = { 0 }, sums_v[WIDEST] = { 0 };
        for (size_t i = p->first; i < end; i++) {
            if (!copse__attention_sees(&m, i, j))
                continue;
            const size_t of_q = copse__attention_q(&m, item, h, i), of_y = copse__attention_y(&m, item, h, i);
            const size_t line = (item * m.heads + h) * m.queries + i;
            const double share = share_size(state, line, score_of(&m, q, of_q, k, of_k));
            const double slope = share * fabs(m.scale) *
                                     (magnitude(dy, of_y, v, of_v, m.width) + fabs(copse__load(state, STATE * line + 2))) + LEAST;
            for (size_t c = 0; c < m.width; c++) {
                sums_k[c] += slope * fabs(copse__load(q, of_q + c)) + LEAST;
                sums_v[c] += share * fabs(copse__load(dy, of_y + c)) + LEAST;
            }
        }
        for (size_t c = 0; c < m.width; c++) {
            copse__store(to, p->to_k + at + c, sums_k[c] + (adds ? fabs(copse__load(to, p->to_k + at + c)) : 0));
            copse__store(to, p->to_v + at + c, sums_v[c] + (adds ? fabs(copse__load(to, p->to_v + at + c)) : 0));
        }
    }
}

/* ---- the wide kernels ---- */

#define LANES 16u /* queries or keys of an invocation */

static uint32_t rows_of(uint32_t blocks, uint32_t length)
{
    return blocks / ((length + LANES - 1) / LANES) * length;
}

void copse__size_attention_wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_attention_wide *w = params;
    const struct copse_params_attention p = { COPSE_ATTENTION_WIDE(w), .rows = rows_of(w->blocks, w->queries) };
    copse__size_attention(&p, spec, args);
}

void copse__size_attention_grad_query_wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_query_wide *w = params;
    const struct copse_params_attention_grad_query p = { COPSE_ATTENTION_WIDE(w), .rows = rows_of(w->blocks, w->queries),
                                                         .to_first = w->to_first, .to_stride = w->to_stride };
    copse__size_attention_grad_query(&p, spec, args);
}

void copse__size_attention_grad_key_wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_attention_grad_key_wide *w = params;
    struct copse_params_attention_grad_key p = { COPSE_ATTENTION_WIDE(w), .rows = rows_of(w->blocks, w->keys),
                                                 .to_k = w->to_k, .to_v = w->to_v, .to_stride = w->to_stride };
    for (; p.head < p.share; p.head++)
        copse__size_attention_grad_key(&p, spec, args);
}
