/* SPDX-License-Identifier: MIT */
/* The network: blocks of attention and gated units around a stream of numbers (LLaMA; Touvron et
   al., 2023). It reads windows of texts, or new tokens: then keys and values of earlier tokens are
   an input, keys and values of the new ones a result. */
#include <math.h>

#include "copse/ops.h"
#include "copse/ops/attention.h"
#include "copse/ops/blocks.h"
#include "copse/ops/gated.h"
#include "copse/ops/losses.h"
#include "copse/ops/rotary.h"
#include "core/data/input/shard.h"
#include "core/graph/graph.h"
#include "core/language/adapter.h"
#include "core/language/language.h"
#include "core/ops/loss/dense_loss.h"

/* ---- inputs ---- */

static bool language_has(const copse_language *l, enum copse_sight sight)
{
    for (uint32_t i = 0; i < l->is.layers; i++)
        if (l->slides[i] == (sight == COPSE_SIGHT_NEAR))
            return true;
    return false;
}

bool copse__language_inputs_make(const copse_language *l, struct copse_language_inputs *in,
                                 uint32_t count, size_t keys)
{
    struct copse_mem *mem = l->arena.mem;
    in->count = count;
    in->tokens = copse__alloc(mem, count, sizeof *in->tokens);
    bool ok = in->tokens != NULL;
    for (uint32_t i = 0; i < COPSE_SIGHTS; i++) {
        if (!language_has(l, (enum copse_sight)i))
            continue;
        in->turns[i] = copse__alloc(mem, (size_t)count * l->is.head, sizeof *in->turns[i]);
        in->mask[i] = copse__alloc(mem, count * keys, sizeof *in->mask[i]);
        ok = ok && in->turns[i] && in->mask[i];
    }
    return ok;
}

void copse__language_inputs_free(const copse_language *l, struct copse_language_inputs *in)
{
    struct copse_mem *mem = l->arena.mem;
    copse__free(mem, in->tokens);
    for (uint32_t i = 0; i < COPSE_SIGHTS; i++) {
        copse__free(mem, in->turns[i]);
        copse__free(mem, in->mask[i]);
    }
}

/* The angles of `count` tokens at `first` and on: [count, head], cosines and then sines. */
static void language_turns(const copse_language *l, enum copse_sight sight, uint32_t first,
                           uint32_t count, float *turns)
{
    const uint32_t half = l->is.head / 2;
    const bool is_own = sight == COPSE_SIGHT_NEAR && l->is.near_base > 0.0f;
    const double base = (double)(is_own ? l->is.near_base : l->is.base),
                 stretch = is_own ? 1.0 : (double)l->is.stretch;
    for (uint32_t i = 0; i < count; i++, turns += l->is.head)
        for (uint32_t k = 0; k < half; k++) {
            const double wave = 1.0 / pow(base, 2.0 * k / l->is.head) /
                                (l->turns && !is_own ? (double)l->turns[k] : 1.0) / stretch;
            const double angle = (double)(first + i) * wave;
            turns[k] = (float)cos(angle);
            turns[half + k] = (float)sin(angle);
        }
}

static void place_mask(const struct copse_language_inputs *in, uint32_t window, uint32_t first,
                       uint32_t used, float *mask)
{
    const uint32_t keys = in->slots + in->count;
    for (uint32_t i = 0; i < in->count; i++, mask += keys)
        for (uint32_t k = 0; k < keys; k++) {
            /* the place of key k; slots are filled from the first one */
            const uint32_t place = k < in->slots ? first - used + k : first + k - in->slots;
            const bool is_there = k < in->slots ? k < used : k - in->slots <= i;
            const bool is_near = window == 0 || first + i - place < window;
            mask[k] = is_there && is_near ? 0.0f : -INFINITY;
        }
}

void copse__language_place(const copse_language *l, struct copse_language_inputs *in,
                           uint32_t first, uint32_t used)
{
    for (uint32_t i = 0; i < COPSE_SIGHTS; i++) {
        if (!in->turns[i])
            continue;
        language_turns(l, (enum copse_sight)i, first, in->count, in->turns[i]);
        place_mask(in, i == COPSE_SIGHT_NEAR ? l->is.window : 0, first, used, in->mask[i]);
    }
}

/* ---- a block ---- */

