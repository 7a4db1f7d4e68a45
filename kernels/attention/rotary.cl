/* SPDX-License-Identifier: MIT */
/* Rotary positions: the numbers of a pair (a, b) become (a c - b s, b c + a s). The first `turned` heads of a row turn, of these
   the first 2 `pairs` elements; others are copied. Row r of `turns` has the cosines of all pairs and then the sines; rows of
   x take its `rows` rows in turn. A pair is two adjacent elements (INTERLEAVED) or elements k and k + pairs. */
GROUP(256, 1)
SPEC(0, INTERLEAVED)
PARAMS(uint n; uint width; uint heads; uint rows; uint turned; uint pairs; float factor; uint each;
       uint width_m; uint width_h; uint heads_m; uint heads_h; uint rows_m; uint rows_h;)

#include "divide.clh"

KERNEL3(rotary, IN(real, from), IN(real, turns), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint line = QUOTIENT(i, p.width_m, p.width_h), col = i - line * p.width;
        const uint row = QUOTIENT(line, p.heads_m, p.heads_h), head = line - row * p.heads;
        float y = LOAD(from, i);
        if (head < p.turned && col < 2u * p.pairs) {
            const uint turn = (row - QUOTIENT(row, p.rows_m, p.rows_h) * p.rows) * 2u * p.pairs;
            const bool is_second = INTERLEAVED != 0 ? (col & 1u) != 0u : col >= p.pairs;
            const uint apart = INTERLEAVED != 0 ? 1u : p.pairs;
            const uint pair = INTERLEAVED != 0 ? col >> 1 : SELECT(is_second, col - p.pairs, col);
            const float other = LOAD(from, SELECT(is_second, i - apart, i + apart));
            const float c = LOAD(turns, turn + pair), s = p.factor * LOAD(turns, turn + p.pairs + pair);
            y = SELECT(is_second, y * c + other * s, y * c - other * s);
        }
        STORE(to, i, y);
    }
}
