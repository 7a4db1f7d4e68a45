/* SPDX-License-Identifier: MIT */
/* y = f(x), element by element; f is a row of unary.def, chosen when the kernel is compiled. */
GROUP(256, 1)
SPEC(0, OP)
PARAMS(uint n; float alpha; float beta;)

#include "math.clh"
#include "trig.clh"

KERNEL2(unary, IN(real, from), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const float x = LOAD(from, i), alpha = p.alpha, beta = p.beta;
        float y = x;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#include "elementwise/unary.def"
        STORE(to, i, y);
    }
}
