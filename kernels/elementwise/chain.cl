/* SPDX-License-Identifier: MIT */
/* Up to four functions in a row, element by element: v = x, then v = f(v, b) for each link, where b is the operand of the
   link, and y = the last v. Each result is rounded, so that it has the bits of a launch of its own. A link is a constant:
   the function, 16 times where b is (0: at i, 1: a single element, 2: at the rest of i / period), and 64 where v is the
   second operand. 0: there is no link. */
GROUP(256, 1)
SPEC(0, FIRST)
SPEC(1, SECOND)
SPEC(2, THIRD)
SPEC(3, FOURTH)
PARAMS(uint n; uint period; uint m; uint h; float alpha0; float alpha1; float alpha2; float alpha3;)

#include "divide.clh"

#define ADD    1
#define SUB    2
#define MUL    3
#define SLOPE  4 /* v where b, a relu, is above 0, else 0 */
#define RELU   5
#define SCALE  6 /* by alpha */
#define SQUARE 7

FN float chain_link(int link, float v, float b, float alpha)
{
    const float one = SELECT(link > 63, b, v), two = SELECT(link > 63, v, b);
    const int f = link % 16;
    EXACT float y = v;
    if (f == ADD)
        y = one + two;
    if (f == SUB)
        y = one - two;
    if (f == MUL)
        y = one * two;
    if (f == SLOPE)
        y = SELECT(b > 0.0f, v, 0.0f);
    if (f == RELU)
        y = SELECT(v <= 0.0f, 0.0f, v);
    if (f == SCALE)
        y = alpha * v;
    if (f == SQUARE)
        y = v * v;
    return y;
}

#define MODE(link) (link / 16 % 4)
#define LINK(link, operand, alpha)                                                                 \
    if (link > 0) {                                                                                \
        float b = v;                                                                               \
        if (link % 16 < RELU)                                                                      \
            b = LOAD(operand, SELECT(MODE(link) == 0, i, SELECT(MODE(link) == 1, 0u, place)));     \
        v = chain_link(link, v, b, alpha);                                                         \
    }

KERNEL6(chain, IN(real, x), IN(real, first), IN(real, second), IN(real, third), IN(real, fourth), OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint place = i - QUOTIENT(i, p.m, p.h) * p.period;
        EXACT float v = LOAD(x, i);
        LINK(FIRST, first, p.alpha0)
        LINK(SECOND, second, p.alpha1)
        LINK(THIRD, third, p.alpha2)
        LINK(FOURTH, fourth, p.alpha3)
        STORE(y, i, v);
    }
}
