/* SPDX-License-Identifier: MIT */
/* C = f(op(A) op(B) + bias) of operands of 16 bits with f32 sums, on cooperative matrices: one operation of a subgroup
   adds the product of SHAPE_M x SHAPE_K and SHAPE_K x SHAPE_N numbers to SHAPE_M x SHAPE_N sums. matmul_join adds the
   parts of k. Item i of the batch reads matrix i / each % count of an operand. The backend sets the shape to one that the
   device reports, and SUBGROUP to the size of subgroups that it requires.

   A group computes a tile of C from strips of A and B in group memory, in eights of numbers and in the order of memory;
   the next strip is loaded while the present one is multiplied. A subgroup has DOWN x ACROSS matrices of sums. A matrix
   unit may cut off what it adds, so its chain is one strip, in one matrix, which an addition of f32 adds to the sums.
   After CHUNK terms the sums are added to C (core/ops/product/matmul_cooperative.c has the bound).

   The text uses GL_NV_cooperative_matrix, because compilers of 2019 and later have it, and f16. The backend changes the
   instructions to those of VK_KHR_cooperative_matrix, and with IS_BFLOAT the type to bf16. */
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
SPEC(4, IS_BFLOAT)
SPEC(5, FORM)
PARAMS(uint m; uint n; uint k; uint batch; uint a_each; uint a_count; uint b_each; uint b_count; uint part; uint parts;)
layout(constant_id = 8) const uint SHAPE_M = 16;
layout(constant_id = 9) const uint SHAPE_N = 16;
layout(constant_id = 10) const uint SHAPE_K = 16;
layout(constant_id = 11) const uint SUBGROUP = 32;
#define EIGHT uvec4
GROUP_ARRAY(EIGHT, strips, 1280)
EIGHT_VIEW(0, a)
EIGHT_VIEW(1, b)

#include "product/ends.clh"

/* FORM: 1 the rows of A are whole eights, 2 the rows of B, 4 tiles of 128 x 128 with one strip in group memory; otherwise
   of 64 x 64 with two. */
const bool IS_LARGE = FORM / 4 != 0;
const uint TILE = IS_LARGE ? 128u : 64u;
#define STRIP 32u
#define CHUNK 4096u
/* Eights of a row in group memory, along k or along m or n: one more than the strip, so that neighbours do not fall on
   one bank. */
#define ROW_K (STRIP / 8u + 1u)
#define ROW_TILE (TILE / 8u + 1u)
#define SIDE (TILE * ROW_K) /* eights for a strip of A or of B: 640 or 320 */
const uint SIDES = IS_LARGE ? 1u : 2u;

/* The matrices of a tile, in blocks of one subgroup each. */
const uint GRID_M = TILE / SHAPE_M, GRID_N = TILE / SHAPE_N;
const uint SUBGROUPS = GROUP_X * GROUP_Y / SUBGROUP;
const uint WAYS = SUBGROUPS >= 32u ? 8u : (SUBGROUPS >= 8u ? 4u : (SUBGROUPS >= 2u ? 2u : 1u));
const uint BLOCKS_N = WAYS < GRID_N ? WAYS : GRID_N;
const uint WAYS_M = SUBGROUPS / BLOCKS_N;
const uint BLOCKS_M = WAYS_M < GRID_M ? WAYS_M : GRID_M;
const uint DOWN = GRID_M / BLOCKS_M, ACROSS = GRID_N / BLOCKS_N;
const uint DEEP = STRIP / SHAPE_K;

#define MATRIX_A fcoopmatNV<16, gl_ScopeSubgroup, SHAPE_M, SHAPE_K>
#define MATRIX_B fcoopmatNV<16, gl_ScopeSubgroup, SHAPE_K, SHAPE_N>
#define SUMS fcoopmatNV<32, gl_ScopeSubgroup, SHAPE_M, SHAPE_N>

/* Eights that an invocation moves of a strip. */
const uint ROUNDS = TILE * STRIP / 8u / (GROUP_X * GROUP_Y);

/* Loads the eights at k = `at`: with ALONG_K an eight lies along k, else along m or n, whose size is `size`. Numbers past
   the end of k are 0; those past the end of m or n are any of the operand, and their results are not stored. */
