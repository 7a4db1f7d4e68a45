/* SPDX-License-Identifier: MIT */
/* All passes of row_stats for GPUs, with rows in registers. */
GROUP(256, 1)
SPEC(0, LOG_LANES)
SPEC(1, MORE)
SPEC(2, IN_QUADS)
PARAMS(uint rows; uint cols;)
QUAD_VIEW(0, x)
GROUP_ARRAY(float, part, 2u * GROUP_SIZE)

#include "math.clh"
#include "softmax/stats_held.clh"

KERNEL2(row_stats_held, IN(real, x), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, 2u * GROUP_SIZE)
    HELD_ROW()
    QUAD held[MOST_QUADS];
    HOLD(held, x, base, last, -INF)
    STATS_HELD(held)
    if (lane == 0u && row < p.rows) {
        STORE(to, 2u * row, m);
        STORE(to, 2u * row + 1u, t);
    }
}
