/* SPDX-License-Identifier: MIT */
/* conv for GPUs, as the product of a matrix [pixels of y, taps and channels], read from x, and the weights, for each
   group of channels: see product/tile.clh. matmul_join adds the parts, the bias and the activation.
   TURNED: the weights are [taps, outputs of a group, in_c]. IN_QUADS: 1 the channels of a group are whole quads, 2 its
   outputs, 3 both; others are read element by element. */
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, GAPS)
SPEC(3, TURNED)
SPEC(4, SHAPE)
SPEC(5, IN_QUADS)
PARAMS(uint m; uint k; uint in_h; uint in_w; uint in_c; uint out_h; uint out_w; uint out_c; uint taps_w; uint stride_h;
       uint stride_w; int step_h; int step_w; int first_h; int first_w; uint gap_h; uint gap_w; uint group_in;
       uint group_out; uint groups; uint part; uint parts; uint in_m; uint in_by; uint taps_m; uint taps_by;)
QUAD_VIEW(0, x)
QUAD_VIEW(1, weights)
GROUP_ARRAY(QUAD, strips, 1090)

#include "elementwise/activation.clh"
#include "conv/window.clh"
#include "divide.clh"
#include "product/tile.clh"
#include "conv/conv_tile.clh"

#define COLUMNS p.group_out
#define PLACE(i) ((piece * p.m + (i)) * p.out_c + item * p.group_out)
#define FINISH(j)                                                                                  \
    if (HAS_BIAS != 0)                                                                             \
        value = value + LOAD(bias, item * p.group_out + j);                                        \
    value = activate(value);

/* The tap and the channel of term `kk`. */
#define TERM(kk) const uint tap = QUOTIENT(kk, p.in_m, p.in_by), channel = (kk) - tap * p.group_in;

#define OF_X(OF, value, n, OF_WINDOW)                                                              \
    {                                                                                              \
        const uint term = MIN(kk + n, p.k - 1u);                                                   \
        TERM(term)                                                                                 \
        const uint tap_h = QUOTIENT(tap, p.taps_m, p.taps_by), tap_w = tap - tap_h * p.taps_w;     \
        const int h = at_h[u] + TO_I32(tap_h) * p.step_h, w = at_w[u] + TO_I32(tap_w) * p.step_w;  \
        const bool is_inside = window_has(h, p.gap_h, p.in_h) && window_has(w, p.gap_w, p.in_w);   \
        const uint place = at_x[u] + (window_at(h, p.gap_h) * p.in_w + window_at(w, p.gap_w)) * p.in_c + channel; \
        OF(value, is_inside, place, OF_WINDOW)                                                     \
    }
#define FETCH_X(OF_WINDOW)                                                                         \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_M); u++) {                                            \
        const uint kk = at + QUAD_OF(u, TILE_M) % (STRIP / 4u) * 4u;                               \
        QUAD value;                                                                                \
        if (IN_QUADS % 2 != 0) {                                                                   \
            OF_X(QUAD_OF_A, value, 0u, OF_WINDOW)                                                  \
        } else {                                                                                   \
            OF_X(ELEMENT_OF_A, value.x, 0u, OF_WINDOW)                                             \
            OF_X(ELEMENT_OF_A, value.y, 1u, OF_WINDOW)                                             \
            OF_X(ELEMENT_OF_A, value.z, 2u, OF_WINDOW)                                             \
            OF_X(ELEMENT_OF_A, value.w, 3u, OF_WINDOW)                                             \
            value.y = PICK(kk + 1u < k_end, value.y, 0.0f);                                        \
            value.z = PICK(kk + 2u < k_end, value.z, 0.0f);                                        \
            value.w = PICK(kk + 3u < k_end, value.w, 0.0f);                                        \
        }                                                                                          \
        next_a[u] = PICK_QUAD(kk < k_end, value, TO_QUAD(0.0f));                                   \
    }

/* A row of the weights of a tap has in_c elements; a group reads its own. */
#define PLACE_TURNED(n)                                                                            \
    {                                                                                              \
        const uint term = MIN(kk + n, p.k - 1u);                                                   \
        TERM(term)                                                                                 \
        from = (tap * p.group_out + o) * p.in_c + item * p.group_in + channel;                     \
    }
#define FETCH_TURNED                                                                               \
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_N); u++) {                                            \
        const uint e = QUAD_OF(u, TILE_N);                                                         \
        const uint kk = at + e % (STRIP / 4u) * 4u, o = MIN(j0 + e / (STRIP / 4u), p.group_out - 1u); \
        uint from;                                                                                 \
        QUAD value;                                                                                \
        PLACE_TURNED(0u)                                                                           \
        if (IN_QUADS % 2 != 0)                                                                     \
            value = LOAD_QUAD(weights, from / 4u);                                                 \
        else {                                                                                     \
            value.x = LOAD(weights, from);                                                         \
            PLACE_TURNED(1u)                                                                       \
            value.y = PICK(kk + 1u < k_end, LOAD(weights, from), 0.0f);                            \
            PLACE_TURNED(2u)                                                                       \
            value.z = PICK(kk + 2u < k_end, LOAD(weights, from), 0.0f);                            \
            PLACE_TURNED(3u)                                                                       \
            value.w = PICK(kk + 3u < k_end, LOAD(weights, from), 0.0f);                            \
        }                                                                                          \
        next_b[u] = PICK_QUAD(kk < k_end, value, TO_QUAD(0.0f));                                   \
    }

#define FETCH_STRIP(OF_WINDOW)                                                                     \
    FETCH_X(OF_WINDOW)                                                                             \
    if (TURNED != 0) {                                                                             \
        FETCH_TURNED                                                                               \
    } else {                                                                                       \
        FETCH(next_b, weights, false, IN_QUADS / 2 != 0, item * p.group_out, p.out_c, p.group_out, j0, TILE_N) \
    }

KERNEL4(conv_tile, IN(real, x), IN(real, weights), IN(real, bias), OUT(real, c))
{
    GROUP_ARRAY_HERE(QUAD, strips, 1090)
    FIND_TILE(p.groups)
    /* Where the windows of the pixels begin whose elements an invocation loads. */
    int at_h[4], at_w[4];
    uint at_x[4];
    UNROLL for (uint u = 0u; u < ROUNDS(TILE_M); u++) {
        const uint pixel = MIN(i0 + QUAD_OF(u, TILE_M) / (STRIP / 4u), p.m - 1u), line = pixel / p.out_w;
        const uint image = line / p.out_h;
        at_h[u] = TO_I32((line - image * p.out_h) * p.stride_h) + p.first_h;
        at_w[u] = TO_I32((pixel - line * p.out_w) * p.stride_w) + p.first_w;
        at_x[u] = image * p.in_h * p.in_w * p.in_c + item * p.group_in;
    }
    SUM_ALL(true, TURNED != 0)
}
