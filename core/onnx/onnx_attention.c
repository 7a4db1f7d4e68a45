/* SPDX-License-Identifier: MIT */
/* Attention, and rotary positions. */
#include <math.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "copse/ops/attention.h"
#include "copse/ops/rotary.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* Operands of Attention. */
enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
/* Its results. */
enum { RESULT, PRESENT_KEY, PRESENT_VALUE, SCORES };
/* Which scores it gives: qk_matmul_output_mode. */
enum { SCORES_PLAIN, SCORES_CAPPED, SCORES_MASKED, SCORES_SHARES };

struct attention {
    copse_tensor *q, *k, *v; /* [n, heads, length, width] */
    uint32_t n, heads, kv_heads, queries, keys, past, width, value_width;
    float scale, cap;
    copse_tensor *mask;  /* added to scores, f32 [.., queries or 1, keys]; NULL: none */
    bool is_causal;      /* beside the mask: query i sees keys 0 to i */
    copse_tensor *count; /* i32 [n], keys that are seen; NULL: all */
    bool is_flat;        /* operands are [n, length, heads width] */
};

static copse_tensor *swap_heads(struct onnx_walk *w, copse_tensor *t)
{
    return copse_transpose(w->g, t, (const uint32_t[]){ 0, 2, 1, 3 });
}

/* [n, heads, length, width]; NULL: refused. */
static copse_tensor *heads_apart(struct onnx_walk *w, struct onnx_value *v, int64_t heads)
{
    const copse_shape s = v->shape;
    if (s.rank == 4 && (heads == 0 || heads == s.dims[1]))
        return copse__onnx_f32(w, v);
    if (s.rank != 3 || heads < 1 || heads > s.dims[2] || s.dims[2] % heads != 0) {
        copse__onnx_refuse(w, "an operand of shape %s does not have %lld heads",
                           COPSE_SHAPE_TEXT(s), (long long)heads);
        return NULL;
    }
    const uint32_t h = (uint32_t)heads;
    return swap_heads(w, copse_reshape(w->g, copse__onnx_f32(w, v),
                                       COPSE_SHAPE(s.dims[0], s.dims[1], h, s.dims[2] / h)));
}

static copse_tensor *with_past(struct onnx_walk *w, copse_tensor *now, size_t operand)
{
    struct onnx_value *past = copse__onnx_in(w, operand);
    if (!past || !now)
        return now;
    copse_tensor *const parts[] = { copse__onnx_f32(w, past), now };
    return copse_concat(w->g, parts, 2, 2);
}

static bool read_settings(struct onnx_walk *w, struct attention *a)
{
    const onnx_node *n = w->step->node;
    const int64_t left = copse__onnx_int(n, "left_window_size", -1),
                  right = copse__onnx_int(n, "right_window_size", -1);
    int32_t type;
    if (!copse__onnx_type_of(w, "softmax_precision", ONNX_FLOAT, &type))
        return false;
    a->scale = copse__onnx_float(n, "scale", (float)(1 / sqrt((double)a->width)));
    a->cap = copse__onnx_float(n, "softcap", 0.0f);
    if (!isfinite(a->scale) || !isfinite(a->cap) || a->cap < 0)
        return copse__onnx_refuse(w, "scale %g and softcap %g", (double)a->scale, (double)a->cap);
    if (type != ONNX_FLOAT && type != ONNX_FLOAT16 && type != ONNX_BFLOAT16)
        return copse__onnx_refuse(w, "softmax_precision %s: softmax is computed in float",
                                  copse__onnx_type_name(type));
    if (left < -1 || right < -1)
        return copse__onnx_refuse(w, "a window of %lld and %lld keys", (long long)left,
                                  (long long)right);
    return true;
}

