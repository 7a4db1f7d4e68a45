/* SPDX-License-Identifier: MIT */
/* dx = dy * f'(x), element by element; f is a row of unary.def. */
GROUP(256, 1)
SPEC(0, OP)
PARAMS(uint n; float alpha; float beta;)

#include "math.clh"
#include "trig.clh"

KERNEL3(unary_grad, IN(real, from), IN(real, slope), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const float x = LOAD(from, i), dy = LOAD(slope, i), alpha = p.alpha, beta = p.beta;
        float dx = dy;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) dx = (g);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) dx = (g);
#include "elementwise/unary.def"
        STORE(to, i, dx);
    }
}
