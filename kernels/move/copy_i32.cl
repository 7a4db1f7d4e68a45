/* SPDX-License-Identifier: MIT */
/* Strided copy of integers: gathers n elements from offset + strides, or (SCATTER) writes them there. Used by
   broadcast, transpose, slice and concat. */
GROUP(256, 1)
SPEC(0, RANK)
SPEC(1, SCATTER)
PARAMS(uint n; uint offset; uint d0; uint d1; uint d2; uint d3; uint d4;
       uint m0; uint m1; uint m2; uint m3; uint m4;
       uint h0; uint h1; uint h2; uint h3; uint h4;
       uint s0; uint s1; uint s2; uint s3; uint s4; uint s5;)

#include "move/strided.clh"

KERNEL2(copy_i32, IN(int, from), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        STRIDED(inside, i, p.s0, p.s1, p.s2, p.s3, p.s4, p.s5)
        const uint at = p.offset + inside;
        if (SCATTER != 0)
            to[at] = from[i];
        if (SCATTER == 0)
            to[i] = from[at];
    }
}
