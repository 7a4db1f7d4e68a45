/* SPDX-License-Identifier: MIT */
/* The places that the host functions of attention read, and the bases of their tolerances. */
#ifndef COPSE_ATTENTION_MAP_H
#define COPSE_ATTENTION_MAP_H

#include "core/device/device.h"

#define COPSE_ATTENTION_WIDTH 256u /* the longest head */
#define COPSE_ATTENTION_STATE 4u   /* words of a query: kernels/attention/attention.clh */

/* Whether items have lengths: the values of LENGTHS there. */
enum copse_attention_lengths {
    COPSE_ATTENTION_ALL,
    COPSE_ATTENTION_OF_KEYS,
    COPSE_ATTENTION_OF_BOTH
};

/* Of the parameters of one of the three kernels. */
struct copse_attention_map {
    size_t queries, keys, heads, share, width, window, q_first, k_first, v_first, q_stride,
        k_stride;
    size_t mask_item, mask_head, mask_query;
    double scale, cap; /* cap 0: none */
    bool is_causal, has_mask;
    int lengths; /* enum copse_attention_lengths */
};
/* `at`: the specialisation constant that says whether there is a mask; the constants of lengths and of a cap
   are the next ones. */
#define COPSE_ATTENTION_MAP(p, spec, at)                                                        \
    {                                                                                           \
        (p)->queries, (p)->keys, (p)->heads, (p)->share, (p)->width, (p)->window, (p)->q_first, \
            (p)->k_first, (p)->v_first, (p)->q_stride, (p)->k_stride, (p)->mask_item,           \
            (p)->mask_head, (p)->mask_query, (double)(p)->scale,                                \
            (spec)[(at) + 2] ? (double)(p)->cap : 0, (spec)[0] != 0, (spec)[at] != 0,           \
            (spec)[(at) + 1]                                                                    \
    }

/* The same fields of a kernel for wide vectors or for GPUs, with all keys or queries in one launch. */
#define COPSE_ATTENTION_WIDE(w)                                                                   \
    .queries = (w)->queries, .keys = (w)->keys, .heads = (w)->heads, .share = (w)->share,         \
    .width = (w)->width, .window = (w)->window, .q_first = (w)->q_first, .k_first = (w)->k_first, \
    .v_first = (w)->v_first, .q_stride = (w)->q_stride, .k_stride = (w)->k_stride,                \
    .mask_item = (w)->mask_item, .mask_head = (w)->mask_head, .mask_query = (w)->mask_query,      \
    .count = UINT32_MAX, .scale = (w)->scale, .cap = (w)->cap

/* Those of a kernel for fast texels. */
#define COPSE_ATTENTION_TEXEL(t)                                                                  \
    .queries = (t)->queries, .keys = (t)->keys, .heads = (t)->heads, .share = (t)->share,         \
    .width = (t)->width, .window = (t)->window, .q_first = (t)->q_first, .k_first = (t)->k_first, \
    .v_first = (t)->v_first, .q_stride = (t)->q_stride, .k_stride = (t)->k_stride,                \
    .mask_item = (t)->mask_item, .mask_head = (t)->mask_head, .mask_query = (t)->mask_query,      \
    .first = (t)->first, .count = (t)->count, .scale = (t)->scale, .cap = (t)->cap

/* The first element of query i or key j of head h of an item. */
static inline size_t copse__attention_q(const struct copse_attention_map *m, size_t item, size_t h,
                                        size_t i)
{
    return (item * m->queries + i) * m->q_stride + m->q_first + h * m->width;
}
static inline size_t copse__attention_k(const struct copse_attention_map *m, size_t item, size_t h,
                                        size_t j)
{
    return (item * m->keys + j) * m->k_stride + m->k_first + h / m->share * m->width;
}
static inline size_t copse__attention_v(const struct copse_attention_map *m, size_t item, size_t h,
                                        size_t j)
{
    return (item * m->keys + j) * m->k_stride + m->v_first + h / m->share * m->width;
}
static inline size_t copse__attention_y(const struct copse_attention_map *m, size_t item, size_t h,
                                        size_t i)
{
    return ((item * m->queries + i) * m->heads + h) * m->width;
}
/* What is added to the score. */
static inline double copse__attention_bias(const struct copse_attention_map *m,
                                           const struct copse_host_arg *mask, size_t item, size_t h,
                                           size_t i, size_t j)
{
    return m->has_mask
               ? copse__load(mask, item * m->mask_item + h * m->mask_head + i * m->mask_query + j)
               : 0;
}
/* The length of an item: from the list, or from the state of its first query. */
static inline size_t copse__attention_length(const struct copse_attention_map *m,
                                             const struct copse_host_arg *lengths, size_t item)
{
    if (m->lengths == COPSE_ATTENTION_ALL)
        return m->keys;
    const int32_t n = copse__load_i(lengths, item);
    return n < 0 ? 0 : (size_t)n < m->keys ? (size_t)n : m->keys;
}
static inline size_t copse__attention_state_length(const struct copse_attention_map *m,
                                                   const struct copse_host_arg *state, size_t item,
                                                   size_t h)
{
    return m->lengths == COPSE_ATTENTION_ALL
               ? m->keys
               : (size_t)copse__load(
                     state, (item * m->heads + h) * m->queries * COPSE_ATTENTION_STATE + 3);
}
/* Keys of query i of an item, from its length. */
static inline size_t copse__attention_keys(const struct copse_attention_map *m, size_t length,
                                           size_t i)
{
    return m->lengths == COPSE_ATTENTION_OF_BOTH && i >= length ? 0 : length;
}
/* `keys`: of query i. */
static inline bool copse__attention_sees(const struct copse_attention_map *m, size_t i, size_t j,
                                         size_t keys)
{
    if (j >= keys)
        return false;
    if (m->is_causal)
        return j <= i && i - j < m->window;
    return (i > j ? i - j : j - i) < m->window;
}
static inline double copse__attention_dot(const struct copse_host_arg *a, size_t i,
                                          const struct copse_host_arg *b, size_t j, size_t width)
{
    double sum = 0;
    for (size_t c = 0; c < width; c++)
        sum += copse__load(a, i + c) * copse__load(b, j + c);
    return sum;
}

