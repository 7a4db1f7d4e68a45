/* SPDX-License-Identifier: MIT */
/* y = f(gate) * value for rows of `cols` elements; f is a row of unary.def, or x itself. Rows of gate and value are `stride`
   elements apart; values begin at element `first`. */
GROUP(256, 1)
SPEC(0, OP)
PARAMS(uint n; uint cols; uint stride; uint first; uint m; uint h;)

#include "divide.clh"
#include "math.clh"
#include "trig.clh"

KERNEL3(glu, IN(real, gate), IN(real, value), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), at = row * p.stride + (i - row * p.cols);
        const float x = LOAD(gate, at), alpha = 0.0f, beta = 0.0f;
        float y = x;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#include "elementwise/unary.def"
        STORE(to, i, y * LOAD(value, p.first + at));
    }
}
