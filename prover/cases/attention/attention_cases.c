/* SPDX-License-Identifier: MIT */
/* Cases of attention. A score s, the sum of scale q k, has an error of the size of the sum of the
   terms' magnitudes A, so that its share of the softmax P has one of P (1 + A + the row's largest
   A) =: R. The error of y is relative to the sum of R (|v| + |y|), and those of the derivatives to
   the same graph of magnitudes. A mask adds its magnitude to A, and a cap c at most A (1 + 1 / c): the
   error of the capped score, and the one of its derivative. Sizes around 64, a tile, and at 64,
   192 and 448, the keys of a launch for heads of 256, 128 and 64. */
#include <math.h>

#include "copse/matmul.h"
#include "copse/ops/attention.h"
#include "prover/cases/cases.h"

/* A mask, [... queries or 1, keys]. */
struct mask {
    copse_shape shape;
    uint32_t hidden;    /* each hidden-th word is -infinity [0: none] */
    uint32_t dead;      /* so is each dead-th row           [0: none] */
    const float *words; /* instead                          [NULL] */
};

struct settings {
    struct copse_attention_params params;
    uint32_t heads, kv_heads; /* of one tensor; 0: three tensors */
    const int32_t *lengths;   /* of the items                 [NULL: none] */
    const struct mask *mask;  /*                              [NULL: none] */
};

static float mask_word(const struct mask *k, size_t i)
{
    if (k->words)
        return k->words[i];
    const size_t row = i / k->shape.dims[k->shape.rank - 1];
    const bool is_hidden = (k->hidden && i % k->hidden == 1) || (k->dead && row % k->dead == 1);
    return is_hidden ? -INFINITY : 0.25f * (float)((int)(i * 37 % 17) - 8);
}

static copse_tensor *constant_mask(copse_graph *g, const struct mask *k)
{
    const size_t count = (size_t)copse__elements(k->shape);
    float *list = copse__alloc(&g->ctx->base.mem, count, sizeof *list);
    COPSE_LATCH(g, copse_need_memory(list, "attention"));
    for (size_t i = 0; i < count; i++)
        list[i] = mask_word(k, i);
    copse_tensor *mask = copse_constant(g, COPSE_F32, k->shape, list);
    copse__free(&g->ctx->base.mem, list);
    return mask;
}

static copse_tensor *attention_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    struct copse_attention_params params = s->params;
    if (s->lengths && in[0])
        params.lengths =
            copse_constant(g, COPSE_I32, COPSE_SHAPE(in[0]->shape.dims[0]), s->lengths);
    if (s->mask && in[0])
        params.mask = constant_mask(g, s->mask);
    return s->heads ? copse_self_attention(g, in[0], s->heads, s->kv_heads, &params)
                    : copse_attention(g, in[0], in[1], in[2], &params);
}

/* ---- what limits are relative to: tensors [n, kv_heads, heads of each, length, width] ---- */

struct view {
    copse_tensor *q, *k, *v, *dy; /* dy: NULL for the result */
    copse_tensor *share, *rough;  /* P and R [n, kv_heads, heads of each, queries, keys] */
    copse_tensor *y, *size;       /* and the size of the result */
    copse_shape q_shape, k_shape; /* of the three tensors */
    float scale;
};

static const uint32_t order[] = { 0, 2, 3, 1, 4 }, back[] = { 0, 3, 1, 2, 4 }, columns[] = { 4 };

static copse_tensor *attention_turn(copse_graph *g, copse_tensor *x, copse_shape s,
                                    uint32_t kv_heads)
{
    x = copse_reshape(g, x,
                      COPSE_SHAPE(s.dims[0], s.dims[1], kv_heads, s.dims[2] / kv_heads, s.dims[3]));
    return copse_transpose(g, x, order);
}

static copse_tensor *turn_back(copse_graph *g, copse_tensor *x, copse_shape s)
{
    x = copse_transpose(g, x, back);
    return copse_reshape(g, x, s);
}

/* The word of the mask for [item, head, query, key]. */
static float bias_of(const struct mask *k, const uint32_t at[4])
{
    size_t place = 0;
    for (uint32_t i = 0; k && i < k->shape.rank; i++)
        place = place * k->shape.dims[i] + at[4 - k->shape.rank + i] % k->shape.dims[i];
    return k ? mask_word(k, place) : 0;
}

static bool attention_sees(const struct settings *s, uint32_t item, uint32_t i, uint32_t j)
{
    const uint32_t window = s->params.window ? s->params.window : UINT32_MAX;
    const uint32_t length = !s->lengths ? UINT32_MAX : (uint32_t)COPSE_MAX(s->lengths[item], 0);
    return (i > j ? i - j : j - i) < window && !(s->params.is_causal && j > i) && j < length &&
           !(s->heads && i >= length);
}

/* 1 where a query sees a key, and what the mask adds there. [n, kv_heads, heads of each, queries,
   keys] */
