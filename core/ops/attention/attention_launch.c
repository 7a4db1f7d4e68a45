/* SPDX-License-Identifier: MIT */
/* The launches of the variants of attention. */
#include "core/ops/attention/attention.h"

#define FIELDS(x, a)                                                                   \
    .queries = (x)->queries, .keys = (x)->keys, .heads = (x)->heads,                   \
    .share = (x)->heads / (x)->kv_heads, .width = (x)->width, .window = (a)->window,   \
    .q_first = (x)->q_first, .k_first = (x)->k_first, .v_first = (x)->v_first,         \
    .q_stride = (x)->q_stride, .k_stride = (x)->k_stride, .mask_item = (x)->mask_item, \
    .mask_head = (x)->mask_head, .mask_query = (x)->mask_query, .scale = (a)->scale,   \
    .cap = (a)->cap
#define GRAD_SPEC(a)                                              \
    {                                                             \
        (a)->is_causal, (a)->has_mask, (a)->lengths, (a)->cap > 0 \
    }

/* The result; a launch for the state alone binds a word that no kernel writes. */
static copse_status values_of(struct copse_lowering *l, const struct copse_attention_launch *w,
                              bool has_values, struct copse_operand *y)
{
    *y = w->y;
    return has_values ? COPSE_OK : copse__scratch(l, 1, y);
}

/* ---- a query or a key per invocation ---- */

/* Keys or queries of a launch, whole tiles: at most 60,000 rounds of all loops. */
static uint32_t count_of_launch(uint32_t width)
{
    return (60000 - 6 * width) / (2 * width + 2) / COPSE_ATTENTION_TILE * COPSE_ATTENTION_TILE;
}

static copse_status plain_forward(struct copse_lowering *l, const struct copse_attention_launch *w,
                                  bool has_values)
{
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, has_values, w->attr.has_mask,
                                            w->attr.lengths, w->attr.cap > 0 };
    struct copse_params_attention p = { FIELDS(x, &w->attr),
                                        .rows = x->items * x->heads * x->queries,
                                        .count = count_of_launch(x->width) };
    struct copse_operand y;
    COPSE_TRY(values_of(l, w, has_values, &y));
    do {
        COPSE_TRY(COPSE_LAUNCH(l, attention, spec, p,
                               copse__groups_for(l, COPSE_KERNEL_attention, p.rows), w->q, w->k,
                               w->v, w->mask, w->lengths, w->state, y));
        p.first += p.count;
    } while (p.first < p.keys);
    return COPSE_OK;
}

static copse_status plain_query(struct copse_lowering *l, const struct copse_attention_launch *w)
{
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = GRAD_SPEC(&w->attr);
    struct copse_params_attention_grad_query p = {
        FIELDS(x, &w->attr), .rows = x->items * x->heads * x->queries,
        .count = count_of_launch(x->width), .to_first = w->to.q, .to_stride = w->to.q_stride
    };
    do {
        COPSE_TRY(COPSE_LAUNCH(l, attention_grad_query, spec, p,
                               copse__groups_for(l, COPSE_KERNEL_attention_grad_query, p.rows),
                               w->q, w->k, w->v, w->mask, w->y, w->dy, w->state, w->dx));
        p.first += p.count;
    } while (p.first < p.keys);
    return COPSE_OK;
}

static copse_status plain_key(struct copse_lowering *l, const struct copse_attention_launch *w)
{
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = GRAD_SPEC(&w->attr);
    struct copse_params_attention_grad_key p = { FIELDS(x, &w->attr),
                                                 .rows = x->items * x->kv_heads * x->keys,
                                                 .count = count_of_launch(x->width),
                                                 .to_k = w->to.k,
                                                 .to_v = w->to.v,
                                                 .to_stride = w->to.k_stride };
    for (p.head = 0; p.head < p.share; p.head++)
        for (p.first = 0; p.first < p.queries; p.first += p.count)
            COPSE_TRY(COPSE_LAUNCH(l, attention_grad_key, spec, p,
                                   copse__groups_for(l, COPSE_KERNEL_attention_grad_key, p.rows),
                                   w->q, w->k, w->v, w->mask, w->dy, w->state, w->dx));
    return COPSE_OK;
}