struct block {
    const copse_language *l;
    copse_graph *g;
    bool is_training;
    uint32_t layer, windows, count, slots;
    copse_tensor *tokens, *past, *turns[COPSE_SIGHTS];
    struct copse_attention_params sees[COPSE_SIGHTS];
    copse_tensor *keys, *values; /* of the tokens, [windows, count, kv_heads head] */
};

static enum copse_sight block_sight(const struct block *b)
{
    return b->l->slides[b->layer] ? COPSE_SIGHT_NEAR : COPSE_SIGHT_FAR;
}

static copse_tensor *block_part(const struct block *b, enum copse_part part)
{
    return copse__language_part(b->l, b->layer, part);
}

static copse_tensor *block_product(const struct block *b, copse_tensor *x, enum copse_part weight,
                                   enum copse_part bias)
{
    copse_tensor *y = copse__language_product(b->l, b->g, x, b->layer, weight);
    y = copse__adapter_add(b->l, b->g, b->layer, weight, x, y, b->is_training);
    return bias != COPSE_PARTS && block_part(b, bias) ? copse_add(b->g, y, block_part(b, bias)) : y;
}

/* Heads of queries or keys: with their norm, turned. */
static copse_tensor *block_heads(const struct block *b, copse_tensor *x, uint32_t heads,
                                 enum copse_part norm)
{
    const struct copse_language_sizes *is = &b->l->is;
    x = copse_reshape(b->g, x, COPSE_SHAPE(b->windows, b->count, heads, is->head));
    if (block_part(b, norm))
        x = copse_rms_norm(b->g, x, block_part(b, norm), is->epsilon);
    return copse_rotary_by(b->g, x, b->turns[block_sight(b)], NULL);
}

/* Earlier keys (which 0) or values (1) of this block, and the new ones. */
static copse_tensor *block_memory(const struct block *b, copse_tensor *fresh, uint32_t which)
{
    const struct copse_language_sizes *is = &b->l->is;
    const uint32_t width = is->kv_heads * is->head;
    copse_tensor *all = fresh;
    if (b->slots > 0) {
        const uint32_t start[3] = { 0, 0, (2 * b->layer + which) * width },
                       size[3] = { 1, b->slots, width };
        copse_tensor *const both[2] = { copse_slice(b->g, b->past, start, size), fresh };
        all = copse_concat(b->g, both, 2, 1);
    }
    return copse_reshape(b->g, all,
                         COPSE_SHAPE(b->windows, b->slots + b->count, is->kv_heads, is->head));
}

/* x + the result y of a part of the block, which may have a norm. */
static copse_tensor *block_add(const struct block *b, copse_tensor *x, copse_tensor *y,
                               enum copse_part norm)
{
    if (block_part(b, norm))
        y = copse_rms_norm(b->g, y, block_part(b, norm), b->l->is.epsilon);
    return copse_add(b->g, x, y);
}

static copse_tensor *block_attend(struct block *b, copse_tensor *x)
{
    const struct copse_language_sizes *is = &b->l->is;
    const copse_shape kv = COPSE_SHAPE(b->windows, b->count, is->kv_heads * is->head);
    x = copse_rms_norm(b->g, x, block_part(b, COPSE_PART_IN_NORM), is->epsilon);
    copse_tensor *q = block_product(b, x, COPSE_PART_QUERY, COPSE_PART_QUERY_BIAS);
    copse_tensor *k = block_product(b, x, COPSE_PART_KEY, COPSE_PART_KEY_BIAS);
    b->values = block_product(b, x, COPSE_PART_VALUE, COPSE_PART_VALUE_BIAS);
    q = block_heads(b, q, is->heads, COPSE_PART_QUERY_NORM);
    k = block_heads(b, k, is->kv_heads, COPSE_PART_KEY_NORM);
    b->keys = copse_reshape(b->g, k, kv);
    copse_tensor *all_keys = block_memory(b, b->keys, 0), *all = block_memory(b, b->values, 1);
    const struct copse_attention_params *sees = &b->sees[block_sight(b)];
    copse_tensor *y = copse_attention(b->g, q, all_keys, all, sees);
    y = copse_reshape(b->g, y, COPSE_SHAPE(b->windows, b->count, is->heads * is->head));
    return block_product(b, y, COPSE_PART_OUT, COPSE_PARTS);
}

