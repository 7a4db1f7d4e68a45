/* SPDX-License-Identifier: MIT */
/* Scaled dot-product attention. Kernels read q, k and v by first word and stride of a position, so that the three can be parts of
   one tensor; the derivatives are likewise parts of one. */
#include <math.h>
#include <stdio.h>

#include "copse/ops/attention.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define MOST_WIDTH  128u
#define MOST_LENGTH 16384u
#define TILE  64u  /* keys: terms of the shortest sums */
#define STATE 3u   /* words of a query: kernels/attention/attention.clh */

struct attention_attr {
    uint32_t heads, kv_heads, width; /* 0: from the shapes */
    uint32_t window; /* UINT32_MAX: none */
    int32_t is_causal;
    float scale;
};

/* Sizes and places of the operands. */
struct places {
    uint32_t items, queries, keys, heads, kv_heads, width;
    uint32_t q_first, k_first, v_first, q_stride, k_stride;
    const copse_tensor *q, *k, *v;
};

/* Of the operands in[0], or in[0], in[1] and in[2] if there are three. */
static struct places places_of(copse_tensor *const *in, bool is_packed, const struct attention_attr *a)
{
    const copse_shape q = in[0]->shape, k = in[is_packed ? 0 : 1]->shape;
    struct places x = { .items = q.dims[0], .queries = q.dims[1], .keys = k.dims[1], .q = in[0] };
    x.heads = is_packed ? a->heads : q.dims[2];
    x.kv_heads = is_packed ? a->kv_heads : k.dims[2];
    x.width = is_packed ? q.dims[2] / (a->heads + 2 * a->kv_heads) : q.dims[3];
    x.k = is_packed ? in[0] : in[1];
    x.v = is_packed ? in[0] : in[2];
    x.q_stride = is_packed ? q.dims[2] : x.heads * x.width;
    x.k_stride = is_packed ? q.dims[2] : x.kv_heads * x.width;
    x.k_first = is_packed ? x.heads * x.width : 0;
    x.v_first = is_packed ? (x.heads + x.kv_heads) * x.width : 0;
    return x;
}

static bool is_packed(const copse_tensor *y)
{
    return y->in_count == 1;
}

/* Keys or queries of a launch, whole tiles: at most 60,000 rounds of all loops. */
static uint32_t count_of_launch(uint32_t width)
{
    return (60000 - 6 * width) / (2 * width + 2) / TILE * TILE;
}

/* ---- launches ---- */

enum { FORWARD, GRADIENT };

/* dq to the words of the result from q on, positions `q_stride` apart; dk and dv likewise. */
struct targets {
    uint32_t q, k, v, q_stride, k_stride;
};

struct launch {
    struct places at;
    struct attention_attr attr;
    struct copse_operand state;
    const copse_tensor *y, *dy, *dx;
    struct targets to;
};

/* The input of the family: small, as jobs of mode tune have no tensors. */
struct attention {
    uint32_t kind, keys;
    const struct launch *of;
};

#define PLACES(x, a)                                                                                                       \
    .queries = (x)->queries, .keys = (x)->keys, .heads = (x)->heads, .share = (x)->heads / (x)->kv_heads,                  \
    .width = (x)->width, .window = (a)->window, .q_first = (x)->q_first, .k_first = (x)->k_first,                          \
    .v_first = (x)->v_first, .q_stride = (x)->q_stride, .k_stride = (x)->k_stride, .scale = (a)->scale

static copse_status plain_forward(struct copse_lowering *l, const struct launch *w, bool has_values)
{
    const struct places *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, has_values };
    struct copse_params_attention p = { PLACES(x, &w->attr), .rows = x->items * x->heads * x->queries,
                                        .count = count_of_launch(x->width) };
    struct copse_operand none = w->state;
    if (!has_values)
        COPSE_TRY(copse__scratch(l, 1, &none));
    do {
        COPSE_TRY(COPSE_LAUNCH(l, attention, spec, p, copse__groups_for(l, COPSE_KERNEL_attention, p.rows), copse__of(x->q),
                               copse__of(x->k), copse__of(x->v), w->state, has_values ? copse__of(w->y) : none));
        p.first += p.count;
    } while (p.first < p.keys);
    return COPSE_OK;
}

static copse_status plain_query(struct copse_lowering *l, const struct launch *w)
{
    const struct places *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal };
    struct copse_params_attention_grad_query p = { PLACES(x, &w->attr), .rows = x->items * x->heads * x->queries,
                                                   .count = count_of_launch(x->width), .to_first = w->to.q,
                                                   .to_stride = w->to.q_stride };
    do {
        COPSE_TRY(COPSE_LAUNCH(l, attention_grad_query, spec, p,
                               copse__groups_for(l, COPSE_KERNEL_attention_grad_query, p.rows), copse__of(x->q),
                               copse__of(x->k), copse__of(x->v), copse__of(w->y), copse__of(w->dy), w->state,
                               copse__of(w->dx)));
        p.first += p.count;
    } while (p.first < p.keys);
    return COPSE_OK;
}

