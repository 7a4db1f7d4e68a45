/* SPDX-License-Identifier: MIT */
/* Scaled dot-product attention: its variants, and the ops with their shapes and derivatives. The
   derivatives are parts of one tensor, as q, k and v can be. The state of the queries, from which
   they are computed, is a node of its own; one launch computes it with the result. */
#include <math.h>
#include <stdio.h>

#include "copse/ops/attention.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/ops/attention/attention.h"
#include "core/ops/product/precision.h"

#define MOST_LENGTH 16384u
#define LEAST_CAP   1e-6f /* kernels multiply by 1 / cap */
#define MOST_CAP    1e30f
#define MOST_ROUNDS 65000u /* of the loops of an invocation: drivers stop at 65,535 */

/* ---- sizes ---- */

/* Strides of a mask [items or 1, heads or 1, queries or 1, keys], which may lack the first axes. */
static void place_mask(copse_shape s, struct copse_attention_sizes *x)
{
    uint32_t *const to[] = { &x->mask_query, &x->mask_head, &x->mask_item };
    uint32_t words = s.dims[s.rank - 1];
    for (uint32_t i = 0; i < COPSE_COUNT(to) && i + 1 < s.rank; i++) {
        const uint32_t dim = s.dims[s.rank - 2 - i];
        *to[i] = dim > 1 ? words : 0;
        words *= dim;
    }
}

/* Of the operands of an op: one or three, and then the mask if there is one. */
static struct copse_attention_sizes sizes_of(copse_tensor *const *in,
                                             const struct copse_attention_attr *a)
{
    const bool is_packed = a->is_packed;
    const copse_shape q = in[0]->shape, k = in[is_packed ? 0 : 1]->shape;
    struct copse_attention_sizes x = { .items = q.dims[0],
                                       .queries = q.dims[1],
                                       .keys = k.dims[1] };
    x.heads = is_packed ? a->heads : q.dims[2];
    x.kv_heads = is_packed ? a->kv_heads : k.dims[2];
    x.width = is_packed ? q.dims[2] / (a->heads + 2 * a->kv_heads) : q.dims[3];
    x.q_stride = is_packed ? q.dims[2] : x.heads * x.width;
    x.k_stride = is_packed ? q.dims[2] : x.kv_heads * x.width;
    x.k_first = is_packed ? x.heads * x.width : 0;
    x.v_first = is_packed ? (x.heads + x.kv_heads) * x.width : 0;
    if (a->has_mask)
        place_mask(in[is_packed ? 1 : 3]->shape, &x);
    return x;
}

/* Those operands as f32, and as words of i32. */
static copse_status attention_bind(struct copse_lowering *l, copse_tensor *const *in,
                                   struct copse_attention_launch *w)
{
    const uint32_t own = w->attr.is_packed ? 1 : 3;
    struct copse_operand *const to[] = { &w->q, &w->k, &w->v };
    for (uint32_t i = 0; i < 3; i++) {
        *to[i] = i < own ? copse__of(in[i]) : w->q;
        if (i < own)
            COPSE_TRY(copse__widen(l, to[i]));
    }
    w->mask = w->attr.has_mask ? copse__of(in[own]) : w->q;
    if (w->attr.lengths == COPSE_ATTENTION_ALL)
        return copse__scratch(l, 1, &w->lengths);
    w->lengths = copse__of(in[own + (uint32_t)w->attr.has_mask]);
    return COPSE_OK;
}

/* The state follows the other operands. */
static copse_tensor *state_of(const copse_tensor *t)
{
    return t->in[t->in_count - 1];
}

/* ---- the family ---- */

/* The wide kernels keep columns of this many numbers in private memory. */
static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct copse_attention_work *)work)->width <= 128;
}

/* Heads are whole texels, and at most 16 of them. Texel views have a maximum size. */
static bool fits_texels(const struct copse_limits *limits, const void *work)
{
    const struct copse_attention_work *w = work;
    return w->width % 4 == 0 && w->width <= 64 &&
           w->words <= COPSE_MIN(limits->max_binding_bytes / 4, 4 * limits->max_texel_elements);
}