/* x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x sigmoid(2 u). */
static copse_tensor *gelu_tanh(copse_graph *g, copse_tensor *x)
{
    const double twice = 2 * 0.79788456080286535588;
    copse_tensor *u = copse_multiply_by(g, copse_square(g, x), (float)(twice * 0.044715));
    u = copse_mul(g, x, copse_add(g, u, copse_scalar(g, twice)));
    return copse_mul(g, x, copse_sigmoid(g, u));
}

static copse_tensor *block_mlp(const struct block *b, copse_tensor *x)
{
    copse_tensor *norm =
        block_part(b, b->l->architecture->norms_after ? COPSE_PART_FEED_NORM : COPSE_PART_MLP_NORM);
    x = copse_rms_norm(b->g, x, norm, b->l->is.epsilon);
    copse_tensor *gate = block_product(b, x, COPSE_PART_GATE, COPSE_PARTS),
                 *up = block_product(b, x, COPSE_PART_UP, COPSE_PARTS);
    x = b->l->architecture->is_gelu_tanh ? copse_mul(b->g, gelu_tanh(b->g, gate), up)
                                         : copse_glu(b->g, gate, up, b->l->architecture->gate);
    return block_product(b, x, COPSE_PART_DOWN, COPSE_PARTS);
}

/* ---- all blocks ---- */

/* The stream after the last norm, [windows, count, width]. Keys and values of the tokens are added
   to `memory` [2 layers], if that is not NULL. */
static copse_tensor *language_stream(struct block *b, copse_tensor **memory)
{
    const copse_language *l = b->l;
    copse_graph *g = b->g;
    copse_tensor *x = copse__language_rows(l, g, b->tokens);
    if (l->architecture->scales_embedding)
        x = copse_multiply_by(g, x, (float)sqrt((double)l->is.width));
    for (b->layer = 0; b->layer < l->is.layers; b->layer++) {
        x = block_add(b, x, block_attend(b, x), COPSE_PART_OUT_NORM);
        x = block_add(b, x, block_mlp(b, x), COPSE_PART_DOWN_NORM);
        if (memory) {
            memory[2 * b->layer] = b->keys;
            memory[2 * b->layer + 1] = b->values;
        }
    }
    return copse_rms_norm(g, x, copse__language_part(l, 0, COPSE_PART_NORM), l->is.epsilon);
}

static enum copse_part language_head(const copse_language *l)
{
    return l->is.is_tied ? COPSE_PART_EMBEDDING : COPSE_PART_HEAD;
}

/* c tanh(x / c) */
static copse_tensor *language_capped(copse_graph *g, copse_tensor *x, float cap)
{
    return copse_multiply_by(g, copse_tanh(g, copse_multiply_by(g, x, 1.0f / cap)), cap);
}

static copse_tensor *language_logits(const copse_language *l, copse_graph *g, copse_tensor *x)
{
    x = copse__language_product(l, g, x, 0, language_head(l));
    return l->is.last_cap > 0.0f ? language_capped(g, x, l->is.last_cap) : x;
}

/* ---- new tokens ---- */

static const char *const turn_names[COPSE_SIGHTS] = { "turns", "near_turns" },
                         *const mask_names[COPSE_SIGHTS] = { "mask", "near_mask" };

static copse_tensor *next_stream(const copse_language *l, copse_graph *g, const copse_batch *in,
                                 copse_tensor **memory)
{
    struct block b = { .l = l, .g = g, .windows = 1, .tokens = copse_input(in, "x") };
    COPSE_LATCH(g, copse_graph_status(g));
    b.count = copse_tensor_shape(b.tokens).dims[1];
    for (uint32_t i = 0; i < COPSE_SIGHTS; i++) {
        if (!language_has(l, (enum copse_sight)i))
            continue;
        copse_tensor *mask = copse_input(in, mask_names[i]);
        b.turns[i] = copse_input(in, turn_names[i]);
        COPSE_LATCH(g, copse_graph_status(g));
        const uint32_t keys = copse_tensor_shape(mask).dims[2];
        b.slots = keys - b.count;
        b.sees[i] = (struct copse_attention_params){
            .scale = l->is.scale,
            .cap = l->is.cap,
            .mask = copse_reshape(g, mask, COPSE_SHAPE(1, 1, b.count, keys))
        };
    }
    b.past = b.slots > 0 ? copse_input(in, "past") : NULL;
    return language_stream(&b, memory);
}

