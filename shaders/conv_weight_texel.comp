/* SPDX-License-Identifier: MIT */
/* conv_weight for drivers that run shaders on a CPU (see conv_texel) and geometries without gaps: every lane keeps 8 rows of
   the gradient, [taps * channels, outputs], of one tap, and 8 outputs, and adds the products of 4 pixels in a round.
   2^LOG_LANES lanes of a group have different outputs, the others different rows. A pixel of x has in_t texels, one of dy out_t texels. A part has `part` lines of dy. */
GROUP(8, 1)
SPEC(0, LOG_LANES)
PARAMS(uint lines; uint part; uint parts; uint in_h; uint in_w; uint in_c; uint in_t; uint out_h; uint out_w; uint out_c;
       uint out_t; uint taps_h; uint taps_w; uint stride_h; uint stride_w; int step_h; int step_w; int first_h;
       int first_w;)

#define LANES (1u << uint(LOG_LANES))
#define ROWS  (8u >> uint(LOG_LANES)) /* pairs of texels of rows of a group */
#define COLS  (8u << uint(LOG_LANES))  /* outputs of a group: a lane has 4, and 4 more COLS / 2 further */
#define CHUNK 64u /* rounds: the longest chain of additions is 256 */

KERNEL3(conv_weight_texel, TEXEL(x), TEXEL(dy), OUT(real, sums))
{
    const uint pairs = (p.in_t + 1u) / 2u, rows = p.taps_h * p.taps_w * pairs, tiles = (rows + ROWS - 1u) / ROWS;
    const uint panels = (p.out_c + COLS - 1u) / COLS, lane = LOCAL_ID(0) % LANES;
    const uint index = GROUP_INDEX() / (tiles * panels), tile = GROUP_INDEX() % (tiles * panels);
    if (index >= p.parts)
        return;
    const uint row = tile % tiles * ROWS + LOCAL_ID(0) / LANES, o = tile / tiles * COLS + lane * 4u;
    const int at_d0 = int(min(o / 4u, p.out_t - 1u)), at_d1 = int(min(o / 4u + LANES, p.out_t - 1u));
    const uint tap = min(row, rows - 1u) / pairs, first = (min(row, rows - 1u) - tap * pairs) * 2u;
    const int at0 = int(first), at1 = int(min(first + 1u, p.in_t - 1u));
    const int tap_h = int(tap / p.taps_w), place_h = tap_h * p.step_h + p.first_h;
    const int place_w = (int(tap) - tap_h * int(p.taps_w)) * p.step_w + p.first_w;

    vec4 total[16], sum[16]; /* row r: [2 r] and, COLS / 2 outputs on, [2 r + 1] */
    for (uint t = 0u; t < 16u; t++)
        total[t] = vec4(0.0);
    const uint begin = index * p.part, end = begin + min(p.part, p.lines - begin), cols = (p.out_w + 3u) / 4u;
    uint line = begin, number = begin / p.out_h, top = begin - number * p.out_h, col = 0u;
    do { /* chains of lines, or of parts of a long line */
        for (uint t = 0u; t < 16u; t++)
            sum[t] = vec4(0.0);
        uint rounds = 0u;
        do {
            const int h = int(top * p.stride_h) + place_h;
            const bool has_line = h >= 0 && uint(h) < p.in_h;
            const int line_x = (int(number * p.in_h) + h) * int(p.in_w);
            for (uint q = 0u; q < 4u; q++) {
                const uint place = col * 4u + q;
                const int w = int(place * p.stride_w) + place_w;
                const bool has = has_line && place < p.out_w && w >= 0 && uint(w) < p.in_w;
                const int from_x = has ? (line_x + w) * int(p.in_t) : 0;
                const int from_d = has ? int((line * p.out_w + place) * p.out_t) : 0;
                vec4 x0 = imageLoad(x, from_x + at0), x1 = imageLoad(x, from_x + at1);
                vec4 d0 = imageLoad(dy, from_d + at_d0), d1 = imageLoad(dy, from_d + at_d1);
                x0 = has ? x0 : vec4(0.0);
                x1 = has ? x1 : vec4(0.0);
                d0 = has ? d0 : vec4(0.0);
                d1 = has ? d1 : vec4(0.0);
                for (uint u = 0u; u < 4u; u++) {
                    sum[2u * u] += x0[u] * d0;
                    sum[2u * u + 1u] += x0[u] * d1;
                    sum[2u * u + 8u] += x1[u] * d0;
                    sum[2u * u + 9u] += x1[u] * d1;
                }
            }
            col++;
            rounds++;
            const bool ends = col == cols;
            col = ends ? 0u : col;
            line = ends ? line + 1u : line;
            top = ends ? top + 1u : top;
            number = top == p.out_h ? number + 1u : number;
            top = top == p.out_h ? 0u : top;
        } while (rounds < CHUNK && line < end);
        for (uint t = 0u; t < 16u; t++)
            total[t] += sum[t];
    } while (line < end);

    for (uint r = 0u; r < 2u; r++)
        for (uint u = 0u; u < 4u; u++) {
            const uint c = (first + r) * 4u + u;
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
