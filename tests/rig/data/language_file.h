/* SPDX-License-Identifier: MIT */
/* A small language model with random weights as a GGUF file. */
#ifndef COPSE_LANGUAGE_FILE_H
#define COPSE_LANGUAGE_FILE_H

#include <math.h>

#include "tests/rig/data/gguf_file.h"

#if !defined(LANGUAGE_HEAD)
#    define LANGUAGE_HEAD 8 /* numbers of a head */
#endif
enum { LAYERS = 2, WIDTH = 32, HEADS = 4, KV = 2, HEAD = LANGUAGE_HEAD, HIDDEN = 48, TOKENS = 260 };
enum { BEGIN = 256, END, HE, HELLO };

static uint32_t context_length = 400;
static const char *pre = "smollm";

/* Weights as the reference has them: rotary pairs are (k, k + HEAD / 2). */
struct layer {
    float in_norm[WIDTH], q[HEADS * HEAD * WIDTH], k[KV * HEAD * WIDTH], v[KV * HEAD * WIDTH],
        o[WIDTH * HEADS * HEAD], mlp_norm[WIDTH], gate[HIDDEN * WIDTH], up[HIDDEN * WIDTH],
        down[WIDTH * HIDDEN];
    float bias[HEADS * HEAD + 2 * KV * HEAD], q_norm[HEAD], k_norm[HEAD];
    float out_norm[WIDTH], down_norm[WIDTH];
};
static struct {
    float table[TOKENS * WIDTH], norm[WIDTH], head[TOKENS * WIDTH];
    struct layer layer[LAYERS];
} net;

static uint32_t random_state;
static void fill(float *values, size_t count, float middle, float scale)
{
    for (size_t i = 0; i < count; i++) {
        random_state = random_state * 1664525u + 1013904223u;
        values[i] = middle + scale * ((float)(random_state >> 8) * 0x1p-23f - 1.0f);
    }
}

static void fill_all(void)
{
    random_state = 7;
    fill(net.table, TOKENS * WIDTH, 0, 1.0f);
    fill(net.head, TOKENS * WIDTH, 0, 0.5f);
    fill(net.norm, WIDTH, 1, 0.5f);
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &net.layer[i];
        fill(l->in_norm, WIDTH, 1, 0.5f), fill(l->mlp_norm, WIDTH, 1, 0.5f);
        fill(l->q, HEADS * HEAD * WIDTH, 0, 0.3f), fill(l->k, KV * HEAD * WIDTH, 0, 0.3f);
        fill(l->v, KV * HEAD * WIDTH, 0, 0.3f), fill(l->o, WIDTH * HEADS * HEAD, 0, 0.3f);
        fill(l->gate, HIDDEN * WIDTH, 0, 0.3f), fill(l->up, HIDDEN * WIDTH, 0, 0.3f);
        fill(l->down, WIDTH * HIDDEN, 0, 0.3f);
        fill(l->bias, HEADS * HEAD + 2 * KV * HEAD, 0, 0.5f);
        fill(l->q_norm, HEAD, 1, 0.5f), fill(l->k_norm, HEAD, 1, 0.5f);
    }
    for (int i = 0; i < LAYERS; i++)
        fill(net.layer[i].out_norm, WIDTH, 1, 0.5f), fill(net.layer[i].down_norm, WIDTH, 1, 0.5f);
}

/* A kind of file: the architecture, whether the head is the embedding, and whether matrices are
   quantised where their rows are whole blocks. */
struct kind {
    const char *name;
    bool is_interleaved, has_biases, norms_heads, is_tied, is_quantised, is_gemma;
    const char *model_type; /* of folders; NULL: the name */
    bool norms_after;
    int window;          /* of all layers but each `period`-th one; 0: none */
    int period;          /* 0: of all layers */
    float near_base;     /* rotary base of these layers; 0: as of others */
    float scalar;        /* scores are divided by its square root; 0: HEAD is meant */
    float cap, last_cap; /* 0: none */
};
static const struct kind llama = { .name = "llama", .is_interleaved = true, .is_tied = true },
                         llama_blocks = { .name = "llama",
                                          .is_interleaved = true,
                                          .is_tied = true,
                                          .is_quantised = true },
                         qwen2 = { .name = "qwen2", .has_biases = true },
                         qwen3 = { .name = "qwen3", .norms_heads = true, .is_tied = true },
                         gemma = { .name = "gemma", .is_tied = true, .is_gemma = true },
                         gemma2 = { .name = "gemma2",
                                    .is_tied = true,
                                    .is_gemma = true,
                                    .norms_after = true,
                                    .window = 4,
                                    .period = 2,
                                    .cap = 2,
                                    .last_cap = 3 },
                         gemma3 = { .name = "gemma3",
                                    .is_tied = true,
                                    .is_gemma = true,
                                    .model_type = "gemma3_text",
                                    .norms_heads = true,
                                    .norms_after = true,
                                    .window = 4,
                                    .period = 2,
                                    .near_base = 20 };