static copse_status attention_seen(copse_graph *g, const struct settings *s, const struct view *x,
                                   copse_tensor **out, copse_tensor **bias)
{
    const uint32_t n = x->q_shape.dims[0], heads = x->q_shape.dims[2], queries = x->q_shape.dims[1],
                   keys = x->k_shape.dims[1];
    const copse_shape shape =
        COPSE_SHAPE(n, x->k_shape.dims[2], heads / x->k_shape.dims[2], queries, keys);
    const size_t count = (size_t)copse__elements(shape);
    float *list = copse__alloc(&g->ctx->base.mem, 2 * count, sizeof *list);
    COPSE_TRY(copse_need_memory(list, "attention"));
    for (size_t w = 0; w < count; w++) {
        const uint32_t j = (uint32_t)(w % keys), i = (uint32_t)(w / keys % queries),
                       h = (uint32_t)(w / keys / queries % heads),
                       item = (uint32_t)(w / keys / queries / heads);
        const float b = bias_of(s->mask, (uint32_t[]){ item, h, i, j });
        list[w] = attention_sees(s, item, i, j) && b > -INFINITY;
        list[count + w] = list[w] > 0 ? b : 0;
    }
    *out = copse_constant(g, COPSE_F32, shape, list);
    *bias = copse_constant(g, COPSE_F32, shape, list + count);
    copse__free(&g->ctx->base.mem, list);
    return copse_graph_status(g);
}

static copse_tensor *attention_magnitudes(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                          bool transposed_a, bool transposed_b)
{
    a = copse_abs(g, a);
    b = copse_abs(g, b);
    return copse_matmul(g, a, b, transposed_a, transposed_b);
}

static copse_status attention_shares(copse_graph *g, const struct settings *s, struct view *x)
{
    copse_tensor *mask, *bias;
    COPSE_TRY(attention_seen(g, s, x, &mask, &bias));
    copse_tensor *score = copse_matmul(g, x->q, x->k, false, true);
    score = copse_multiply_by(g, score, x->scale);
    const float cap = s->params.cap;
    if (cap > 0)
        score = copse_multiply_by(g, copse_tanh(g, copse_multiply_by(g, score, 1 / cap)), cap);
    score = copse_add(g, score, bias);
    copse_tensor *far = copse_fill(g, COPSE_F32, COPSE_SCALAR, -1e30);
    score = copse_where(g, mask, score, far);
    score = copse_softmax(g, score);
    x->share = copse_mul(g, score, mask);
    copse_tensor *a = attention_magnitudes(g, x->q, x->k, false, true);
    a = copse_multiply_by(g, a, fabsf(x->scale) * (cap > 0 ? 2 + 1 / cap : 1));
    bias = copse_abs(g, bias);
    a = copse_add(g, a, bias);
    a = copse_mul(g, a, mask);
    copse_tensor *most = copse_max(g, a, columns, 1, true);
    a = copse_add(g, a, most);
    far = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    a = copse_add(g, a, far);
    x->rough = copse_mul(g, a, x->share);
    return copse_graph_status(g);
}

static copse_status view_of(copse_graph *g, copse_tensor *const *in, const struct settings *s,
                            bool has_dy, struct view *x)
{
    copse_tensor *part[3] = { in[0], in[1], in[2] }, *dy = in[s->heads ? 1 : 3], *row, *y;
    copse_shape q = in[0]->shape, k = in[s->heads ? 0 : 1]->shape;
    uint32_t kv_heads = s->heads ? s->kv_heads : k.dims[2];
    if (s->heads) {
        const uint32_t width = q.dims[2] / (s->heads + 2 * s->kv_heads);
        const uint32_t sizes[] = { s->heads * width, s->kv_heads * width, s->kv_heads * width };
        copse_split(g, in[0], 2, sizes, 3, part);
        q = COPSE_SHAPE(q.dims[0], q.dims[1], s->heads, width);
        k = COPSE_SHAPE(k.dims[0], k.dims[1], s->kv_heads, width);
    }
    *x = (struct view){ .q_shape = q, .k_shape = k, .scale = s->params.scale };
    if (!(fabsf(x->scale) > 0))
        x->scale = (float)(1 / sqrt((double)q.dims[3]));
    x->q = attention_turn(g, part[0], q, kv_heads);
    x->k = attention_turn(g, part[1], k, kv_heads);
    x->v = attention_turn(g, part[2], k, kv_heads);
    if (has_dy)
        x->dy = attention_turn(g, dy, q, kv_heads);
    COPSE_TRY(attention_shares(g, s, x));
    x->y = copse_matmul(g, x->share, x->v, false, false);
    x->size = attention_magnitudes(g, x->rough, x->v, false, false);
    row = copse_sum(g, x->rough, columns, 1, true);
    y = copse_abs(g, x->y);
    row = copse_mul(g, row, y);
    x->size = copse_add(g, x->size, row);
    return copse_graph_status(g);
}

static copse_tensor *size_of_y(copse_graph *g, copse_tensor *const *in, const void *user)
{
    struct view x;
    COPSE_LATCH(g, view_of(g, in, user, false, &x));
    return turn_back(g, x.size,
                     ((const struct settings *)user)->heads
                         ? COPSE_SHAPE(x.q_shape.dims[0], x.q_shape.dims[1],
                                       x.q_shape.dims[2] * x.q_shape.dims[3])
                         : x.q_shape);
}

