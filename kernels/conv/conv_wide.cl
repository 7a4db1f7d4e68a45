/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* Convolution for CPUs with wide vectors: one invocation keeps a tile of ROWS pixels of y and VECTORS * 16 outputs in
   registers. Weights are read in place, or from the panels that matmul_wide_pack makes. */
GROUP(1, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, GAPS)
SPEC(3, LOG_VECTORS)
PARAMS(uint pixels; uint in_h; uint in_w; uint in_c; uint out_h; uint out_w; uint out_c; uint taps_h; uint taps_w;
       uint stride_h; uint stride_w; int step_h; int step_w; int first_h; int first_w; uint gap_h; uint gap_w;
       uint group_in; uint group_out; uint panel; uint step;)

#include "conv/tile_wide.clh"
#include "part_wide.clh"
#include "conv/window.clh"
#include "elementwise/activation_wide.clh"

KERNEL4(conv_wide, IN(float, x), IN(float, weights), IN(float, bias), OUT(float, y))
{
    const uint tiles = (p.pixels + ROWS - 1) / ROWS;
    const uint panel = GROUP_INDEX() / tiles, first = GROUP_INDEX() % tiles * ROWS, o = panel * COLS;
    if (o >= p.out_c)
        return;
    const uint rows = min(p.pixels - first, ROWS), cols = min(p.out_c - o, COLS);
    __global const float *from = x + o / p.group_out * p.group_in;
    __global const float *panel_at = weights + (size_t)panel * p.panel;
    const size_t step = p.step;

    int h[ROWS], w[ROWS];
    uint image[ROWS];
    uint line = first / p.out_w, col = first - line * p.out_w;
    for (uint r = 0; r < ROWS; r++) { /* rows past the end repeat the last one */
        image[r] = line / p.out_h;
        h[r] = (int)((line - image[r] * p.out_h) * p.stride_h) + p.first_h;
        w[r] = (int)(col * p.stride_w) + p.first_w;
        image[r] *= p.in_h;
        if (r + 1 < rows && ++col == p.out_w) {
            col = 0;
            line++;
        }
    }

    /* Whether all windows of the tile lie inside of their images: then a tap is at one distance from each first one. */
    bool is_inside = GAPS == 0;
    size_t at[ROWS];
    const int end_h = (int)(p.taps_h - 1) * p.step_h, end_w = (int)(p.taps_w - 1) * p.step_w;
    EACH_ROW {
        is_inside &= (uint)h[r] < p.in_h && (uint)(h[r] + end_h) < p.in_h;
        is_inside &= (uint)w[r] < p.in_w && (uint)(w[r] + end_w) < p.in_w;
        at[r] = ((size_t)(image[r] + (uint)h[r]) * p.in_w + (uint)w[r]) * p.in_c;
    }

    float16 total[ROWS][VECTORS], sum[ROWS][VECTORS];
    CLEAR(total)
    CLEAR(sum)
    uint terms = 0;
    for (uint a = 0; a < p.taps_h; a++) {
        bool has_row[ROWS];
        size_t row[ROWS];
        if (!is_inside)
            EACH_ROW {
                const int place = h[r] + (int)a * p.step_h;
                has_row[r] = window_has(place, p.gap_h, p.in_h);
                row[r] = has_row[r] ? (size_t)(image[r] + window_at(place, p.gap_h)) * p.in_w : 0;
            }
        for (uint b = 0; b < p.taps_w; b++) {
            bool has[ROWS], has_all = true, has_any = is_inside;
            __global const float *tap = from;
            if (is_inside)
                tap += ((long)a * p.step_h * (long)p.in_w + (long)b * p.step_w) * (long)p.in_c;
            else
                EACH_ROW {
                    const int place = w[r] + (int)b * p.step_w;
                    has[r] = has_row[r] && window_has(place, p.gap_w, p.in_w);
                    has_all &= has[r];
                    has_any |= has[r];
                    at[r] = has[r] ? (row[r] + window_at(place, p.gap_w)) * p.in_c : 0;
                }
            for (uint c0 = 0; c0 < p.group_in; c0 += CHUNK) {
                const uint c1 = min(c0 + CHUNK, p.group_in);
                if (terms + c1 - c0 > CHUNK) {
                    ADD(total, sum)
                    CLEAR(sum)
                    terms = 0;
                }
                terms += c1 - c0;
                if (!has_any)
                    continue;
                __global const float *pw = panel_at + ((size_t)(a * p.taps_w + b) * p.group_in + c0) * step;
                if (has_all) {
#pragma unroll 1
                    for (uint c = c0; c < c1; c++, pw += step) {
                        float16 vw[VECTORS];
                        EACH_VECTOR vw[v] = vload16(v, pw);
                        EACH_ROW {
                            const float16 vx = (float16)(tap[at[r] + c]);
                            EACH_VECTOR sum[r][v] = fma(vx, vw[v], sum[r][v]);
                        }
                    }
                } else {
#pragma unroll 1
                    for (uint c = c0; c < c1; c++, pw += step) {
                        float16 vw[VECTORS];
                        EACH_VECTOR vw[v] = vload16(v, pw);
                        EACH_ROW if (has[r]) {
                            const float16 vx = (float16)(tap[at[r] + c]);
                            EACH_VECTOR sum[r][v] = fma(vx, vw[v], sum[r][v]);
                        }
                    }
                }
            }
        }
    }
    ADD(total, sum)

    if (HAS_BIAS) {
        EACH_VECTOR {
            const float16 add = load_part(bias + o, v * 16, cols);
            EACH_ROW total[r][v] += add;
        }
    }
    EACH_ROW EACH_VECTOR total[r][v] = activate(total[r][v]);

    __global float *to = y + (size_t)first * p.out_c + o;
    if (cols == COLS) {
        EACH_ROW if (r < rows) {
            EACH_VECTOR vstore16(total[r][v], v, to + (size_t)r * p.out_c);
        }
        return;
    }
    float edge[ROWS * COLS];
    EACH_ROW EACH_VECTOR vstore16(total[r][v], r * VECTORS + v, edge);
    for (uint r = 0; r < rows; r++)
        for (uint j = 0; j < cols; j++)
            to[(size_t)r * p.out_c + j] = edge[r * COLS + j];
}
