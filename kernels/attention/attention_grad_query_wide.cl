/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* attention_grad_query for CPUs with wide vectors: an invocation computes 16 queries of a head over all keys. */
GROUP(1, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
PARAMS(uint blocks; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first;
       uint v_first; uint q_stride; uint k_stride; uint to_first; uint to_stride; uint mask_item;
       uint mask_head; uint mask_query; float scale; float cap;)

#include "attention/attention_wide.clh"

KERNEL8(attention_grad_query_wide, IN(float, q), IN(float, k), IN(float, v), IN(float, mask), IN(float, y), IN(float, dy),
        OUT(float, state), OUT(float, to))
{
    const uint each = (p.queries + 15) / 16, width = p.width;
    if (GROUP_INDEX() >= p.blocks)
        return;
    const uint i0 = GROUP_INDEX() % each * 16, line = GROUP_INDEX() / each, h = line % p.heads, item = line / p.heads;
    const uint rows = min(16u, p.queries - i0), last = i0 + rows - 1;
    __global const float *pk = k + (size_t)item * p.keys * p.k_stride + p.k_first + h / p.share * width;
    __global const float *pv = v + (size_t)item * p.keys * p.k_stride + p.v_first + h / p.share * width;
    const size_t of_y = (((size_t)item * p.queries + i0) * p.heads + h) * width, step_y = (size_t)p.heads * width;
    __global const float *pm = mask + (size_t)item * p.mask_item + h * p.mask_head + (size_t)i0 * p.mask_query;
    __global const float *line_state = state + ((size_t)line * p.queries + i0) * STATE;
    /* Keys that a query sees, and those that all do. */
    const uint begin = first_key(i0, p.window), end = end_key(last, p.window, LENGTHS ? (uint)line_state[3] : p.keys);
    const uint all_begin = first_key(last, p.window);
    const uint all_end = end_key(i0, p.window, LENGTHS ? (uint)line_state[(rows - 1) * STATE + 3] : p.keys);
    float columns[16 * WIDEST], slopes[16 * WIDEST], sums[16 * WIDEST], s[16 * TILE], d[16 * TILE], bias[16 * TILE], words[32];
    int seen[16 * TILE], ends[32];
    for (uint i = 0; i < 16; i++) {
        const uint row = min(i0 + i, last);
        __global const float *of = line_state + (row - i0) * STATE;
        ends[i] = (int)first_key(row, p.window);
        ends[16 + i] = (int)end_key(row, p.window, LENGTHS ? (uint)of[3] : p.keys);
        words[i] = of[0];
        words[16 + i] = of[1];
    }
    const int16 from = vload16(0, ends), until = vload16(1, ends);
    const float16 m = vload16(0, words), inverse = vload16(1, words);
    float16 along = (float16)(0.0f);
    turn(y + of_y, step_y, rows, width, columns);
    turn(dy + of_y, step_y, rows, width, slopes);
    for (uint c = 0; c < width; c++)
        along = fma(vload16(c, slopes), vload16(c, columns), along);
    turn(q + ((size_t)item * p.queries + i0) * p.q_stride + p.q_first + h * width, p.q_stride, rows, width, columns);
    for (uint c = 0; c < width; c++)
        vstore16((float16)(0.0f), c, sums);
    for (uint j0 = begin, j1; j0 < end; j0 = j1) {
        j1 = min(j0 + TILE, j0 < all_begin ? min(end, all_begin) : j0 < all_end ? all_end : end);
        const uint count = j1 - j0;
        const bool is_whole = all_begin <= j0 && j1 <= all_end;
        dots(columns, pk + (size_t)j0 * p.k_stride, p.k_stride, count, width, s);
        if (MASKED)
            turn(pm + j0, p.mask_query, rows, count, bias);
        dots(slopes, pv + (size_t)j0 * p.k_stride, p.k_stride, count, width, d);
        for (uint j = 0; j < count; j++) {
            float16 x = vload16(j, s) * p.scale, bend = (float16)(1.0f);
            if (CAPPED) {
                const float16 t = BENT(x);
                x = p.cap * t;
                bend = 1.0f - t * t;
            }
            if (MASKED)
                x += vload16(j, bias);
            x = m_exp(x - m) * inverse * (vload16(j, d) - along) * p.scale * bend;
            if (!is_whole) {
                const int16 is = ((int16)((int)(j0 + j)) >= from) & ((int16)((int)(j0 + j)) < until);
                x = select((float16)(0.0f), x, is);
                vstore16(is, j, seen);
            }
            vstore16(x, j, s);
        }
        weigh(s, is_whole ? 0 : seen, pk + (size_t)j0 * p.k_stride, p.k_stride, count, width, (float16)(1.0f), sums);
    }
    vstore16(along, 0, words);
    for (uint i = 0; i < rows; i++)
        state[((size_t)line * p.queries + i0 + i) * STATE + 2] = words[i];
    turn_back(sums, p.to_stride, rows, width, to + ((size_t)item * p.queries + i0) * p.to_stride + p.to_first + h * width);
}