copse_tensor *copse__language_next(copse_graph *g, const copse_batch *in, void *language)
{
    const copse_language *l = language;
    struct copse_mem *mem = &l->strategy->ctx->base.mem;
    copse_tensor **memory = copse__alloc(mem, 2 * (size_t)l->is.layers, sizeof *memory);
    COPSE_LATCH(g, copse_need_memory(memory, "language"));
    copse_tensor *x = next_stream(l, g, in, memory), *both[2] = { NULL, NULL };
    if (copse_graph_status(g) == COPSE_OK) {
        const uint32_t count = copse_tensor_shape(x).dims[1];
        both[1] = copse_concat(g, memory, 2 * (size_t)l->is.layers, 2);
        both[1] =
            copse_reshape(g, both[1], COPSE_SHAPE(1, count * (uint32_t)copse__language_memory(l)));
        x = copse_reshape(g, x, COPSE_SHAPE(count, l->is.width));
        x = copse_gather(g, x, copse_reshape(g, copse_input(in, "last"), COPSE_SHAPE(1)));
        both[0] = language_logits(l, g, x);
        x = copse_concat(g, both, 2, 1);
    }
    copse__free(mem, (void *)memory);
    return x;
}

/* ---- windows ---- */

#define MOST_LOGITS ((uint64_t)1 << 31) /* elements of a tensor: fewer */

/* All heads of a key head ask attention together. */
uint32_t copse__language_most(const copse_language *l)
{
    const uint32_t queries = COPSE_LANGUAGE_LONGEST / (l->is.heads / l->is.kv_heads);
    return COPSE_MIN(l->is.context, queries);
}

/* The logits of a head that is quantised or has a cap are one tensor. */
static bool has_all_logits(const copse_language *l)
{
    return copse__language_weight(l, 0, language_head(l))->bits > 0 || l->is.last_cap > 0.0f;
}

static copse_status check_logits(const copse_language *l, uint64_t windows, uint64_t count)
{
    const uint64_t logits = windows * count * l->is.vocabulary;
    if (!has_all_logits(l) || logits < MOST_LOGITS)
        return COPSE_OK;
    const bool is_capped = l->is.last_cap > 0.0f;
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "language: %llu window%s of %llu tokens: %llu logits at once; a %s head has "
                      "fewer than %llu: take fewer or shorter windows%s",
                      (unsigned long long)windows, copse__plural(windows),
                      (unsigned long long)count, (unsigned long long)logits,
                      is_capped ? "capped" : "quantised", (unsigned long long)MOST_LOGITS,
                      is_capped ? "" : ", or f32 weights (COPSE_WEIGHTS_F32, --weights f32)");
}

copse_status copse__language_check_window(const copse_language *l, uint64_t count)
{
    return count >= 1 && count <= copse__language_most(l)
               ? check_logits(l, 1, count)
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "language: a window of %llu tokens; 1 to %u are allowed",
                            (unsigned long long)count, copse__language_most(l));
}

static copse_tensor *window_turns(const copse_language *l, copse_graph *g, enum copse_sight sight,
                                  uint32_t count)
{
    struct copse_mem *mem = &l->strategy->ctx->base.mem;
    float *turns = copse__alloc(mem, (size_t)count * l->is.head, sizeof *turns);
    COPSE_LATCH(g, copse_need_memory(turns, "language"));
    language_turns(l, sight, 0, count, turns);
    copse_tensor *t = copse_constant(g, COPSE_F32, COPSE_SHAPE(count, l->is.head), turns);
    copse__free(mem, turns);
    return t;
}

static void window_sights(struct block *b)
{
    const copse_language *l = b->l;
    for (uint32_t i = 0; i < COPSE_SIGHTS; i++) {
        const uint32_t window = i == COPSE_SIGHT_NEAR ? l->is.window : 0;
        if (!language_has(l, (enum copse_sight)i))
            continue;
        b->turns[i] = window_turns(l, b->g, (enum copse_sight)i, b->count);
        b->sees[i] = (struct copse_attention_params){
            .is_causal = true, .window = window, .scale = l->is.scale, .cap = l->is.cap
        };
    }
}

/* The logits of a head of f32 are computed for a part of the vocabulary at a time. A quantised one,
   and one with a cap, has one product for all, which is kept, and in training its derivative: 4 bytes * tokens *
   vocabulary each. 512 tokens of SmolLM2 (49,152): 100.7 MB, twice. */
