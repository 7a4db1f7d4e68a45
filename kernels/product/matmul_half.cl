/* SPDX-License-Identifier: MIT */
/* matmul of two operands of 16 bits, which are converted when they are loaded: the sums have the bits of matmul with
   operands that were converted before. Item i of the batch reads the matrix i / each % count of an operand. */
GROUP(16, 16)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
SPEC(4, IS_BFLOAT)
PARAMS(uint m; uint n; uint k; uint k_begin; uint k_end; uint batch; uint a_each; uint a_count; uint b_each;
       uint b_count;)

#include "elementwise/activation.clh"
#include "half.clh"

#define REPEATS 1
#define A_OR(i, last, inside, z) LOAD_16_OR(a, i, last, inside, z)
#define B_OR(i, last, inside, z) LOAD_16_OR(b, i, last, inside, z)
#define FINISH(v, j) activate(SELECT(HAS_BIAS != 0, (v) + LOAD(bias, j), v))
/* One more than the tile: neighbours along k must not fall on one bank. */
GROUP_ARRAY(float, part_a, 16 * (4 * GROUP_Y + 1))
GROUP_ARRAY(float, part_b, 16 * (4 * GROUP_X + 1))

KERNEL4(matmul_half, IN(int, a), IN(int, b), IN(real, bias), OUT(real, c))
{
    GROUP_ARRAY_HERE(float, part_a, 16 * (4 * GROUP_Y + 1))
    GROUP_ARRAY_HERE(float, part_b, 16 * (4 * GROUP_X + 1))
#include "product/matmul.clh"
}