static uint64_t key_tiles_of(uint32_t queries, uint32_t share)
{
    return (uint64_t)share * ((queries + COPSE_ATTENTION_GROUP - 1) / COPSE_ATTENTION_GROUP);
}

/* Rounds of all loops of an invocation of attention_grad_key_tile for a tile that rows see in part:
   the tile, its head, two products of strips of 16 numbers, and for each of two products with 64
   numbers of the heads the 64 columns in two parts (heads of 32: 32 columns in one). The other two
   kernels have fewer, at most 149 for each of 256 tiles. */
static uint64_t rounds_of_tile(uint32_t width)
{
    const uint64_t strips = 2 * (width / 16), weighed = width == 32 ? 33 : width / 64 * 66;
    return 2 + strips + 2 * weighed;
}

/* The kernels for GPUs are written for these widths and groups of 256, and a launch of the gradient
   walks all queries that share a key. */
static bool fits_tiles(const struct copse_limits *limits, const void *work)
{
    const struct copse_attention_work *w = work;
    if ((w->width != 32 && w->width != 64 && w->width != 128) ||
        limits->max_group_size < COPSE_ATTENTION_TILE_GROUP)
        return false;
    return w->kind != COPSE_ATTENTION_GRADIENT ||
           w->key_tiles * rounds_of_tile(w->width) <= MOST_ROUNDS;
}

static const struct copse_variant variants[] = {
    { "plain",
      COPSE_KERNEL_attention,
      { 0, 1, 1, 1 },
      .lower = copse__attention_plain,
      COPSE_NEEDS(COPSE_KERNEL_attention_grad_query, COPSE_KERNEL_attention_grad_key) },
    { "wide",
      COPSE_KERNEL_attention_wide,
      { 1, 0, 2, 2 },
      .fits = fits_wide,
      .lower = copse__attention_wide,
      COPSE_NEEDS(COPSE_KERNEL_attention_grad_query_wide, COPSE_KERNEL_attention_grad_key_wide) },
    { "texel",
      COPSE_KERNEL_attention_texel,
      { 2, 2, 0, 3 },
      .fits = fits_texels,
      .lower = copse__attention_texel,
      COPSE_NEEDS(COPSE_KERNEL_attention_grad_query_texel, COPSE_KERNEL_attention_grad_key_texel) },
    { "tile", /* by its instructions; no GPU has been measured with it */
      COPSE_KERNEL_attention_tile,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = fits_tiles,
      .lower = copse__attention_tile,
      COPSE_NEEDS(COPSE_KERNEL_attention_grad_query_tile, COPSE_KERNEL_attention_grad_key_tile) },
};

#define JOB_WIDTH 32

static bool attention_size(const void *work, struct copse_size *out)
{
    const struct copse_attention_work *w = work;
    out->kind = w->kind == COPSE_ATTENTION_GRADIENT;
    out->of[0] = w->keys;
    return w->keys > 0;
}

static void attention_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct copse_attention_work w = { at->kind ? COPSE_ATTENTION_GRADIENT
                                                     : COPSE_ATTENTION_FORWARD,
                                            at->of[0],
                                            JOB_WIDTH,
                                            key_tiles_of(at->of[0], 1),
                                            16 * JOB_WIDTH * at->of[0],
                                            NULL };
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "4 x %u x 4 x %d, causal%s", (unsigned)w.keys, JOB_WIDTH,
             w.kind == COPSE_ATTENTION_FORWARD ? "" : ", gradient");
    j->operations =
        (w.kind == COPSE_ATTENTION_FORWARD ? 4.0 : 14.0) * 16 * JOB_WIDTH * w.keys * w.keys;
    for (int i = 0; i < 3; i++)
        j->in[i] = COPSE_SHAPE(4, w.keys, 4, JOB_WIDTH);
}

static const struct copse_op op_grad;