/* ---- parameters of base kernels, from the parameters of variants ---- */

#define COPSE_ATTENTION_LANES      16u  /* queries or keys of an invocation of the wide kernels */
#define COPSE_ATTENTION_GROUP      64u  /* of a group of the kernels for GPUs */
#define COPSE_ATTENTION_TILE_GROUP 256u /* invocations of such a group */

/* Of `blocks` blocks of `each` queries or keys. */
static inline uint32_t copse__attention_rows(uint32_t blocks, uint32_t length, uint32_t each)
{
    return blocks / ((length + each - 1) / each) * length;
}
static inline struct copse_params_attention copse__attention_of_wide(const void *params)
{
    const struct copse_params_attention_wide *w = params;
    return (struct copse_params_attention){ COPSE_ATTENTION_WIDE(w),
                                            .rows = copse__attention_rows(w->blocks, w->queries,
                                                                          COPSE_ATTENTION_LANES) };
}
static inline struct copse_params_attention_grad_query
copse__attention_query_of_wide(const void *params)
{
    const struct copse_params_attention_grad_query_wide *w = params;
    return (struct copse_params_attention_grad_query){
        COPSE_ATTENTION_WIDE(w),
        .rows = copse__attention_rows(w->blocks, w->queries, COPSE_ATTENTION_LANES),
        .to_first = w->to_first, .to_stride = w->to_stride
    };
}
/* Of the first head; the wide kernel computes p.share of them. */
static inline struct copse_params_attention_grad_key
copse__attention_key_of_wide(const void *params)
{
    const struct copse_params_attention_grad_key_wide *w = params;
    return (struct copse_params_attention_grad_key){
        COPSE_ATTENTION_WIDE(w),
        .rows = copse__attention_rows(w->blocks, w->keys, COPSE_ATTENTION_LANES), .to_k = w->to_k,
        .to_v = w->to_v, .to_stride = w->to_stride
    };
}
static inline struct copse_params_attention copse__attention_of_texel(const void *params)
{
    const struct copse_params_attention_texel *t = params;
    return (struct copse_params_attention){ COPSE_ATTENTION_TEXEL(t),
                                            .rows = t->lines * t->queries };
}
static inline struct copse_params_attention_grad_query
copse__attention_query_of_texel(const void *params)
{
    const struct copse_params_attention_grad_query_texel *t = params;
    return (struct copse_params_attention_grad_query){ COPSE_ATTENTION_TEXEL(t),
                                                       .rows = t->lines * t->queries,
                                                       .to_first = t->to_first,
                                                       .to_stride = t->to_stride };
}
static inline struct copse_params_attention_grad_key
copse__attention_key_of_texel(const void *params)
{
    const struct copse_params_attention_grad_key_texel *t = params;
    return (struct copse_params_attention_grad_key){
        COPSE_ATTENTION_TEXEL(t), .rows = t->lines * t->keys, .head = t->head, .to_k = t->to_k,
        .to_v = t->to_v,          .to_stride = t->to_stride
    };
}
static inline struct copse_params_attention copse__attention_of_tile(const void *params)
{
    const struct copse_params_attention_tile *w = params;
    return (struct copse_params_attention){ COPSE_ATTENTION_WIDE(w),
                                            .rows = copse__attention_rows(w->blocks, w->queries,
                                                                          COPSE_ATTENTION_GROUP) };
}
static inline struct copse_params_attention_grad_query
copse__attention_query_of_tile(const void *params)
{
    const struct copse_params_attention_grad_query_tile *w = params;
    return (struct copse_params_attention_grad_query){
        COPSE_ATTENTION_WIDE(w),
        .rows = copse__attention_rows(w->blocks, w->queries, COPSE_ATTENTION_GROUP),
        .to_first = w->to_first, .to_stride = w->to_stride
    };
}
/* Of the first head; the kernel computes p.share of them. */
static inline struct copse_params_attention_grad_key
copse__attention_key_of_tile(const void *params)
{
    const struct copse_params_attention_grad_key_tile *w = params;
    return (struct copse_params_attention_grad_key){
        COPSE_ATTENTION_WIDE(w),
        .rows = copse__attention_rows(w->blocks, w->keys, COPSE_ATTENTION_GROUP), .to_k = w->to_k,
        .to_v = w->to_v, .to_stride = w->to_stride
    };
}

#endif
