/* SPDX-License-Identifier: MIT */
/* The derivatives of glu: dy value f'(gate) for the gate, dy f(gate) for the value. Rows of both are `to_stride` elements apart;
   those of the value begin at element `to_first`. */
GROUP(256, 1)
SPEC(0, OP)
PARAMS(uint n; uint cols; uint stride; uint first; uint to_stride; uint to_first; uint m; uint h;)

#include "divide.clh"
#include "math.clh"
#include "trig.clh"

KERNEL4(glu_grad, IN(real, gate), IN(real, value), IN(real, slope), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), col = i - row * p.cols, at = row * p.stride + col;
        const float x = LOAD(gate, at), alpha = 0.0f, beta = 0.0f, of_y = LOAD(slope, i);
        const float dy = of_y * LOAD(value, p.first + at);
        float y = x, dx = dy;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) { y = (f); dx = (g); }
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) { y = (f); dx = (g); }
#include "elementwise/unary.def"
        STORE(to, row * p.to_stride + col, dx);
        STORE(to, p.to_first + row * p.to_stride + col, of_y * y);
    }
}