static copse_tensor *attention_build(copse_graph *g, const struct copse_tune_job *j,
                                     copse_tensor *const *in)
{
    const struct copse_attention_params params = { .is_causal = true, .scale = 0.01f };
    copse_tensor *y = copse_attention(g, in[0], in[1], in[2], &params);
    if (((const struct copse_attention_work *)j->work)->kind == COPSE_ATTENTION_FORWARD) {
        return y;
    }
    if (copse__is_failed(y))
        return y;
    return COPSE_NODE(g, &op_grad, y->attr, y, in[0], in[0], in[1], in[2], state_of(y));
}

const struct copse_family copse_family_attention = {
    .name = "attention",
    COPSE_VARIANTS(variants),
    .slack = 1e-3f,
    .kinds = { "forward", "gradient" },
    .sizes = { { 32, 128, 512 } },
    .size = attention_size,
    .job = attention_job,
    .build = attention_build,
};

static copse_status attention_choose(struct copse_lowering *l, uint32_t kind,
                                     const struct copse_attention_launch *w)
{
    const struct copse_attention_sizes *x = &w->at;
    const uint64_t q = (uint64_t)x->items * x->queries * x->q_stride,
                   k = (uint64_t)x->items * x->keys * x->k_stride;
    const uint64_t state = (uint64_t)COPSE_ATTENTION_STATE * x->items * x->heads * x->queries,
                   most = COPSE_MAX(q, k);
    return copse__lower_variant(
        l, &copse_family_attention,
        &(struct copse_attention_work){ kind, x->keys, x->width,
                                        key_tiles_of(x->queries, x->heads / x->kv_heads),
                                        COPSE_MAX(most, state), w });
}

/* ---- the derivatives: of y, dy, the operands and the state, in one tensor ---- */

static copse_status grad_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    const struct copse_attention_attr *a = dx->attr;
    uint64_t sum = 0;
    for (uint32_t i = 2; i < 5 && !a->is_packed; i++)
        sum += copse__elements(dx->in[i]->shape);
    *shape = a->is_packed ? dx->in[2]->shape : COPSE_SHAPE((uint32_t)sum);
    *type = COPSE_F32;
    if (sum > INT32_MAX)
        return copse__shape_error(dx, "the derivatives have more than 2^31-1 elements");
    return COPSE_OK;
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct copse_attention_attr *a = dx->attr;
    struct copse_attention_launch w = { .at = sizes_of(dx->in + 2, a),
                                        .attr = *a,
                                        .y = copse__of(dx->in[0]),
                                        .dy = copse__of(dx->in[1]),
                                        .state = copse__of(state_of(dx)),
                                        .dx = copse__of(dx) };
    const struct copse_attention_sizes *x = &w.at;
    const uint32_t words_q = x->items * x->queries * x->heads * x->width;
    const uint32_t words_k = x->items * x->keys * x->kv_heads * x->width;
    w.to = (struct copse_attention_targets){ a->is_packed ? x->q_first : 0,
                                             a->is_packed ? x->k_first : words_q,
                                             a->is_packed ? x->v_first : words_q + words_k,
                                             x->q_stride, x->k_stride };
    if (words_q == 0 || words_k == 0)
        return copse__lower_fill(l, dx, 0.0);
    COPSE_TRY(attention_bind(l, dx->in + 2, &w));
    COPSE_TRY(copse__widen(l, &w.y));
    return attention_choose(l, COPSE_ATTENTION_GRADIENT, &w);
}

static const struct copse_op op_grad = {
    .name = "attention_grad",
    .advice = "write an attention that is differentiated twice with copse_matmul and "
              "copse_softmax",
    .attr_size = sizeof(struct copse_attention_attr),
    .infer = grad_infer,
    .lower = grad_lower,
    .takes_stored = true,
};