static copse_status plain_key(struct copse_lowering *l, const struct launch *w)
{
    const struct places *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal };
    struct copse_params_attention_grad_key p = { PLACES(x, &w->attr), .rows = x->items * x->kv_heads * x->keys,
                                                 .count = count_of_launch(x->width), .to_k = w->to.k, .to_v = w->to.v,
                                                 .to_stride = w->to.k_stride };
    for (p.head = 0; p.head < p.share; p.head++)
        for (p.first = 0; p.first < p.queries; p.first += p.count)
            COPSE_TRY(COPSE_LAUNCH(l, attention_grad_key, spec, p,
                                   copse__groups_for(l, COPSE_KERNEL_attention_grad_key, p.rows), copse__of(x->q),
                                   copse__of(x->k), copse__of(x->v), copse__of(w->dy), w->state, copse__of(w->dx)));
    return COPSE_OK;
}

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct attention *w = work;
    if (w->kind == FORWARD)
        return plain_forward(l, w->of, true);
    COPSE_TRY(plain_forward(l, w->of, false));
    COPSE_TRY(plain_query(l, w->of));
    return plain_key(l, w->of);
}

#define LANES 16u /* queries or keys of an invocation */

static copse_status wide_forward(struct copse_lowering *l, const struct launch *w, bool has_values)
{
    const struct places *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal, has_values };
    const struct copse_params_attention_wide p = { PLACES(x, &w->attr),
                                                   .blocks = x->items * x->heads * ((x->queries + LANES - 1) / LANES) };
    struct copse_operand none = w->state;
    if (!has_values)
        COPSE_TRY(copse__scratch(l, 1, &none));
    return COPSE_LAUNCH(l, attention_wide, spec, p, p.blocks, copse__of(x->q), copse__of(x->k), copse__of(x->v), w->state,
                        has_values ? copse__of(w->y) : none);
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct attention *a = work;
    const struct launch *w = a->of;
    const struct places *x = &w->at;
    const int32_t spec[COPSE_MAX_SPECS] = { w->attr.is_causal };
    COPSE_TRY(wide_forward(l, w, a->kind == FORWARD));
    if (a->kind == FORWARD)
        return COPSE_OK;
    const struct copse_params_attention_grad_query_wide q = {
        PLACES(x, &w->attr), .blocks = x->items * x->heads * ((x->queries + LANES - 1) / LANES), .to_first = w->to.q,
        .to_stride = w->to.q_stride
    };
    const struct copse_params_attention_grad_key_wide k = {
        PLACES(x, &w->attr), .blocks = x->items * x->kv_heads * ((x->keys + LANES - 1) / LANES), .to_k = w->to.k,
        .to_v = w->to.v, .to_stride = w->to.k_stride
    };
    COPSE_TRY(COPSE_LAUNCH(l, attention_grad_query_wide, spec, q, q.blocks, copse__of(x->q), copse__of(x->k), copse__of(x->v),
                           copse__of(w->y), copse__of(w->dy), w->state, copse__of(w->dx)));
    return COPSE_LAUNCH(l, attention_grad_key_wide, spec, k, k.blocks, copse__of(x->q), copse__of(x->k), copse__of(x->v),
                        copse__of(w->dy), w->state, copse__of(w->dx));
}

/* ---- the family ---- */

static const enum copse_kernel_id plain_needs[] = { COPSE_KERNEL_attention_grad_query, COPSE_KERNEL_attention_grad_key };
static const enum copse_kernel_id wide_needs[] = { COPSE_KERNEL_attention_grad_query_wide,
                                                   COPSE_KERNEL_attention_grad_key_wide };

/* Priors of plain devices, of those with wide vectors, and of those with fast texels. */
static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_attention, { 0, 1, 0 }, NULL, lower_plain, plain_needs, COPSE_COUNT(plain_needs) },
    { "wide", COPSE_KERNEL_attention_wide, { 1, 0, 1 }, NULL, lower_wide, wide_needs, COPSE_COUNT(wide_needs) },
};

static const uint32_t sizes[] = { 32, 128, 512 };

static bool size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    const struct attention *w = work;
    snprintf(name, COPSE_SIZE_CLASS, "%s-%u", w->kind == FORWARD ? "forward" : "gradient",
             (unsigned)copse__size_class(sizes, COPSE_COUNT(sizes), w->keys));
    return w->keys > 0;
}