copse_status copse__attention_plain(struct copse_lowering *l, const void *work)
{
    const struct copse_attention_work *w = work;
    if (w->kind != COPSE_ATTENTION_GRADIENT)
        return plain_forward(l, w->of, w->kind == COPSE_ATTENTION_FORWARD);
    COPSE_TRY(plain_query(l, w->of));
    return plain_key(l, w->of);
}

/* ---- wide vectors: 16 queries or keys per invocation ---- */

static uint32_t blocks_of(uint32_t length)
{
    return (length + COPSE_ATTENTION_LANES - 1) / COPSE_ATTENTION_LANES;
}

static copse_status wide_forward(struct copse_lowering *l, const struct copse_attention_launch *w,
                                 bool has_values)
{
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, has_values, w->attr.has_mask,
                                            w->attr.lengths, w->attr.cap > 0 };
    const struct copse_params_attention_wide p = {
        FIELDS(x, &w->attr), .blocks = x->items * x->heads * blocks_of(x->queries)
    };
    struct copse_operand y;
    COPSE_TRY(values_of(l, w, has_values, &y));
    return COPSE_LAUNCH(l, attention_wide, spec, p, p.blocks, w->q, w->k, w->v, w->mask, w->lengths,
                        w->state, y);
}

copse_status copse__attention_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_attention_work *a = work;
    const struct copse_attention_launch *w = a->of;
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = GRAD_SPEC(&w->attr);
    if (a->kind != COPSE_ATTENTION_GRADIENT)
        return wide_forward(l, w, a->kind == COPSE_ATTENTION_FORWARD);
    const struct copse_params_attention_grad_query_wide q = {
        FIELDS(x, &w->attr), .blocks = x->items * x->heads * blocks_of(x->queries),
        .to_first = w->to.q, .to_stride = w->to.q_stride
    };
    const struct copse_params_attention_grad_key_wide k = {
        FIELDS(x, &w->attr), .blocks = x->items * x->kv_heads * blocks_of(x->keys), .to_k = w->to.k,
        .to_v = w->to.v, .to_stride = w->to.k_stride
    };
    COPSE_TRY(COPSE_LAUNCH(l, attention_grad_query_wide, spec, q, q.blocks, w->q, w->k, w->v,
                           w->mask, w->y, w->dy, w->state, w->dx));
    return COPSE_LAUNCH(l, attention_grad_key_wide, spec, k, k.blocks, w->q, w->k, w->v, w->mask,
                        w->dy, w->state, w->dx);
}

/* ---- texels: four queries or keys per invocation, at most 1,024 keys or queries per launch
   ---- */

#define TEXEL_ROWS  4u
#define TEXEL_COUNT 1024u

static uint32_t texel_blocks(uint32_t length)
{
    return (length + TEXEL_ROWS - 1) / TEXEL_ROWS;
}

static copse_status texel_forward(struct copse_lowering *l, const struct copse_attention_launch *w,
                                  bool has_values)
{
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, has_values,
                                            w->attr.has_mask,  w->attr.lengths,
                                            w->attr.cap > 0,   (int32_t)(x->width / 4) };
    struct copse_params_attention_texel p = { FIELDS(x, &w->attr), .lines = x->items * x->heads,
                                              .count = TEXEL_COUNT };
    const uint64_t groups = copse__groups_for(l, COPSE_KERNEL_attention_texel,
                                              (uint64_t)p.lines * texel_blocks(x->queries));
    struct copse_operand y;
    COPSE_TRY(values_of(l, w, has_values, &y));
    for (; p.first < p.keys; p.first += p.count)
        COPSE_TRY(COPSE_LAUNCH(l, attention_texel, spec, p, groups, w->q, w->k, w->v, w->mask,
                               w->lengths, w->state, y));
    return COPSE_OK;
}

