/* SPDX-License-Identifier: MIT */
/* dy * df/da (SIDE 0) or dy * df/db (SIDE 1), of the size of the broadcast result; f is a row of
   binary.def. */
GROUP(256, 1)
SPEC(0, OP)
SPEC(1, A_MODE)
SPEC(2, B_MODE)
SPEC(3, RANK)
SPEC(4, SIDE)
PARAMS(uint n; uint d0; uint d1; uint d2; uint d3; uint d4;
       uint m0; uint m1; uint m2; uint m3; uint m4;
       uint h0; uint h1; uint h2; uint h3; uint h4;
       uint a0; uint a1; uint a2; uint a3; uint a4; uint a5;
       uint b0; uint b1; uint b2; uint b3; uint b4; uint b5;)

#include "elementwise/binary.clh"

KERNEL4(binary_grad, IN(real, first), IN(real, second), IN(real, slope), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        OPERANDS(i)
        const float a = LOAD(first, ia), b = LOAD(second, ib), dy = LOAD(slope, i);
        float d = dy;
#define BINARY(name, id, f, da, db, ref, ref_a, ref_b, ulp, ulp_g, class)                          \
    if (OP == id && SIDE == 0)                                                                     \
        d = (da);                                                                                  \
    if (OP == id && SIDE == 1)                                                                     \
        d = (db);
#define COMPARE(name, id, f)
#include "elementwise/binary.def"
        STORE(to, i, d);
    }
}
