/* SPDX-License-Identifier: MIT */
/* The derivative of gather: each row of the table receives the sum of dy over its positions, in their order. Chunks
   of 64 positions are summed first, runs of 256 chunks next, then the runs; so the result depends on the row's
   positions only. A group computes `cols` columns of a row; its other lanes (SHARED) sum more chunks at the same time, or a
   lane has EACH adjacent columns, 1 or 4, of a width that is a multiple of them. A launch processes `count` positions of
   each row from `first` on, whole runs; launches after the first one add to the result. */
GROUP(64, 1)
SPEC(0, SHARED)
SPEC(1, IN_QUADS)
PARAMS(uint rows; uint width; uint tiles; uint cols; uint first; uint count;)
GROUP_ARRAY(float, part, GROUP_SIZE)

#define CHUNK 64u
#define RUN 256u /* chunks */
#define EACH (IN_QUADS != 0 ? 4u : 1u)
#define COLUMNS(q) UNROLL for (uint q = 0u; q < EACH; q++)

KERNEL4(gather_grad, IN(real, dy), IN(uint, order), IN(uint, starts), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    const uint row = GROUP_INDEX() / p.tiles, lane = LOCAL_INDEX(), lanes = p.cols / EACH;
    const uint col = GROUP_INDEX() % p.tiles * p.cols + lane % lanes * EACH, chunk = lane / lanes;
    const uint chunks = SELECT(SHARED != 0, GROUP_SIZE / lanes, 1u);
    uint start = 0u, end = 0u;
    if (row < p.rows) { /* surplus groups have no positions */
        end = starts[row + 1u];
        start = MIN(starts[row] + p.first, end);
        end = MIN(start + p.count, end);
    }
    const bool is_inside = row < p.rows && col < p.width;
    const bool is_first = chunk == 0u && is_inside && (p.first == 0u || start < end);
    EXACT float total[4];
    EXACT float run[4];
    EXACT float sum[4];
    COLUMNS(q) {
        total[q] = 0.0f;
        run[q] = 0.0f;
        if (is_first && p.first > 0u)
            total[q] = LOAD(to, row * p.width + col + q);
    }
    uint done = 0u; /* chunks */
    for (uint at = start; at < end; at += chunks * CHUNK) {
        const uint from = at + chunk * CHUNK, until = SELECT(is_inside, MIN(from + CHUNK, end), from);
        COLUMNS(q) sum[q] = 0.0f;
        for (uint k = from; k < until; k++) {
            const uint place = order[k] * p.width + col;
            COLUMNS(q) sum[q] += LOAD(dy, place + q);
        }
        if (SHARED != 0) {
            part[lane] = sum[0];
            BARRIER();
        }
        if (is_first)
            for (uint c = 0u; c < chunks && at + c * CHUNK < end; c++) {
                if (SHARED != 0)
                    sum[0] = part[c * p.cols + lane];
                done++;
                COLUMNS(q) {
                    run[q] += sum[q];
                    if (done % RUN == 0u) {
                        total[q] += run[q];
                        run[q] = 0.0f;
                    }
                }
            }
        if (SHARED != 0)
            BARRIER();
    }
    if (is_first)
        COLUMNS(q) STORE(to, row * p.width + col + q, total[q] + run[q]);
}
