/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* unary for CPUs with wide vectors: one invocation computes `each` elements, 16 at a time, with the text of unary but for
   gelu (gelu_wide.clh). Products and sums may be fused. */
GROUP(1, 1)
SPEC(0, OP)
PARAMS(uint n; float alpha; float beta; uint each;)

#include "part_wide.clh"

#pragma OPENCL FP_CONTRACT ON
#include "wide.clh"
#include "math.clh"
#include "trig.clh"
#include "elementwise/gelu_wide.clh"
#define m_gelu(x) g_gelu(x)
FN float function(float x, float alpha, float beta)
{
    float y = x;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#include "elementwise/unary.def"
    return y;
}
#include "narrow.clh"

KERNEL2(unary_wide, IN(float, from), OUT(float, to))
{
    const uint first = GROUP_INDEX() * p.each;
    if (first >= p.n)
        return;
    const uint end = min(p.n - first, p.each) + first;
    uint i = first;
    for (; i + 16 <= end; i += 16)
        store16(function(load16(from + i), p.alpha, p.beta), to + i);
    if (i < end)
        store_part(function(load_part(from, i, end), p.alpha, p.beta), to, i, end);
}