/* R (|dy| |v| + |dy| (|y| + its size)) |scale| */
static copse_tensor *attention_slopes(copse_graph *g, struct view *x)
{
    copse_tensor *t = copse_abs(g, x->y);
    t = copse_add(g, t, x->size);
    copse_tensor *along = copse_abs(g, x->dy);
    along = copse_mul(g, along, t);
    along = copse_sum(g, along, columns, 1, true);
    t = attention_magnitudes(g, x->dy, x->v, false, true);
    t = copse_add(g, t, along);
    t = copse_mul(g, t, x->rough);
    return copse_multiply_by(g, t, fabsf(x->scale));
}

enum { OF_Q, OF_K, OF_V };

static copse_tensor *size_of(copse_graph *g, struct view *x, int which)
{
    static const uint32_t heads[] = { 2 };
    copse_tensor *t;
    if (which == OF_V)
        t = attention_magnitudes(g, x->rough, x->dy, true, false);
    else {
        t = attention_slopes(g, x);
        t = attention_magnitudes(g, t, which == OF_Q ? x->k : x->q, which == OF_K, false);
    }
    if (which == OF_Q)
        return turn_back(g, t, x->q_shape);
    t = copse_sum(g, t, heads, 1, true);
    return turn_back(g, t, x->k_shape);
}

#define SIZE_OF(name, which)                                                                       \
    static copse_tensor *size_of_##name(copse_graph *g, copse_tensor *const *in, const void *user) \
    {                                                                                              \
        struct view x;                                                                             \
        COPSE_LATCH(g, view_of(g, in, user, true, &x));                                            \
        return size_of(g, &x, which);                                                              \
    }
SIZE_OF(dq, OF_Q)
SIZE_OF(dk, OF_K)
SIZE_OF(dv, OF_V)

static copse_tensor *size_of_dqkv(copse_graph *g, copse_tensor *const *in, const void *user)
{
    struct view x;
    copse_tensor *part[3];
    COPSE_LATCH(g, view_of(g, in, user, true, &x));
    for (int i = 0; i < 3; i++) {
        part[i] = size_of(g, &x, i);
        const copse_shape s = part[i]->shape;
        part[i] =
            copse_reshape(g, part[i], COPSE_SHAPE(s.dims[0], s.dims[1], s.dims[2] * s.dims[3]));
    }
    return copse_concat(g, part, 3, 2);
}

/* ---- the ops ---- */

static const struct settings plain = { .heads = 0 }, masked = { .params = { .is_causal = true } },
                             last_two = { .params = { .is_causal = true, .window = 2 } },
                             near_two = { .params = { .window = 2 } },
                             own = { .params = { .window = 1 } },
                             half = { .params = { .scale = 0.5f } },
                             last_three = { .params = { .is_causal = true, .window = 3 } },
                             near_three = { .params = { .window = 3 } },
                             negative = { .params = { .scale = -0.75f } },
                             last_seventy = { .params = { .is_causal = true, .window = 70 } },
                             two_one = { .heads = 2, .kv_heads = 1 },
                             two_two = { .params = { .is_causal = true },
                                         .heads = 2,
                                         .kv_heads = 2 },
                             three_one = { .params = { .window = 3 }, .heads = 3, .kv_heads = 1 },
                             four_two = { .params = { .is_causal = true },
                                          .heads = 4,
                                          .kv_heads = 2 };

static const int32_t short_items[] = { 3, 0 }, beyond[] = { 900, -1 }, packed_items[] = { 4, 0 },
                     long_items[] = { 67 }, two_keys[] = { 2 };
static const struct mask of_all = { .shape = DIMS(2, 2, 5, 4), .hidden = 7 },
                         of_heads = { .shape = DIMS(2, 1, 4) },
                         of_keys = { .shape = DIMS(4), .hidden = 4 },
                         of_items = { .shape = DIMS(2, 1, 1, 4), .hidden = 3 },
                         dead_rows = { .shape = DIMS(5, 4), .dead = 2 },
                         of_70 = { .shape = DIMS(70, 70), .hidden = 3, .dead = 9 },
                         of_130 = { .shape = DIMS(130, 130), .hidden = 5, .dead = 9 },
                         of_200 = { .shape = DIMS(2, 200, 200), .hidden = 5, .dead = 11 },
                         row_of_130 = { .shape = DIMS(130), .hidden = 7 };
static const float all_hidden[] = { -INFINITY, -INFINITY, -INFINITY },
                   log_words[] = { 0, 0.69314718f, 0.69314718f, 0 };
static const struct mask of_hidden = { .shape = DIMS(3), .words = all_hidden },
                         of_logs = { .shape = DIMS(2, 2), .words = log_words };
