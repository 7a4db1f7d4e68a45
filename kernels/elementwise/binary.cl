/* SPDX-License-Identifier: MIT */
/* y = f(a, b), element by element with broadcasting; f is a row of binary.def. */
GROUP(256, 1)
SPEC(0, OP)
SPEC(1, A_MODE)
SPEC(2, B_MODE)
SPEC(3, RANK)
PARAMS(uint n; uint d0; uint d1; uint d2; uint d3; uint d4;
       uint m0; uint m1; uint m2; uint m3; uint m4;
       uint h0; uint h1; uint h2; uint h3; uint h4;
       uint a0; uint a1; uint a2; uint a3; uint a4; uint a5;
       uint b0; uint b1; uint b2; uint b3; uint b4; uint b5;)

#include "elementwise/binary.clh"

KERNEL3(binary, IN(real, first), IN(real, second), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        OPERANDS(i)
        const float a = LOAD(first, ia), b = LOAD(second, ib);
        float y = a;
#define BINARY(name, id, f, da, db, ref, ref_a, ref_b, ulp, ulp_g, class) if (OP == id) y = (f);
#define COMPARE(name, id, f) if (OP == id) y = SELECT(f, 1.0f, 0.0f);
#include "elementwise/binary.def"
        STORE(to, i, y);
    }
}
