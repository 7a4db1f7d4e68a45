/* SPDX-License-Identifier: MIT */
/* Gradient of the weights of a convolution, partial sums [parts, weights]: an invocation sums x dy over `part` pixels of
   dy for one weight. The geometry of an axis is that of window.clh. */
GROUP(64, 1)
SPEC(0, GAPS)
PARAMS(uint count; uint pixels; uint part; uint weights; uint in_h; uint in_w; uint in_c; uint out_h; uint out_w;
       uint out_c; uint taps_w; uint stride_h; uint stride_w; int step_h; int step_w; int first_h; int first_w;
       uint gap_h; uint gap_w; uint group_in; uint group_out;)

#include "conv/window.clh"
#include "by_four.clh"

#define CHUNK 256u /* longest chain of additions */

/* Adds a pixel of dy, and goes to the next one. Outside of x an element is loaded, too, but not added. */
#define PIXEL                                                                                      \
    const int h = TO_I32(y * p.stride_h) + place_h, w = TO_I32(col * p.stride_w) + place_w;        \
    const bool is_inside = window_has(h, p.gap_h, p.in_h) && window_has(w, p.gap_w, p.in_w);       \
    const uint place = (image * p.in_h + window_at(h, p.gap_h)) * p.in_w + window_at(w, p.gap_w);  \
    const float value = LOAD(x, SELECT(is_inside, place, 0u) * p.in_c + channel);                  \
    const float more = FMA(value, LOAD(dy, pixel * p.out_c + o), sum);                             \
    sum = PICK(is_inside, more, sum);                                                              \
    col++;                                                                                         \
    const bool is_line = col == p.out_w;                                                           \
    col = SELECT(is_line, 0u, col);                                                                \
    y += SELECT(is_line, 1u, 0u);                                                                  \
    const bool is_image = y == p.out_h;                                                            \
    y = SELECT(is_image, 0u, y);                                                                   \
    image += SELECT(is_image, 1u, 0u);

KERNEL3(conv_weight, IN(real, x), IN(real, dy), OUT(real, sums))
{
    const uint i = INDEX();
    if (i >= p.count)
        return;
    const uint index = i / p.weights, weight = i - index * p.weights;
    const uint row = weight / p.out_c, o = weight - row * p.out_c;
    const uint tap = row / p.group_in, a = tap / p.taps_w;
    const uint channel = o / p.group_out * p.group_in + row - tap * p.group_in;
    const int place_h = TO_I32(a) * p.step_h + p.first_h;
    const int place_w = TO_I32(tap - a * p.taps_w) * p.step_w + p.first_w;

    const bool is_empty = p.in_h == 0u || p.in_w == 0u; /* no element of x can be loaded */
    const uint begin = index * p.part, end = begin + SELECT(is_empty, 0u, MIN(p.part, p.pixels - begin));
    uint line = begin / p.out_w, col = begin - line * p.out_w;
    uint image = line / p.out_h;
    uint y = line - image * p.out_h;
    EXACT float total = 0.0f;
    for (uint from = begin; from < end; from += CHUNK) {
        EXACT float sum = 0.0f;
        const uint to = MIN(from + CHUNK, end);
        BY_FOUR(pixel, from, to, 1u, PIXEL)
        total = total + sum;
    }
    STORE(sums, i, total);
}