static const struct settings
    hidden_keys = { .mask = &of_hidden },
    log_mask = { .mask = &of_logs }, padded = { .lengths = short_items },
    padded_causal = { .params = { .is_causal = true }, .lengths = short_items },
    padded_window = { .params = { .window = 2 }, .lengths = short_items },
    padded_beyond = { .lengths = beyond },
    padded_two = { .params = { .is_causal = true },
                   .heads = 2,
                   .kv_heads = 2,
                   .lengths = packed_items },
    padded_three = { .params = { .window = 3 },
                     .heads = 3,
                     .kv_heads = 1,
                     .lengths = packed_items },
    padded_long = { .params = { .is_causal = true },
                    .heads = 2,
                    .kv_heads = 1,
                    .lengths = long_items },
    padded_window_long = { .params = { .window = 40 }, .lengths = long_items },
    stated_lengths = { .lengths = two_keys }, masked_all = { .mask = &of_all },
    masked_heads = { .mask = &of_heads }, masked_keys = { .mask = &of_keys },
    masked_items = { .mask = &of_items, .lengths = short_items },
    masked_dead = { .mask = &dead_rows },
    masked_causal = { .params = { .is_causal = true }, .mask = &dead_rows },
    masked_window = { .params = { .window = 2 }, .mask = &of_all, .lengths = short_items },
    masked_70 = { .params = { .is_causal = true },
                  .heads = 2,
                  .kv_heads = 1,
                  .mask = &of_70,
                  .lengths = long_items },
    masked_130 = { .params = { .window = 70 }, .mask = &of_130 },
    masked_row = { .mask = &row_of_130 },
    masked_200 = { .params = { .is_causal = true }, .mask = &of_200 },
    capped_half = { .params = { .scale = 0.5f, .cap = 1 } }, capped = { .params = { .cap = 1.5f } },
    capped_causal = { .params = { .is_causal = true, .cap = 2 } },
    capped_far = { .params = { .is_causal = true, .scale = 2, .cap = 0.5f } },
    capped_window = { .params = { .window = 2, .scale = -1.5f, .cap = 0.75f },
                      .mask = &of_all,
                      .lengths = short_items },
    capped_two = { .params = { .is_causal = true, .cap = 1 },
                   .heads = 2,
                   .kv_heads = 2,
                   .lengths = packed_items },
    capped_130 = { .params = { .window = 70, .cap = 1 }, .mask = &of_130 };

/* Rows of in[0] as one head of q, k and v. */
static copse_tensor *random_attention(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct copse_attention_params params = { .is_causal = true, .scale = 0.5f };
    const copse_shape s = in[0]->shape;
    (void)user;
    copse_tensor *q = copse_tanh(g, in[0]);
    q = copse_reshape(g, q,
                      s.rank == 3 ? COPSE_SHAPE(s.dims[0], s.dims[1], 1, s.dims[2])
                                  : COPSE_SHAPE(1, s.dims[0], 1, s.dims[1]));
    copse_tensor *x = copse_multiply_by(g, q, 0.5f);
    copse_tensor *y = copse_attention(g, q, x, q, &params);
    return copse_reshape(g, y, s);
}

static const struct copse_case_op ops[] = {
    { .name = "attention",
      .accuracy = COPSE_ACCURACY_attention,
      .divides = true,
      .call = attention_build,
      .user = &plain,
      .in = { F32_OF(1, 2, 2, 3), F32_OF(1, 2, 2, 3), F32_OF(1, 2, 2, 3) },
      .in_count = 3,
      .random = random_attention },
    { .name = "self_attention",
      .accuracy = COPSE_ACCURACY_attention,
      .divides = true,
      .call = attention_build,
      .user = &two_one,
      .in = { F32_OF(1, 2, 8) },
      .in_count = 1 },
};

#define OF_HEADS(length)                                                                \
    {                                                                                   \
        F32_OF(16, length, 4, 32), F32_OF(16, length, 4, 32), F32_OF(16, length, 4, 32) \
    }
static const struct copse_case speeds[] = {
    { .op = "attention",
      .name = "16 x 128 x 4 x 32, causal",
      .build = attention_build,
      .user = &masked,
      .in = OF_HEADS(128),
      .in_count = 3,
      .flops = 2.0 * 16 * 4 * 128 * 128 * 32 },
    { .op = "attention",
      .name = "16 x 1024 x 4 x 32, causal",
      .build = attention_build,
      .user = &masked,
      .in = OF_HEADS(1024),
      .in_count = 3,
      .flops = 2.0 * 16 * 4 * 1024 * 1024 * 32 },
};

