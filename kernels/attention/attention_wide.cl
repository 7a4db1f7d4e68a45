/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* attention for CPUs with wide vectors: an invocation computes 16 queries of a head over all keys. */
GROUP(1, 1)
SPEC(0, CAUSAL)
SPEC(1, VALUES)
SPEC(2, MASKED)
SPEC(3, LENGTHS)
SPEC(4, CAPPED)
PARAMS(uint blocks; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first;
       uint v_first; uint q_stride; uint k_stride; uint mask_item; uint mask_head; uint mask_query; float scale; float cap;)

#include "attention/attention_wide.clh"

KERNEL7(attention_wide, IN(float, q), IN(float, k), IN(float, v), IN(float, mask), IN(int, lengths), OUT(float, state),
        OUT(float, y))
{
    const uint each = (p.queries + 15) / 16, width = p.width;
    if (GROUP_INDEX() >= p.blocks)
        return;
    const uint i0 = GROUP_INDEX() % each * 16, line = GROUP_INDEX() / each, h = line % p.heads, item = line / p.heads;
    const uint rows = min(16u, p.queries - i0), last = i0 + rows - 1;
    __global const float *pk = k + (size_t)item * p.keys * p.k_stride + p.k_first + h / p.share * width;
    __global const float *pv = v + (size_t)item * p.keys * p.k_stride + p.v_first + h / p.share * width;
    __global const float *pm = mask + (size_t)item * p.mask_item + h * p.mask_head + (size_t)i0 * p.mask_query;
    /* Keys of the item, those that a query sees, and those that all do. */
    const uint length = LENGTHS ? min(p.keys, (uint)max(lengths[item], 0)) : p.keys;
    const uint behind = LENGTHS == 2 ? length : UINT_MAX; /* queries from there on see nothing */
    const uint begin = first_key(i0, p.window), end = end_key(last, p.window, i0 < behind ? length : 0);
    const uint all_begin = first_key(last, p.window), all_end = end_key(i0, p.window, last < behind ? length : 0);
    int16 from, until;
    float columns[16 * WIDEST], sums[16 * WIDEST], s[16 * TILE], bias[16 * TILE];
    int seen[16 * TILE], ends[32];
    for (uint i = 0; i < 16; i++) {
        const uint row = min(i0 + i, last);
        ends[i] = (int)first_key(row, p.window);
        ends[16 + i] = (int)end_key(row, p.window, row < behind ? length : 0);
    }
    from = vload16(0, ends);
    until = vload16(1, ends);
    turn(q + ((size_t)item * p.queries + i0) * p.q_stride + p.q_first + h * width, p.q_stride, rows, width, columns);
    for (uint c = 0; VALUES && c < width; c++)
        vstore16((float16)(0.0f), c, sums);
    float16 m = NONE, total = (float16)(0.0f);
    for (uint j0 = begin, j1; j0 < end; j0 = j1) {
        j1 = min(j0 + TILE, j0 < all_begin ? min(end, all_begin) : j0 < all_end ? all_end : end);
        const uint count = j1 - j0;
        const bool is_whole = all_begin <= j0 && j1 <= all_end;
        float16 top = m;
        dots(columns, pk + (size_t)j0 * p.k_stride, p.k_stride, count, width, s);
        if (MASKED)
            turn(pm + j0, p.mask_query, rows, count, bias);
        for (uint j = 0; j < count; j++) {
            float16 x = vload16(j, s) * p.scale;
            if (CAPPED)
                x = p.cap * BENT(x);
            if (MASKED)
                x += vload16(j, bias);
            if (!is_whole) {
                const int16 is = ((int16)((int)(j0 + j)) >= from) & ((int16)((int)(j0 + j)) < until);
                x = select(NONE, x, is);
                vstore16(is, j, seen);
            }
            vstore16(x, j, s);
            top = x > top ? x : top;
        }
        const float16 shift = top == NONE ? (float16)(0.0f) : top, keep = m_exp(m - shift);
        float16 part = (float16)(0.0f);
        for (uint j = 0; j < count; j++) {
            float16 e = m_exp(vload16(j, s) - shift);
            if (!is_whole)
                e = select((float16)(0.0f), e, vload16(j, seen));
            vstore16(e, j, s);
            part += e;
        }
        total = total * keep + part;
        m = top;
        if (VALUES)
            weigh(s, is_whole ? 0 : seen, pv + (size_t)j0 * p.k_stride, p.k_stride, count, width, keep, sums);
    }
    const int16 is_empty = MASKED ? total == ZERO : from >= until;
    const float16 inverse = select(1.0f / total, ZERO, is_empty);
    float out[32];
    vstore16(select(m, ZERO, is_empty), 0, out);
    vstore16(inverse, 1, out);
    for (uint i = 0; i < rows; i++) {
        __global float *words = state + ((size_t)line * p.queries + i0 + i) * STATE;
        words[0] = out[i];
        words[1] = out[16 + i];
        words[2] = 0.0f;
        words[3] = i0 + i < behind ? length : 0;
    }
    if (VALUES) {
        for (uint c = 0; c < width; c++)
            vstore16(select(vload16(c, sums) * inverse, ZERO, is_empty), c, sums);
        turn_back(sums, (size_t)p.heads * width, rows, width, y + (((size_t)item * p.queries + i0) * p.heads + h) * width);
    }
}