/* Blocks of 32: Q8_0 (8 bits, without an offset) or Q4_1. Each block has one of two scales. */
struct grid {
    float scale, offset;
    uint16_t scale_bits, offset_bits; /* of f16 */
    float lowest, highest;            /* whole numbers */
};
static const struct grid eight_bits[2] = { { 0x1p-7f, 0, 0x2000, 0, -127, 127 },
                                           { 0x1p-6f, 0, 0x2400, 0, -127, 127 } },
                         four_bits[2] = { { 0x1p-5f, -0.25f, 0x2800, 0xb400, 0, 15 },
                                          { 0x1p-4f, -0.5f, 0x2c00, 0xb800, 0, 15 } };

static float number_on(const struct grid *g, float value)
{
    const float number = nearbyintf((value - g->offset) / g->scale);
    return fminf(fmaxf(number, g->lowest), g->highest);
}

static bool is_on(const struct grid *g, const float *values)
{
    for (int i = 0; i < 32; i++)
        if (number_on(g, values[i]) * g->scale + g->offset != values[i])
            return false;
    return true;
}

/* Round values to numbers that blocks can hold. */
static void quantise(const struct grid grids[2], float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct grid *g = &grids[i / 32 % 3 == 1];
        values[i] = number_on(g, values[i]) * g->scale + g->offset;
    }
}

static void quantise_all(void)
{
    quantise(eight_bits, net.table, TOKENS * WIDTH);
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &net.layer[i];
        quantise(four_bits, l->q, HEADS * HEAD * WIDTH);
        quantise(four_bits, l->k, KV * HEAD * WIDTH);
        quantise(four_bits, l->v, KV * HEAD * WIDTH);
        quantise(four_bits, l->o, WIDTH * HEADS * HEAD);
        quantise(four_bits, l->gate, HIDDEN * WIDTH);
        quantise(four_bits, l->up, HIDDEN * WIDTH);
    }
}

static void put_matrix(struct gguf_file *f, const struct kind *k, const struct grid grids[2],
                       const char *name, uint32_t rows, const float *values)
{
    struct gguf_made blocks = { .size = 0 };
    const bool is_eight = grids == eight_bits;
    if (!k->is_quantised) {
        gguf_matrix(f, name, rows, WIDTH, values);
        return;
    }
    for (size_t at = 0; at < (size_t)rows * WIDTH; at += 32) {
        const struct grid *g = is_on(&grids[0], values + at) ? &grids[0] : &grids[1];
        assert_true(is_on(g, values + at));
        gguf_number(&blocks, g->scale_bits, 2);
        if (!is_eight)
            gguf_number(&blocks, g->offset_bits, 2);
        for (int i = 0; i < (is_eight ? 32 : 16); i++) {
            const int low = (int)number_on(g, values[at + (size_t)i]),
                      high = is_eight ? 0 : (int)number_on(g, values[at + 16 + (size_t)i]);
            gguf_number(&blocks, (uint64_t)(unsigned char)(is_eight ? low : low | high << 4), 1);
        }
    }
    gguf_tensor(f, name, is_eight ? 8 : 3, 2, (const uint64_t[]){ rows, WIDTH }, blocks.at,
                blocks.size);
    free(blocks.at);
}

/* Rows in the order of the file. */
static void put_heads(struct gguf_file *f, const char *name, const struct kind *k, uint32_t heads,
                      const float *values)
{
    static float rows[HEADS * HEAD * WIDTH];
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < HEAD; i++) {
            const uint32_t from = k->is_interleaved ? i / 2 + i % 2 * (HEAD / 2) : i;
            memcpy(rows + (h * HEAD + i) * WIDTH, values + (h * HEAD + from) * WIDTH,
                   WIDTH * sizeof *rows);
        }
    put_matrix(f, k, four_bits, name, heads * HEAD, rows);
}

static const char *part_name(int layer, const char *part)
{
    static char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, part);
    return name;
}