static void attention_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                               copse_tensor **dx)
{
    const struct copse_attention_attr *a = y->attr;
    copse_tensor *all, *in[8] = { (copse_tensor *)y, dy };
    uint32_t start = 0;
    if (a->has_mask && y->in[a->is_packed ? 1 : 3]->needs_gradient) {
        (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                            "%s: the mask has no derivative: it must not depend on variables",
                            y->op->name);
        return;
    }
    /* The products around keep a copy of y in their precision. */
    if (copse__type_is_half(y->in[0]->type))
        in[0] = copse__cast_once(g, in[0], y->in[0]->type);
    memcpy(in + 2, y->in, y->in_count * sizeof *in);
    all = copse__node(g, &op_grad, a, in, 2 + y->in_count);
    if (a->is_packed) {
        dx[0] = all;
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t count = (uint32_t)copse__elements(y->in[i]->shape);
        if (y->in[i]->needs_gradient) {
            dx[i] = copse_slice(g, all, &start, &count);
            dx[i] = copse_reshape(g, dx[i], y->in[i]->shape);
        }
        start += count;
    }
}

/* ---- the ops: the state checks the operands ---- */

static copse_status check_sizes(const copse_tensor *y, const struct copse_attention_sizes *x)
{
    if (x->width < 1 || x->width > COPSE_ATTENTION_WIDTH)
        return copse__shape_error(y, "heads of 1 to %u numbers", COPSE_ATTENTION_WIDTH);
    if (x->queries > MOST_LENGTH || x->keys > MOST_LENGTH)
        return copse__shape_error(y, "at most %u queries and keys", MOST_LENGTH);
    if ((uint64_t)COPSE_ATTENTION_STATE * x->items * x->heads * x->queries > INT32_MAX)
        return copse__shape_error(y, "at most 2^31-1 / %u queries of all heads and items",
                                  COPSE_ATTENTION_STATE);
    if ((uint64_t)x->queries * (x->heads / x->kv_heads) > MOST_LENGTH)
        return copse__shape_error(y, "at most %u queries of all heads for each key head",
                                  MOST_LENGTH);
    return COPSE_OK;
}

static copse_status check_mask(const copse_tensor *y, const copse_tensor *mask,
                               const struct copse_attention_sizes *x)
{
    const uint32_t whole[] = { x->keys, x->queries, x->heads, x->items };
    const copse_shape s = mask->shape;
    bool fits = mask->type == COPSE_F32 && s.rank >= 1 && s.rank <= COPSE_COUNT(whole) &&
                s.dims[s.rank - 1] == x->keys;
    for (uint32_t i = 1; i < s.rank && fits; i++)
        fits = s.dims[s.rank - 1 - i] == whole[i] || s.dims[s.rank - 1 - i] == 1;
    if (fits)
        return COPSE_OK;
    return copse__shape_error(
        y, "expected an f32 mask [%u or 1, %u or 1, %u or 1, %u], which may lack the first axes",
        (unsigned)x->items, (unsigned)x->heads, (unsigned)x->queries, (unsigned)x->keys);
}

static copse_status infer_packed(const copse_tensor *y, copse_shape *shape)
{
    const struct copse_attention_attr *a = y->attr;
    const copse_shape x = y->in[0]->shape;
    const uint64_t heads = a->heads + 2 * (uint64_t)a->kv_heads;
    if (x.rank != 3 || heads > x.dims[2] || x.dims[2] % heads)
        return copse__shape_error(y, "expected f32 [n, length, (%u + 2 * %u) width]",
                                  (unsigned)a->heads, (unsigned)a->kv_heads);
    *shape = COPSE_SHAPE(x.dims[0], x.dims[1], x.dims[2] / (uint32_t)heads * a->heads);
    return COPSE_OK;
}

static copse_status infer_three(const copse_tensor *y, copse_shape *shape)
{
    const copse_shape q = y->in[0]->shape, k = y->in[1]->shape;
    if (q.rank != 4 || k.rank != 4 || !copse__shape_equal(k, y->in[2]->shape) ||
        q.dims[0] != k.dims[0] || q.dims[3] != k.dims[3] || q.dims[2] == 0 || k.dims[2] == 0 ||
        q.dims[2] % k.dims[2])
        return copse__shape_error(
            y,
            "expected f32 q [n, queries, heads, width], k and v [n, keys, kv_heads, width], where "
            "kv_heads divides heads");
    *shape = q;
    return COPSE_OK;
}

static copse_status attention_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct copse_attention_attr *a = y->attr;
    *type = COPSE_F32;
    return a->is_packed ? infer_packed(y, shape) : infer_three(y, shape);
}

