/* SPDX-License-Identifier: MIT */
/* conv_weight for GPUs, as the product of the transpose of a matrix [pixels of dy, taps and channels], read from x, and
   dy, for each group of channels: see product/tile.clh. Parts of the pixels have sums of their own [parts, weights].
   IN_QUADS: 1 the channels of a group are whole quads, 2 its outputs, 3 both; others are read element by element. */
GROUP(256, 1)
SPEC(0, GAPS)
SPEC(1, SHAPE)
SPEC(2, IN_QUADS)
PARAMS(uint m; uint k; uint in_h; uint in_w; uint in_c; uint out_h; uint out_w; uint out_c; uint taps_w; uint stride_h;
       uint stride_w; int step_h; int step_w; int first_h; int first_w; uint gap_h; uint gap_w; uint group_in;
       uint group_out; uint groups; uint part; uint parts; uint line_m; uint line_by; uint image_m; uint image_by;)
QUAD_VIEW(0, x)
QUAD_VIEW(1, dy)
GROUP_ARRAY(QUAD, strips, 1090)

#include "conv/window.clh"
#include "divide.clh"
#include "product/tile.clh"
#include "conv/conv_tile.clh"

#define COLUMNS p.group_out
#define PLACE(i) ((piece * p.m + (i)) * p.out_c + item * p.group_out)
#define FINISH(j)

/* Elements that an invocation loads from x together: all of a quad are of one tap, or each has its own. */
#define TOGETHER (IN_QUADS % 2 != 0 ? 1u : 4u)

#define OF_X(OF, value, n, OF_WINDOW)                                                              \
    {                                                                                              \
        const int h = TO_I32(row * p.stride_h) + at_h[4u * u + n], w = TO_I32(col * p.stride_w) + at_w[4u * u + n]; \
        const bool is_inside = window_has(h, p.gap_h, p.in_h) && window_has(w, p.gap_w, p.in_w);   \
        const uint line_of_x = image * p.in_h + window_at(h, p.gap_h);                             \
        const uint place = (line_of_x * p.in_w + window_at(w, p.gap_w)) * p.in_c + at_x[4u * u + n]; \
        OF(value, is_inside, place, OF_WINDOW)                                                     \
    }
#define FETCH_STRIP(OF_WINDOW)                                                                     \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_M); u++) {                                            \
        const uint kk = at + QUAD_OF(u, TILE_M) / (TILE_M / 4u), pixel = MIN(kk, p.k - 1u);        \
        const uint line = QUOTIENT(pixel, p.line_m, p.line_by), col = pixel - line * p.out_w;      \
        const uint image = QUOTIENT(line, p.image_m, p.image_by), row = line - image * p.out_h;    \
        QUAD value;                                                                                \
        if (IN_QUADS % 2 != 0) {                                                                   \
            OF_X(QUAD_OF_A, value, 0u, OF_WINDOW)                                                  \
        } else {                                                                                   \
            OF_X(ELEMENT_OF_A, value.x, 0u, OF_WINDOW)                                             \
            OF_X(ELEMENT_OF_A, value.y, 1u, OF_WINDOW)                                             \
            OF_X(ELEMENT_OF_A, value.z, 2u, OF_WINDOW)                                             \
            OF_X(ELEMENT_OF_A, value.w, 3u, OF_WINDOW)                                             \
        }                                                                                          \
        next_a[u] = PICK_QUAD(kk < k_end, value, TO_QUAD(0.0f));                                   \
    }                                                                                              \
    FETCH(next_b, dy, false, IN_QUADS / 2 != 0, item * p.group_out, p.out_c, p.group_out, j0, TILE_N)

KERNEL3(conv_weight_tile, IN(real, x), IN(real, dy), OUT(real, c))
{
    GROUP_ARRAY_HERE(QUAD, strips, 1090)
    FIND_TILE(p.groups)
    /* The tap and the channel of each row of the tile that an invocation loads. */
    int at_h[16], at_w[16];
    uint at_x[16];
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_M); u++) {
        UNROLL for (uint n = 0u; n < TOGETHER; n++) {
            const uint i = MIN(i0 + QUAD_OF(u, TILE_M) % (TILE_M / 4u) * 4u + n, p.m - 1u), tap = i / p.group_in;
            const uint tap_h = tap / p.taps_w;
            at_h[4u * u + n] = TO_I32(tap_h) * p.step_h + p.first_h;
            at_w[4u * u + n] = TO_I32(tap - tap_h * p.taps_w) * p.step_w + p.first_w;
            at_x[4u * u + n] = item * p.group_in + i - tap * p.group_in;
        }
    }
    SUM_ALL(false, false)
}
