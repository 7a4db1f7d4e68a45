/* SPDX-License-Identifier: MIT */
/* Self-attention with its projections: one product makes query, key and value heads, another one
   mixes the results of the heads. */
#include "copse/ops.h"
#include "copse/ops/attention.h"
#include "copse/ops/rotary.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { HEADS, CAUSAL, KV_HEADS, WINDOW, ROTARY, BASE, BIAS, INIT, SCALE };
enum { QKV, QKV_BIAS, OUT, OUT_BIAS };

#define MOST_WIDTH  256u   /* of a head */
#define MOST_LENGTH 16384u /* queries of a key head */

static uint32_t kv_heads_of(const copse_layer *l)
{
    return l->value[KV_HEADS].count ? l->value[KV_HEADS].count : l->value[HEADS].count;
}

static copse_status attention_layer_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    const uint32_t heads = l->value[HEADS].count, kv_heads = kv_heads_of(l);
    copse__shape_text(f->shape, text);
    if (f->shape.rank != 2 || copse__elements(f->shape) == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input is %s; it takes positions and width [t, w]", text);
    const uint32_t length = f->shape.dims[0], width = f->shape.dims[1];
    if (width % heads || width / heads > MOST_WIDTH)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the width of %s does not divide into %u heads of 1 to %u numbers",
                                text, (unsigned)heads, MOST_WIDTH);
    if (heads % kv_heads)
        return copse_layer_fail(l, COPSE_ERR_ARGUMENT, "%u key heads do not divide %u heads",
                                (unsigned)kv_heads, (unsigned)heads);
    if (l->value[ROTARY].count && width / heads % 2)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "rotary positions turn pairs, and a head of %s has %u numbers",
                                text, (unsigned)(width / heads));
    if ((uint64_t)length * (heads / kv_heads) > MOST_LENGTH)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "%u positions of %u heads for each key head: at most %u in all",
                                (unsigned)length, (unsigned)(heads / kv_heads), MOST_LENGTH);
    return COPSE_OK;
}

static copse_status make_dense(copse_layer *l, const struct copse_layer_maker *m, uint32_t i,
                               const char *name, const char *bias, uint32_t units)
{
    struct copse_variable_params weight = { .shape = COPSE_SHAPE(l->in.shape.dims[1], units) };
    const struct copse_variable_params offset = { .shape = COPSE_SHAPE(units) };
    copse__setting_initialize(l->value[INIT], copse__layer_initializer(COPSE_LINEAR),
                              l->value[SCALE].number, &weight);
    COPSE_TRY(copse__layer_variable(l, m, i, name, &weight));
    return l->value[BIAS].count ? copse__layer_variable(l, m, i + 1, bias, &offset) : COPSE_OK;
}

static copse_status attention_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    const uint32_t width = l->in.shape.dims[1];
    COPSE_TRY(make_dense(l, m, QKV, "qkv", "qkv_bias",
                         width + 2 * (width / l->value[HEADS].count * kv_heads_of(l))));
    return make_dense(l, m, OUT, "out", "out_bias", width);
}

/* Query and key heads turn, value heads do not. */
static copse_status attention_layer_turn(const copse_layer *l, copse_graph *g, copse_tensor **qkv)
{
    const copse_shape packed = (*qkv)->shape;
    const uint32_t heads = l->value[HEADS].count, kv_heads = kv_heads_of(l),
                   width = l->in.shape.dims[1] / heads;
    const struct copse_rotary_params params = { .base = l->value[BASE].number,
                                                .heads = heads + kv_heads };
    *qkv = copse_reshape(g, *qkv,
                         COPSE_SHAPE(packed.dims[0], packed.dims[1], heads + 2 * kv_heads, width));
    *qkv = copse_rotary(g, *qkv, &params);
    *qkv = copse_reshape(g, *qkv, packed);
    return copse_graph_status(g);
}

static copse_tensor *attention_layer_apply(const copse_layer *l, copse_graph *g,
                                           const copse_batch *in, copse_tensor *x)
{
    const struct copse_attention_params params = { .is_causal = l->value[CAUSAL].count != 0,
                                                   .window = l->value[WINDOW].count };
    (void)in;
    copse_tensor *t = copse_dense(g, x, copse__layer_tensor(l, QKV),
                                  copse__layer_tensor(l, QKV_BIAS), COPSE_LINEAR);
    if (l->value[ROTARY].count)
        COPSE_LATCH(g, attention_layer_turn(l, g, &t));
    t = copse_self_attention(g, t, l->value[HEADS].count, kv_heads_of(l), &params);
    return copse_dense(g, t, copse__layer_tensor(l, OUT), copse__layer_tensor(l, OUT_BIAS),
                       COPSE_LINEAR);
}

const struct copse_layer_kind copse__layer_attention = {
    .name = "attention",
    .setting = {
        [HEADS] = { .name = "HEADS", .form = COPSE_SETTING_COUNT, .is_word = true, .is_required = true },
        [CAUSAL] = { .name = "causal", .form = COPSE_SETTING_FLAG },
        [KV_HEADS] = { .name = "kv_heads", .form = COPSE_SETTING_COUNT },
        [WINDOW] = { .name = "window", .form = COPSE_SETTING_COUNT },
        [ROTARY] = { .name = "rotary", .form = COPSE_SETTING_FLAG },
        [BASE] = { .name = "base", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30, .normal = { .number = 10000 } },
        [BIAS] = { .name = "bias", .form = COPSE_SETTING_FLAG, .normal = { .count = 1 } },
        [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },
        [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },
    },
    .takes = COPSE_F32,
    .infer = attention_layer_infer,
    .make = attention_layer_make,
    .apply = attention_layer_apply,
};