static copse_status state_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    struct copse_attention_attr a = *(const struct copse_attention_attr *)y->attr;
    const uint32_t own = a.is_packed ? 1 : 3;
    for (uint32_t i = 0; i < own; i++)
        if (!copse__type_is_smooth(y->in[i]->type))
            return copse__shape_error(y, "expected f32 operands, or f16 or bf16");
    *type = COPSE_F32;
    COPSE_TRY(a.is_packed ? infer_packed(y, shape) : infer_three(y, shape));
    const copse_tensor *mask = a.has_mask ? y->in[own] : NULL,
                       *lengths = a.lengths ? y->in[y->in_count - 1] : NULL;
    a.has_mask = false; /* its shape is not checked yet */
    const struct copse_attention_sizes x = sizes_of(y->in, &a);
    COPSE_TRY(check_sizes(y, &x));
    if (mask)
        COPSE_TRY(check_mask(y, mask, &x));
    if (lengths &&
        (lengths->type != COPSE_I32 || !copse__shape_equal(lengths->shape, COPSE_SHAPE(x.items))))
        return copse__shape_error(y, "expected i32 lengths [%u]", (unsigned)x.items);
    *shape = COPSE_SHAPE(COPSE_ATTENTION_STATE * x.items * x.heads * x.queries);
    return COPSE_OK;
}

static copse_status state_lower(struct copse_lowering *l, const copse_tensor *state)
{
    struct copse_attention_launch w = { .at = sizes_of(state->in, state->attr),
                                        .attr = *(const struct copse_attention_attr *)state->attr,
                                        .state = copse__of(state) };
    if (w.at.items * w.at.heads * w.at.queries == 0)
        return COPSE_OK;
    if (w.at.keys == 0)
        return copse__lower_fill(l, state, 0.0);
    COPSE_TRY(attention_bind(l, state->in, &w));
    return attention_choose(l, COPSE_ATTENTION_OF_STATE, &w);
}

/* y and the state that its launch writes. */
static copse_status lower_result(struct copse_lowering *l, const copse_tensor *y,
                                 struct copse_operand state)
{
    struct copse_attention_launch w = { .at = sizes_of(y->in, y->attr),
                                        .attr = *(const struct copse_attention_attr *)y->attr,
                                        .state = state,
                                        .y = copse__of(y) };
    const struct copse_attention_sizes *x = &w.at;
    if (x->items * x->heads * x->queries == 0)
        return COPSE_OK;
    if (x->keys == 0)
        return copse__lower_fill(l, y, 0.0);
    COPSE_TRY(attention_bind(l, y->in, &w));
    return attention_choose(l, COPSE_ATTENTION_FORWARD, &w);
}

/* The state has a launch of its own: here it is written to scratch. */
static copse_status attention_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct copse_operand state;
    COPSE_TRY(copse__scratch(l, COPSE_MAX(copse__elements(state_of(y)->shape), 1), &state));
    return lower_result(l, y, state);
}

static bool attention_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                           struct copse_fused *out)
{
    (void)l;
    out->at[1] = state_of(y);
    out->inside[0] = 1u << (y->in_count - 1);
    out->is_free = true;
    return turn == 0;
}

static copse_status lower_with_state(struct copse_lowering *l, const struct copse_fused *f)
{
    const copse_tensor *y = f->at[0];
    if (sizes_of(y->in, y->attr).keys == 0 && copse__elements(state_of(y)->shape) > 0)
        COPSE_TRY(copse__lower_fill(l, state_of(y), 0.0));
    return lower_result(l, y, copse__of(state_of(y)));
}

/* Both have the name that errors tell. */
static const struct copse_op op_state[] = {
    { .name = "attention",
      .attr_size = sizeof(struct copse_attention_attr),
      .infer = state_infer,
      .lower = state_lower,
      .takes_stored = true },
    { .name = "self_attention",
      .attr_size = sizeof(struct copse_attention_attr),
      .infer = state_infer,
      .lower = state_lower,
      .takes_stored = true },
};
#define OP(name_)                                                                                  \
    {                                                                                              \
        .name = name_, .attr_size = sizeof(struct copse_attention_attr), .infer = attention_infer, \
        .gradient = attention_gradient, .lower = attention_lower, .takes_stored = true,            \
        .fuse = attention_fuse, .lower_fused = lower_with_state                                    \
    }
