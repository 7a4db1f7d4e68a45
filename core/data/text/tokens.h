/* SPDX-License-Identifier: MIT */
/* Tokens of texts: the bytes of a text, and kinds of tokens. A kind is a row of functions in
   tokens.c. */
#ifndef COPSE_DATA_TOKENS_H
#define COPSE_DATA_TOKENS_H

#include "copse/data/text.h"
#include "core/data/array.h"
#include "core/data/schema_parts.h"

/* The bytes of a text. */
struct copse_text {
    const char *name; /* for error texts */
    char *bytes;      /* owned; NULL after an array took it over */
    size_t size;
};
/* The bytes of a file, unpacked. (text_file.c) */
copse_status copse__text_read(copse_context *ctx, const char *path, uint64_t max_bytes,
                              struct copse_text *out);
void copse__text_fini(copse_context *ctx, struct copse_text *t);

struct copse_token_kind {
    const char *noun; /* for several tokens, in error texts */
    /* the vocabulary has a size, and is learned from the text: from its training part */
    bool is_learned;
    /* The vocabulary of a text: `outputs`, `classes` and `is_numbered` of `p`, the merges, and the
       tokens that the text has not; memory of `arena`. */
    copse_status (*learn)(const struct copse_text *t, struct copse_arena *arena,
                          struct copse_schema_parts *p);
    /* The tokens of a text, of the type p->type. May take over the bytes of `t`. */
    copse_status (*encode)(copse_context *ctx, struct copse_text *t,
                           const struct copse_schema_parts *p, copse_array **out);
    /* COPSE_ERR_FORMAT for a vocabulary, read from a schema, that this kind does not have. */
    copse_status (*check)(struct copse_mem *mem, const struct copse_schema_parts *p);
    /* The token that ends a line, or -1. */
    int64_t (*line_end)(const struct copse_schema_parts *p);
    /* The bytes of a token; returns how many. */
    size_t (*text)(const struct copse_schema_parts *p, uint32_t token, char to[COPSE_TOKEN_BYTES]);
};
#define COPSE_TOKEN_KINDS 3
/* by enum copse_tokens */
extern const struct copse_token_kind copse__token_kinds[COPSE_TOKEN_KINDS];
extern const char *const copse__token_names[COPSE_TOKEN_KINDS]; /* in schemas */

/* Note the tokens that the text has not. `seen`: a byte for each of p->outputs. False without
   memory. */
bool copse__note_unseen(struct copse_arena *arena, const unsigned char *seen,
                        struct copse_schema_parts *p);

/* The type of column "x" for so many different tokens. */
static inline copse_type copse__token_type(uint32_t vocabulary)
{
    return vocabulary <= 256 ? COPSE_U8 : COPSE_I32;
}

#endif
