/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* glu for CPUs with wide vectors: an invocation computes `each` rows, 16 elements at a time, with the text of glu but for gelu
   (gelu_wide.clh). Products and sums may be fused. */
GROUP(1, 1)
SPEC(0, OP)
PARAMS(uint n; uint cols; uint stride; uint first; uint each;)

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

KERNEL3(glu_wide, IN(float, gate), IN(float, value), OUT(float, to))
{
    const uint rows = p.n / p.cols, first = GROUP_INDEX() * p.each;
    if (first >= rows)
        return;
    const uint end = min(rows - first, p.each) + first;
    for (uint row = first; row < end; row++) {
        __global const float *x = gate + row * p.stride, *v = value + p.first + row * p.stride;
        __global float *y = to + row * p.cols;
        uint i = 0;
        for (; i + 16 <= p.cols; i += 16)
            store16(function(load16(x + i), 0.0f, 0.0f) * load16(v + i), y + i);
        if (i < p.cols)
            store_part(function(load_part(x, i, p.cols), 0.0f, 0.0f) * load_part(v, i, p.cols), y, i, p.cols);
    }
}
