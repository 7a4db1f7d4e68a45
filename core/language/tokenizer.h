/* SPDX-License-Identifier: MIT */
/* Tokens of a language model: a vocabulary with the rule by which parts are joined. The bytes of
   tokens are kept as they are in texts, whatever letters a file writes for them. */
#ifndef COPSE_LANGUAGE_TOKENIZER_H
#define COPSE_LANGUAGE_TOKENIZER_H

#include "core/base/base.h"
#include "core/language/words.h"

#define COPSE_NO_TOKEN UINT32_MAX

struct copse_token {
    const char *text;
    uint32_t size;
    bool is_special; /* control: no part of a text */
    bool is_byte;    /* a byte of a character without a token */
    bool is_named;   /* found in texts as it is written: special, or added by hand */
    float score;
};

/* Numbers by 64-bit keys or by bytes: open addressing. */
struct copse_token_slot {
    uint64_t key;
    uint32_t token, rank; /* token COPSE_NO_TOKEN: empty */
};
struct copse_token_map {
    struct copse_token_slot *slots;
    size_t room; /* a power of two */
};

struct copse_tokenizer {
    struct copse_mem *mem;
    struct copse_arena arena;
    struct copse_token *tokens;
    uint32_t count;
    uint32_t bytes[256];           /* tokens of single bytes */
    struct copse_token_map texts;  /* tokens by their bytes */
    struct copse_token_map merges; /* by the pair of tokens, with rank and result */
    uint32_t *named;               /* tokens that are found in texts, longest first */
    uint32_t named_count;
    bool named_first[256];           /* the bytes with which they begin */
    const struct copse_words *words; /* NULL: parts are joined by scores, in the whole text */
    bool adds_space;                 /* a text begins with a space */
    bool adds_begin;                 /* a text begins with `begin` */
    uint32_t begin, end, unknown;    /* or COPSE_NO_TOKEN */
};

struct copse_tokens {
    int32_t *at;
    size_t count, room;
};

/* ---- making (tokenizer.c): zero the struct, set `mem`, `arena.mem`, `count` and `words` ---- */

copse_status copse__tokenizer_begin(struct copse_tokenizer *t);
/* After all tokens are set: tokens by their bytes. */
copse_status copse__tokenizer_index(struct copse_tokenizer *t);
copse_status copse__tokenizer_merges(struct copse_tokenizer *t, size_t count);
/* Merge number `rank`, of the texts of two tokens. False: one of them, or the result, is no
   token. */
bool copse__tokenizer_merge(struct copse_tokenizer *t, const char *left, size_t left_size,
                            const char *right, size_t right_size, uint32_t rank);
void copse__tokenizer_fini(struct copse_tokenizer *t);

/* The token with these bytes, or COPSE_NO_TOKEN. */
uint32_t copse__tokenizer_find(const struct copse_tokenizer *t, const char *text, size_t size);
/* Of a pair of tokens; NULL: there is no merge. */
const struct copse_token_slot *copse__tokenizer_pair(const struct copse_tokenizer *t, uint32_t left,
                                                     uint32_t right);

/* ---- texts (tokenizer_encode.c) ---- */

/* Add the tokens of a text. `is_named`: special tokens that it has are found; else they are text
   as all else. COPSE_ERR_ARGUMENT: a byte has no token, and there is none for what is unknown. */
copse_status copse__tokenizer_encode(struct copse_tokenizer *t, const char *text, size_t size,
                                     bool is_named, struct copse_tokens *out);

#endif
