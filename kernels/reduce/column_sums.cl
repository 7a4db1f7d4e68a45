/* SPDX-License-Identifier: MIT */
/* Sums down the columns of COUNT <= 4 matrices of `rows` rows and cols0 ... cols3 columns in one launch, with the bits of two
   passes of `reduce`. A group has WIDTH columns of one matrix. Its lanes sum every chunks-th row, at most 64 rows, added pairwise in groups of eight;
   the first lane adds the sums of at most 64 chunks in the same way. */
GROUP(256, 1)
SPEC(0, COUNT)
PARAMS(uint rows; uint chunks; uint cols0; uint cols1; uint cols2; uint cols3;)
GROUP_ARRAY(float, part, 1024)

#define WIDTH MIN(GROUP_SIZE, 16u)

FN float pair(float a, float b)
{
    EXACT float sum = a + b;
    return sum;
}

#define EIGHT(TERM)                                                                                \
    pair(pair(pair(TERM(0u), TERM(1u)), pair(TERM(2u), TERM(3u))),                                 \
         pair(pair(TERM(4u), TERM(5u)), pair(TERM(6u), TERM(7u))))
#define ROW(k) (at + (k) * p.chunks)
#define OF_ROW(x, k) LOAD_OR(x, ROW(k) * cols + col, (p.rows - 1u) * cols + col, ROW(k) < p.rows, 0.0f)
#define OF_0(k) OF_ROW(x0, k)
#define OF_1(k) OF_ROW(x1, k)
#define OF_2(k) OF_ROW(x2, k)
#define OF_3(k) OF_ROW(x3, k)
#define SUM_CHUNK(TERM)                                                                            \
    for (uint at = chunk; at < p.rows; at += 8u * p.chunks)                                        \
        total = pair(total, EIGHT(TERM));
/* Groups after the strips of matrix m - 1 have matrix m. */
#define STRIPS ((cols + WIDTH - 1u) / WIDTH)
#define GO_ON(m, of_m)                                                                             \
    if (TO_U32(COUNT) > m)                                                                         \
        if (which + 1u == m && strip >= STRIPS) {                                                  \
            strip -= STRIPS;                                                                       \
            which = m;                                                                             \
            cols = of_m;                                                                           \
        }
#define PART(k) PICK(at + (k) < p.chunks, part[MIN(at + (k), p.chunks - 1u) * WIDTH + self], 0.0f)

KERNEL8(column_sums, IN(real, x0), IN(real, x1), IN(real, x2), IN(real, x3), OUT(real, y0), OUT(real, y1), OUT(real, y2),
        OUT(real, y3))
{
    GROUP_ARRAY_HERE(float, part, 1024)
    const uint self = LOCAL_INDEX() % WIDTH, lane = LOCAL_INDEX() / WIDTH;
    uint which = 0u, strip = GROUP_INDEX(), cols = p.cols0;
    GO_ON(1u, p.cols1)
    GO_ON(2u, p.cols2)
    GO_ON(3u, p.cols3)
    const uint place = strip * WIDTH + self, col = MIN(place, cols - 1u);
    for (uint chunk = lane; chunk < p.chunks; chunk += GROUP_SIZE / WIDTH) {
        float total = 0.0f;
        if (which == 0u) {
            SUM_CHUNK(OF_0)
        }
        if (COUNT > 1)
            if (which == 1u) {
                SUM_CHUNK(OF_1)
            }
        if (COUNT > 2)
            if (which == 2u) {
                SUM_CHUNK(OF_2)
            }
        if (COUNT > 3)
            if (which == 3u) {
                SUM_CHUNK(OF_3)
            }
        part[chunk * WIDTH + self] = total;
    }
    BARRIER();
    if (lane == 0u) {
        float sum = 0.0f;
        for (uint at = 0u; at < p.chunks; at += 8u)
            sum = pair(sum, EIGHT(PART));
        if (place < cols) {
            if (which == 0u)
                STORE(y0, place, sum);
            if (COUNT > 1)
                if (which == 1u)
                    STORE(y1, place, sum);
            if (COUNT > 2)
                if (which == 2u)
                    STORE(y2, place, sum);
            if (COUNT > 3)
                if (which == 3u)
                    STORE(y3, place, sum);
        }
    }
}