static void attention_refusals(struct copse_refusals *r)
{
    static const struct copse_attention_params defaults,
        endless = { .scale = INFINITY }, low = { .cap = 1e-7f }, below = { .cap = -1 },
        no_cap = { .cap = NAN };
    copse_graph *g = r->graph;
    copse_tensor *q = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 4, 8));
    copse_tensor *k = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 7, 2, 8));
    copse_tensor *three = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 7, 3, 8));
    copse_tensor *other = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 7, 2, 7));
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 32));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 5, 4, 8));
    copse_tensor *wide = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 1, 1, 257));
    copse_tensor *none = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 1, 1, 0));
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 16385, 1, 1));
    copse_tensor *many = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 8193, 8, 4));
    copse_tensor *one = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 8193, 4, 4));
    REFUSES(r, SHAPE,
            "attention: operands f32[2, 5, 4, 8], f32[2, 7, 3, 8] and f32[2, 7, 3, 8]: expected "
            "f32 q [n, queries, heads, width]",
            copse_attention(g, q, three, three, NULL));
    REFUSES(r, SHAPE, "expected f32 q", copse_attention(g, q, k, three, NULL));
    REFUSES(r, SHAPE, "expected f32 q", copse_attention(g, q, other, other, NULL));
    REFUSES(r, SHAPE, "expected f32 q", copse_attention(g, x, x, x, NULL));
    REFUSES(r, SHAPE, "expected f32 operands, or f16 or bf16", copse_attention(g, q, n, n, NULL));
    REFUSES(r, SHAPE, "heads of 1 to 256 numbers", copse_attention(g, wide, wide, wide, NULL));
    REFUSES(r, SHAPE, "heads of 1 to 256 numbers", copse_attention(g, none, none, none, NULL));
    REFUSES(r, SHAPE, "at most 16384 queries and keys", copse_attention(g, far, far, far, NULL));
    REFUSES(r, SHAPE, "at most 16384 queries of all heads for each key head",
            copse_attention(g, many, one, one, NULL));
    copse_tensor *lengths = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(3));
    copse_tensor *mask = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 5));
    copse_tensor *deep = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 1, 1, 1, 7));
    const struct copse_attention_params three_items = { .lengths = lengths },
                                        halves = { .lengths = mask }, square = { .mask = mask },
                                        whole = { .mask = lengths }, five = { .mask = deep },
                                        elsewhere = { .mask = r->other };
    REFUSES(r, SHAPE, "and i32[3]: expected i32 lengths [2]",
            copse_attention(g, q, k, k, &three_items));
    REFUSES(r, SHAPE, "expected i32 lengths [2]", copse_self_attention(g, x, 2, 1, &halves));
    REFUSES(r, SHAPE,
            "expected an f32 mask [2 or 1, 4 or 1, 5 or 1, 7], which may lack the first axes",
            copse_attention(g, q, k, k, &square));
    REFUSES(r, SHAPE, "expected an f32 mask", copse_attention(g, q, k, k, &whole));
    REFUSES(r, SHAPE, "expected an f32 mask", copse_attention(g, q, k, k, &five));
    REFUSES(r, ARGUMENT, "belongs to another graph; while adding attention",
            copse_attention(g, q, k, k, &elsewhere));
    REFUSES(r, ARGUMENT, "attention: scale inf is not finite",
            copse_attention(g, q, k, k, &endless));
    REFUSES(r, ARGUMENT, "attention: a cap of 1e-07: 0, or 1e-06 to 1e+30",
            copse_attention(g, q, k, k, &low));
    REFUSES(r, ARGUMENT, "a cap of -1: 0, or", copse_attention(g, q, k, k, &below));
    REFUSES(r, ARGUMENT, "self_attention: a cap of nan", copse_self_attention(g, x, 2, 1, &no_cap));
    REFUSES(r, ARGUMENT, "attention: operand 1 is NULL", copse_attention(g, q, NULL, k, &defaults));
    REFUSES(r, SHAPE,
            "self_attention: operand f32[2, 5, 32]: expected f32 [n, length, (4 + 2 * 1) width]",
            copse_self_attention(g, x, 4, 1, NULL));
    REFUSES(r, SHAPE, "expected f32 [n, length, (64 + 2 * 64) width]",
            copse_self_attention(g, x, 64, 64, NULL));
    REFUSES(r, SHAPE, "expected f32 [n, length,", copse_self_attention(g, q, 4, 2, NULL));
    REFUSES(r, ARGUMENT, "self_attention: 4 heads and 3 key heads",
            copse_self_attention(g, x, 4, 3, NULL));
    REFUSES(r, ARGUMENT, "0 heads", copse_self_attention(g, x, 0, 0, NULL));
}

/* ---- the cases ---- */

#define LIMITS .forward = { .ratio = 16 }, .backward = { .ratio = 16 }, .magnitude = size_of_y
#define THREE(label, settings, q, k, v, ...)                                                      \
    {                                                                                             \
        .op = "attention", .name = label, .build = attention_build, .user = settings,             \
        THREE_INPUTS(q, k, v), LIMITS, .slope_magnitude = { size_of_dq, size_of_dk, size_of_dv }, \
        .family = "attention", __VA_ARGS__                                                        \
    }
#define SELF(label, settings, qkv, ...)                                                     \
    {                                                                                       \
        .op = "self_attention", .name = label, .build = attention_build, .user = settings,  \
        ONE_INPUT(qkv), LIMITS, .slope_magnitude = { size_of_dqkv }, .family = "attention", \
        __VA_ARGS__                                                                         \
    }
/* Nothing is launched, or zeros alone. */
#define NOTHING(label, settings, q, k, ...)                                              \
    {                                                                                    \
        .op = "attention", .name = label, .build = attention_build, .user = settings,    \
        THREE_INPUTS(FILL(NORMAL, q), FILL(NORMAL, k), FILL(NORMAL, k)), LIMITS,         \
        .slope_magnitude = { size_of_dq, size_of_dk, size_of_dv }, STANDARD, __VA_ARGS__ \
    }
#define HEADS(label, settings, fill, q, k, ...) \
    THREE(label, settings, FILL(fill, q), FILL(fill, k), FILL(fill, k), __VA_ARGS__)
