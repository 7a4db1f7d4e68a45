/* SPDX-License-Identifier: MIT */
/* C = A op(B) for a matrix B of blocks, for GPUs: see tile.clh. Words, scales and offsets of a strip of B are loaded while
   the strip before is multiplied; its elements are computed when they go to group memory. matmul_join adds the parts.
   The result has the bits of blocks_rows and matmul_tile: the elements and the order of additions are the same.
   FORM: SHAPE of tile.clh, and 4 if the rows of A are whole quads; others are read element by element. */
GROUP(256, 1)
SPEC(0, B_TRANSPOSED)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
SPEC(4, FORM)
PARAMS(uint m; uint n; uint k; uint part; uint parts;)
QUAD_VIEW(0, a)
GROUP_ARRAY(QUAD, strips, 1088)

#define SHAPE (FORM % 4)
#define B_ALONG_K (B_TRANSPOSED != 0)
#include "product/blocks.clh"
#include "product/tile.clh"

#define COLUMNS p.n
#define PLACE(i) (((piece + item) * p.m + (i)) * p.n) /* the one item is 0 */
#define FINISH(j)

/* Where the quads u of A and B begin that an invocation loads: their term in a strip, and their row or column. */
#define FIND_QUADS()                                                                               \
    uint term_a[4], from_a[4], term_b[4], from_b[4];                                               \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_M); u++) {                                            \
        const uint e = QUAD_OF(u, TILE_M);                                                         \
        term_a[u] = e % (STRIP / 4u) * 4u;                                                         \
        from_a[u] = MIN(i0 + e / (STRIP / 4u), p.m - 1u) * p.k;                                    \
    }                                                                                              \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_N); u++) {                                            \
        const uint e = QUAD_OF(u, TILE_N);                                                         \
        term_b[u] = B_ALONG_K ? e % (STRIP / 4u) * 4u : e / (TILE_N / 4u);                         \
        from_b[u] = B_ALONG_K ? MIN(j0 + e / (STRIP / 4u), p.n - 1u) * p.k                         \
                              : MIN(j0 + e % (TILE_N / 4u) * 4u, p.n - 4u);                        \
    }
/* A quad of B is a word of 8-bit numbers, or half of one of 4-bit numbers, and lies in one group. Where it lies along k, k is
   a multiple of 16, as parts are, and a strip that is multiplied has no element past the end of k. */
#define FETCH_STRIP()                                                                              \
    if (B_ALONG_K) {                                                                               \
        UNROLL for (uint u = 0u; u < ROUNDS(TILE_M); u++)                                          \
            next_a[u] = LOAD_QUAD(a, (from_a[u] + MIN(at + term_a[u], p.k - 4u)) / 4u);            \
    } else {                                                                                       \
        FETCH(next_a, a, true, FORM / 4 != 0, 0u, p.k, p.m, i0, TILE_M)                            \
    }                                                                                              \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_N); u++) {                                            \
        const uint term = MIN(at + term_b[u], p.k - (B_ALONG_K ? 4u : 1u));                        \
        const uint place = from_b[u] + (B_ALONG_K ? term : term * p.n);                            \
        next_word[u] = BLOCK_WORD(words, place) >> (NUMBER_BITS * (place % PER_WORD));             \
        next_scale[u] = BLOCK_SCALE(scales, place);                                                \
        next_offset[u] = BLOCK_OFFSET(offsets, place);                                             \
    }

/* Other elements past the end of k are 0. */
#define FINISH_STRIP()                                                                             \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_N); u++) {                                            \
        next_b[u] = BLOCK_QUAD(next_word[u], next_scale[u], next_offset[u]);                       \
        if (!B_ALONG_K)                                                                            \
            next_b[u] = PICK_QUAD(at + term_b[u] < k_end, next_b[u], TO_QUAD(0.0f));               \
    }

KERNEL5(blocks_tile, IN(real, a), IN(int, words), IN(real, scales), IN(real, offsets), OUT(real, c))
{
    GROUP_ARRAY_HERE(QUAD, strips, 1088)
    FIND_TILE(1u)
    FIND_QUADS()
    uint next_word[4];
    float next_scale[4], next_offset[4];

    uint side = 0u;
    uint at = k_begin;
    FETCH_STRIP()
    for (uint k0 = k_begin; k0 < k_end; k0 += CHUNK) {
        const uint k1 = MIN(k0 + CHUNK, k_end);
        EACH_ROW(CLEAR)
        MULTIPLY_STRIPS(true, B_ALONG_K, FINISH_STRIP(), FETCH_STRIP())
        EACH_ROW(PUT_ROW)
    }
}
