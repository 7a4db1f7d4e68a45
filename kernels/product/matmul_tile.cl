/* SPDX-License-Identifier: MIT */
/* C = f(op(A) op(B) + bias) for GPUs. A group computes a tile of C from strips of A and B in group memory, two strips of
   each: the next one is loaded while the present one is multiplied, and a strip has one barrier. An invocation keeps 8 x 8
   or 4 x 4 elements. After 256 terms an invocation adds its sums to C and begins again; it keeps no second set of sums in registers.
   With several parts each one sums `part` terms into a C of its own, and matmul_join adds them. Item i of the batch reads
   matrix i / each % count of an operand.
   SHAPE: 0 tiles of 128 x 128, 1 of 64 x 64, 2 of 32 x 128, 3 of 128 x 32, in groups of 256. IN_QUADS: 1 the rows of A are
   whole quads, 2 the rows of B, 3 both; others are read element by element. */
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
SPEC(4, SHAPE)
SPEC(5, IN_QUADS)
PARAMS(uint m; uint n; uint k; uint batch; uint a_each; uint a_count; uint b_each; uint b_count; uint part; uint parts;)
QUAD_VIEW(0, a)
QUAD_VIEW(1, b)
GROUP_ARRAY(QUAD, strips, 1088)

#include "elementwise/activation.clh"

#define CHUNK 256u /* longest chain of additions */
#define STRIP (SHAPE == 1 ? 16u : 8u)
#define EACH (SHAPE == 0 ? 8u : 4u) /* rows and columns of an invocation */
#define LANES_N (SHAPE == 2 ? 32u : (SHAPE == 3 ? 8u : 16u))
#define LANES_M (GROUP_SIZE / LANES_N)
#define TILE_M (EACH * LANES_M)
#define TILE_N (EACH * LANES_N)
/* Quads of a row of a strip: one more than the tile, so that neighbours along k do not fall on one bank. */
#define ROW_A (TILE_M / 4u + 1u)
#define ROW_B (TILE_N / 4u + 1u)
#define FIRST_B (2u * STRIP * ROW_A)

/* The quads of a strip that an invocation moves: u of each round, from a strip of `tile` elements by STRIP of k. */
#define ROUNDS(tile) (((tile) * STRIP / 4u + GROUP_SIZE - 1u) / GROUP_SIZE)

/* Loads the strip at k = `at`: with ALONG_K a quad lies along k, else along m or n, whose size is `size`. Elements past the
   end of k are 0; those past the end of m or n repeat the last one, and their results are not stored. */
#define FETCH(to, x, ALONG_K, WHOLE, base, size, first, tile)                                      \
    UNROLL for (uint u = 0u; u < ROUNDS(tile); u++) {                                              \
        const uint e = MIN(lane + u * GROUP_SIZE, (tile) * STRIP / 4u - 1u);                       \
        const uint kk = at + (ALONG_K ? e % (STRIP / 4u) * 4u : e / ((tile) / 4u));                \
        const uint place = first + (ALONG_K ? e / (STRIP / 4u) : e % ((tile) / 4u) * 4u);          \
        const uint row = base + (ALONG_K ? MIN(place, size - 1u) * p.k : MIN(kk, p.k - 1u) * size);\
        const uint col = ALONG_K ? kk : place, last = (ALONG_K ? p.k : size) - 1u;                 \
        QUAD value;                                                                                \
        if (WHOLE)                                                                                 \
            value = LOAD_QUAD(x, (row + MIN(col, last - 3u)) / 4u);                                \
        else                                                                                       \
            value = MAKE_QUAD(LOAD(x, row + MIN(col, last)), LOAD(x, row + MIN(col + 1u, last)),   \
                              LOAD(x, row + MIN(col + 2u, last)),                                  \
                              LOAD(x, row + MIN(col + 3u, last)));                                 \
        if (ALONG_K)                                                                               \
            if (!(WHOLE)) {                                                                        \
                value.y = PICK(kk + 1u < k_end, value.y, 0.0f);                                    \
                value.z = PICK(kk + 2u < k_end, value.z, 0.0f);                                    \
                value.w = PICK(kk + 3u < k_end, value.w, 0.0f);                                    \
            }                                                                                      \
        to[u] = PICK_QUAD(kk < k_end, value, TO_QUAD(0.0f));                                       \
    }

/* Stores it in group memory, where rows are along m or n. */
#define KEEP(from, ALONG_K, begin, ROW, tile)                                                      \
    UNROLL for (uint u = 0u; u < ROUNDS(tile); u++) {                                              \
        const uint e = lane + u * GROUP_SIZE;                                                      \
        if ((tile) * STRIP / 4u % GROUP_SIZE == 0u || e < (tile) * STRIP / 4u) {                   \
            if (ALONG_K) {                                                                         \
                const uint to = 4u * (begin + e % (STRIP / 4u) * 4u * ROW) + e / (STRIP / 4u);     \
                PUT_IN_QUADS(strips, to, from[u].x);                                               \
                PUT_IN_QUADS(strips, to + 4u * ROW, from[u].y);                                    \
                PUT_IN_QUADS(strips, to + 8u * ROW, from[u].z);                                    \
                PUT_IN_QUADS(strips, to + 12u * ROW, from[u].w);                                   \
            } else                                                                                 \
                strips[begin + e / ((tile) / 4u) * ROW + e % ((tile) / 4u)] = from[u];             \
        }                                                                                          \
    }