#define FETCH(to, x, ALONG_K, WHOLE, base, size, first)                                            \
    UNROLL for (uint u = 0u; u < ROUNDS; u++) {                                                    \
        const uint e = LOCAL_INDEX() + u * GROUP_SIZE;                                             \
        const uint kk = at + (ALONG_K ? e % (STRIP / 8u) * 8u : e / (TILE / 8u));                  \
        const uint place = first + (ALONG_K ? e / (STRIP / 8u) : e % (TILE / 8u) * 8u);            \
        const uint row = base + MIN(ALONG_K ? place : kk, (ALONG_K ? size : p.k) - 1u) *           \
                                    (ALONG_K ? p.k : size);                                        \
        const uint col = ALONG_K ? kk : place, last = (ALONG_K ? p.k : size) - 1u;                 \
        EIGHT value;                                                                               \
        if (WHOLE)                                                                                 \
            value = x##_eights[(row + MIN(col, last - 7u)) / 8u];                                  \
        else {                                                                                     \
            const uint from = row + MIN(col, last), w = from / 2u, end = (row + last) / 2u;        \
            const uint w0 = x[w], w1 = x[MIN(w + 1u, end)], w2 = x[MIN(w + 2u, end)];              \
            const uint w3 = x[MIN(w + 3u, end)], w4 = x[MIN(w + 4u, end)];                         \
            const EIGHT odd = EIGHT(w0, w1, w2, w3) >> 16u | EIGHT(w1, w2, w3, w4) << 16u;         \
            value = mix(EIGHT(w0, w1, w2, w3), odd, bvec4(from % 2u != 0u));                       \
            if (ALONG_K) {                                                                         \
                const EIGHT low = EIGHT(kk, kk + 2u, kk + 4u, kk + 6u);                            \
                const EIGHT lower = mix(EIGHT(0u), EIGHT(65535u), lessThan(low, EIGHT(k_end)));     \
                value &= mix(lower, EIGHT(~0u), lessThan(low + 1u, EIGHT(k_end)));                  \
            }                                                                                      \
        }                                                                                          \
        to[u] = mix(EIGHT(0u), value, bvec4(kk < k_end));                                          \
    }
#define FETCH_STRIPS()                                                                             \
    FETCH(next_a, a, A_TRANSPOSED == 0, FORM % 2 != 0, base_a, p.m, i0)                            \
    FETCH(next_b, b, B_TRANSPOSED != 0, FORM / 2 % 2 != 0, base_b, p.n, j0)

/* Stores them in group memory. */
#define KEEP(from, ALONG_K, begin)                                                                 \
    UNROLL for (uint u = 0u; u < ROUNDS; u++) {                                                    \
        const uint e = LOCAL_INDEX() + u * GROUP_SIZE;                                             \
        strips[begin + (ALONG_K ? e / (STRIP / 8u) * ROW_K + e % (STRIP / 8u)                      \
                                : e / (TILE / 8u) * ROW_TILE + e % (TILE / 8u))] = from[u];        \
    }

/* A matrix at row `row` or column `col`, and at `deep` matrices of k. */
#define LOAD_A(x, row, deep)                                                                       \
    if (A_TRANSPOSED == 0)                                                                         \
        coopMatLoadNV(x, strips, at_a + (row) * ROW_K + deep * SHAPE_K / 8u, ROW_K, false);        \
    else                                                                                           \
        coopMatLoadNV(x, strips, at_a + deep * SHAPE_K * ROW_TILE + (row) / 8u, ROW_TILE, true);
#define LOAD_B(x, col, deep)                                                                       \
    if (B_TRANSPOSED != 0)                                                                         \
        coopMatLoadNV(x, strips, at_b + (col) * ROW_K + deep * SHAPE_K / 8u, ROW_K, true);         \
    else                                                                                           \
        coopMatLoadNV(x, strips, at_b + deep * SHAPE_K * ROW_TILE + (col) / 8u, ROW_TILE, false);

