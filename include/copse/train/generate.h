/* SPDX-License-Identifier: MIT */
/** @file
 * Texts written by a model of a text (data/text.h), token by token.
 */
#ifndef COPSE_PUBLIC_TRAIN_GENERATE_H
#define COPSE_PUBLIC_TRAIN_GENERATE_H

#include "copse/model.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How tokens are drawn. The probabilities are the softmax of the outputs divided by `temperature`,
    of the `top_k` tokens. */
struct copse_generate_params {
    uint64_t length; /**< tokens, from 1; required */
    uint64_t seed;   /**< the same seed on the same device: the same text */
    /** finite, from 0. 0: the token with the largest output, of equal ones the first [0] */
    float temperature;
    /** 0 to 1: of the most likely tokens the fewest whose probabilities reach it [0 = 1] */
    float top_p;
    /** the most likely tokens, of equal ones the first [0 = all] */
    uint32_t top_k;
    uint64_t reserved[4]; /**< 0 */
};

/** Receives a token and its `size` bytes, see copse_text_token; they live until it returns. It may
    stop with an error, which copse_model_generate returns. It makes no calls on the model. */
typedef copse_status copse_token_fn(void *user, uint32_t token, const char *text, size_t size);

/**
 * Continue a text. Each token is predicted from the last `context` tokens of the prompt and what
 * was written, on one device; one window is computed for each token. A network that predicts the
 * token after each position also continues shorter texts: position i of its output must not depend
 * on later positions of the window, which is checked for the first of them. Tokens that the
 * training text has not are not drawn, if the schema says which (copse_text_info.knows_unseen).
 * @param prompt  `size` bytes; the network reads the last window. NULL or empty: a line end; token
 *                0 without one.
 * @param take    Called once for each token, in the calling thread.
 * @retval COPSE_ERR_ARGUMENT   The model is not of a text; `params` breaks a rule; the prompt is
 *                              shorter than the window of a network that predicts only the token
 *                              after it, or whose outputs depend on later positions.
 * @retval COPSE_ERR_FORMAT     The prompt has invalid UTF-8, or a character that the schema does
 *                              not have.
 * @retval COPSE_ERR_NONFINITE  An output is NaN or infinite.
 * @retval COPSE_ERR_TIMEOUT    A device does not answer.
 * Blocks until all tokens are drawn.
 */
COPSE_API COPSE_CHECKED copse_status
copse_model_generate(copse_model *m, const char *prompt, size_t size,
                     const struct copse_generate_params *params, copse_token_fn *take, void *user);

#if defined(__cplusplus)
}
#endif
#endif