static void job(size_t index, struct copse_tune_job *j)
{
    const struct attention w = { index % 2 ? GRADIENT : FORWARD, sizes[index / 2], NULL };
    _Static_assert(sizeof w <= COPSE_TUNE_WORK, "work of a job");
    memcpy(j->work, &w, sizeof w);
    snprintf(j->name, sizeof j->name, "4 x %u x 4 x 32, causal%s", (unsigned)w.keys, w.kind == FORWARD ? "" : ", gradient");
    j->operations = (w.kind == FORWARD ? 4.0 : 14.0) * 16 * 32 * w.keys * w.keys;
    j->in_count = 3;
    for (int i = 0; i < 3; i++)
        j->in[i] = COPSE_SHAPE(4, w.keys, 4, 32);
}

static const struct copse_op op_grad;

static copse_status build(copse_graph *g, const struct copse_tune_job *j, copse_tensor *const *in, copse_tensor **out)
{
    const struct copse_attention_params params = { .is_causal = true, .scale = 0.01f };
    copse_tensor *y;
    COPSE_TRY(copse_attention(g, in[0], in[1], in[2], &params, &y));
    if (((const struct attention *)j->work)->kind == FORWARD) {
        *out = y;
        return COPSE_OK;
    }
    return COPSE_NODE(g, &op_grad, y->attr, out, y, in[0], in[0], in[1], in[2]);
}

const struct copse_family copse_family_attention = {
    .name = "attention",
    .variants = variants,
    .count = COPSE_COUNT(variants),
    .slack = 1e-3f,
    .size_class = size_class,
    .job_count = 2 * COPSE_COUNT(sizes),
    .job = job,
    .build = build,
};

/* ---- the derivatives: of y, dy and the operands, in one tensor ---- */

static copse_status grad_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    uint64_t sum = 0;
    for (uint32_t i = 2; i < dx->in_count; i++)
        sum += copse__elements(dx->in[i]->shape);
    *shape = dx->in_count == 3 ? dx->in[2]->shape : COPSE_SHAPE((uint32_t)sum);
    *type = COPSE_F32;
    if (sum > INT32_MAX)
        return copse__shape_error(dx, "the derivatives have more than 2^31-1 elements");
    return COPSE_OK;
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct attention_attr *a = dx->attr;
    const bool packed = dx->in_count == 3;
    struct launch w = { .at = places_of(dx->in + 2, packed, a), .attr = *a, .y = dx->in[0], .dy = dx->in[1], .dx = dx };
    const struct places *x = &w.at;
    const uint32_t words_q = x->items * x->queries * x->heads * x->width;
    const uint32_t words_k = x->items * x->keys * x->kv_heads * x->width;
    w.to = (struct targets){ packed ? x->q_first : 0, packed ? x->k_first : words_q, packed ? x->v_first : words_q + words_k,
                             x->q_stride, x->k_stride };
    if (words_q == 0 || words_k == 0)
        return copse__lower_fill(l, dx, 0.0);
    COPSE_TRY(copse__scratch(l, (uint64_t)STATE * x->items * x->heads * x->queries, &w.state));
    return copse__lower_variant(l, &copse_family_attention, &(struct attention){ GRADIENT, x->keys, &w });
}

static const struct copse_op op_grad = {
    .name = "attention_grad",
    .attr_size = sizeof(struct attention_attr),
    .infer = grad_infer,
    .lower = grad_lower,
};

static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    copse_tensor *all, *self = (copse_tensor *)y;
    uint32_t start = 0;
    if (is_packed(y))
        return COPSE_NODE(g, &op_grad, y->attr, &dx[0], self, dy, y->in[0]);
    COPSE_TRY(COPSE_NODE(g, &op_grad, y->attr, &all, self, dy, y->in[0], y->in[1], y->in[2]));
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t count = (uint32_t)copse__elements(y->in[i]->shape);
        if (y->in[i]->needs_gradient) {
            COPSE_TRY(copse_slice(g, all, &start, &count, &dx[i]));
            COPSE_TRY(copse_reshape(g, dx[i], y->in[i]->shape, &dx[i]));
        }
        start += count;
    }
    return COPSE_OK;
}

/* ---- the op ---- */

static copse_status check_sizes(const copse_tensor *y, const struct places *x)
{
    if (x->width < 1 || x->width > MOST_WIDTH)
        return copse__shape_error(y, "heads of 1 to %u numbers", MOST_WIDTH);
    if (x->queries > MOST_LENGTH || x->keys > MOST_LENGTH)
        return copse__shape_error(y, "at most %u queries and keys", MOST_LENGTH);
    if ((uint64_t)STATE * x->items * x->heads * x->queries > INT32_MAX)
        return copse__shape_error(y, "at most 2^31-1 / %u queries of all heads and items", STATE);
    if ((uint64_t)x->queries * (x->heads / x->kv_heads) > MOST_LENGTH)
        return copse__shape_error(y, "at most %u queries of all heads for each key head", MOST_LENGTH);
    return COPSE_OK;
}