static copse_tensor *window_cross_entropy(const copse_language *l, copse_graph *g, copse_tensor *x,
                                          copse_tensor *y, copse_averaging averaging)
{
    const struct copse_language_weight *w = copse__language_weight(l, 0, language_head(l));
    const struct copse_cross_entropy_params params = { .averaging = averaging,
                                                       .ignores = true,
                                                       .ignored_label = COPSE_LANGUAGE_NO_TOKEN };
    if (has_all_logits(l))
        return copse_cross_entropy(g, language_logits(l, g, x), y, &params);
    const struct copse_dense_loss head = { .w = copse_variable_tensor(w->values),
                                           .is_transposed = true };
    return copse__dense_cross_entropy(g, x, &head, y, &params, NULL);
}

static copse_tensor *window_losses(const copse_language *l, copse_graph *g, const copse_batch *in,
                                   copse_averaging averaging)
{
    struct block b = { .l = l, .g = g, .is_training = in->is_training };
    copse_tensor *y = copse_input(in, "y");
    b.tokens = copse_input(in, "x");
    COPSE_LATCH(g, copse_graph_status(g));
    const copse_shape shape = copse_tensor_shape(b.tokens);
    const copse_shape targets = copse_tensor_shape(y);
    if (shape.rank != 2 || targets.rank != 2 || targets.dims[1] != shape.dims[1])
        COPSE_LATCH(g, copse_fail(COPSE_ERR_SHAPE,
                                  "language: inputs \"x\" %s and \"y\" %s: both must be i32 "
                                  "[windows, tokens]",
                                  COPSE_SHAPE_TEXT(shape), COPSE_SHAPE_TEXT(targets)));
    b.windows = shape.dims[0];
    b.count = shape.dims[1];
    COPSE_LATCH(g, copse__language_check_window(l, b.count));
    COPSE_LATCH(g, check_logits(l, b.windows, b.count));
    window_sights(&b);
    copse_tensor *x = language_stream(&b, NULL);
    COPSE_LATCH(g, copse_graph_status(g));
    const copse_shape rows = COPSE_SHAPE(b.windows * b.count);
    return window_cross_entropy(l, g, copse_reshape(g, x, COPSE_SHAPE(rows.dims[0], l->is.width)),
                                copse_reshape(g, y, rows), averaging);
}

copse_tensor *copse_language_loss(copse_graph *g, const copse_batch *in, void *language)
{
    COPSE_LATCH(g, copse_need("language", g, in, language));
    return window_losses(language, g, in, COPSE_MEAN);
}

copse_tensor *copse__language_losses(copse_graph *g, const copse_batch *in, void *language)
{
    const copse_shape shape = copse_tensor_shape(copse_input(in, "x"));
    return copse_reshape(g, window_losses(language, g, in, COPSE_EACH), shape);
}

/* ---- running ---- */

copse_status copse__language_run(copse_language *l, const struct copse_language_inputs *in,
                                 int32_t last, float *values, size_t count)
{
    const uint32_t memory = (uint32_t)copse__language_memory(l);
    struct copse_column columns[3 + 2 * COPSE_SIGHTS] = {
        { "x", COPSE_I32, COPSE_SHAPE(in->count), in->tokens },
        { "last", COPSE_I32, COPSE_SHAPE(1), &last },
    };
    size_t columns_used = 2;
    for (uint32_t i = 0; i < COPSE_SIGHTS; i++) {
        if (!in->turns[i])
            continue;
        columns[columns_used++] =
            (struct copse_column){ turn_names[i], COPSE_F32, COPSE_SHAPE(in->count, l->is.head),
                                   in->turns[i] };
        columns[columns_used++] =
            (struct copse_column){ mask_names[i], COPSE_F32,
                                   COPSE_SHAPE(in->count, in->slots + in->count), in->mask[i] };
    }
    if (in->slots > 0)
        columns[columns_used++] =
            (struct copse_column){ "past", COPSE_F32, COPSE_SHAPE(in->slots, memory), in->past };
    const struct copse_host_batch batch = { .columns = columns,
                                            .column_count = columns_used,
                                            .count = 1 };
    struct copse_shard shards[COPSE_MAX_REPLICAS];
    COPSE_TRY(copse__shard(COPSE_SHARD_BALANCED, 1, 1, l->strategy->replica_count, shards));
    l->predictor.fn = copse__language_next;
    l->predictor.user = l;
    return copse__predict(&l->predictor, &batch, shards, values, count * sizeof *values);
}