static bool read_operands(struct onnx_walk *w, struct attention *a)
{
    const onnx_node *n = w->step->node;
    struct onnx_value *q = copse__onnx_in(w, QUERY), *k = copse__onnx_in(w, KEY),
                      *v = copse__onnx_in(w, VALUE), *past = copse__onnx_in(w, PAST_KEY);
    const int64_t heads = copse__onnx_int(n, "q_num_heads", 0),
                  kv_heads = copse__onnx_int(n, "kv_num_heads", 0);
    if ((past != NULL) != (copse__onnx_in(w, PAST_VALUE) != NULL))
        return copse__onnx_refuse(w, "earlier keys without values, or values without keys");
    if (past && copse__onnx_in(w, LENGTHS))
        return copse__onnx_refuse(w, "earlier keys and nonpad_kv_seqlen");
    if (k->shape.rank != q->shape.rank || v->shape.rank != q->shape.rank)
        return copse__onnx_refuse(w, "queries %s and keys %s differ in their axes",
                                  COPSE_SHAPE_TEXT(q->shape), COPSE_SHAPE_TEXT(k->shape));
    a->is_flat = q->shape.rank == 3;
    a->q = heads_apart(w, q, heads);
    a->k = with_past(w, heads_apart(w, k, kv_heads), PAST_KEY);
    a->v = with_past(w, heads_apart(w, v, kv_heads), PAST_VALUE);
    if (w->status != COPSE_OK || copse_graph_status(w->g) != COPSE_OK)
        return false;
    const copse_shape x = copse_tensor_shape(a->q), y = copse_tensor_shape(a->k),
                      z = copse_tensor_shape(a->v);
    a->n = x.dims[0], a->heads = x.dims[1], a->queries = x.dims[2], a->width = x.dims[3];
    a->kv_heads = y.dims[1], a->keys = y.dims[2], a->value_width = z.dims[3];
    a->past = past && past->shape.rank == 4 ? past->shape.dims[2] : 0;
    if (y.dims[0] != a->n || z.dims[0] != a->n || z.dims[1] != a->kv_heads ||
        z.dims[2] != a->keys || y.dims[3] != a->width || a->kv_heads == 0 ||
        a->heads % a->kv_heads != 0 || a->width == 0 ||
        (uint64_t)a->heads * COPSE_MAX(a->queries, a->value_width) > UINT32_MAX)
        return copse__onnx_refuse(w, "queries %s, keys %s and values %s do not fit",
                                  COPSE_SHAPE_TEXT(x), COPSE_SHAPE_TEXT(y), COPSE_SHAPE_TEXT(z));
    return read_settings(w, a);
}

/* ---- what a query sees ---- */

/* Scores where the condition is not zero get what is added so far, others -infinity. */
static void show_only(struct onnx_walk *w, struct attention *a, copse_tensor *condition)
{
    copse_tensor *const hidden = copse_scalar(w->g, -INFINITY);
    a->mask = copse_where(w->g, condition, a->mask ? a->mask : copse_scalar(w->g, 0), hidden);
}

/* Numbers 0, 1, .. along an axis of [1, 1, queries, keys]. */
static copse_tensor *count_along(struct onnx_walk *w, uint32_t count, uint32_t axis)
{
    copse_shape shape = COPSE_SHAPE(1, 1, 1, 1);
    float *values = copse__onnx_room(w, count, sizeof *values);
    shape.dims[axis] = count;
    for (uint32_t i = 0; values && i < count; i++)
        values[i] = (float)i;
    return values ? copse_constant(w->g, COPSE_F32, shape, values) : copse_scalar(w->g, 0);
}

/* Whole numbers, [n, 1, 1, 1] as f32. */
static copse_tensor *counts_of_items(struct onnx_walk *w, struct onnx_value *v, uint32_t n)
{
    return copse_reshape(w->g, copse__onnx_f32(w, v), COPSE_SHAPE(n, 1, 1, 1));
}

static bool mask_given(struct onnx_walk *w, struct attention *a)
{
    struct onnx_value *v = copse__onnx_in(w, MASK);
    if (!v)
        return true;
    const copse_shape s = v->shape;
    const uint32_t own = s.rank > 0 ? s.dims[s.rank - 1] : 0;
    if (s.rank < 1 || s.rank > 4 || own > a->keys)
        return copse__onnx_refuse(w, "a mask of shape %s for %u keys", COPSE_SHAPE_TEXT(s),
                                  a->keys);
    if (v->type == ONNX_BOOL)
        show_only(w, a, copse__onnx_plain(w, v));
    else
        a->mask = copse__onnx_f32(w, v);
    if (own < a->keys) { /* the rest is hidden */
        const uint32_t before[4] = { 0 };
        uint32_t after[4] = { 0 };
        after[s.rank - 1] = a->keys - own;
        a->mask = copse_pad(w->g, a->mask, before, after, -INFINITY);
    }
    return true;
}

/* The places of the queries among the keys, [1 or n, 1, queries, 1]: after earlier keys, or at the
   end of the keys that count. */
static copse_tensor *places_of_queries(struct onnx_walk *w, const struct attention *a,
                                       struct onnx_value *lengths)
{
    copse_tensor *at = copse_add(w->g, count_along(w, a->queries, 2), copse_scalar(w->g, a->past));
    if (a->past > 0 || !lengths)
        return at;
    return copse_add(
        w->g, at,
        copse_sub(w->g, counts_of_items(w, lengths, a->n), copse_scalar(w->g, a->queries)));
}

