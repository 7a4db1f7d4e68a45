/* SPDX-License-Identifier: MIT */
/** @file
 * Language models that other programs trained, from GGUF files and folders:
 * docs/language-models.md.
 */
#ifndef COPSE_PUBLIC_TRAIN_LANGUAGE_H
#define COPSE_PUBLIC_TRAIN_LANGUAGE_H

#include "copse/strategy.h"
#include "copse/train/generate.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** A language model. Its weights are frozen variables of the strategy, with the names that
    safetensors files of this model have: "model.layers.0.self_attn.q_proj.weight", f32 [outputs,
    inputs]. A matrix that stays quantised has two or three variables instead, the tensors of a
    struct copse_blocks (copse/ops/blocks.h) with the endings ".words", ".scales" and
    ".offsets". */
typedef struct copse_language copse_language;

/** What the weights of a model are in the memory of the device. Products are computed in f32. */
typedef enum copse_weights {
    /** quantised matrices stay quantised: as numbers of 4 bits (Q4_0, Q4_1, Q4_K) or 8 bits (the
        other types). Everything else becomes f32 */
    COPSE_WEIGHTS_FILE,
    COPSE_WEIGHTS_F32, /**< all become f32; results differ by the order of sums alone */
} copse_weights;

/** How to open a model. */
struct copse_language_params {
    copse_weights weights; /**< [COPSE_WEIGHTS_FILE] */
    /** What conversations of Llama 3.1 to 3.3 say is today's date, at most 64 bytes. The clock is
        never asked. [NULL or "": what the template of the file says for want of a date, such as
        "26 Jul 2024"] */
    const char *date;
    uint64_t reserved[3]; /**< 0 */
};

/** What a model is. */
struct copse_language_info {
    const char *architecture; /**< "llama", "qwen2", "qwen3" or "gemma" */
    const char *chat;         /**< the form of its conversations, such as "chatml"; "": unknown */
    uint64_t parameters;
    uint32_t layers, width, heads, kv_heads, vocabulary;
    uint32_t context;      /**< tokens that it was trained to read */
    uint64_t weight_bytes; /**< of the variables */
    uint64_t reserved[3];  /**< 0 */
};

/** What copse_language_evaluate measures. */
struct copse_language_evaluation {
    uint64_t tokens;      /**< that were predicted */
    double loss;          /**< mean cross-entropy of a token */
    double bits_per_byte; /**< the loss in bits, for each byte of these tokens */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Open a model and make its variables.
 * @param st      Generation uses its first device.
 * @param path    A GGUF file; a folder with config.json, tokenizer.json and model.safetensors, or
 *                model.safetensors.index.json and its files; or a .safetensors file beside the two.
 * @param params  NULL: the defaults.
 * @retval COPSE_ERR_FORMAT       The file breaks a rule; a weight is missing or has another shape.
 * @retval COPSE_ERR_UNSUPPORTED  Its architecture, its tokenizer, a setting of config.json, the
 *                                type of a weight, or a weight that the architecture does not
 *                                have; the text names it. Also: a date, and conversations
 *                                of the model have none.
 * @retval COPSE_ERR_NO_MEMORY    Also: of the device.
 * After an error the strategy has no variable of the model.
 * Blocks until the weights are on the device.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_open(copse_strategy *st, const char *path,
                                                         const struct copse_language_params *params,
                                                         copse_language **out);
/** The variables go with it, if nothing else can use them; else they stay with the strategy. */
COPSE_API void copse_language_release(copse_language **language);

/** Texts live as long as the model. */
COPSE_API COPSE_CHECKED copse_status copse_language_describe(const copse_language *language,
                                                             struct copse_language_info *out);

/**
 * The tokens of a text, as the model's own tokenizer makes them. Special tokens are found where the
 * text has their names, such as "<|im_end|>".
 * @param tokens  Receives the first `room` tokens; NULL is allowed if `room` is 0.
 * @param count   Receives the number of all.
 * @retval COPSE_ERR_ARGUMENT  A byte has no token, and the vocabulary has none for what is unknown.
 * One thread at a time.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_encode(copse_language *language,
                                                           const char *text, size_t size,
                                                           int32_t *tokens, size_t room,
                                                           size_t *count);
/** The bytes of a token, not terminated; NULL and 0 for a number that is no token. */
COPSE_API const char *copse_language_token(const copse_language *language, int32_t token,
                                           size_t *size);

/**
 * A question in the form of the conversations that the model was trained with, up to where the
 * answer begins.
 * @param system  What the model is told first. NULL: what its file says, or nothing.
 * @param text    Receives the text, NUL-terminated, if `room` is enough; NULL is allowed.
 * @param needed  Receives the bytes of the text with its NUL.
 * @retval COPSE_ERR_UNSUPPORTED  The form is unknown, or it has no text of the system.
 * @retval COPSE_ERR_ARGUMENT     `room` is not 0 and smaller than *needed; or `system` or `question`
 *                                has more than 16 MiB.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_chat(const copse_language *language,
                                                         const char *system, const char *question,
                                                         char *text, size_t room, size_t *needed);

/**
 * Continue a text until params->length tokens are written, or the model writes its token for the
 * end, which is not passed on. Keys and values of all tokens are kept in host memory, so that each
 * new token is computed alone.
 * @param take  Called once for each token. `size` may be above COPSE_TOKEN_BYTES.
 * @retval COPSE_ERR_ARGUMENT  `params` breaks a rule; or the prompt and the length are longer than
 *                             the context of the model, than 16,384 tokens, or than the tokens
 *                             with 2^31 numbers of keys and values.
 * Otherwise as copse_model_generate.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_generate(
    copse_language *language, const char *prompt, size_t size,
    const struct copse_generate_params *params, copse_token_fn *take, void *user);

/**
 * Predict each token of a text from those before it in its window. Windows do not overlap, and the
 * first token of each is not predicted.
 * @param window  Tokens, 2 to the context of the model [0: 512, or the context if that is less], and
 *                to 16,384; to 16,384 / g + 1 where g heads share a key head. The tokens of a last window that is not full count, too.
 * @retval COPSE_ERR_ARGUMENT  The text has less than two tokens; or `window` breaks its rule.
 * Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_evaluate(copse_language *language,
                                                             const char *text, size_t size,
                                                             uint32_t window,
                                                             struct copse_language_evaluation *out);

#if defined(__cplusplus)
}
#endif
#endif
