/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* unary_grad for CPUs with wide vectors: as unary_wide. */
GROUP(1, 1)
SPEC(0, OP)
PARAMS(uint n; float alpha; float beta; uint each;)

#include "part_wide.clh"

#pragma OPENCL FP_CONTRACT ON
#include "wide.clh"
#include "math.clh"
#include "trig.clh"
#include "elementwise/gelu_wide.clh"
#define m_gelu_grad(x, dy) g_gelu_grad(x, dy)
FN float slope_of(float x, float dy, float alpha, float beta)
{
    float dx = dy;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) dx = (g);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) dx = (g);
#include "elementwise/unary.def"
    return dx;
}
#include "narrow.clh"

KERNEL3(unary_grad_wide, IN(float, from), IN(float, slope), OUT(float, to))
{
    const uint first = GROUP_INDEX() * p.each;
    if (first >= p.n)
        return;
    const uint end = min(p.n - first, p.each) + first;
    uint i = first;
    for (; i + 16 <= end; i += 16)
        store16(slope_of(load16(from + i), load16(slope + i), p.alpha, p.beta), to + i);
    if (i < end)
        store_part(slope_of(load_part(from, i, end), load_part(slope, i, end), p.alpha, p.beta), to, i, end);
}
