/* SPDX-License-Identifier: MIT */
/* Matrix product of f16 operands with f32 sums, on cooperative matrices: a subgroup keeps a matrix of SHAPE_M x SHAPE_N
   sums, and one operation of the subgroup adds the product of SHAPE_M x SHAPE_K and SHAPE_K x SHAPE_N numbers to it. The
   backend sets the shape to one that the device reports; it divides the tile. A group computes a tile of C from strips of
   A and B in group memory, which hold two halves in a word, with zeros past the edges. Item i of the batch reads the
   matrix i / each % count of an operand. A part of k that starts at k_begin > 0 adds to the content of C.

   The text uses GL_NV_cooperative_matrix, because compilers of 2019 and later have it. The backend changes the
   instructions to those of VK_KHR_cooperative_matrix. */
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
GROUP(128, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
PARAMS(uint m; uint n; uint k; uint k_begin; uint k_end; uint batch; uint a_each; uint a_count; uint b_each;
       uint b_count;)
layout(constant_id = 8) const uint SHAPE_M = 16;
layout(constant_id = 9) const uint SHAPE_N = 16;
layout(constant_id = 10) const uint SHAPE_K = 16;

#include "elementwise/activation.clh"

#define TILE 64u   /* rows and columns of C */
#define STRIP 32u  /* of k in group memory at a time */
#define CHUNK 256u /* longest chain of additions */
#define SPAN 4u    /* most matrices of a subgroup; they are side by side */
/* Rows in words. Four words more, so that adjacent rows are in other banks and rows start at multiples of 16 bytes. */
#define ROW_A 20u
#define ROW_B 36u
GROUP_ARRAY(uint, part_a, 64 * 20)
GROUP_ARRAY(uint, part_b, 32 * 36)
GROUP_ARRAY(float, part_c, 64 * 64)

/* Element `at` of an array of halves, in the low bits; 0 outside of the operand. */
#define HALF(x, at, is_inside) SELECT(is_inside, (x[(at) >> 1] >> (16u * ((at) & 1u))) & 65535u, 0u)

KERNEL4(matmul_cooperative, IN(uint, a), IN(uint, b), IN(real, bias), OUT(real, c))
{
    const uint tiles_n = (p.n + TILE - 1u) / TILE, tiles = (p.m + TILE - 1u) / TILE * tiles_n;
    const uint item = GROUP_INDEX() / tiles, tile = GROUP_INDEX() % tiles;
    const uint i0 = tile / tiles_n * TILE, j0 = tile % tiles_n * TILE;
    if (item >= p.batch)
        return;
    const uint base_a = item / p.a_each % p.a_count * p.m * p.k, base_b = item / p.b_each % p.b_count * p.k * p.n;

    /* Each subgroup has `span` matrices of a row of matrices in each round. Usually one round is enough. */
    const uint span = MIN(SPAN, TILE / SHAPE_N), across = TILE / (SHAPE_N * span);
    const uint units = TILE / SHAPE_M * across;
    for (uint first = 0u; first < units; first += gl_NumSubgroups) {
        const uint unit = MIN(first + gl_SubgroupID, units - 1u);
        const uint row = unit / across * SHAPE_M, col = unit % across * span * SHAPE_N;
        fcoopmatNV<32, gl_ScopeSubgroup, SHAPE_M, SHAPE_N> total[SPAN], sum[SPAN];
        for (uint s = 0u; s < SPAN; s++)
            total[s] = fcoopmatNV<32, gl_ScopeSubgroup, SHAPE_M, SHAPE_N>(0.0);
        for (uint k0 = p.k_begin; k0 < p.k_end; k0 += CHUNK) {
            const uint k1 = MIN(k0 + CHUNK, p.k_end);
            for (uint s = 0u; s < SPAN; s++)
                sum[s] = fcoopmatNV<32, gl_ScopeSubgroup, SHAPE_M, SHAPE_N>(0.0);
            for (uint at = k0; at < k1; at += STRIP) {
                for (uint e = LOCAL_INDEX(); e < TILE * STRIP / 2u; e += GROUP_SIZE) {
                    const uint i = A_TRANSPOSED != 0 ? e % TILE : e / (STRIP / 2u);
                    const uint k = A_TRANSPOSED != 0 ? e / TILE * 2u : e % (STRIP / 2u) * 2u;
                    const uint place = base_a + (A_TRANSPOSED != 0 ? (at + k) * p.m + i0 + i : (i0 + i) * p.k + at + k);
                    const uint next = place + (A_TRANSPOSED != 0 ? p.m : 1u);
                    part_a[i * ROW_A + k / 2u] = HALF(a, place, at + k < k1 && i0 + i < p.m) |
                                                 HALF(a, next, at + k + 1u < k1 && i0 + i < p.m) << 16;
                }
                for (uint e = LOCAL_INDEX(); e < TILE * STRIP / 2u; e += GROUP_SIZE) {
                    const uint j = B_TRANSPOSED != 0 ? e / STRIP * 2u : e % (TILE / 2u) * 2u;
                    const uint k = B_TRANSPOSED != 0 ? e % STRIP : e / (TILE / 2u);
                    const uint place = base_b + (B_TRANSPOSED != 0 ? (j0 + j) * p.k + at + k : (at + k) * p.n + j0 + j);
                    const uint next = place + (B_TRANSPOSED != 0 ? p.k : 1u);
                    part_b[k * ROW_B + j / 2u] = HALF(b, place, at + k < k1 && j0 + j < p.n) |
                                                 HALF(b, next, at + k < k1 && j0 + j + 1u < p.n) << 16;
                }
                BARRIER();
                for (uint k = 0u; k < STRIP; k += SHAPE_K) {
                    fcoopmatNV<16, gl_ScopeSubgroup, SHAPE_M, SHAPE_K> x;
                    fcoopmatNV<16, gl_ScopeSubgroup, SHAPE_K, SHAPE_N> y;
                    coopMatLoadNV(x, part_a, row * ROW_A + k / 2u, ROW_A, false);
                    for (uint s = 0u; s < span; s++) {
                        coopMatLoadNV(y, part_b, k * ROW_B + (col + s * SHAPE_N) / 2u, ROW_B, false);
                        sum[s] = coopMatMulAddNV(x, y, sum[s]);
                    }
                }
                BARRIER();
            }
            for (uint s = 0u; s < SPAN; s++)
                total[s] = total[s] + sum[s];
        }
        for (uint s = 0u; s < span; s++)
            coopMatStoreNV(total[s], part_c, row * TILE + col + s * SHAPE_N, TILE, false);
    }
    BARRIER();

    for (uint e = LOCAL_INDEX(); e < TILE * TILE; e += GROUP_SIZE) {
        const uint i = i0 + e / TILE, j = j0 + e % TILE;
        if (i < p.m && j < p.n) {
            const uint at = (item * p.m + i) * p.n + j;
            float value = part_c[e];
            if (p.k_begin > 0u)
                value = LOAD(c, at) + value;
            if (p.k_end == p.k) {
                if (HAS_BIAS != 0)
                    value = value + LOAD(bias, j);
                value = activate(value);
            }
            STORE(c, at, value);
        }
    }
}
