/* SPDX-License-Identifier: MIT */
/* The places that the host functions of attention read, and the bases of their tolerances. */
#ifndef COPSE_ATTENTION_MAP_H
#define COPSE_ATTENTION_MAP_H

#include "core/device/kernel.h"

/* Of the parameters of one of the three kernels. */
struct copse_attention_map {
    size_t queries, keys, heads, share, width, window, q_first, k_first, v_first, q_stride, k_stride;
    double scale;
    bool is_causal;
};
#define COPSE_ATTENTION_MAP(p, spec)                                                                                       \
    { (p)->queries, (p)->keys, (p)->heads, (p)->share, (p)->width, (p)->window, (p)->q_first, (p)->k_first,         \
      (p)->v_first, (p)->q_stride, (p)->k_stride, (double)(p)->scale, (spec)[0] != 0 }

/* The same fields of a kernel for wide vectors, with all keys or queries in one launch. */
#define COPSE_ATTENTION_WIDE(w)                                                                                            \
    .queries = (w)->queries, .keys = (w)->keys, .heads = (w)->heads, .share = (w)->share, .width = (w)->width,             \
    .window = (w)->window, .q_first = (w)->q_first, .k_first = (w)->k_first, .v_first = (w)->v_first,                      \
    .q_stride = (w)->q_stride, .k_stride = (w)->k_stride, .count = UINT32_MAX, .scale = (w)->scale

/* The first element of query i or key j of head h of an item. */
static inline size_t copse__attention_q(const struct copse_attention_map *m, size_t item, size_t h, size_t i)
{
    return (item * m->queries + i) * m->q_stride + m->q_first + h * m->width;
}
static inline size_t copse__attention_k(const struct copse_attention_map *m, size_t item, size_t h, size_t j)
{
    return (item * m->keys + j) * m->k_stride + m->k_first + h / m->share * m->width;
}
static inline size_t copse__attention_v(const struct copse_attention_map *m, size_t item, size_t h, size_t j)
{
    return (item * m->keys + j) * m->k_stride + m->v_first + h / m->share * m->width;
}
static inline size_t copse__attention_y(const struct copse_attention_map *m, size_t item, size_t h, size_t i)
{
    return ((item * m->queries + i) * m->heads + h) * m->width;
}
static inline bool copse__attention_sees(const struct copse_attention_map *m, size_t i, size_t j)
{
    if (m->is_causal)
        return j <= i && i - j < m->window;
    return (i > j ? i - j : j - i) < m->window;
}
static inline double copse__attention_dot(const struct copse_host_arg *a, size_t i, const struct copse_host_arg *b, size_t j,
                                          size_t width)
{
    double sum = 0;
    for (size_t c = 0; c < width; c++)
        sum += copse__load(a, i + c) * copse__load(b, j + c);
    return sum;
}

#endif
