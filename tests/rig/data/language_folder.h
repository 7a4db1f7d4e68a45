/* SPDX-License-Identifier: MIT */
/* The small language model of language_file.h as a folder: config.json, tokenizer.json and
   weights in one file or in several. */
#ifndef COPSE_LANGUAGE_FOLDER_H
#define COPSE_LANGUAGE_FOLDER_H

#include <sys/stat.h>

#include "tests/rig/data/language_file.h"
#include "tests/rig/data/temp_files.h"

#include "copse/data/checkpoint.h"

#define FOLDER_TENSORS 40

struct folder_made {
    struct copse_named_array arrays[FOLDER_TENSORS];
    char names[FOLDER_TENSORS][80];
    size_t count;
    copse_type type; /* of the matrices: f32, f16 or bf16 */
    uint16_t *halves[FOLDER_TENSORS];
    float *less[FOLDER_TENSORS]; /* norms minus 1, of gemma */
    bool adds_one;
    const char *more; /* of config.json: further members, as ", \"a\": 1" */
    char tokenizer[16384];
};

/* Round all weights to multiples of 1/128, which f16 and bf16 have below 2. */
static inline void round_all(void)
{
    float *all = (float *)&net;
    for (size_t i = 0; i < sizeof net / sizeof *all; i++)
        all[i] = nearbyintf(all[i] * 128) / 128;
}

