/* SPDX-License-Identifier: MIT */
/* A language model from the inside. */
#ifndef COPSE_CORE_LANGUAGE_H
#define COPSE_CORE_LANGUAGE_H

#include "copse/train/language.h"
#include "core/language/architecture.h"
#include "core/language/chat.h"
#include "core/language/tokenizer.h"
#include "core/replica/replica_context.h"
#include "core/train/predictor.h"

#define COPSE_LANGUAGE_CHUNK   64u    /* tokens of a prompt that are computed at once */
#define COPSE_LANGUAGE_LONGEST 16384u /* keys, and queries of a key head: limits of attention */

#define COPSE_LANGUAGE_RECORDINGS 16u

/* What adapts a model: adapter.h. */
struct copse_adapter {
    uint32_t rank; /* 0: there is none */
    float alpha, dropout, scale;
    bool is_rank_stabilised, is_dora;
    uint32_t weights;
    uint64_t parameters;
};

/* A part of the model. `values` are f32, or the words of a matrix of blocks with `bits`. NULL: the
   model has none. */
struct copse_language_weight {
    copse_variable *values, *scales, *offsets;
    uint32_t bits; /* 0: f32 */
};

struct copse_language {
    copse_strategy *strategy;
    struct copse_arena arena;
    const char *path;
    const struct copse_architecture *architecture;
    struct copse_language_sizes is;
    struct copse_tokenizer tokenizer;
    struct copse_chat chat;
    /* of parts without a block [0], of blocks [COPSE_PARTS * layer] */
    struct copse_language_weight *weights;
    copse_variable **variables; /* all of the weights */
    size_t variable_count;
    bool keeps_blocks; /* matrices are quantised on the device where they are in the file */
    uint64_t weight_bytes;
    /* of the adapter: A [COPSE_PARTS layers], then B, and so on: adapter.h; or NULL */
    copse_variable **matrices;
    struct copse_adapter adapter;
    float *turns; /* factors of the rotary waves, [head / 2]; NULL: all are 1 */
    bool *slides; /* [layers]: has the window */
    uint64_t parameters;
    struct copse_predictor predictor;
};

static inline struct copse_language_weight *
copse__language_weight(const copse_language *l, uint32_t layer, enum copse_part part)
{
    return &l->weights[(size_t)layer * COPSE_PARTS + part];
}

/* Of f32; NULL: the model has none. */
static inline copse_tensor *copse__language_part(const copse_language *l, uint32_t layer,
                                                 enum copse_part part)
{
    copse_variable *v = copse__language_weight(l, layer, part)->values;
    return v ? copse_variable_tensor(v) : NULL;
}

/* Numbers of keys and values of a token, in all layers. */
static inline size_t copse__language_memory(const copse_language *l)
{
    return (size_t)l->is.layers * 2 * l->is.kv_heads * l->is.head;
}

/* Add the tokens of a text, with those that the model wants at its beginning. (language.c) */
copse_status copse__language_encode(copse_language *l, const char *text, size_t size,
                                    struct copse_tokens *out);
/* Note which layers have the window of the model: all, or all but each `period`-th one.
   (architecture.c) */
copse_status copse__language_slide(copse_language *l, uint32_t period);
/* All of a model. (language_read.c) */
struct copse_model_source;
copse_status copse__language_read(copse_language *l, struct copse_model_source *s);

/* ---- language_weights.c ---- */

/* x [.., inputs] times a weight [outputs, inputs]: [.., outputs]. */
copse_tensor *copse__language_product(const copse_language *l, copse_graph *g, copse_tensor *x,
                                      uint32_t layer, enum copse_part part);
/* Rows of the embedding. */
copse_tensor *copse__language_rows(const copse_language *l, copse_graph *g, copse_tensor *tokens);

/* ---- language_graph.c ---- */

/* What a layer sees: all earlier tokens, or a window. */
enum copse_sight { COPSE_SIGHT_FAR, COPSE_SIGHT_NEAR, COPSE_SIGHTS };

/* Tokens at consecutive places, after `past` slots with keys and values of earlier ones. The inputs
   of copse__language_next: "x" i32 [count], "past" f32 [slots, memory] if there are slots; for each
   sight of a layer "turns" f32 [count, head] and "mask" f32 [count, slots + count], of windows
   "near_turns" and "near_mask"; the batch has one example. */
struct copse_language_inputs {
    uint32_t count, slots;
    int32_t *tokens;
    float *turns[COPSE_SIGHTS], *mask[COPSE_SIGHTS]; /* NULL: no layer has this sight */
    const float *past;
};
/* Memory for inputs of `count` tokens with `keys` keys. False: there is none; free what there
   is. */
bool copse__language_inputs_make(const copse_language *l, struct copse_language_inputs *in,
                                 uint32_t count, size_t keys);
void copse__language_inputs_free(const copse_language *l, struct copse_language_inputs *in);
/* Fill turns and mask for tokens at `first` and on; `used` of the slots have tokens. */
void copse__language_place(const copse_language *l, struct copse_language_inputs *in,
                           uint32_t first, uint32_t used);

/* f32 [1, vocabulary + count memory]: outputs at the place that input "last", i32 [1], names; then
   the keys and values of the tokens. A copse_predict_fn of the model. */
copse_tensor *copse__language_next(copse_graph *g, const copse_batch *in, void *language);
copse_status copse__language_run(copse_language *l, const struct copse_language_inputs *in,
                                 int32_t last, float *values, size_t count);

/* f32 [windows, count]: the loss of each token of input "y", of windows of tokens, input "x"; both
   i32 [count]. A copse_predict_fn of the model. */
copse_tensor *copse__language_losses(copse_graph *g, const copse_batch *in, void *language);

/* Most tokens of a window; COPSE_ERR_ARGUMENT for windows of so many. */
uint32_t copse__language_most(const copse_language *l);
copse_status copse__language_check_window(const copse_language *l, uint64_t count);

#endif