KERNEL5(matmul_cooperative, IN(uint, a), IN(uint, b), IN(real, bias), OUT(real, z), OUT(real, c))
{
    const uint tiles_n = (p.n + TILE - 1u) / TILE, tiles = (p.m + TILE - 1u) / TILE * tiles_n;
    const uint index = GROUP_INDEX() / tiles, tile = GROUP_INDEX() - index * tiles;
    if (index >= p.parts * p.batch)
        return;
    const uint piece = index / p.batch, item = index - piece * p.batch;
    const uint i0 = tile / tiles_n * TILE, j0 = tile % tiles_n * TILE;
    const uint base_a = item / p.a_each % p.a_count * p.m * p.k, base_b = item / p.b_each % p.b_count * p.k * p.n;
    const uint k_begin = piece * p.part, k_end = MIN(k_begin + p.part, p.k);
    /* Subgroups without a block only move strips. */
    const bool has_block = gl_SubgroupID < BLOCKS_M * BLOCKS_N;
    const uint row = gl_SubgroupID / BLOCKS_N * DOWN * SHAPE_M, col = gl_SubgroupID % BLOCKS_N * ACROSS * SHAPE_N;

    EIGHT next_a[ROUNDS], next_b[ROUNDS];
    SUMS sums[DOWN * ACROSS];
    uint side = 0u;
    uint at = k_begin;
    FETCH_STRIPS()
    for (uint k0 = k_begin; k0 < k_end; k0 += CHUNK) {
        const uint k1 = MIN(k0 + CHUNK, k_end);
        UNROLL for (uint s = 0u; s < DOWN * ACROSS; s++)
            sums[s] = SUMS(0.0);
        for (uint strip = k0; strip < k1; strip += STRIP) {
            const uint at_a = side * 2u * SIDE, at_b = at_a + SIDE;
            KEEP(next_a, A_TRANSPOSED == 0, at_a)
            KEEP(next_b, B_TRANSPOSED != 0, at_b)
            BARRIER(); /* of two strips, the one before the last is no longer read */
            at = strip + STRIP;
            FETCH_STRIPS()
            if (has_block) {
                MATRIX_B y[DEEP * ACROSS];
                UNROLL for (uint s = 0u; s < ACROSS; s++)
                    UNROLL for (uint d = 0u; d < DEEP; d++)
                        LOAD_B(y[s * DEEP + d], col + s * SHAPE_N, d)
                UNROLL for (uint r = 0u; r < DOWN; r++) {
                    MATRIX_A x[DEEP];
                    UNROLL for (uint d = 0u; d < DEEP; d++)
                        LOAD_A(x[d], row + r * SHAPE_M, d)
                    UNROLL for (uint s = 0u; s < ACROSS; s++) {
                        SUMS chain = SUMS(0.0);
                        UNROLL for (uint d = 0u; d < DEEP; d++)
                            chain = coopMatMulAddNV(x[d], y[s * DEEP + d], chain);
                        sums[r * ACROSS + s] = sums[r * ACROSS + s] + chain;
                    }
                }
            }
            side = (side + 1u) % SIDES;
            if (IS_LARGE)
                BARRIER();
        }

        /* The sums of a matrix at a time go through group memory, where the strips were. */
        BARRIER();
        const uint place = gl_SubgroupID * (SHAPE_M * SHAPE_N / 4u);
        for (uint s = 0u; s < DOWN * ACROSS && has_block; s++) {
            UNROLL for (uint t = 0u; t < DOWN * ACROSS; t++)
                if (t == s)
                    coopMatStoreNV(sums[t], strips, place, SHAPE_N / 4u, false);
            subgroupBarrier();
            for (uint e = gl_SubgroupInvocationID; e < SHAPE_M * SHAPE_N; e += SUBGROUP) {
                const uint i = i0 + row + s / ACROSS * SHAPE_M + e / SHAPE_N;
                const uint j = j0 + col + s % ACROSS * SHAPE_N + e % SHAPE_N;
                if (i < p.m && j < p.n) {
                    const uint to = (index * p.m + i) * p.n + j;
                    float value = AS_FLOAT(strips[place + e / 4u][e % 4u]);
                    if (k0 > k_begin)
                        value = LOAD(c, to) + value;
                    if (k1 == k_end && HAS_BIAS != 0)
                        value = value + LOAD(bias, j);
                    if (k1 < k_end)
                        STORE(c, to, value);
                    else if (HAS_END)
                        STORE_END(to, value)
                    else
                        STORE(c, to, activate(value));
                }
            }
            subgroupBarrier();
        }
        BARRIER();
    }
}
