/* SPDX-License-Identifier: MIT */
/* The tables of architectures and of their weights. */
#include "core/language/architecture.h"

#include <string.h>

#include "core/base/base.h"
#include "core/language/language.h"

const struct copse_part_row copse__parts[COPSE_PARTS] = {
    [COPSE_PART_EMBEDDING] = { "token_embd.weight", "model.embed_tokens.weight" },
    [COPSE_PART_NORM] = { "output_norm.weight", "model.norm.weight", true },
    [COPSE_PART_HEAD] = { "output.weight", "lm_head.weight" },
    [COPSE_PART_TURNS] = { "rope_freqs.weight", "rope_factors" },
    [COPSE_PART_IN_NORM] = { "blk.%u.attn_norm.weight", "model.layers.%u.input_layernorm.weight",
                             true },
    [COPSE_PART_QUERY] = { "blk.%u.attn_q.weight", "model.layers.%u.self_attn.q_proj.weight" },
    [COPSE_PART_KEY] = { "blk.%u.attn_k.weight", "model.layers.%u.self_attn.k_proj.weight" },
    [COPSE_PART_VALUE] = { "blk.%u.attn_v.weight", "model.layers.%u.self_attn.v_proj.weight" },
    [COPSE_PART_OUT] = { "blk.%u.attn_output.weight", "model.layers.%u.self_attn.o_proj.weight" },
    [COPSE_PART_QUERY_BIAS] = { "blk.%u.attn_q.bias", "model.layers.%u.self_attn.q_proj.bias" },
    [COPSE_PART_KEY_BIAS] = { "blk.%u.attn_k.bias", "model.layers.%u.self_attn.k_proj.bias" },
    [COPSE_PART_VALUE_BIAS] = { "blk.%u.attn_v.bias", "model.layers.%u.self_attn.v_proj.bias" },
    [COPSE_PART_QUERY_NORM] = { "blk.%u.attn_q_norm.weight",
                                "model.layers.%u.self_attn.q_norm.weight", true },
    [COPSE_PART_KEY_NORM] = { "blk.%u.attn_k_norm.weight",
                              "model.layers.%u.self_attn.k_norm.weight", true },
    [COPSE_PART_OUT_NORM] = { "blk.%u.post_attention_norm.weight",
                              "model.layers.%u.post_attention_layernorm.weight", true },
    [COPSE_PART_MLP_NORM] = { "blk.%u.ffn_norm.weight",
                              "model.layers.%u.post_attention_layernorm.weight", true },
    [COPSE_PART_FEED_NORM] = { "blk.%u.ffn_norm.weight",
                               "model.layers.%u.pre_feedforward_layernorm.weight", true },
    [COPSE_PART_GATE] = { "blk.%u.ffn_gate.weight", "model.layers.%u.mlp.gate_proj.weight" },
    [COPSE_PART_UP] = { "blk.%u.ffn_up.weight", "model.layers.%u.mlp.up_proj.weight" },
    [COPSE_PART_DOWN] = { "blk.%u.ffn_down.weight", "model.layers.%u.mlp.down_proj.weight" },
    [COPSE_PART_DOWN_NORM] = { "blk.%u.post_ffw_norm.weight",
                               "model.layers.%u.post_feedforward_layernorm.weight", true },
};

static const struct copse_architecture architectures[] = {
    { .name = "llama", .model_type = "llama", .is_interleaved = true, .gate = COPSE_SILU },
    { .name = "llama",
      .model_type = "mistral",
      .is_interleaved = true,
      .has_window = true,
      .gate = COPSE_SILU },
    { .name = "qwen2",
      .model_type = "qwen2",
      .has_biases = true,
      .asks_window = true,
      .gate = COPSE_SILU },
    { .name = "qwen3",
      .model_type = "qwen3",
      .norms_heads = true,
      .asks_window = true,
      .head = 128,
      .gate = COPSE_SILU },
    { .name = "gemma",
      .model_type = "gemma",
      .head = 256,
      .is_gelu_tanh = true,
      .scales_embedding = true,
      .norms_from_one = true,
      .is_tied = true },
    { .name = "gemma2",
      .model_type = "gemma2",
      .head = 256,
      .is_gelu_tanh = true,
      .scales_embedding = true,
      .norms_from_one = true,
      .norms_after = true,
      .is_tied = true,
      .period = 2,
      .window = 4096,
      .largest = 46,
      .scalar = 256,
      .has_caps = true,
      .cap = 50,
      .last_cap = 30 },
    { .name = "gemma3",
      .model_type = "gemma3_text",
      .head = 256,
      .is_gelu_tanh = true,
      .scales_embedding = true,
      .norms_from_one = true,
      .norms_heads = true,
      .norms_after = true,
      .is_tied = true,
      .period = 6,
      .window = 4096,
      .largest = 62,
      .base = 1e6f,
      .near_base = 1e4f,
      .scalar = 256,
      .has_caps = true },
};