/* Which keys a query sees by their distance: no later ones, or those in a window. */
static void mask_far(struct onnx_walk *w, struct attention *a)
{
    const onnx_node *n = w->step->node;
    struct onnx_value *lengths = copse__onnx_in(w, LENGTHS);
    const bool is_causal = copse__onnx_int(n, "is_causal", 0) != 0;
    const int64_t left = copse__onnx_int(n, "left_window_size", -1),
                  right = copse__onnx_int(n, "right_window_size", -1);
    a->is_causal = is_causal && a->past == 0 && !lengths;
    if ((!is_causal || a->is_causal) && left < 0 && right < 0)
        return;
    copse_tensor *query = places_of_queries(w, a, lengths), *key = count_along(w, a->keys, 3);
    if (is_causal && !a->is_causal)
        show_only(w, a, copse_greater_equal(w->g, query, key));
    if (left >= 0)
        show_only(w, a,
                  copse_greater_equal(w->g, copse_add(w->g, key, copse_scalar(w->g, (double)left)),
                                      query));
    if (right >= 0)
        show_only(w, a,
                  copse_greater_equal(
                      w->g, copse_add(w->g, query, copse_scalar(w->g, (double)right)), key));
}

static bool read_mask(struct onnx_walk *w, struct attention *a)
{
    struct onnx_value *lengths = copse__onnx_in(w, LENGTHS);
    if (lengths && copse__elements(lengths->shape) != a->n)
        return copse__onnx_refuse(w, "nonpad_kv_seqlen has shape %s for %u items",
                                  COPSE_SHAPE_TEXT(lengths->shape), a->n);
    if (!mask_given(w, a))
        return false;
    mask_far(w, a);
    if (lengths)
        a->count = copse_reshape(w->g, copse__onnx_i32(w, lengths), COPSE_SHAPE(a->n));
    return w->status == COPSE_OK && copse_graph_status(w->g) == COPSE_OK;
}

/* ---- the result ---- */

/* By the fused op: [n, heads, queries, value_width]. */
static copse_tensor *attention_fused(struct onnx_walk *w, const struct attention *a)
{
    const struct copse_attention_params params = { .is_causal = a->is_causal,
                                                   .scale = a->scale,
                                                   .cap = a->cap,
                                                   .lengths = a->count,
                                                   .mask = a->mask };
    const uint32_t wide = COPSE_MAX(a->width, a->value_width), before[4] = { 0 };
    copse_tensor *parts[] = { a->q, a->k, a->v };
    for (int i = 0; i < 3; i++) {
        const uint32_t after[4] = { 0, 0, 0, wide - (i < 2 ? a->width : a->value_width) };
        parts[i] =
            swap_heads(w, after[3] > 0 ? copse_pad(w->g, parts[i], before, after, 0) : parts[i]);
    }
    copse_tensor *y = swap_heads(w, copse_attention(w->g, parts[0], parts[1], parts[2], &params));
    return wide == a->value_width
               ? y
               : copse_slice(w->g, y, before,
                             (const uint32_t[]){ a->n, a->heads, a->queries, a->value_width });
}

/* Softmax of scores, which is 0 where all keys are hidden. */
static copse_tensor *shares_of(struct onnx_walk *w, copse_tensor *scores)
{
    const uint32_t axis = 3;
    copse_tensor *largest = copse_max(w->g, scores, &axis, 1, true);
    copse_tensor *nothing = copse_equal(w->g, largest, copse_scalar(w->g, -INFINITY));
    copse_tensor *zero =
        copse_scalar(w->g, 0); /* also before softmax, whose derivative would be NaN */
    scores = copse_softmax(w->g, copse_where(w->g, nothing, zero, scores));
    return copse_where(w->g, nothing, zero, scores);
}

/* From single ops, which keep all scores. */
static copse_tensor *attention_composed(struct onnx_walk *w, struct attention *a)
{
    const uint32_t rows = a->heads / a->kv_heads * a->queries;
    const copse_shape apart = COPSE_SHAPE(a->n, a->heads, a->queries, a->keys),
                      together = COPSE_SHAPE(a->n, a->kv_heads, rows, a->keys);
    const int64_t mode = copse__onnx_int(w->step->node, "qk_matmul_output_mode", 0);
    copse_tensor *kinds[4];
    copse_tensor *q = copse_reshape(w->g, a->q, COPSE_SHAPE(a->n, a->kv_heads, rows, a->width));
    copse_tensor *s = copse_reshape(w->g, copse_matmul(w->g, q, a->k, false, true), apart);
    kinds[SCORES_PLAIN] = s = copse_multiply_by(w->g, s, a->scale);
    if (a->cap != 0.0f)
        s = copse_multiply_by(w->g, copse_tanh(w->g, copse_multiply_by(w->g, s, 1.0f / a->cap)),
                              a->cap);
    kinds[SCORES_CAPPED] = s;
    if (a->is_causal)
        show_only(
            w, a,
            copse_greater_equal(w->g, count_along(w, a->queries, 2), count_along(w, a->keys, 3)));
    if (a->count)
        show_only(w, a,
                  copse_less(w->g, count_along(w, a->keys, 3),
                             counts_of_items(w, copse__onnx_in(w, LENGTHS), a->n)));
    kinds[SCORES_MASKED] = s = a->mask ? copse_add(w->g, s, a->mask) : s;
    kinds[SCORES_SHARES] = s = shares_of(w, s);
    if (mode < 0 || mode > 3)
        copse__onnx_refuse(w, "qk_matmul_output_mode is %lld", (long long)mode);
    else if (copse__onnx_wants(w, SCORES))
        copse__onnx_set(w, SCORES, copse__onnx_in(w, QUERY)->type, kinds[mode]);
    s = copse_matmul(w->g, copse_reshape(w->g, s, together), a->v, false, false);
    return copse_reshape(w->g, s, COPSE_SHAPE(a->n, a->heads, a->queries, a->value_width));
}

