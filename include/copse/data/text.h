/* SPDX-License-Identifier: MIT */
/** @file Texts: a file of characters, bytes or byte pairs as windows of tokens, for networks that
 * predict the next token.
 *
 * A dataset of a text has two columns. Row i of "x" is a window of `context` tokens that begins at
 * token i * stride; row i of "y", i32 [context], has the token that follows each of them. "x" is u8
 * [context], or i32 if there are more than 256 different tokens. The rows are read from one array
 * of tokens: windows that overlap take no memory. The task is COPSE_TASK_SEQUENCE. docs/text.md
 * shows the use; docs/model-file.md the schema.
 *
 * The outputs of a model (copse_model_create) decide what copse_model_loss compares: [context,
 * tokens] the token after each position, [tokens] the one after the window. copse_model_predict
 * gives the probabilities of the token after the window, or with `takes_short` after its `length`
 * tokens.
 *
 * copse_dataset_split cuts such a dataset into the first and the last windows, and leaves out those
 * that would have tokens in both parts.
 */
#ifndef COPSE_PUBLIC_DATA_TEXT_H
#define COPSE_PUBLIC_DATA_TEXT_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What a token is. */
typedef enum copse_tokens {
    /** a code point of UTF-8. The vocabulary is the characters of the training text, at most
       65536, in ascending order. A byte order mark is left out, and CR LF is one LF; NUL is
       refused */
    COPSE_TOKENS_CHARACTERS,
    COPSE_TOKENS_BYTES, /**< a byte, 0 to 255; any file */
    /** byte-pair encoding, learned from the text; any file. Tokens 0 to 255 are the bytes, and
       each further token joins two before it. docs/text.md has the rules */
    COPSE_TOKENS_BPE,
} copse_tokens;

/** The windows of a text. */
typedef enum copse_text_rows {
    COPSE_TEXT_WINDOWS, /**< all, with "y" */
    /** for each line the last `context` tokens before its end; no "y". Lines that end before
       `context` tokens have no row, unless `takes_short` is set */
    COPSE_TEXT_LINES,
    COPSE_TEXT_END, /**< the last tokens of the text; no "y" */
} copse_text_rows;

#define COPSE_TEXT_CONTEXT    16   /**< default of `context` */
#define COPSE_TEXT_VOCABULARY 1024 /**< default of `vocabulary` */
#define COPSE_TOKEN_BYTES     64   /**< of the longest token */

/** How to read a text; copse_source_params.text. With copse_dataset_params.schema `tokens` and
    `context` are the schema's. */
struct copse_text_params {
    copse_tokens tokens;
    /** tokens in a window [0 = COPSE_TEXT_CONTEXT] */
    uint32_t context;
    /** tokens between the starts of two windows [0 = the schema's, else `context`] */
    uint32_t stride;
    copse_text_rows rows;
    /** BPE: tokens, 256 to 65536, fewer if no pair occurs twice [0 = COPSE_TEXT_VOCABULARY] */
    uint32_t vocabulary;
    /** BPE: the vocabulary is learned from this part of the text, its beginning.
       copse_dataset_split then cuts after it. 1: from the whole text [0 = 0.8, as of the split] */
    float train_fraction;
    /** COPSE_TEXT_END, COPSE_TEXT_LINES: a text, or a line, that ends before `context` tokens has a
       row too: these tokens, then zeros. Column "length", i32 scalar, has the number of its tokens,
       from 1. Only a network that predicts the token after each position takes such rows. A line
       that begins the text and is empty has none [false] */
    bool takes_short;
    uint64_t reserved[2]; /**< 0 */
};

/**
 * Make a dataset of a text in memory, as copse_dataset_open does of a file.
 * @param text    `size` bytes; copied.
 * @param params  `source->text`, `schema` and `max_bytes` are used; NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT  `params` breaks a rule, or has options of tables.
 * @retval COPSE_ERR_FORMAT    Characters: invalid UTF-8, NUL, too many different ones, or one that
 *                             the schema does not have. The error text has line and column, from 1.
 * @retval COPSE_ERR_SHAPE     There are too few tokens for a window and the token after it, or the
 *                             schema is not of a text.
 */
COPSE_API COPSE_CHECKED copse_status copse_text_create(copse_context *ctx, const char *text,
                                                       size_t size,
                                                       const struct copse_dataset_params *params,
                                                       copse_dataset **out);

/** The text that a schema describes. */
struct copse_text_info {
    copse_tokens tokens;
    uint32_t context, stride;
    /** different tokens; copse_schema_class gives a character as UTF-8, others as a number */
    uint32_t vocabulary;
    /** of these: tokens that the text has not, or of byte pairs the part that they were learned
       from. copse_model_generate does not draw them */
    uint32_t unseen;
    bool knows_unseen;    /**< false: the schema is of an older version, which did not note them */
    uint64_t reserved[3]; /**< 0 */
};
/** @retval COPSE_ERR_ARGUMENT  The schema is not of a text. */
COPSE_API COPSE_CHECKED copse_status copse_text_describe(const copse_schema *schema,
                                                         struct copse_text_info *out);

/** The bytes of a token: a character as UTF-8, or bytes that may be a part of one. Returns how
    many; 0: the schema is not of a
    text, or has no such token. @param bytes  [COPSE_TOKEN_BYTES]; NULL: only the number is wanted. */
COPSE_API size_t copse_text_token(const copse_schema *schema, uint32_t token, char *bytes);

/**
 * The place of the token after the window of a row.
 * @param line, column  From 1; columns count tokens. NULL is allowed.
 * @retval COPSE_ERR_ARGUMENT  The dataset is not of a text, or has no such row.
 */
COPSE_API COPSE_CHECKED copse_status copse_text_place(const copse_dataset *data, size_t row,
                                                      uint64_t *line, uint64_t *column);

#if defined(__cplusplus)
}
#endif
#endif
