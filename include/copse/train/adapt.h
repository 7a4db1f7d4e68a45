/* SPDX-License-Identifier: MIT */
/** @file
 * Fine-tuning of language models with low-rank adapters (Hu et al., "LoRA", arXiv:2106.09685,
 * 2021): docs/language-models.md.
 *
 * An adapter adds s B (A x) to the product W x of each adapted weight W, [outputs, inputs]. A is
 * [rank, inputs], B is [outputs, rank]; they are variables of the strategy, the only ones of the
 * model that trainers train. Their names are those that PEFT gives them.
 */
#ifndef COPSE_PUBLIC_TRAIN_ADAPT_H
#define COPSE_PUBLIC_TRAIN_ADAPT_H

#include "copse/train/language.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How an adapter is made. A zeroed setting means the default in brackets. */
struct copse_adapter_params {
    uint32_t rank; /**< 1 to 1,024; required */
    float alpha;   /**< s = alpha / rank; 1e-30 to 1e30 [0: 2 rank] */
    float dropout; /**< of what enters A, in training; 0 to below 1 [0] */
    /** s = alpha / sqrt(rank) (Kalajdzievski, "rsLoRA", arXiv:2312.03732, 2023) [false] */
    bool is_rank_stabilised;
    /** patterns of the adapted weights, separated by commas: a last name such as "q_proj", or a
        whole one such as "model.layers.2?.mlp.*"; `*` is any text, `?` one character
        [NULL: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj of all layers] */
    const char *targets;
    uint64_t seed;        /**< of A: uniform within 1 / sqrt(inputs). B is 0 */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Give a model an adapter. Its outputs stay what they are until B is trained.
 * @retval COPSE_ERR_ARGUMENT  `params` breaks a rule, a pattern fits no weight, or the model has an
 *                             adapter.
 * Blocks.
 */
COPSE_API COPSE_CHECKED copse_status
copse_language_adapt(copse_language *language, const struct copse_adapter_params *params);

/** What an adapter is. */
struct copse_adapter_info {
    uint32_t rank; /**< 0: the model has none */
    float alpha, dropout;
    float scale; /**< s */
    bool is_rank_stabilised;
    uint32_t weights;     /**< adapted ones */
    uint64_t parameters;  /**< of A and B */
    uint64_t reserved[4]; /**< 0 */
};
COPSE_API COPSE_CHECKED copse_status
copse_language_describe_adapter(const copse_language *language, struct copse_adapter_info *out);

/**
 * Write the adapter. The ending of the path decides the form:
 *   - ".safetensors": one file, with the settings of the adapter in its metadata;
 *   - ".gguf": a file that llama.cpp loads; it keeps the scale, not dropout and rank stabilisation;
 *   - otherwise a folder as PEFT reads and writes it, with adapter_model.safetensors and
 *     adapter_config.json. It is made if it does not exist; its parent must exist.
 * A file is replaced as a whole. Both files of a folder are complete before one gets its name, the
 * arrays first; these have the settings in their metadata too, and loading uses them: at any time
 * the folder has the older or the newer adapter for this library. A new folder is removed after an
 * error.
 * @retval COPSE_ERR_ARGUMENT   The model has no adapter, or there is no path; or the file is GGUF,
 *                              and alpha sqrt(rank) of a rank-stabilised adapter is above 1e30.
 * @retval COPSE_ERR_NONFINITE  A value is NaN or infinite.
 * @retval COPSE_ERR_IO         A file cannot be written; an older one is unchanged. If only the
 *                              file of settings fails, the folder has the newer adapter.
 * Blocks until queued steps have run and the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_save_adapter(copse_language *language,
                                                                 const char *path);

/**
 * Give a model the adapter of a file or folder: what copse_language_save_adapter, PEFT, and
 * llama.cpp's tools write. All types become f32. Training continues from it.
 * @retval COPSE_ERR_IO           A file cannot be read.
 * @retval COPSE_ERR_FORMAT       It breaks a rule of its form; settings are missing.
 * @retval COPSE_ERR_SHAPE        It is the adapter of another model; the text names a weight.
 * @retval COPSE_ERR_UNSUPPORTED  It is no LoRA, or has what this version lacks: DoRA, trained
 *                                biases, ranks that differ, an adapter of another weight, or values
 *                                that began with changed weights of the model (PiSSA, OLoRA).
 * @retval COPSE_ERR_ARGUMENT     The model has an adapter, which stays.
 * After another error the model has none. Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_load_adapter(copse_language *language,
                                                                 const char *path);

/**
 * The loss of windows of tokens, for a trainer: the mean cross-entropy of the tokens to predict.
 * Inputs are the columns of copse_language_windows. With quantised weights the logits of a batch,
 * windows * window * vocabulary, must be fewer than 2^31 (COPSE_ERR_ARGUMENT).
 * @param language  A copse_language, of the trainer's strategy. It must outlive the trainer.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_language_loss(copse_graph *g, const copse_batch *in,
                                                          void *language);

/** A token that is not predicted: of input "y". */
#define COPSE_LANGUAGE_NO_TOKEN (-1)

/**
 * The windows of a text: column "x", i32 [window], has consecutive tokens, column "y" the token
 * after each of them. Each token but the first is predicted once. The last window is filled up;
 * what fills it is not predicted.
 * @param window  Tokens, 1 to the context of the model [0: 512, or the context if that is less],
 *                and to 16,384 / g where g heads share a key head; with quantised weights fewer
 *                than 2^31 / vocabulary.
 * @param out     The caller releases it (copse_dataset_release). NULL after an error.
 * @retval COPSE_ERR_ARGUMENT  The text has less than two tokens; or `window` breaks its rule.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_windows(copse_language *language,
                                                            const char *text, size_t size,
                                                            uint32_t window, copse_dataset **out);

/** What copse_language_conversations made. */
struct copse_conversations_info {
    uint64_t conversations; /**< rows */
    uint64_t cut;           /**< of these, longer than a window: their ends are left out */
    uint64_t dropped;       /**< left out: no answer begins in the window */
    uint64_t predicted;     /**< tokens of answers */
    uint32_t window;        /**< tokens */
    uint64_t reserved[4];   /**< 0 */
};

/**
 * Conversations, a JSON object on each line, as windows in which the answers alone are predicted,
 * with the marks that end them: {"prompt": TEXT, "answer": TEXT}, with or without "system"; or
 * {"messages": [{"role": "system", "user" or "assistant", "content": TEXT}, ...]}, not both. A text
 * has neither U+0000 nor half of a surrogate pair. A conversation has the form that
 * copse_language_chat gives it, and one window, which is filled up.
 * @param window  As for copse_language_windows [0: the longest conversation, at most 512].
 * @param info    NULL: not wanted.
 * @param out     The caller releases it (copse_dataset_release). NULL after an error.
 * @retval COPSE_ERR_FORMAT       A line is not of this form; the text has its number.
 * @retval COPSE_ERR_UNSUPPORTED  The form of the model's conversations is unknown.
 * @retval COPSE_ERR_ARGUMENT     There is no answer; or `window` breaks its rule.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_conversations(
    copse_language *language, const char *lines, size_t size, uint32_t window,
    struct copse_conversations_info *info, copse_dataset **out);

/**
 * The mean loss of the tokens to predict in such a dataset, without dropout.
 * @retval COPSE_ERR_ARGUMENT  No token is predicted, a column is missing, or the windows are longer
 *                             than copse_language_windows allows.
 * @retval COPSE_ERR_SHAPE     Windows of "x" and of "y" differ in length.
 * Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_evaluate_windows(
    copse_language *language, const copse_dataset *windows, struct copse_language_evaluation *out);

#if defined(__cplusplus)
}
#endif
#endif
