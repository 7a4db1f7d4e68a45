/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* conv_weight for CPUs with wide vectors and geometries without gaps: one invocation keeps ROWS rows of the gradient,
   [taps * channels, outputs], and VECTORS * 16 outputs in registers, and sums over `part` pixels. All pixels of a row
   whose element of x exists form a range, so only pixels at edges are tested. */
GROUP(1, 1)
SPEC(0, LOG_VECTORS)
PARAMS(uint pixels; uint part; uint parts; uint rows; uint in_h; uint in_w; uint in_c; uint out_h; uint out_w; uint out_c;
       uint taps_w; uint stride_h; uint stride_w; int step_h; int step_w; int first_h; int first_w; uint group_in;
       uint group_out;)

#include "conv/tile_wide.clh"
#include "part_wide.clh"

/* Pixels from `lo` to `hi` of a line, where only some rows may have an element of x. */
#define EDGE(lo, hi)                                                                                        \
    for (uint col = lo; col < (hi); col++) {                                                                \
        const long base = line_x + (long)col * x_step;                                                      \
        __global const float *pd = line_dy + (size_t)col * p.out_c;                                         \
        float16 vd[VECTORS];                                                                                \
        EACH_VECTOR vd[v] = load_part(pd, v * 16, cols);                                                    \
        EACH_ROW if (has_line[r] && (uint)((int)(col * p.stride_w) + w[r]) < p.in_w) {                      \
            const float16 vx = (float16)(x[base + at[r]]);                                                  \
            EACH_VECTOR sum[r][v] = fma(vx, vd[v], sum[r][v]);                                              \
        }                                                                                                   \
    }

KERNEL3(conv_weight_wide, IN(float, x), IN(float, dy), OUT(float, sums))
{
    const uint tiles = (p.rows + ROWS - 1) / ROWS, panels = (p.out_c + COLS - 1) / COLS;
    const uint part = GROUP_INDEX() / (tiles * panels), tile = GROUP_INDEX() % (tiles * panels);
    if (part >= p.parts)
        return;
    const uint o = tile / tiles * COLS, first = tile % tiles * ROWS;
    const uint rows = min(p.rows - first, ROWS), cols = min(p.out_c - o, COLS);

    /* For each row the place of its element of x relative to that of a pixel, and the columns of pixels that have one. */
    int h[ROWS], w[ROWS];
    long at[ROWS];
    uint all_lo = 0, all_hi = p.out_w;
    for (uint r = 0; r < ROWS; r++) { /* rows past the end repeat the last one */
        const uint row = first + min(r, rows - 1), tap = row / p.group_in, a = tap / p.taps_w;
        h[r] = (int)a * p.step_h + p.first_h;
        w[r] = (int)(tap - a * p.taps_w) * p.step_w + p.first_w;
        at[r] = ((long)h[r] * p.in_w + w[r]) * p.in_c + o / p.group_out * p.group_in + row - tap * p.group_in;
        all_lo = max(all_lo, w[r] >= 0 ? 0 : ((uint)-w[r] + p.stride_w - 1) / p.stride_w);
        all_hi = min(all_hi, w[r] >= (int)p.in_w ? 0 : ((uint)((int)p.in_w - 1 - w[r])) / p.stride_w + 1);
    }

    const uint begin = part * p.part, end = begin + min(p.part, p.pixels - begin);
    const long x_step = (long)p.stride_w * p.in_c;
    /* Where vectors of dy at o may read past a pixel: not past the last one. */
    const ulong past = cols == COLS ? 0 : (COLS - cols + p.out_c - 1) / p.out_c;
    const uint whole = past < p.pixels ? p.pixels - (uint)past : 0;

    float16 total[ROWS][VECTORS];
    CLEAR(total)
#pragma unroll 1
    for (uint from = begin; from < end; from += CHUNK) {
        const uint to = min(from + CHUNK, end);
        float16 sum[ROWS][VECTORS];
        CLEAR(sum)
        for (uint pixel = from; pixel < to;) {
            const uint line = pixel / p.out_w, begin_col = pixel - line * p.out_w;
            const uint end_col = begin_col + min(p.out_w - begin_col, to - pixel);
            const uint image = line / p.out_h, line_h = (line - image * p.out_h) * p.stride_h;
            const long line_x = ((long)image * p.in_h + line_h) * p.in_w * p.in_c;
            const uint line_first = line * p.out_w;
            __global const float *line_dy = dy + (size_t)line_first * p.out_c + o;
            bool has_line[ROWS], has_all = true, has_any = false;
            EACH_ROW {
                has_line[r] = (uint)((int)line_h + h[r]) < p.in_h;
                has_all &= has_line[r];
                has_any |= has_line[r];
            }
            pixel += end_col - begin_col;
            if (!has_any)
                continue;
            uint lo = end_col, hi = end_col;
            if (has_all) {
                hi = min(end_col, all_hi);
                hi = min(hi, whole > line_first ? whole - line_first : 0);
                lo = min(max(begin_col, all_lo), end_col);
                hi = max(lo, hi);
            }
            EDGE(begin_col, lo)
            __global const float *px = x + line_x + (long)lo * x_step;
            __global const float *pd = line_dy + (size_t)lo * p.out_c;
#pragma unroll 1
            for (uint col = lo; col < hi; col++, px += x_step, pd += p.out_c) {
                float16 vd[VECTORS];
                EACH_VECTOR vd[v] = vload16(v, pd);
                EACH_ROW {
                    const float16 vx = (float16)(px[at[r]]);
                    EACH_VECTOR sum[r][v] = fma(vx, vd[v], sum[r][v]);
                }
            }
            EDGE(hi, end_col)
        }
        ADD(total, sum)
    }

    float edge[ROWS * COLS];
    EACH_ROW EACH_VECTOR vstore16(total[r][v], r * VECTORS + v, edge);
    __global float *to = sums + ((size_t)part * p.rows + first) * p.out_c + o;
    for (uint r = 0; r < rows; r++)
        for (uint j = 0; j < cols; j++)
            to[(size_t)r * p.out_c + j] = edge[r * COLS + j];
}
