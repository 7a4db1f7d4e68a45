/* SPDX-License-Identifier: MIT */
/* Convolution for drivers that run shaders on a CPU (see matmul_texel). Such drivers execute both sides of each branch, and
   the body of a while loop once more than its rounds, so this is straight-line code in do loops. Every lane keeps 8 pixels of y and 8 outputs, and
   reads x and the weights as texels. 2^LOG_LANES lanes of a group have different outputs, the others different pixels. A
   pixel of x has in_t texels, a row of the weights, [taps * 4 in_t, outputs], out_t texels. The sums of taps_each taps form a
   chain, at most 256 additions; it is 1 where in_t is larger. */
GROUP(8, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, GAPS)
SPEC(3, LOG_LANES)
PARAMS(uint pixels; uint in_h; uint in_w; uint in_t; uint out_h; uint out_w; uint out_c; uint out_t; uint taps_h;
       uint taps_w; uint stride_h; uint stride_w; int step_h; int step_w; int first_h; int first_w; uint gap_h; uint gap_w;
       uint taps_each;)

#include "elementwise/activation.clh"
#include "conv/window.clh"

#define LANES (1u << uint(LOG_LANES))
#define ROWS  (64u >> uint(LOG_LANES)) /* pixels of a group */
#define COLS  (8u << uint(LOG_LANES))  /* outputs of a group: a lane has 4, and 4 more COLS / 2 further */
#define CHUNK 64u /* texels: the longest chain of additions is 256 */

KERNEL4(conv_texel, TEXEL(x), TEXEL(weights), IN(real, bias), OUT(real, y))
{
    const uint tiles = (p.pixels + ROWS - 1u) / ROWS, lane = LOCAL_ID(0) % LANES;
    const uint panel = GROUP_INDEX() / tiles;
    const uint first = GROUP_INDEX() % tiles * ROWS + LOCAL_ID(0) / LANES * 8u, o = panel * COLS + lane * 4u;
    if (panel * COLS >= p.out_c)
        return;

    int h[8], w[8], image[8];
    uint line = min(first, p.pixels - 1u) / p.out_w, col = min(first, p.pixels - 1u) - line * p.out_w;
    uint number = line / p.out_h, top = line - number * p.out_h;
    for (uint r = 0u; r < 8u; r++) { /* pixels past the end repeat the last one */
        h[r] = int(top * p.stride_h) + p.first_h;
        w[r] = int(col * p.stride_w) + p.first_w;
        image[r] = int(number * p.in_h);
        const bool is_next = first + r + 1u < p.pixels, wraps = is_next && col + 1u == p.out_w;
        col = wraps ? 0u : is_next ? col + 1u : col;
        const bool ends = wraps && top + 1u == p.out_h;
        top = ends ? 0u : wraps ? top + 1u : top;
        number = ends ? number + 1u : number;
    }
    const int at_w0 = int(min(o / 4u, p.out_t - 1u)), at_w1 = int(min(o / 4u + LANES, p.out_t - 1u));

    vec4 total[16], sum[16]; /* pixel r: [2 r] and, COLS / 2 outputs on, [2 r + 1] */
    for (uint t = 0u; t < 16u; t++)
        total[t] = vec4(0.0);
    const uint taps = p.taps_h * p.taps_w;
    uint tap0 = 0u, c0 = 0u;
    do {
        const uint tap1 = min(tap0 + p.taps_each, taps), c1 = min(c0 + CHUNK, p.in_t);
        for (uint t = 0u; t < 16u; t++)
            sum[t] = vec4(0.0);
        uint tap = tap0;
        do {
            const int a = int(tap / p.taps_w), b = int(tap) - a * int(p.taps_w);
            bool has[8];
            int at[8];
            for (uint r = 0u; r < 8u; r++) {
                const int ph = h[r] + a * p.step_h, pw = w[r] + b * p.step_w;
                has[r] = window_has(ph, p.gap_h, p.in_h) && window_has(pw, p.gap_w, p.in_w);
                at[r] = has[r] ? ((image[r] + int(window_at(ph, p.gap_h))) * int(p.in_w) + int(window_at(pw, p.gap_w))) *
                                     int(p.in_t)
                               : 0;
            }
            int from_w = int((tap * p.in_t + c0) * 4u * p.out_t);
            uint c = c0;
            do {
                vec4 vx[8], vw[8];
                for (uint r = 0u; r < 8u; r++)
                    vx[r] = imageLoad(x, at[r] + int(c));
                for (uint u = 0u; u < 4u; u++) {
                    vw[2u * u] = imageLoad(weights, from_w + int(u * p.out_t) + at_w0);
                    vw[2u * u + 1u] = imageLoad(weights, from_w + int(u * p.out_t) + at_w1);
                }
                for (uint t = 0u; t < 16u; t++)
                    for (uint u = 0u; u < 4u; u++)
                        sum[t] += has[t / 2u] ? vx[t / 2u][u] * vw[2u * u + t % 2u] : vec4(0.0);
                from_w += int(4u * p.out_t);
                c++;
            } while (c < c1);
            tap++;
        } while (tap < tap1);
        for (uint t = 0u; t < 16u; t++)
            total[t] += sum[t];
        tap0 = c1 == p.in_t ? tap1 : tap0;
        c0 = c1 == p.in_t ? 0u : c1;
    } while (tap0 < taps);

    for (uint k = 0u; k < 2u; k++)
        for (uint e = 0u; e < 4u; e++) {
            const uint j = o + k * (COLS / 2u) + e;
            if (j >= p.out_c)
                continue;
            const float add = HAS_BIAS != 0 ? LOAD(bias, j) : 0.0;
            for (uint r = 0u; r < 8u; r++)
                if (first + r < p.pixels) {
                    const float value = total[2u * r + k][e];
                    STORE(y, (first + r) * p.out_c + j, activate(HAS_BIAS != 0 ? value + add : value));
                }
        }
}