#define FETCH_STRIP()                                                                              \
    FETCH(next_a, a, A_TRANSPOSED == 0, IN_QUADS % 2 != 0, base_a, p.m, i0, TILE_M)                \
    FETCH(next_b, b, B_TRANSPOSED != 0, IN_QUADS / 2 != 0, base_b, p.n, j0, TILE_N)

#define EACH_ROW(DO)                                                                               \
    DO(s0, 0u)                                                                                     \
    DO(s1, 1u)                                                                                     \
    DO(s2, 2u)                                                                                     \
    DO(s3, 3u)                                                                                     \
    if (EACH == 8u) {                                                                              \
        DO(s4, TILE_M / 2u)                                                                        \
        DO(s5, TILE_M / 2u + 1u)                                                                   \
        DO(s6, TILE_M / 2u + 2u)                                                                   \
        DO(s7, TILE_M / 2u + 3u)                                                                   \
    }
#define CLEAR(s, row)                                                                              \
    s##_left = TO_QUAD(0.0f);                                                                      \
    s##_right = TO_QUAD(0.0f);
#define MULTIPLY(s, x)                                                                             \
    s##_left = FMA(TO_QUAD(x), left, s##_left);                                                    \
    if (EACH == 8u)                                                                                \
        s##_right = FMA(TO_QUAD(x), right, s##_right);

/* The sum of a chain to column j of C: `place` is the place of column 0. */
#define PUT(j, v)                                                                                  \
    if (j < p.n) {                                                                                 \
        float value = v;                                                                           \
        if (k0 > k_begin)                                                                          \
            value = LOAD(c, place + j) + value;                                                    \
        if (k1 == k_end) {                                                                         \
            if (HAS_BIAS != 0)                                                                     \
                value = value + LOAD(bias, j);                                                     \
            value = activate(value);                                                               \
        }                                                                                          \
        STORE(c, place + j, value);                                                                \
    }
#define PUT_QUAD(j, v)                                                                             \
    PUT(j, v.x)                                                                                    \
    PUT(j + 1u, v.y)                                                                               \
    PUT(j + 2u, v.z)                                                                               \
    PUT(j + 3u, v.w)
#define PUT_ROW(s, row)                                                                            \
    {                                                                                              \
        const uint i = i0 + 4u * y + row;                                                          \
        if (i < p.m) {                                                                             \
            const uint place = (index * p.m + i) * p.n;                                            \
            PUT_QUAD(j_left, s##_left)                                                             \
            if (EACH == 8u) {                                                                      \
                PUT_QUAD(j_right, s##_right)                                                       \
            }                                                                                      \
        }                                                                                          \
    }

KERNEL4(matmul_tile, IN(real, a), IN(real, b), IN(real, bias), OUT(real, c))
{
    GROUP_ARRAY_HERE(QUAD, strips, 1088)
    const uint tiles_n = (p.n + TILE_N - 1u) / TILE_N;
    const uint tiles = (p.m + TILE_M - 1u) / TILE_M * tiles_n;
    const uint index = GROUP_INDEX() / tiles, tile = GROUP_INDEX() - index * tiles;
    if (index >= p.parts * p.batch)
        return;
    const uint piece = index / p.batch, item = index - piece * p.batch;
    const uint i0 = tile / tiles_n * TILE_M, j0 = tile % tiles_n * TILE_N;
    const uint lane = LOCAL_INDEX(), x = lane % LANES_N, y = lane / LANES_N;
    const uint base_a = item / p.a_each % p.a_count * p.m * p.k, base_b = item / p.b_each % p.b_count * p.k * p.n;
    const uint k_begin = piece * p.part, k_end = MIN(k_begin + p.part, p.k);
    const uint j_left = j0 + 4u * x, j_right = j_left + TILE_N / 2u;

    QUAD next_a[4], next_b[4];
    QUAD s0_left, s1_left, s2_left, s3_left, s4_left, s5_left, s6_left, s7_left;
    QUAD s0_right, s1_right, s2_right, s3_right, s4_right, s5_right, s6_right, s7_right;
    uint side = 0u;
    uint at = k_begin;
    FETCH_STRIP()
    for (uint k0 = k_begin; k0 < k_end; k0 += CHUNK) {
        const uint k1 = MIN(k0 + CHUNK, k_end);
        EACH_ROW(CLEAR)
        for (uint strip = k0; strip < k1; strip += STRIP) {
            const uint at_a = side * STRIP * ROW_A, at_b = FIRST_B + side * STRIP * ROW_B;
            KEEP(next_a, A_TRANSPOSED == 0, at_a, ROW_A, TILE_M)
            KEEP(next_b, B_TRANSPOSED != 0, at_b, ROW_B, TILE_N)
            BARRIER(); /* the strip before the last one is no longer read */
            at = strip + STRIP;
            FETCH_STRIP()
            UNROLL for (uint k = 0u; k < STRIP; k++) {
                const uint of_a = at_a + k * ROW_A + y, of_b = at_b + k * ROW_B + x;
                const QUAD upper = strips[of_a], left = strips[of_b];
                QUAD lower = upper, right = left;
                if (EACH == 8u) {
                    lower = strips[of_a + LANES_M];
                    right = strips[of_b + LANES_N];
                }
                MULTIPLY(s0, upper.x)
                MULTIPLY(s1, upper.y)
                MULTIPLY(s2, upper.z)
                MULTIPLY(s3, upper.w)
                if (EACH == 8u) {
                    MULTIPLY(s4, lower.x)
                    MULTIPLY(s5, lower.y)
                    MULTIPLY(s6, lower.z)
                    MULTIPLY(s7, lower.w)
                }
            }
            side = 1u - side;
        }
        EACH_ROW(PUT_ROW)
    }
}