#define ROUGH  .skips_differences = true
#define CAUSAL &masked
#define STATED(label, settings, q, k, v, queries, keys, want_)                          \
    {                                                                                   \
        .op = "attention", .name = label, .build = attention_build, .user = settings,   \
        THREE_INPUTS(VALUES(q, DIMS(1, queries, 1, 1)), VALUES(k, DIMS(1, keys, 1, 1)), \
                     VALUES(v, DIMS(1, keys, 1, 1))),                                   \
        LIMITS, .want = want_, .has_no_gradient = true, .is_poor = true, QUICK          \
    }

#define N NAN
#define I INFINITY
static const double zero[] = { 0 }, two[] = { 2 }, values[] = { 3, 6, 9 }, keys[] = { 0, 1, 2 },
                    logs[] = { 0, 0.6931471824645996 },
                    bent_logs[] = { 0, 0.8539880516635144 }; /* tanh of them is logs */
static const double every[] = { 6, 6, 6 }, causal[] = { 3, 4.5, 6 }, window[] = { 3, 4.5, 7.5 },
                    both[] = { 4.5, 6, 7.5 };
static const double none[] = { 3, 0, 0, 0 };
static const double first_two[] = { 4.5, 4.5, 4.5 }, zeros[] = { 0, 0, 0 }, weighted[] = { 5, 4 };
/* exp(score) is 1 and 2 for the keys 0 and ln 2 */
static const double thirds[] = { 5, 5, 5 };
static const double special[] = { 0, N, I }, special_want[] = { 6, N, N };