void copse__onnx_attention(struct onnx_walk *w)
{
    struct attention a = { .count = NULL };
    if (!read_operands(w, &a) || !read_mask(w, &a))
        return;
    const uint32_t most = 128, most_keys = 16384;
    const bool has_wide_cap = a.cap != 0.0f && (a.cap < 1e-6f || a.cap > 1e30f);
    /* a scale of 0 would be the default of the op */
    const bool is_fused = !has_wide_cap && a.scale != 0.0f && !copse__onnx_wants(w, SCORES) &&
                          !(a.mask && a.mask->needs_gradient) &&
                          COPSE_MAX(a.width, a.value_width) <= most && a.keys <= most_keys &&
                          (uint64_t)a.queries * (a.heads / a.kv_heads) <= most_keys;
    copse_tensor *y = is_fused ? attention_fused(w, &a) : attention_composed(w, &a);
    if (a.is_flat)
        y = copse_reshape(w->g, swap_heads(w, y),
                          COPSE_SHAPE(a.n, a.queries, a.heads * a.value_width));
    copse__onnx_set(w, RESULT, copse__onnx_in(w, QUERY)->type, y);
    if (copse__onnx_wants(w, PRESENT_KEY))
        copse__onnx_set(w, PRESENT_KEY, copse__onnx_in(w, KEY)->type, a.k);
    if (copse__onnx_wants(w, PRESENT_VALUE))
        copse__onnx_set(w, PRESENT_VALUE, copse__onnx_in(w, VALUE)->type, a.v);
}

/* ---- rotary positions ---- */

/* Cosines or sines: [n, length, R / 2]. With a fourth operand they are rows of a table, and it has
   their numbers. */
static copse_tensor *turns_of(struct onnx_walk *w, size_t operand)
{
    struct onnx_value *rows = copse__onnx_in(w, 3);
    copse_tensor *t = copse__onnx_f32(w, copse__onnx_in(w, operand));
    return rows ? copse_gather(w->g, t, copse__onnx_i32(w, rows)) : t;
}

void copse__onnx_rotary(struct onnx_walk *w)
{
    const onnx_node *n = w->step->node;
    struct onnx_value *x = copse__onnx_in(w, 0);
    copse_tensor *t = heads_apart(w, x, copse__onnx_int(n, "num_heads", 0));
    copse_tensor *const turns[] = { turns_of(w, 1), turns_of(w, 2) };
    if (!t || copse_graph_status(w->g) != COPSE_OK)
        return;
    const copse_shape s = copse_tensor_shape(turns[0]), head = copse_tensor_shape(t);
    const int64_t given = copse__onnx_int(n, "rotary_embedding_dim", 0),
                  width = given != 0 ? given : head.dims[3];
    if (s.rank != 3 || width != 2 * (int64_t)s.dims[2] || width > head.dims[3] ||
        !copse__shape_equal(s, copse_tensor_shape(turns[1]))) {
        copse__onnx_refuse(w, "cosines %s and sines %s do not turn %lld of %u numbers",
                           COPSE_SHAPE_TEXT(s), COPSE_SHAPE_TEXT(copse_tensor_shape(turns[1])),
                           (long long)width, head.dims[3]);
        return;
    }
    const struct copse_rotary_params params = { .width = 2 * s.dims[2],
                                                .is_interleaved =
                                                    copse__onnx_int(n, "interleaved", 0) != 0 };
    copse_tensor *y =
        copse_rotary_by(w->g, swap_heads(w, t), copse_concat(w->g, turns, 2, 2), &params);
    copse__onnx_set(w, 0, x->type,
                    x->shape.rank == 3 ? copse_reshape(w->g, y, x->shape) : swap_heads(w, y));
}
