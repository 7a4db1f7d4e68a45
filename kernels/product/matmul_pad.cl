/* SPDX-License-Identifier: MIT */
/* Copies a batch of matrices [rows, cols] to [rows_to, cols_to], padded with zeros, for variants that read rows in
   whole vectors. */
GROUP(8, 8)
PARAMS(uint rows; uint cols; uint rows_to; uint cols_to; uint batch;)

#define SPAN 256u /* columns that one group copies, of GROUP_Y rows */

KERNEL2(matmul_pad, IN(real, from), OUT(real, to))
{
    const uint spans = (p.cols_to + SPAN - 1u) / SPAN;
    const uint strips = (p.rows_to + GROUP_Y - 1u) / GROUP_Y;
    const uint index = GROUP_INDEX(), item = index / (strips * spans);
    const uint i = index / spans % strips * GROUP_Y + LOCAL_ID(1), j0 = index % spans * SPAN;
    if (item >= p.batch || i >= p.rows_to)
        return;
    const uint source = (item * p.rows + i) * p.cols, place = (item * p.rows_to + i) * p.cols_to;
    const uint j1 = MIN(j0 + SPAN, p.cols_to);
    for (uint j = j0 + LOCAL_ID(0); j < j1; j += GROUP_X)
        STORE(to, place + j, SELECT(i < p.rows && j < p.cols, LOAD(from, source + j), 0.0f));
}
