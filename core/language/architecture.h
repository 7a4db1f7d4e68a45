/* SPDX-License-Identifier: MIT */
/* Architectures of language models as data: what a file calls their weights and settings, and how
   a block differs from a block of LLaMA. */
#ifndef COPSE_LANGUAGE_ARCHITECTURE_H
#define COPSE_LANGUAGE_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/matmul.h"

/* Weights. Matrices are [outputs, inputs], as in files. */
enum copse_part {
    COPSE_PART_EMBEDDING, /* [vocabulary, width] */
    COPSE_PART_NORM,      /* [width], in front of the head */
    COPSE_PART_HEAD,      /* [vocabulary, width]; absent: the embedding */
    COPSE_PART_TURNS,     /* [head / 2], factors of the lengths of rotary waves; may be absent */
    COPSE_PART_IN_NORM,   /* of a block, from here: [width] */
    COPSE_PART_QUERY,     /* [heads head, width] */
    COPSE_PART_KEY,       /* [kv_heads head, width] */
    COPSE_PART_VALUE,
    COPSE_PART_OUT,        /* [width, heads head] */
    COPSE_PART_QUERY_BIAS, /* where `has_biases` */
    COPSE_PART_KEY_BIAS,
    COPSE_PART_VALUE_BIAS,
    COPSE_PART_QUERY_NORM, /* [head], where `norms_heads` */
    COPSE_PART_KEY_NORM,
    COPSE_PART_OUT_NORM,  /* [width], after attention, where `norms_after` */
    COPSE_PART_MLP_NORM,  /* [width], in front of the gated units, not where `norms_after` */
    COPSE_PART_FEED_NORM, /* the same where `norms_after`: it has another name */
    COPSE_PART_GATE,      /* [hidden, width] */
    COPSE_PART_UP,
    COPSE_PART_DOWN,      /* [width, hidden] */
    COPSE_PART_DOWN_NORM, /* [width], after the gated units, where `norms_after` */
    COPSE_PARTS
};
#define COPSE_PART_OF_BLOCK(part) ((part) >= COPSE_PART_IN_NORM)

struct copse_part_row {
    const char *gguf; /* name in GGUF files; %u is the number of the block */
    const char *name; /* of the variable, and in safetensors files */
    bool is_norm;
};
extern const struct copse_part_row copse__parts[COPSE_PARTS];

struct copse_architecture {
    const char *name; /* "general.architecture" of GGUF files, and what their keys begin with */
    const char *model_type; /* of config.json in folders */
    /* rows of query and key are in the order of interleaved rotary pairs in GGUF files */
    bool is_interleaved;
    bool has_biases;  /* of query, key and value */
    bool has_window;  /* of config.json: all layers have a sliding window, unless it is null */
    bool asks_window; /* some layers have one where "use_sliding_window" is true */
    bool norms_heads; /* query and key heads have RMS norms */
    bool norms_after; /* so have the results of attention and of the gated units */
    uint32_t head;    /* of config.json: size where "head_dim" is absent; 0: width / heads */
    copse_activation gate;
    bool is_gelu_tanh;     /* instead of `gate`: gelu with tanh in the place of erf */
    bool scales_embedding; /* by the square root of the width */
    bool norms_from_one;   /* of folders: a norm multiplies by 1 + its weight */
    bool is_tied;          /* of config.json: where "tie_word_embeddings" is absent */
    /* each so many layers one sees all earlier tokens, the others a window; 0: all are alike */
    uint32_t period;
    uint32_t window;  /* where the file has none */
    uint32_t largest; /* of GGUF: with so many layers, scores are divided by sqrt(width / heads) */
    float base;       /* of rotary positions, where config.json has none; 0: 10,000, as of GGUF */
    float near_base;  /* of layers with a window, where the file has none; 0: the same */
    float scalar;     /* of config.json: where "query_pre_attn_scalar" is absent; 0: the head */
    bool has_caps;    /* scores and outputs may have caps */
    float cap, last_cap; /* those, where the file has none; 0: none */
};

/* Of GGUF files, and of config.json. NULL: unknown. */
const struct copse_architecture *copse__architecture_find(const char *name, size_t size);
const struct copse_architecture *copse__architecture_of_config(const char *model_type);

/* Sizes of a model. */
struct copse_language_sizes {
    uint32_t layers, width, hidden, heads, kv_heads, head, vocabulary, context;
    uint32_t window;       /* tokens that layers with a window see; 0: no layer has one */
    float base, near_base; /* of rotary positions; of layers with a window, 0: the same */
    float stretch;         /* of the rotary waves with `base`; near_base has none */
    float scale;           /* of scores; 0: 1 / sqrt(head) */
    float cap, last_cap;   /* c tanh(x / c) of scores, and of outputs; 0: none */
    float epsilon;
    bool is_tied;   /* no head of its own */
    bool has_turns; /* factors of the rotary waves */
};

/* Sizes that the network can compute; `path` is for the error text. */
copse_status copse__sizes_check(const struct copse_language_sizes *is, const char *path);
/* The shape of a part: [rows, columns]; rows 0: one axis; columns 0: the model has no such part. */
void copse__part_shape(const struct copse_architecture *a, const struct copse_language_sizes *is,
                       enum copse_part part, uint32_t shape[2]);

#endif