static const struct copse_op op_attention = OP("attention")
, op_self_attention = OP("self_attention");

/* ---- the public functions ---- */

/* Adds the nodes of the `count` operands in[0 ...], with room for mask, lengths and state; `width`
   of a head for the scale. */
static copse_tensor *attention_add(copse_graph *g, const struct copse_op *op,
                                   const struct copse_attention_params *params, uint32_t width,
                                   struct copse_attention_attr *a, copse_tensor **in,
                                   uint32_t count)
{
    static const struct copse_attention_params defaults;
    const struct copse_attention_params *p = params ? params : &defaults;
    COPSE_LATCH(g, copse_no_reserved(copse_attention_params, p));
    if (!isfinite(p->scale))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: scale %g is not finite", op->name,
                             (double)p->scale);
    if (p->cap != 0 && !(p->cap >= LEAST_CAP && p->cap <= MOST_CAP))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "%s: a cap of %g: 0, or %g to %g", op->name,
                             (double)p->cap, (double)LEAST_CAP, (double)MOST_CAP);
    a->window = p->window ? p->window : UINT32_MAX;
    a->is_causal = p->is_causal;
    a->scale = p->scale != 0 ? p->scale : (float)(1 / sqrt((double)COPSE_MAX(width, 1u)));
    a->cap = p->cap;
    a->has_mask = p->mask != NULL;
    a->lengths = !p->lengths    ? COPSE_ATTENTION_ALL
                 : a->is_packed ? COPSE_ATTENTION_OF_BOTH
                                : COPSE_ATTENTION_OF_KEYS;
    for (uint32_t i = 0; i < count && copse__type_is_half(g->precision); i++)
        if (in[i]->type == COPSE_F32)
            in[i] = copse__noted(g, copse__cast_once(g, in[i], g->precision), "while adding %s",
                                 op->name);
    if (p->mask) {
        in[count] = p->mask;
        if (copse__type_is_half(p->mask->type))
            in[count] = copse__noted(g, copse__cast_once(g, p->mask, COPSE_F32), "while adding %s",
                                     op->name);
        count++;
    }
    if (p->lengths)
        in[count++] = p->lengths;
    in[count] = copse__node(g, &op_state[a->is_packed], a, in, count);
    return copse__is_failed(in[count]) ? in[count] : copse__node(g, op, a, in, count + 1);
}

copse_tensor *copse_attention(copse_graph *g, copse_tensor *q, copse_tensor *k, copse_tensor *v,
                              const struct copse_attention_params *params)
{
    struct copse_attention_attr a = { 0 };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("attention", g, q, k, v));
    return attention_add(g, &op_attention, params, q->shape.rank == 4 ? q->shape.dims[3] : 1, &a,
                         (copse_tensor *[6]){ q, k, v }, 3);
}

copse_tensor *copse_self_attention(copse_graph *g, copse_tensor *qkv, uint32_t heads,
                                   uint32_t kv_heads, const struct copse_attention_params *params)
{
    struct copse_attention_attr a = { .heads = heads, .kv_heads = kv_heads, .is_packed = true };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("self_attention", g, qkv));
    if (heads == 0 || kv_heads == 0 || heads % kv_heads)
        return copse__refuse(
            g, COPSE_ERR_ARGUMENT,
            "self_attention: %u heads and %u key heads: kv_heads must divide heads",
            (unsigned)heads, (unsigned)kv_heads);
    const uint64_t parts = heads + 2 * (uint64_t)kv_heads;
    return attention_add(g, &op_self_attention, params,
                         qkv->shape.rank == 3 ? (uint32_t)(qkv->shape.dims[2] / parts) : 1, &a,
                         (copse_tensor *[4]){ qkv }, 1);
}