static const struct copse_case cases[] = {
    STATED("stated: means of what is seen", &plain, zero, keys, values, 3, 3, every),
    STATED("stated: causal", CAUSAL, zero, keys, values, 3, 3, causal),
    STATED("stated: causal, window of 2", &last_two, zero, keys, values, 3, 3, window),
    STATED("stated: window of 2", &near_two, zero, keys, values, 3, 3, both),
    STATED("stated: queries that see nothing", &own, zero, keys, values, 4, 1, none),
    STATED("stated: NaN and infinity", &plain, special, keys, values, 3, 3, special_want),
    { .op = "attention",
      .name = "stated: scale",
      .build = attention_build,
      .user = &half,
      THREE_INPUTS(VALUES(two, DIMS(1, 3, 1, 1)), VALUES(logs, DIMS(1, 2, 1, 1)),
                   VALUES(values, DIMS(1, 2, 1, 1))),
      LIMITS,
      .want = thirds,
      .has_no_gradient = true,
      .is_poor = true,
      QUICK },
    { .op = "attention",
      .name = "stated: a cap",
      .build = attention_build,
      .user = &capped_half,
      THREE_INPUTS(VALUES(two, DIMS(1, 3, 1, 1)), VALUES(bent_logs, DIMS(1, 2, 1, 1)),
                   VALUES(values, DIMS(1, 2, 1, 1))),
      LIMITS,
      .want = thirds,
      .has_no_gradient = true,
      .is_poor = true,
      QUICK },
    STATED("stated: a length of 2", &stated_lengths, zero, keys, values, 3, 3, first_two),
    STATED("stated: all keys hidden", &hidden_keys, zero, keys, values, 3, 3, zeros),
    STATED("stated: a mask of logarithms", &log_mask, zero, keys, values, 2, 2, weighted),
    HEADS("lengths", &padded, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), QUICK, .is_poor = true),
    HEADS("lengths, causal", &padded_causal, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), STANDARD,
          .is_poor = true),
    HEADS("lengths, window", &padded_window, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), STANDARD,
          .is_poor = true),
    HEADS("lengths out of range", &padded_beyond, NORMAL, DIMS(2, 5, 4, 3), DIMS(2, 4, 2, 3),
          STANDARD, .is_poor = true),
    SELF("one tensor, lengths, causal", &padded_two, FILL(NORMAL, DIMS(2, 5, 18)), QUICK,
         .is_poor = true),
    SELF("one tensor, lengths, three heads for one key head", &padded_three,
         FILL(NORMAL, DIMS(2, 6, 15)), STANDARD, .is_poor = true),
    SELF("one tensor, 70 positions, a length of 67", &padded_long, FILL(NORMAL, DIMS(1, 70, 32)),
         STANDARD, ROUGH),
    HEADS("a length of 67, a window over tiles", &padded_window_long, NORMAL, DIMS(1, 90, 1, 8),
          DIMS(1, 90, 1, 8), STANDARD, ROUGH),
    HEADS("a mask", &masked_all, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), QUICK),
    HEADS("a mask of heads", &masked_heads, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 1, 3), STANDARD),
    HEADS("a mask of keys", &masked_keys, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 1, 3), STANDARD),
    HEADS("a mask of items, lengths", &masked_items, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3),
          STANDARD, .is_poor = true),
    HEADS("a mask that hides all keys of some queries", &masked_dead, NORMAL, DIMS(2, 5, 2, 3),
          DIMS(2, 4, 2, 3), QUICK, .is_poor = true),
    HEADS("a mask, causal", &masked_causal, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), STANDARD,
          .is_poor = true),
    HEADS("a mask, window, lengths", &masked_window, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3),
          STANDARD, .is_poor = true),
    SELF("one tensor, a mask, causal, lengths", &masked_70, FILL(NORMAL, DIMS(1, 70, 32)), STANDARD,
         ROUGH),
    HEADS("a mask and a window over tiles", &masked_130, NORMAL, DIMS(1, 130, 2, 8),
          DIMS(1, 130, 1, 8), STANDARD, ROUGH),
    HEADS("a mask of keys over tiles", &masked_row, NORMAL, DIMS(2, 19, 2, 8), DIMS(2, 130, 1, 8),
          STANDARD, ROUGH),
    HEADS("a mask, heads of 128, two launches", &masked_200, NORMAL, DIMS(1, 200, 2, 128),
          DIMS(1, 200, 1, 128), FULL, ROUGH),
    HEADS("a cap", &capped, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), QUICK),
    HEADS("a cap, a mask, window, lengths", &capped_window, NORMAL, DIMS(2, 5, 2, 3),
          DIMS(2, 4, 2, 3), STANDARD, .is_poor = true),
    SELF("one tensor, a cap, causal, lengths", &capped_two, FILL(NORMAL, DIMS(2, 5, 18)), QUICK,
         .is_poor = true),
    HEADS("a cap, 130 positions of 32, causal", &capped_causal, NORMAL, DIMS(1, 130, 2, 32),
          DIMS(1, 130, 1, 32), STANDARD, ROUGH),
    HEADS("a cap, 130 positions of 64, a mask and a window", &capped_130, NORMAL,
          DIMS(1, 130, 2, 64), DIMS(1, 130, 1, 64), STANDARD, ROUGH),
    HEADS("a cap, heads of 128, two launches", &capped_causal, NORMAL, DIMS(1, 200, 2, 128),
          DIMS(1, 200, 1, 128), STANDARD, ROUGH),
    HEADS("a cap, heads of 256, two launches", &capped_causal, NORMAL, DIMS(1, 70, 2, 256),
          DIMS(1, 70, 1, 256), STANDARD, ROUGH),
    HEADS("a cap that most scores reach", &capped_far, NORMAL, DIMS(1, 70, 2, 8), DIMS(1, 70, 1, 8),
          STANDARD, ROUGH),
    HEADS("two heads", &plain, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 4, 2, 3), QUICK),
    HEADS("two heads, causal", CAUSAL, NORMAL, DIMS(2, 5, 2, 3), DIMS(2, 5, 2, 3), QUICK),
    HEADS("four heads for two key heads", CAUSAL, NORMAL, DIMS(2, 4, 4, 3), DIMS(2, 4, 2, 3),
          QUICK),
    SELF("one tensor, causal", &two_two, FILL(NORMAL, DIMS(2, 5, 18)), QUICK),
    SELF("one tensor, three heads for one key head", &three_one, FILL(NORMAL, DIMS(2, 6, 15)),
         QUICK),
    HEADS("window, causal", &last_three, NORMAL, DIMS(1, 9, 1, 3), DIMS(1, 9, 1, 3), STANDARD),
    HEADS("window", &near_three, NORMAL, DIMS(1, 9, 1, 3), DIMS(1, 7, 1, 3), STANDARD),
    HEADS("more keys than queries", CAUSAL, NORMAL, DIMS(1, 3, 2, 3), DIMS(1, 8, 2, 3), STANDARD),
    HEADS("more queries than keys", CAUSAL, NORMAL, DIMS(1, 8, 2, 3), DIMS(1, 3, 2, 3), STANDARD),
    HEADS("queries that see nothing", &near_two, NORMAL, DIMS(1, 8, 1, 3), DIMS(1, 3, 1, 3),
          STANDARD),
    HEADS("a negative scale", &negative, NORMAL, DIMS(1, 4, 1, 3), DIMS(1, 4, 1, 3), STANDARD),
    HEADS("one key", &plain, NORMAL, DIMS(1, 3, 1, 3), DIMS(1, 1, 1, 3), STANDARD, .is_poor = true),
    HEADS("a width of 1", &plain, NORMAL, DIMS(1, 4, 2, 1), DIMS(1, 5, 2, 1), STANDARD),
    HEADS("64 keys, one tile", &plain, NORMAL, DIMS(1, 3, 1, 8), DIMS(1, 64, 1, 8), STANDARD,
          ROUGH),
    HEADS("65 keys, two tiles", &plain, NORMAL, DIMS(1, 3, 1, 8), DIMS(1, 65, 1, 8), STANDARD,
          ROUGH),
    HEADS("130 positions of 32, causal", CAUSAL, NORMAL, DIMS(1, 130, 2, 32), DIMS(1, 130, 1, 32),
          STANDARD, ROUGH),
    HEADS("a window over tiles", &last_seventy, NORMAL, DIMS(1, 150, 1, 8), DIMS(1, 150, 1, 8),
          STANDARD, ROUGH),
    HEADS("heads of 32, causal", CAUSAL, NORMAL, DIMS(2, 5, 2, 32), DIMS(2, 5, 1, 32), STANDARD,
          ROUGH),
    HEADS("150 positions of 64, a window over tiles", &last_seventy, NORMAL, DIMS(1, 150, 2, 64),
          DIMS(1, 150, 1, 64), STANDARD, ROUGH),
    HEADS("190 positions of 32, a window of both sides, a length of 67", &padded_window_long,
          NORMAL, DIMS(1, 190, 2, 32), DIMS(1, 190, 2, 32), STANDARD, ROUGH),
    HEADS("130 positions of 64, a mask and a window", &masked_130, NORMAL, DIMS(1, 130, 2, 64),
          DIMS(1, 130, 1, 64), STANDARD, ROUGH),
    SELF("one tensor, heads of 32, a mask, causal, lengths", &masked_70,
         FILL(NORMAL, DIMS(1, 70, 128)), STANDARD, ROUGH),
    SELF("one tensor, heads of 64, a length of 67", &padded_long, FILL(NORMAL, DIMS(1, 70, 256)),
         STANDARD, ROUGH),
    HEADS("heads of 32, a mask that hides all keys of some queries", &masked_dead, NORMAL,
          DIMS(2, 5, 2, 32), DIMS(2, 4, 2, 32), STANDARD, ROUGH, .is_poor = true),
    HEADS("heads of 64, lengths out of range", &padded_beyond, NORMAL, DIMS(2, 5, 4, 64),
          DIMS(2, 4, 2, 64), STANDARD, ROUGH, .is_poor = true),
    HEADS("heads of 128, queries that see nothing", &near_two, NORMAL, DIMS(1, 8, 1, 128),
          DIMS(1, 3, 1, 128), STANDARD, ROUGH),
    HEADS("heads of 128, two launches", CAUSAL, NORMAL, DIMS(1, 200, 2, 128), DIMS(1, 200, 1, 128),
          STANDARD, ROUGH),
    HEADS("heads of 256, two launches", CAUSAL, NORMAL, DIMS(1, 70, 2, 256), DIMS(1, 70, 1, 256),
          STANDARD, ROUGH),
    HEADS("a mask, heads of 256, four launches", &masked_200, NORMAL, DIMS(1, 200, 2, 256),
          DIMS(1, 200, 1, 256), FULL, ROUGH),
    HEADS("heads of 64, three launches", &plain, NORMAL, DIMS(1, 10, 1, 64), DIMS(1, 900, 1, 64),
          FULL, ROUGH),
    HEADS("many queries of 64", &plain, NORMAL, DIMS(1, 900, 1, 64), DIMS(1, 10, 1, 64), FULL,
          ROUGH),
    HEADS("heads of 33, 77 positions", CAUSAL, NORMAL, DIMS(2, 77, 3, 33), DIMS(2, 77, 3, 33), FULL,
          ROUGH),
    SELF("one tensor, 130 positions", &four_two, FILL(NORMAL, DIMS(2, 130, 64)), STANDARD, ROUGH),
    HEADS("16,384 keys of 128", &plain, NORMAL, DIMS(1, 5, 1, 128), DIMS(1, 16384, 1, 128), FULL,
          ROUGH),
    HEADS("16,384 queries of 128", &plain, NORMAL, DIMS(1, 16384, 1, 128), DIMS(1, 5, 1, 128), FULL,
          ROUGH),
    HEADS("2,000 keys", &plain, NORMAL, DIMS(1, 5, 1, 8), DIMS(1, 2000, 1, 8), FULL, ROUGH),
    THREE("peaked: one key has nearly all", CAUSAL, UNIFORM(-6, 6, DIMS(1, 70, 2, 8)),
          UNIFORM(-6, 6, DIMS(1, 70, 2, 8)), FILL(NORMAL, DIMS(1, 70, 2, 8)), STANDARD, ROUGH),
    THREE("peaked at the last key", &plain, FILL(POSITIVE, DIMS(1, 5, 1, 8)),
          LAST(0, 1, DIMS(1, 130, 1, 8)), FILL(NORMAL, DIMS(1, 130, 1, 8)), STANDARD, ROUGH),
    THREE("positive values", CAUSAL, FILL(NORMAL, DIMS(1, 70, 1, 8)),
          FILL(NORMAL, DIMS(1, 70, 1, 8)), FILL(POSITIVE, DIMS(1, 70, 1, 8)), STANDARD, ROUGH),
    THREE("values that cancel", &plain, FILL(NORMAL, DIMS(1, 7, 1, 8)),
          FILL(NORMAL, DIMS(1, 70, 1, 8)), FILL(CANCELLING, DIMS(1, 70, 1, 8)), STANDARD, ROUGH),
    NOTHING("no items", CAUSAL, DIMS(0, 5, 2, 3), DIMS(0, 5, 2, 3), .is_poor = false),
    NOTHING("no queries", &plain, DIMS(2, 0, 2, 3), DIMS(2, 5, 2, 3), .is_poor = true),
    NOTHING("no keys", &plain, DIMS(2, 5, 2, 3), DIMS(2, 0, 2, 3), .is_poor = true),
};

COPSE_CASE_TABLE(attention, OPS, SPEEDS, .refusals = attention_refusals)
