/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* glu_grad for CPUs with wide vectors: as glu_wide. */
GROUP(1, 1)
SPEC(0, OP)
PARAMS(uint n; uint cols; uint stride; uint first; uint to_stride; uint to_first; uint each;)

#include "part_wide.clh"

#pragma OPENCL FP_CONTRACT ON
#include "wide.clh"
#include "math.clh"
#include "trig.clh"
#include "elementwise/gelu_wide.clh"
#define m_gelu(x) g_gelu(x)
#define m_gelu_grad(x, dy) g_gelu_grad(x, dy)
FN float function(float x, float alpha, float beta)
{
    float y = x;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) y = (f);
#include "elementwise/unary.def"
#undef UNARY
#undef SCALED
    return y;
}
FN float slope_of(float x, float dy, float alpha, float beta)
{
    float dx = dy;
#define UNARY(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) dx = (g);
#define SCALED(name, id, f, g, ref, ref_g, low, high, ulp, ulp_g, class) if (OP == id) dx = (g);
#include "elementwise/unary.def"
    return dx;
}
#include "narrow.clh"

KERNEL4(glu_grad_wide, IN(float, gate), IN(float, value), IN(float, slope), OUT(float, to))
{
    const uint rows = p.n / p.cols, first = GROUP_INDEX() * p.each;
    if (first >= rows)
        return;
    const uint end = min(rows - first, p.each) + first;
    for (uint row = first; row < end; row++) {
        __global const float *x = gate + row * p.stride, *v = value + p.first + row * p.stride, *dy = slope + row * p.cols;
        __global float *dx = to + row * p.to_stride, *dv = dx + p.to_first;
        uint i = 0;
        for (; i + 16 <= p.cols; i += 16) {
            const float16 vx = load16(x + i), vy = load16(dy + i);
            store16(slope_of(vx, vy * load16(v + i), 0.0f, 0.0f), dx + i);
            store16(vy * function(vx, 0.0f, 0.0f), dv + i);
        }
        if (i < p.cols) {
            const float16 vx = load_part(x, i, p.cols), vy = load_part(dy, i, p.cols);
            store_part(slope_of(vx, vy * load_part(v, i, p.cols), 0.0f, 0.0f), dx, i, p.cols);
            store_part(vy * function(vx, 0.0f, 0.0f), dv, i, p.cols);
        }
    }
}
