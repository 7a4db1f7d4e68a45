/* SPDX-License-Identifier: MIT */
/* Byte-pair encoding (Gage, 1994; Sennrich et al., 2016): tokens 0 to 255 are bytes, and token 256
   + k is the pair of tokens that merge k joins. Merges do not cross words (docs/text.md). */
#ifndef COPSE_DATA_BYTE_PAIRS_H
#define COPSE_DATA_BYTE_PAIRS_H

#include "core/data/text/tokens.h"

#define COPSE_BPE_BYTES COPSE_TOKEN_BYTES /* of the longest word, and so of the longest token */

/* A pair as a number; tokens have 16 bits. Of pairs that occur equally often the one with the
   smallest number is joined. */
static inline uint32_t copse__pair(uint32_t first, uint32_t second)
{
    return first << 16 | second;
}

/* Numbers of pairs, found by hash: open addressing. `mem` is set before the first use. */
struct copse_pair_map {
    struct copse_mem *mem;
    struct copse_pair_slot {
        uint32_t pair, number; /* number + 1; 0: empty */
    } *slots;
    size_t count, room;
};
#define COPSE_NO_PAIR UINT32_MAX
uint32_t copse__pair_find(const struct copse_pair_map *m, uint32_t pair); /* or COPSE_NO_PAIR */
/* The pair is not in the map, number < UINT32_MAX - 1; false without memory. */
bool copse__pair_add(struct copse_pair_map *m, uint32_t pair, uint32_t number);
void copse__pair_map_fini(struct copse_pair_map *m);

/* Bytes of the word that begins at `p`, of `left` > 0 bytes. */
size_t copse__word_size(const unsigned char *p, size_t left);

/* Join each occurrence of `pair`, from the left; returns the number of tokens that remain. */
size_t copse__join(uint16_t *tokens, size_t count, uint32_t pair, uint16_t joined);

/* ---- the functions of the kind ---- */

/* p->outputs: the number of tokens that is wanted. There are fewer where no pair occurs twice.
   (byte_pairs_learn.c) */
copse_status copse__byte_pairs_learn(const struct copse_text *t, struct copse_arena *arena,
                                     struct copse_schema_parts *p);
copse_status copse__byte_pairs_encode(copse_context *ctx, struct copse_text *t,
                                      const struct copse_schema_parts *p, copse_array **out);
copse_status copse__byte_pairs_check(struct copse_mem *mem, const struct copse_schema_parts *p);
int64_t copse__byte_pairs_line_end(const struct copse_schema_parts *p);
size_t copse__byte_pairs_text(const struct copse_schema_parts *p, uint32_t token,
                              char to[COPSE_TOKEN_BYTES]);

#endif
