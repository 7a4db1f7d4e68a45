/* SPDX-License-Identifier: MIT */
/* Convolution y = f(x * weights + bias) of images [n, h, w, channels] with weights [taps, taps, channels of a group,
   outputs]: an invocation computes one element of y. The geometry of an axis is that of window.clh, so that the gradient
   of x and a transposed convolution are launches of this kernel. Elements outside of x take no part. A part of the channels that starts at c_begin > 0
   adds to the content of y. */
GROUP(64, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, GAPS)
PARAMS(uint count; uint in_h; uint in_w; uint in_c; uint out_h; uint out_w; uint out_c; uint taps_h; uint taps_w;
       uint stride_h; uint stride_w; int step_h; int step_w; int first_h; int first_w; uint gap_h; uint gap_w;
       uint group_in; uint group_out; uint c_begin; uint c_end;)

#include "elementwise/activation.clh"
#include "conv/window.clh"
#include "by_four.clh"

#define CHUNK 256u /* longest chain of additions */

KERNEL4(conv, IN(real, x), IN(real, weights), IN(real, bias), OUT(real, y))
{
    const uint i = INDEX();
    if (i >= p.count)
        return;
    const uint pixel = i / p.out_c, o = i - pixel * p.out_c;
    const uint line = pixel / p.out_w, image = line / p.out_h;
    const int place_h = TO_I32((line - image * p.out_h) * p.stride_h) + p.first_h;
    const int place_w = TO_I32((pixel - line * p.out_w) * p.stride_w) + p.first_w;
    const uint channel = o / p.group_out * p.group_in;

    EXACT float total = 0.0f;
    EXACT float sum = 0.0f;
    uint terms = 0u;
    for (uint a = 0u; a < p.taps_h; a++) {
        const int h = place_h + TO_I32(a) * p.step_h;
        const bool has_row = window_has(h, p.gap_h, p.in_h);
        for (uint b = 0u; b < p.taps_w; b++) {
            const int w = place_w + TO_I32(b) * p.step_w;
            const bool is_inside = has_row && window_has(w, p.gap_w, p.in_w);
            for (uint c0 = p.c_begin; c0 < p.c_end; c0 += CHUNK) {
                const uint c1 = MIN(c0 + CHUNK, p.c_end);
                if (terms + c1 - c0 > CHUNK) {
                    total = total + sum;
                    sum = 0.0f;
                    terms = 0u;
                }
                terms += c1 - c0;
                if (is_inside) {
                    const uint from = ((image * p.in_h + window_at(h, p.gap_h)) * p.in_w + window_at(w, p.gap_w)) *
                                          p.in_c + channel;
                    const uint at = (a * p.taps_w + b) * p.group_in * p.out_c + o;
                    BY_FOUR(c, c0, c1, 1u, sum = FMA(LOAD(x, from + c), LOAD(weights, at + c * p.out_c), sum);)
                }
            }
        }
    }
    float value = total + sum;
    if (p.c_begin > 0u)
        value = LOAD(y, i) + value;
    if (p.c_end == p.group_in) {
        if (HAS_BIAS != 0)
            value = value + LOAD(bias, o);
        value = activate(value);
    }
    STORE(y, i, value);
}