const struct copse_architecture *copse__architecture_find(const char *name, size_t size)
{
    for (size_t i = 0; i < COPSE_COUNT(architectures); i++)
        if (strlen(architectures[i].name) == size && memcmp(architectures[i].name, name, size) == 0)
            return &architectures[i];
    return NULL;
}

const struct copse_architecture *copse__architecture_of_config(const char *model_type)
{
    for (size_t i = 0; i < COPSE_COUNT(architectures); i++)
        if (strcmp(architectures[i].model_type, model_type) == 0)
            return &architectures[i];
    return NULL;
}

void copse__part_shape(const struct copse_architecture *a, const struct copse_language_sizes *is,
                       enum copse_part part, uint32_t shape[2])
{
    const uint32_t q = is->heads * is->head, kv = is->kv_heads * is->head;
    const uint32_t shapes[COPSE_PARTS][2] = {
        [COPSE_PART_EMBEDDING] = { is->vocabulary, is->width },
        [COPSE_PART_NORM] = { 0, is->width },
        [COPSE_PART_HEAD] = { is->vocabulary, is->is_tied ? 0 : is->width },
        [COPSE_PART_TURNS] = { 0, is->has_turns ? is->head / 2 : 0 },
        [COPSE_PART_IN_NORM] = { 0, is->width },
        [COPSE_PART_QUERY] = { q, is->width },
        [COPSE_PART_KEY] = { kv, is->width },
        [COPSE_PART_VALUE] = { kv, is->width },
        [COPSE_PART_OUT] = { is->width, q },
        [COPSE_PART_QUERY_BIAS] = { 0, a->has_biases ? q : 0 },
        [COPSE_PART_KEY_BIAS] = { 0, a->has_biases ? kv : 0 },
        [COPSE_PART_VALUE_BIAS] = { 0, a->has_biases ? kv : 0 },
        [COPSE_PART_QUERY_NORM] = { 0, a->norms_heads ? is->head : 0 },
        [COPSE_PART_KEY_NORM] = { 0, a->norms_heads ? is->head : 0 },
        [COPSE_PART_OUT_NORM] = { 0, a->norms_after ? is->width : 0 },
        [COPSE_PART_MLP_NORM] = { 0, a->norms_after ? 0 : is->width },
        [COPSE_PART_FEED_NORM] = { 0, a->norms_after ? is->width : 0 },
        [COPSE_PART_GATE] = { is->hidden, is->width },
        [COPSE_PART_UP] = { is->hidden, is->width },
        [COPSE_PART_DOWN] = { is->width, is->hidden },
        [COPSE_PART_DOWN_NORM] = { 0, a->norms_after ? is->width : 0 },
    };
    memcpy(shape, shapes[part], sizeof shapes[part]);
}

copse_status copse__sizes_check(const struct copse_language_sizes *is, const char *path)
{
    if (is->heads % is->kv_heads || is->head % 2)
        return copse_fail(COPSE_ERR_FORMAT, "%s: %u heads of %u numbers with %u key heads", path,
                          is->heads, is->head, is->kv_heads);
    if (is->head > 256)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has heads of %u numbers; attention takes up to 256", path, is->head);
    if (is->heads / is->kv_heads > COPSE_LANGUAGE_LONGEST / COPSE_LANGUAGE_CHUNK)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has %u heads for each key head; attention takes up to %u", path,
                          is->heads / is->kv_heads, COPSE_LANGUAGE_LONGEST / COPSE_LANGUAGE_CHUNK);
    if (is->layers > 10000 || is->width > 1 << 20 || is->hidden > 1 << 20 || is->heads > 1 << 16)
        return copse_fail(COPSE_ERR_FORMAT, "%s: %u layers of width %u, %u heads: is it damaged?",
                          path, is->layers, is->width, is->heads);
    return COPSE_OK;
}

copse_status copse__language_slide(copse_language *l, uint32_t period)
{
    l->slides = copse__arena_alloc(&l->arena, l->is.layers, sizeof *l->slides);
    if (!l->slides)
        return copse_no_memory("language");
    for (uint32_t i = 0; i < l->is.layers; i++)
        l->slides[i] = l->is.window > 0 && (period == 0 || (i + 1) % period > 0);
    return COPSE_OK;
}
