/* SPDX-License-Identifier: MIT */
/* Tokens of a language model: a vocabulary with the rule by which parts are joined. The bytes of
   tokens are kept as they are in texts, whatever letters a file writes for them. */
#ifndef COPSE_LANGUAGE_TOKENIZER_H
#define COPSE_LANGUAGE_TOKENIZER_H

#include "core/base/base.h"
#include "core/language/words.h"

#define COPSE_NO_TOKEN    UINT32_MAX
#define COPSE_TOKENS_MOST (1u << 20)
#define COPSE_MERGES_MOST (1u << 22)

struct copse_token {
    const char *text;
    uint32_t size;
    bool is_special;     /* control: no part of a text */
    bool is_byte;        /* a byte of a character without a token */
    bool is_named;       /* found in texts as it is written: special, or added by hand */
    bool is_part;        /* named, and joined from parts, too: the vocabulary has it */
    bool is_end;         /* a model ends its text with it */
    bool is_unreachable; /* no text has the letters that the file writes it with */
    float score;
};

/* The merge of a pair of tokens. */
struct copse_token_slot {
    uint64_t key;
    uint32_t token, rank; /* token COPSE_NO_TOKEN: empty */
};

/* Where a text gets a space in front, which is part of its first token. */
enum copse_space {
    COPSE_SPACE_NONE,
    COPSE_SPACE_FIRST, /* at its beginning */
    COPSE_SPACE_EACH,  /* after each named token, too */
};

struct copse_tokenizer {
    struct copse_mem *mem;
    struct copse_arena arena;
    struct copse_token *tokens;
    uint32_t count;
    uint32_t bytes[256]; /* tokens of single bytes */
    /* open addressing, rooms are powers of two: tokens by their bytes, COPSE_NO_TOKEN: empty; and
       by the pair of tokens, with rank and result */
    struct {
        uint32_t *slots;
        size_t room;
    } texts;
    struct {
        struct copse_token_slot *slots;
        size_t room;
    } merges;
    char *spare; /* bytes for texts of tokens, in the arena */
    size_t spare_size;
    uint32_t *named; /* tokens that are found in texts, longest first */
    uint32_t named_count;
    bool named_first[256]; /* the bytes with which they begin */
    /* NULL: the parts at first are characters of the whole text, else bytes of words. They are
       joined by merges, or by scores if there are none */
    const struct copse_words *words;
    bool knows_whole;            /* a word that is a token is not put together from parts */
    enum copse_space adds_space; /* in front of a text, or part of one */
    bool spares_space;           /* not where there is a space */
    bool is_normalised;          /* texts get the form NFC first */
    bool adds_begin;             /* a text begins with `begin` */
    uint32_t begin, unknown;     /* or COPSE_NO_TOKEN */
};

struct copse_tokens {
    int32_t *at;
    size_t count, room;
    size_t begin; /* of the text that is added to: tokens before it are of other texts */
};

/* ---- making (tokenizer.c): zero the struct, set `mem`, `arena.mem`, `count` and `words` ---- */

copse_status copse__tokenizer_begin(struct copse_tokenizer *t);
enum copse_token_kind {
    COPSE_TOKEN_NORMAL,
    COPSE_TOKEN_UNKNOWN,
    COPSE_TOKEN_CONTROL,
    COPSE_TOKEN_ADDED,
    COPSE_TOKEN_BYTE, /* if it is written as one: "<0x41>" */
};
/* Token i, with the letters that files write. (tokenizer_text.c) */
copse_status copse__tokenizer_set(struct copse_tokenizer *t, uint32_t i, enum copse_token_kind kind,
                                  const char *text, size_t size);
/* After all tokens are set: tokens by their bytes. */
copse_status copse__tokenizer_index(struct copse_tokenizer *t);
/* Room for merges. */
copse_status copse__tokenizer_merges(struct copse_tokenizer *t, size_t count);
/* Merge number `rank`, of the texts of two tokens, which is kept if there is room for merges. False:
   one of them, or the result, is no token. */
bool copse__tokenizer_merge(struct copse_tokenizer *t, const char *left, size_t left_size,
                            const char *right, size_t right_size, uint32_t rank);
/* The same, with the letters that files write. (tokenizer_text.c) */
bool copse__tokenizer_join(struct copse_tokenizer *t, const char *left, size_t left_size,
                           const char *right, size_t right_size, uint32_t rank);
/* A byte that texts in UTF-8 can have, and that no token is, or -1. (tokenizer_text.c) */
int copse__tokenizer_missing(const struct copse_tokenizer *t);
/* At the end: a vocabulary of bytes has all that texts in UTF-8 can have, or a token for what is
   unknown. (tokenizer_text.c) */
copse_status copse__tokenizer_check(const struct copse_tokenizer *t, const char *path);
void copse__tokenizer_fini(struct copse_tokenizer *t);

/* The token with these bytes, or COPSE_NO_TOKEN. */
uint32_t copse__tokenizer_find(const struct copse_tokenizer *t, const char *text, size_t size);
/* Of a pair of tokens; NULL: there is no merge. */
const struct copse_token_slot *copse__tokenizer_pair(const struct copse_tokenizer *t, uint32_t left,
                                                     uint32_t right);

/* ---- texts (tokenizer_encode.c) ---- */

/* U+2581 as a space; returns the bytes. *is_pure becomes false where there is a space.
   (tokenizer_text.c) */
size_t copse__text_of_pieces(const char *text, size_t size, char *to, bool *is_pure);

/* Add the tokens of a text, which goes on after the tokens in `out`. `is_named`: special tokens
   that it has are found; else they are text as all else. COPSE_ERR_ARGUMENT: a byte has no token,
   and there is none for what is unknown. */
copse_status copse__tokenizer_encode(struct copse_tokenizer *t, const char *text, size_t size,
                                     bool is_named, struct copse_tokens *out);

#endif
