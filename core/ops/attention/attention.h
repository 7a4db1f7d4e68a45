/* SPDX-License-Identifier: MIT */
/* What the launches of attention get from its ops. */
#ifndef COPSE_CORE_OPS_ATTENTION_H
#define COPSE_CORE_OPS_ATTENTION_H

#include "core/ops/attention/attention_map.h"
#include "core/ops/ops.h"

#define COPSE_ATTENTION_TILE 64u /* keys: terms of the shortest sums */

struct copse_attention_attr {
    uint32_t heads, kv_heads; /* 0: from the shapes */
    uint32_t window;          /* UINT32_MAX: none */
    int32_t is_causal, has_mask, lengths;
    bool is_packed;   /* one tensor for q, k and v */
    float scale, cap; /* cap 0: none */
};

/* Sizes, and places in the operands: first words and strides of a position, so that q, k and v can
   be parts of one tensor. */
struct copse_attention_sizes {
    uint32_t items, queries, keys, heads, kv_heads, width;
    uint32_t q_first, k_first, v_first, q_stride, k_stride;
    uint32_t mask_item, mask_head, mask_query; /* strides of the mask; 0: an axis that repeats */
};

/* dq to the words of the result from q on, positions `q_stride` apart; dk and dv likewise. */
struct copse_attention_targets {
    uint32_t q, k, v, q_stride, k_stride;
};

struct copse_attention_launch {
    struct copse_attention_sizes at;
    struct copse_attention_attr attr;
    /* All are f32 except the lengths. Only the gradient has dy and dx. Without a mask or lengths,
       words that no kernel reads are bound. */
    struct copse_operand q, k, v, mask, lengths, state, y, dy, dx;
    struct copse_attention_targets to;
};

/* The result with the state of its queries, this state alone, the derivatives from it. */
enum { COPSE_ATTENTION_FORWARD, COPSE_ATTENTION_OF_STATE, COPSE_ATTENTION_GRADIENT };

/* The input of the family: small, as jobs of mode tune have no tensors. */
struct copse_attention_work {
    uint32_t kind, keys, width;
    uint64_t key_tiles; /* of the queries of all heads that share a key */
    uint64_t words;     /* of the largest operand */
    const struct copse_attention_launch *of;
};

/* `lower` of the variants; `work` is a struct copse_attention_work. */
copse_status copse__attention_plain(struct copse_lowering *l, const void *work);
copse_status copse__attention_wide(struct copse_lowering *l, const void *work);
copse_status copse__attention_texel(struct copse_lowering *l, const void *work);
copse_status copse__attention_tile(struct copse_lowering *l, const void *work);

#endif