/* Exact: the values are multiples of 1/128 below 2. */
static inline uint16_t half_bits(copse_type type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 255;
    return (uint16_t)(type == COPSE_BF16 ? bits >> 16
                      : exponent == 0    ? sign
                                         : sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* rows 0: a vector */
static inline void folder_add(struct folder_made *m, const char *name, size_t rows, size_t columns,
                              const float *from)
{
    const size_t i = m->count++, elements = (rows ? rows : 1) * columns;
    assert_true(i < FOLDER_TENSORS);
    snprintf(m->names[i], sizeof m->names[i], "%s", name);
    struct copse_array_view a = { COPSE_F32, rows ? 2 : 1, { rows, columns }, from };
    if (!rows)
        a.shape[0] = columns;
    if (m->type != COPSE_F32 && rows) {
        m->halves[i] = malloc(2 * elements);
        assert_non_null(m->halves[i]);
        for (size_t k = 0; k < elements; k++)
            m->halves[i][k] = half_bits(m->type, from[k]);
        a.type = m->type;
        a.data = m->halves[i];
    }
    if (m->adds_one && !rows && strstr(name, "norm")) {
        float *less = malloc(elements * sizeof *less);
        assert_non_null(less);
        for (size_t k = 0; k < elements; k++)
            less[k] = from[k] - 1;
        m->less[i] = less;
        a.data = less;
    }
    m->arrays[i] = (struct copse_named_array){ m->names[i], a };
}

static inline void folder_layer(struct folder_made *m, const struct kind *k, int layer)
{
    const struct layer *l = &net.layer[layer];
    const struct {
        const char *name;
        int rows, columns;
        const float *values;
        bool is_there;
    } parts[] = {
        { "input_layernorm.weight", 0, WIDTH, l->in_norm, true },
        { "self_attn.q_proj.weight", HEADS * HEAD, WIDTH, l->q, true },
        { "self_attn.k_proj.weight", KV * HEAD, WIDTH, l->k, true },
        { "self_attn.v_proj.weight", KV * HEAD, WIDTH, l->v, true },
        { "self_attn.o_proj.weight", WIDTH, HEADS * HEAD, l->o, true },
        { k->norms_after ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight",
          0, WIDTH, l->mlp_norm, true },
        { "post_attention_layernorm.weight", 0, WIDTH, l->out_norm, k->norms_after },
        { "post_feedforward_layernorm.weight", 0, WIDTH, l->down_norm, k->norms_after },
        { "mlp.gate_proj.weight", HIDDEN, WIDTH, l->gate, true },
        { "mlp.up_proj.weight", HIDDEN, WIDTH, l->up, true },
        { "mlp.down_proj.weight", WIDTH, HIDDEN, l->down, true },
        { "self_attn.q_proj.bias", 0, HEADS * HEAD, l->bias, k->has_biases },
        { "self_attn.k_proj.bias", 0, KV * HEAD, l->bias + HEADS * HEAD, k->has_biases },
        { "self_attn.v_proj.bias", 0, KV * HEAD, l->bias + HEADS * HEAD + KV * HEAD,
          k->has_biases },
        { "self_attn.q_norm.weight", 0, HEAD, l->q_norm, k->norms_heads },
        { "self_attn.k_norm.weight", 0, HEAD, l->k_norm, k->norms_heads },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.%d.%s", layer, parts[i].name);
        if (parts[i].is_there)
            folder_add(m, name, (size_t)parts[i].rows, (size_t)parts[i].columns, parts[i].values);
    }
}

/* The tokens of the GGUF file, in letters. */
static inline void folder_tokenizer(struct folder_made *m, const char *steps)
{
    char *to = m->tokenizer;
    to += sprintf(to,
                  "{\"version\": \"1.0\", \"added_tokens\": ["
                  "{\"id\": %d, \"content\": \"<|im_start|>\", \"special\": true}, "
                  "{\"id\": %d, \"content\": \"<|im_end|>\", \"special\": true}], "
                  "\"normalizer\": null, %s, \"model\": {\"type\": \"BPE\", "
                  "\"vocab\": {",
                  BEGIN, END, steps);
    for (int i = 0; i < 256; i++) {
        struct gguf_made letter = { .size = 0 };
        put_letter(&letter, i);
        to += sprintf(to, "\"%s%.*s\": %d, ", i == '"' || i == '\\' ? "\\" : "",
                      (int)letter.size - 8, (const char *)letter.at + 8, i);
        free(letter.at);
    }
    sprintf(to, "\"he\": %d, \"hel\": %d}, \"merges\": [\"h e\", [\"he\", \"l\"]]}}", HE, HELLO);
}
#define STEPS_SMOLLM                                                                          \
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", " \
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "   \
    "\"trim_offsets\": true, \"use_regex\": true}]}, \"post_processor\": null"

static inline void folder_model(struct folder_made *m, const struct kind *k)
{
    m->adds_one = k->is_gemma;
    folder_add(m, "model.embed_tokens.weight", TOKENS, WIDTH, net.table);
    folder_add(m, "model.norm.weight", 0, WIDTH, net.norm);
    if (!k->is_tied)
        folder_add(m, "lm_head.weight", TOKENS, WIDTH, net.head);
    for (int i = 0; i < LAYERS; i++)
        folder_layer(m, k, i);
    folder_tokenizer(m, STEPS_SMOLLM);
}

static inline const char *folder_path(const char *name)
{
    char path[100];
    mkdir(temp_path("model"), 0700);
    snprintf(path, sizeof path, "model/%s", name);
    return temp_path(path);
}

static inline void folder_text(const char *name, const char *content)
{
    char path[100];
    folder_path("");
    snprintf(path, sizeof path, "model/%s", name);
    temp_text(path, content);
}

/* Of gemma2 and gemma3, as newer files have it. */
static inline void folder_sight(const struct kind *k, char *to, size_t size)
{
    char bases[160] = "", cap[32] = "null", last[32] = "null";
    if (k->near_base > 0)
        snprintf(bases, sizeof bases,
                 ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", "
                 "\"rope_theta\": 100}, \"sliding_attention\": {\"rope_theta\": %g}}",
                 (double)k->near_base);
    if (k->cap > 0)
        snprintf(cap, sizeof cap, "%g", (double)k->cap);
    if (k->last_cap > 0)
        snprintf(last, sizeof last, "%g", (double)k->last_cap);
    snprintf(to, size,
             ", \"sliding_window\": %d, \"query_pre_attn_scalar\": %g, "
             "\"layer_types\": [\"sliding_attention\", \"full_attention\"], "
             "\"attn_logit_softcapping\": %s, \"final_logit_softcapping\": %s%s",
             k->window, k->scalar > 0 ? (double)k->scalar : HEAD, cap, last, bases);
}

static inline void folder_config(const struct folder_made *m, const struct kind *k)
{
    char config[2048], head[40], sight[512] = "";
    snprintf(head, sizeof head, ", \"head_dim\": %d", HEAD);
    if (k->norms_after)
        folder_sight(k, sight, sizeof sight);
    snprintf(config, sizeof config,
             "{\"model_type\": \"%s\", \"num_hidden_layers\": %d, \"hidden_size\": %d, "
             "\"intermediate_size\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
             "\"max_position_embeddings\": %u, \"vocab_size\": %d, \"rms_norm_eps\": 0.01, "
             "\"rope_theta\": 100, \"hidden_act\": \"%s\", \"eos_token_id\": %d, "
             "\"tie_word_embeddings\": %s%s%s%s}",
             k->model_type ? k->model_type : k->name, LAYERS, WIDTH, HIDDEN, HEADS, KV,
             context_length, TOKENS, k->is_gemma ? "gelu_pytorch_tanh" : "silu", END,
             k->is_gemma  ? "null"
             : k->is_tied ? "true"
                          : "false",
             k->norms_heads || k->is_gemma ? head : "", sight, m->more ? m->more : "");
    folder_text("config.json", config);
}

static inline void folder_weights(const struct folder_made *m, copse_context *in, const char *name,
                                  size_t first, size_t end)
{
    OK(copse_checkpoint_write(in, folder_path(name),
                              &(struct copse_checkpoint_params){ .arrays = m->arrays + first,
                                                                 .array_count = end - first }));
}

/* Returns the path. */
static inline const char *folder_write(const struct folder_made *m, copse_context *in,
                                       const struct kind *k)
{
    folder_config(m, k);
    folder_text("tokenizer.json", m->tokenizer);
    folder_weights(m, in, "model.safetensors", 0, m->count);
    return temp_path("model");
}

static inline void folder_free(struct folder_made *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->halves[i]), free(m->less[i]);
}

#endif
