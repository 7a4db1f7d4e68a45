/* SPDX-License-Identifier: MIT */
/** @file
 * Fine-tuning of language models with low-rank adapters (Hu et al., "LoRA", arXiv:2106.09685,
 * 2021): docs/language-models.md.
 *
 * An adapter adds s B (A x) to the product W x of each adapted weight W, [outputs, inputs]. A is
 * [rank, inputs], B is [outputs, rank]; they are variables of the strategy, the only ones of the
 * model that trainers train. Their names are those that PEFT gives them.
 *
 * With magnitudes (DoRA) row r of the weight is m[r] times row r of W + s B A, divided by its
 * length. The length is computed in each step, and has no derivative.
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
    /** each row of an adapted weight has a trained length m, its magnitude, which begins as it is
        (Liu et al., "DoRA", arXiv:2402.09353, 2024) [false] */
    bool is_dora;
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
 * @retval COPSE_ERR_IO        With magnitudes: the file of the model, which is read again, cannot
 *                             be read.
 * Blocks.
 */
COPSE_API COPSE_CHECKED copse_status
copse_language_adapt(copse_language *language, const struct copse_adapter_params *params);

/** What an adapter is. */
struct copse_adapter_info {
    uint32_t rank; /**< 0: the model has none */
    float alpha, dropout;
    float scale; /**< s */
    bool is_rank_stabilised, is_dora;
    uint32_t weights;     /**< adapted ones */
    uint64_t parameters;  /**< of A, B and magnitudes */
    uint64_t reserved[4]; /**< 0 */
};
COPSE_API COPSE_CHECKED copse_status
copse_language_describe_adapter(const copse_language *language, struct copse_adapter_info *out);

/**
 * Write the adapter. The ending of the path decides the form:
 *   - ".safetensors": one file, with the settings of the adapter in its metadata;
 *   - ".gguf": a file that llama.cpp loads; it keeps the scale, not dropout and rank stabilisation,
 *     and has no magnitudes;
 *   - otherwise a folder as PEFT reads and writes it, with adapter_model.safetensors and
 *     adapter_config.json. It is made if it does not exist; its parent must exist.
 * A file is replaced as a whole. Both files of a folder are complete before one gets its name, the
 * arrays first; these have the settings in their metadata too, and loading uses them: at any time
 * the folder has the older or the newer adapter for this library. A new folder is removed after an
 * error.
 * @retval COPSE_ERR_ARGUMENT   The model has no adapter, or there is no path; or the file is GGUF,
 *                              and alpha sqrt(rank) of a rank-stabilised adapter is above 1e30.
 * @retval COPSE_ERR_UNSUPPORTED  The file is GGUF, and the adapter has magnitudes.
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
 * @retval COPSE_ERR_UNSUPPORTED  It is no LoRA, or has what this version lacks: trained biases,
 *                                ranks that differ, an adapter of another weight, or values
 *                                that began with changed weights of the model (PiSSA, OLoRA).
 * @retval COPSE_ERR_ARGUMENT     The model has an adapter, which stays.
 * After another error the model has none. Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_load_adapter(copse_language *language,
                                                                 const char *path);

/**
 * Give a model the sum of several adapters, each times its factor, as one adapter. Its rank is the
 * sum of their ranks, its scale 1, its dropout 0: the factors and scales are in B. One adapter with
 * the factor 1 stays as it is in its file.
 * @param paths    [count] files and folders, as of copse_language_load_adapter.
 * @param factors  [count] 1e-30 to 1e30, or their negatives [NULL: all are 1].
 * @retval COPSE_ERR_ARGUMENT  Also: no path; a factor breaks its rule; the ranks are above 1,024
 *                             together.
 * @retval COPSE_ERR_UNSUPPORTED  Also: one of them has magnitudes, and is not the only one with the
 *                                factor 1.
 * Other errors, and blocking: as copse_language_load_adapter.
 */
COPSE_API COPSE_CHECKED copse_status copse_language_load_adapters(copse_language *language,
                                                                  const char *const *paths,
                                                                  const float *factors,
                                                                  size_t count);

/** How a model is merged with its adapter. */
struct copse_merge_params {
    /** of the merged weights, if `has_type`: COPSE_F32, COPSE_F16 or COPSE_BF16 [as the weight
        has in the file; COPSE_F32 where it is quantised] */
    copse_type type;
    bool has_type;
    uint64_t reserved[4]; /**< 0 */
};

/** What was merged. */
struct copse_merge_info {
    uint32_t weights;     /**< merged ones */
    uint32_t quantised;   /**< of these, in the file of the model */
    uint64_t reserved[3]; /**< 0 */
};

/**
 * Write the model with its adapter as a model of its own: each adapted weight W becomes W + s B A,
 * with its magnitudes, rounded to f32 and then to its type. The file that the model was opened from
 * is read again. A GGUF file gives a GGUF file with the same keys, also "general.file_type", and
 * the other tensors as they are; it replaces an older file when it is complete. A folder gives a new
 * folder, which gets its name when it is complete: config.json; files of the tokenizer and of
 * generation; one file of weights, without the metadata of the older ones. Other files are not
 * copied. Where `type` changes a weight, "torch_dtype" and "dtype" in config.json become the type
 * that all tensors have, else float32.
 * @param path    Of the file, or of a folder that does not exist. Its parent must exist.
 * @param params  NULL: the defaults.
 * @param info    NULL: not wanted.
 * @retval COPSE_ERR_ARGUMENT   The model has no adapter; the type is another one; the folder
 *                              exists; the path is the model's own; or there is no path.
 * @retval COPSE_ERR_NONFINITE  A value is NaN or infinite, or above the type's largest one.
 * @retval COPSE_ERR_FORMAT     An adapted weight in the file of the model has another shape than
 *                              when the model was opened. Changed values are not noticed.
 * @retval COPSE_ERR_IO         A file cannot be read or written. Nothing is left of a new folder.
 * Blocks until the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status
copse_language_save_merged(copse_language *language, const char *path,
                           const struct copse_merge_params *params, struct copse_merge_info *info);

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