static void put_layer(struct gguf_file *f, const struct kind *k, int i)
{
    const struct layer *l = &net.layer[i];
    gguf_matrix(f, part_name(i, "attn_norm.weight"), 0, WIDTH, l->in_norm);
    put_heads(f, part_name(i, "attn_q.weight"), k, HEADS, l->q);
    put_heads(f, part_name(i, "attn_k.weight"), k, KV, l->k);
    put_matrix(f, k, four_bits, part_name(i, "attn_v.weight"), KV * HEAD, l->v);
    put_matrix(f, k, four_bits, part_name(i, "attn_output.weight"), WIDTH, l->o);
    gguf_matrix(f, part_name(i, "ffn_norm.weight"), 0, WIDTH, l->mlp_norm);
    put_matrix(f, k, four_bits, part_name(i, "ffn_gate.weight"), HIDDEN, l->gate);
    put_matrix(f, k, four_bits, part_name(i, "ffn_up.weight"), HIDDEN, l->up);
    gguf_matrix(f, part_name(i, "ffn_down.weight"), WIDTH, HIDDEN, l->down);
    if (k->has_biases) {
        gguf_matrix(f, part_name(i, "attn_q.bias"), 0, HEADS * HEAD, l->bias);
        gguf_matrix(f, part_name(i, "attn_k.bias"), 0, KV * HEAD, l->bias + HEADS * HEAD);
        gguf_matrix(f, part_name(i, "attn_v.bias"), 0, KV * HEAD,
                    l->bias + HEADS * HEAD + KV * HEAD);
    }
    if (k->norms_heads) {
        gguf_matrix(f, part_name(i, "attn_q_norm.weight"), 0, HEAD, l->q_norm);
        gguf_matrix(f, part_name(i, "attn_k_norm.weight"), 0, HEAD, l->k_norm);
    }
    if (k->norms_after) {
        gguf_matrix(f, part_name(i, "post_attention_norm.weight"), 0, WIDTH, l->out_norm);
        gguf_matrix(f, part_name(i, "post_ffw_norm.weight"), 0, WIDTH, l->down_norm);
    }
}

/* The letter of a byte in vocabularies of GPT-2. */
static void put_letter(struct gguf_made *m, int byte)
{
    static const char spare[] = "\xc2\xad";
    int c = byte;
    if (byte < 33)
        c = 256 + byte;
    else if (byte >= 127 && byte < 161)
        c = 256 + 33 + byte - 127;
    else if (byte == (unsigned char)spare[1])
        c = 256 + 67;
    const char text[3] = { (char)(c < 128 ? c : 0xc0 | c >> 6), (char)(0x80 | (c & 63)), 0 };
    gguf_number(m, c < 128 ? 1 : 2, 8);
    gguf_put(m, text, c < 128 ? 1 : 2);
}

static void put_tokenizer(struct gguf_file *f)
{
    gguf_key_text(f, "tokenizer.ggml.model", "gpt2");
    gguf_key_text(f, "tokenizer.ggml.pre", pre);
    gguf_key_list(f, "tokenizer.ggml.tokens", 8, TOKENS);
    for (int i = 0; i < 256; i++)
        put_letter(&f->keys, i);
    gguf_text(&f->keys, "<|im_start|>"), gguf_text(&f->keys, "<|im_end|>");
    gguf_text(&f->keys, "he"), gguf_text(&f->keys, "hel");
    gguf_key_list(f, "tokenizer.ggml.token_type", 5, TOKENS);
    for (int i = 0; i < TOKENS; i++)
        gguf_number(&f->keys, i == BEGIN || i == END ? 3 : 1, 4);
    gguf_key_list(f, "tokenizer.ggml.merges", 8, 2);
    gguf_text(&f->keys, "h e"), gguf_text(&f->keys, "he l");
    gguf_key_u32(f, "tokenizer.ggml.eos_token_id", END);
    gguf_key_text(f, "tokenizer.chat_template",
                  "{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}");
}

static void put_size(struct gguf_file *f, const struct kind *k, const char *name, uint32_t v)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", k->name, name);
    gguf_key_u32(f, key, v);
}

static void put_real(struct gguf_file *f, const struct kind *k, const char *name, float v)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", k->name, name);
    gguf_key_f32(f, key, v);
}

/* Of gemma2 and gemma3. */
static void put_sight(struct gguf_file *f, const struct kind *k)
{
    put_size(f, k, "attention.sliding_window", (uint32_t)k->window);
    put_size(f, k, "attention.sliding_window_pattern", (uint32_t)k->period);
    put_real(f, k, "attn_logit_softcapping", k->cap);
    put_real(f, k, "final_logit_softcapping", k->last_cap);
    if (k->near_base > 0)
        put_real(f, k, "rope.freq_base_swa", k->near_base);
}

static void put_model(struct gguf_file *f, const struct kind *k)
{
    gguf_key_text(f, "general.architecture", k->name);
    put_size(f, k, "block_count", LAYERS), put_size(f, k, "embedding_length", WIDTH);
    put_size(f, k, "feed_forward_length", HIDDEN), put_size(f, k, "attention.head_count", HEADS);
    put_size(f, k, "attention.head_count_kv", KV), put_size(f, k, "context_length", context_length);
    put_real(f, k, "rope.freq_base", 100.0f);
    put_real(f, k, "attention.layer_norm_rms_epsilon", 0.01f);
    if (HEAD != WIDTH / HEADS)
        put_size(f, k, "attention.key_length", HEAD);
    if (k->norms_after)
        put_sight(f, k);
    put_tokenizer(f);
    put_matrix(f, k, eight_bits, "token_embd.weight", TOKENS, net.table);
    gguf_matrix(f, "output_norm.weight", 0, WIDTH, net.norm);
    if (!k->is_tied)
        gguf_matrix(f, "output.weight", TOKENS, WIDTH, net.head);
    for (int i = 0; i < LAYERS; i++)
        put_layer(f, k, i);
}

#endif