static copse_status infer_packed(const copse_tensor *y, copse_shape *shape)
{
    const struct attention_attr *a = y->attr;
    const copse_shape x = y->in[0]->shape;
    const uint64_t heads = a->heads + 2 * (uint64_t)a->kv_heads;
    if (x.rank != 3 || heads > x.dims[2] || x.dims[2] % heads)
        return copse__shape_error(y, "expected f32 [n, length, (%u + 2 * %u) width]", (unsigned)a->heads, (unsigned)a->kv_heads);
    const struct places at = places_of(y->in, true, a);
    *shape = COPSE_SHAPE(x.dims[0], x.dims[1], at.heads * at.width);
    return check_sizes(y, &at);
}

static copse_status infer_three(const copse_tensor *y, copse_shape *shape)
{
    const copse_shape q = y->in[0]->shape, k = y->in[1]->shape;
    if (q.rank != 4 || k.rank != 4 || !copse__shape_equal(k, y->in[2]->shape) || q.dims[0] != k.dims[0] ||
        q.dims[3] != k.dims[3] || q.dims[2] == 0 || k.dims[2] == 0 || q.dims[2] % k.dims[2])
        return copse__shape_error(y, "expected f32 q [n, queries, heads, width], k and v [n, keys, kv_heads, width], where "
                                     "kv_heads divides heads");
    const struct places at = places_of(y->in, false, y->attr);
    *shape = q;
    return check_sizes(y, &at);
}

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    for (uint32_t i = 0; i < y->in_count; i++)
        if (y->in[i]->type != COPSE_F32)
            return copse__shape_error(y, "expected f32 operands");
    *type = COPSE_F32;
    return is_packed(y) ? infer_packed(y, shape) : infer_three(y, shape);
}

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct launch w = { .at = places_of(y->in, is_packed(y), y->attr), .attr = *(const struct attention_attr *)y->attr, .y = y };
    const struct places *x = &w.at;
    const uint32_t rows = x->items * x->heads * x->queries;
    if (rows == 0)
        return COPSE_OK;
    if (x->keys == 0)
        return copse__lower_fill(l, y, 0.0);
    COPSE_TRY(copse__scratch(l, (uint64_t)STATE * rows, &w.state));
    return copse__lower_variant(l, &copse_family_attention, &(struct attention){ FORWARD, x->keys, &w });
}

static const struct copse_op op_attention = {
    .name = "attention",
    .attr_size = sizeof(struct attention_attr),
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};

static const struct copse_op op_self_attention = {
    .name = "self_attention",
    .attr_size = sizeof(struct attention_attr),
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};

static copse_status attr_of(const char *op, const struct copse_attention_params *params, uint32_t width,
                            struct attention_attr *a)
{
    static const struct copse_attention_params defaults;
    const struct copse_attention_params *p = params ? params : &defaults;
    COPSE_TRY(copse_no_reserved(copse_attention_params, p));
    if (!isfinite(p->scale))
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: scale %g is not finite", op, (double)p->scale);
    a->window = p->window ? p->window : UINT32_MAX;
    a->is_causal = p->is_causal;
    a->scale = p->scale != 0 ? p->scale : (float)(1 / sqrt((double)COPSE_MAX(width, 1u)));
    return COPSE_OK;
}

copse_status copse_attention(copse_graph *g, copse_tensor *q, copse_tensor *k, copse_tensor *v,
                             const struct copse_attention_params *params, copse_tensor **y)
{
    struct attention_attr a = { 0 };
    COPSE_TRY(COPSE_CHECK_OPERANDS("attention", g, y, q, k, v));
    COPSE_TRY(attr_of("attention", params, q->shape.rank == 4 ? q->shape.dims[3] : 1, &a));
    return COPSE_NODE(g, &op_attention, &a, y, q, k, v);
}

copse_status copse_self_attention(copse_graph *g, copse_tensor *qkv, uint32_t heads, uint32_t kv_heads,
                                  const struct copse_attention_params *params, copse_tensor **y)
{
    struct attention_attr a = { .heads = heads, .kv_heads = kv_heads };
    COPSE_TRY(COPSE_CHECK_OPERANDS("self_attention", g, y, qkv));
    if (heads == 0 || kv_heads == 0 || heads % kv_heads)
        return copse_fail(COPSE_ERR_ARGUMENT, "self_attention: %u heads and %u key heads: kv_heads must divide heads",
                          (unsigned)heads, (unsigned)kv_heads);
    const uint64_t parts = heads + 2 * (uint64_t)kv_heads;
    COPSE_TRY(attr_of("self_attention", params, qkv->shape.rank == 3 ? (uint32_t)(qkv->shape.dims[2] / parts) : 1, &a));
    return COPSE_NODE(g, &op_self_attention, &a, y, qkv);
}
