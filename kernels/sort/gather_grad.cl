/* SPDX-License-Identifier: MIT */
/* The derivative of gather: each row of the table receives the sum of dy over its positions, in their order. Chunks
   of 64 positions are summed first, runs of 256 chunks next, then the runs; so the result depends on the row's
   positions only. A group computes `cols` columns of a row; its other lanes (SHARED) sum more chunks at the same time. A
   launch processes `count` positions of each row from `first` on, whole runs; launches after the first one add to the
   result. */
GROUP(64, 1)
SPEC(0, SHARED)
PARAMS(uint rows; uint width; uint tiles; uint cols; uint first; uint count;)
GROUP_ARRAY(float, part, GROUP_SIZE)

#define CHUNK 64u
#define RUN 256u /* chunks */

KERNEL4(gather_grad, IN(real, dy), IN(uint, order), IN(uint, starts), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    const uint row = GROUP_INDEX() / p.tiles, lane = LOCAL_INDEX();
    const uint col = GROUP_INDEX() % p.tiles * p.cols + lane % p.cols, chunk = lane / p.cols;
    const uint chunks = SELECT(SHARED != 0, GROUP_SIZE / p.cols, 1u);
    uint start = 0u, end = 0u;
    if (row < p.rows) { /* surplus groups have no positions */
        end = starts[row + 1u];
        start = MIN(starts[row] + p.first, end);
        end = MIN(start + p.count, end);
    }
    const bool is_inside = row < p.rows && col < p.width;
    const bool is_first = chunk == 0u && is_inside && (p.first == 0u || start < end);
    EXACT float total = 0.0f;
    EXACT float run = 0.0f;
    if (is_first && p.first > 0u)
        total = LOAD(to, row * p.width + col);
    uint done = 0u; /* chunks */
    for (uint at = start; at < end; at += chunks * CHUNK) {
        const uint from = at + chunk * CHUNK, until = SELECT(is_inside, MIN(from + CHUNK, end), from);
        EXACT float sum = 0.0f;
        for (uint k = from; k < until; k++)
            sum += LOAD(dy, order[k] * p.width + col);
        if (SHARED != 0) {
            part[lane] = sum;
            BARRIER();
        }
        if (is_first)
            for (uint c = 0u; c < chunks && at + c * CHUNK < end; c++) {
                if (SHARED != 0)
                    sum = part[c * p.cols + lane];
                run += sum;
                done++;
                if (done % RUN == 0u) {
                    total += run;
                    run = 0.0f;
                }
            }
        if (SHARED != 0)
            BARRIER();
    }
    if (is_first)
        STORE(to, row * p.width + col, total + run);
}
