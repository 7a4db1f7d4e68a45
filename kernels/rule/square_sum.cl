/* SPDX-License-Identifier: MIT */
/* Sums of squares of blocks of 128 elements: parts[2 b] = sum of (x / parts[2 b + 1])^2 over block b, where
   parts[2 b + 1] is the power of two of its largest element. So no finite element overflows or vanishes. Elements
   below 2^-126 count as 0. A block with an element that is not finite has a sum that is not. One invocation for each
   block, in one fixed order: the bits are the same on every device. */
GROUP(64, 1)
PARAMS(uint n;)

KERNEL2(square_sum, IN(real, grad), OUT(real, parts))
{
    const uint first = INDEX() * 128u;
    if (first < p.n) {
        const uint end = MIN(first + 128u, p.n);
        uint most = 0u;
        for (uint i = first; i < end; i++)
            most = MAX(most, AS_UINT(LOAD(grad, i)) & 0x7f800000u);
        const uint up = SELECT(most == 0u || most == 0x7f800000u, 0x3f800000u, MIN(most, 0x7e800000u));
        const float down = AS_FLOAT(0x7f000000u - up);
        EXACT float sum = 0.0f;
        for (uint k = 0u; k < 4u; k++) {
            EXACT float part = 0.0f;
            for (uint i = first + k; i < end; i += 4u) {
                const float g = LOAD(grad, i);
                EXACT float x = SELECT((AS_UINT(g) & 0x7f800000u) == 0u, 0.0f, g) * down;
                EXACT float square = x * x;
                part = part + square;
            }
            sum = sum + part;
        }
        STORE(parts, 2u * INDEX(), sum);
        STORE(parts, 2u * INDEX() + 1u, AS_FLOAT(up));
    }
}
