/* SPDX-License-Identifier: MIT */
/* conv_weight for drivers that run shaders on a CPU (see matmul_texel) and geometries without gaps: every lane keeps 8 rows of
   the gradient, [taps * channels, outputs], and 8 outputs. 2^LOG_LANES lanes of a group have different outputs, the others
   different rows. A pixel of x has in_t texels, one of dy out_t texels. A part has `part` lines of dy. */
GROUP(8, 1)
SPEC(0, LOG_LANES)
PARAMS(uint lines; uint part; uint parts; uint in_h; uint in_w; uint in_c; uint in_t; uint out_h; uint out_w; uint out_c;
       uint out_t; uint taps_h; uint taps_w; uint stride_h; uint stride_w; int step_h; int step_w; int first_h;
       int first_w;)

#define LANES (1u << uint(LOG_LANES))
#define ROWS  (16u >> uint(LOG_LANES)) /* texels of rows of a group */
#define COLS  (8u << uint(LOG_LANES))  /* outputs of a group: a lane has 4, and 4 more COLS / 2 further */
#define CHUNK 256u /* longest chain of additions */

KERNEL3(conv_weight_texel, TEXEL(x), TEXEL(dy), OUT(real, sums))
{
    const uint rows = p.taps_h * p.taps_w * p.in_t, tiles = (rows + ROWS - 1u) / ROWS;
    const uint panels = (p.out_c + COLS - 1u) / COLS, lane = LOCAL_ID(0) % LANES;
    const uint index = GROUP_INDEX() / (tiles * panels), tile = GROUP_INDEX() % (tiles * panels);
    if (index >= p.parts)
        return;
    const uint first = tile % tiles * ROWS + LOCAL_ID(0) / LANES * 2u, o = tile / tiles * COLS + lane * 4u;
    const int at_d0 = int(min(o / 4u, p.out_t - 1u)), at_d1 = int(min(o / 4u + LANES, p.out_t - 1u));

    /* For both texels of rows: the place of the tap, and the texel of x relative to the pixel's first one. */
    int h[2], w[2], at[2];
    for (uint r = 0u; r < 2u; r++) {
        const uint row = min(first + r, rows - 1u), tap = row / p.in_t, a = tap / p.taps_w;
        h[r] = int(a) * p.step_h + p.first_h;
        w[r] = int(tap - a * p.taps_w) * p.step_w + p.first_w;
        at[r] = int(row - tap * p.in_t);
    }

    vec4 total[16], sum[16]; /* row r: [2 r] and, COLS / 2 outputs on, [2 r + 1] */
    for (uint t = 0u; t < 16u; t++) {
        total[t] = vec4(0.0);
        sum[t] = vec4(0.0);
    }
    const uint begin = index * p.part, end = begin + min(p.part, p.lines - begin);
    uint number = begin / p.out_h, top = begin - number * p.out_h, terms = 0u;
    for (uint line = begin; line < end; line++) {
        const int h0 = int(top * p.stride_h) + h[0], h1 = int(top * p.stride_h) + h[1];
        const bool has_line0 = h0 >= 0 && uint(h0) < p.in_h, has_line1 = h1 >= 0 && uint(h1) < p.in_h;
        const int line0 = (int(number * p.in_h) + h0) * int(p.in_w), line1 = (int(number * p.in_h) + h1) * int(p.in_w);
        int d = int(line * p.out_w * p.out_t);
        if (has_line0 || has_line1)
            for (uint col = 0u; col < p.out_w; col++) {
                if (terms == CHUNK) {
                    for (uint t = 0u; t < 16u; t++) {
                        total[t] += sum[t];
                        sum[t] = vec4(0.0);
                    }
                    terms = 0u;
                }
                terms++;
                const int w0 = int(col * p.stride_w) + w[0], w1 = int(col * p.stride_w) + w[1];
                const bool has0 = has_line0 && w0 >= 0 && uint(w0) < p.in_w;
                const bool has1 = has_line1 && w1 >= 0 && uint(w1) < p.in_w;
                const vec4 x0 = imageLoad(x, has0 ? (line0 + w0) * int(p.in_t) + at[0] : 0);
                const vec4 x1 = imageLoad(x, has1 ? (line1 + w1) * int(p.in_t) + at[1] : 0);
                const vec4 d0 = imageLoad(dy, d + at_d0), d1 = imageLoad(dy, d + at_d1);
                d += int(p.out_t);
                if (has0 && has1) {
                    for (uint u = 0u; u < 4u; u++) {
                        sum[2u * u] += x0[u] * d0;
                        sum[2u * u + 1u] += x0[u] * d1;
                        sum[2u * u + 8u] += x1[u] * d0;
                        sum[2u * u + 9u] += x1[u] * d1;
                    }
                } else {
                    for (uint u = 0u; u < 4u; u++) {
                        sum[2u * u] += has0 ? x0[u] * d0 : vec4(0.0);
                        sum[2u * u + 1u] += has0 ? x0[u] * d1 : vec4(0.0);
                        sum[2u * u + 8u] += has1 ? x1[u] * d0 : vec4(0.0);
                        sum[2u * u + 9u] += has1 ? x1[u] * d1 : vec4(0.0);
                    }
                }
            }
        top++;
        if (top == p.out_h) {
            top = 0u;
            number++;
        }
    }
    for (uint t = 0u; t < 16u; t++)
        total[t] += sum[t];

    for (uint r = 0u; r < 2u; r++)
        for (uint u = 0u; u < 4u; u++) {
            const uint row = first + r, tap = row / p.in_t, c = (row - tap * p.in_t) * 4u + u;
            if (row >= rows || c >= p.in_c)
                continue;
            const uint to = ((index * p.taps_h * p.taps_w + tap) * p.in_c + c) * p.out_c;
            for (uint k = 0u; k < 2u; k++)
                for (uint e = 0u; e < 4u; e++) {
                    const uint j = o + k * (COLS / 2u) + e;
                    if (j < p.out_c)
                        STORE(sums, to + j, total[2u * (4u * r + u) + k][e]);
                }
        }
}