copse_status copse__attention_texel(struct copse_lowering *l, const void *work)
{
    const struct copse_attention_work *a = work;
    const struct copse_attention_launch *w = a->of;
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, w->attr.has_mask, w->attr.lengths,
                                            w->attr.cap > 0, (int32_t)(x->width / 4) };
    if (a->kind != COPSE_ATTENTION_GRADIENT)
        return texel_forward(l, w, a->kind == COPSE_ATTENTION_FORWARD);
    struct copse_params_attention_grad_query_texel q = { FIELDS(x, &w->attr),
                                                         .lines = x->items * x->heads,
                                                         .count = TEXEL_COUNT, .to_first = w->to.q,
                                                         .to_stride = w->to.q_stride };
    const uint64_t of_q = copse__groups_for(l, COPSE_KERNEL_attention_grad_query_texel,
                                            (uint64_t)q.lines * texel_blocks(x->queries));
    for (; q.first < q.keys; q.first += q.count)
        COPSE_TRY(COPSE_LAUNCH(l, attention_grad_query_texel, spec, q, of_q, w->q, w->k, w->v,
                               w->mask, w->y, w->dy, w->state, w->dx));
    struct copse_params_attention_grad_key_texel k = {
        FIELDS(x, &w->attr), .lines = x->items * x->kv_heads, .count = TEXEL_COUNT, .to_k = w->to.k,
        .to_v = w->to.v,     .to_stride = w->to.k_stride
    };
    const uint64_t of_k = copse__groups_for(l, COPSE_KERNEL_attention_grad_key_texel,
                                            (uint64_t)k.lines * texel_blocks(x->keys));
    for (; k.head < k.share; k.head++)
        for (k.first = 0; k.first < k.queries; k.first += k.count)
            COPSE_TRY(COPSE_LAUNCH(l, attention_grad_key_texel, spec, k, of_k, w->q, w->k, w->v,
                                   w->mask, w->dy, w->state, w->dx));
    return COPSE_OK;
}

/* ---- GPUs: 64 queries or keys per group ---- */

static uint32_t groups_of(uint32_t length)
{
    return (length + COPSE_ATTENTION_GROUP - 1) / COPSE_ATTENTION_GROUP;
}

/* The constant of the width of heads. */
static int32_t width_of(const struct copse_attention_launch *w)
{
    return w->at.width == 32 ? 0 : w->at.width == 64 ? 1 : 2;
}

static copse_status tile_forward(struct copse_lowering *l, const struct copse_attention_launch *w,
                                 bool has_values)
{
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, has_values,      w->attr.has_mask,
                                            w->attr.lengths,   w->attr.cap > 0, width_of(w) };
    const struct copse_params_attention_tile p = {
        FIELDS(x, &w->attr), .blocks = x->items * x->heads * groups_of(x->queries)
    };
    struct copse_operand y;
    COPSE_TRY(values_of(l, w, has_values, &y));
    return COPSE_LAUNCH(l, attention_tile, spec, p, p.blocks, w->q, w->k, w->v, w->mask, w->lengths,
                        w->state, y);
}

copse_status copse__attention_tile(struct copse_lowering *l, const void *work)
{
    const struct copse_attention_work *a = work;
    const struct copse_attention_launch *w = a->of;
    const struct copse_attention_sizes *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, w->attr.has_mask, w->attr.lengths,
                                            w->attr.cap > 0, width_of(w) };
    if (a->kind != COPSE_ATTENTION_GRADIENT)
        return tile_forward(l, w, a->kind == COPSE_ATTENTION_FORWARD);
    const struct copse_params_attention_grad_query_tile q = {
        FIELDS(x, &w->attr), .blocks = x->items * x->heads * groups_of(x->queries),
        .to_first = w->to.q, .to_stride = w->to.q_stride
    };
    const struct copse_params_attention_grad_key_tile k = {
        FIELDS(x, &w->attr), .blocks = x->items * x->kv_heads * groups_of(x->keys), .to_k = w->to.k,
        .to_v = w->to.v, .to_stride = w->to.k_stride
    };
    COPSE_TRY(COPSE_LAUNCH(l, attention_grad_query_tile, spec, q, q.blocks, w->q, w->k, w->v,
                           w->mask, w->y, w->dy, w->state, w->dx));
    return COPSE_LAUNCH(l, attention_grad_key_tile, spec, k, k.blocks, w->q, w->k, w->v, w->mask,
                        w->dy, w->state, w->dx);
}
