/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* attention_grad_key for CPUs with wide vectors: an invocation computes 16 keys of a key head over all queries of all heads that
   share it. */
GROUP(1, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
PARAMS(uint blocks; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first;
       uint v_first; uint q_stride; uint k_stride; uint to_k; uint to_v; uint to_stride; uint mask_item;
       uint mask_head; uint mask_query; float scale; float cap;)

#include "attention/attention_wide.clh"

KERNEL7(attention_grad_key_wide, IN(float, q), IN(float, k), IN(float, v), IN(float, mask), IN(float, dy), IN(float, state),
        OUT(float, grad))
{
    const uint each = (p.keys + 15) / 16, width = p.width, kv_heads = p.heads / p.share;
    if (GROUP_INDEX() >= p.blocks)
        return;
    const uint j0 = GROUP_INDEX() % each * 16, line = GROUP_INDEX() / each, kv = line % kv_heads, item = line / kv_heads;
    const uint rows = min(16u, p.keys - j0), last = j0 + rows - 1;
    const size_t place = ((size_t)item * p.keys + j0) * p.k_stride + kv * width, step_y = (size_t)p.heads * width;
    /* Queries that see a key, and those that see all. */
    const uint length = LENGTHS ? (uint)state[((size_t)item * p.heads + kv * p.share) * p.queries * STATE + 3] : p.keys;
    const uint queries = LENGTHS == 2 ? min(p.queries, length) : p.queries;
    const uint begin = first_query(j0, p.window), end = end_query(last, p.window, j0 < length ? queries : 0);
    const uint all_begin = first_query(last, p.window), all_end = end_query(j0, p.window, last < length ? queries : 0);
    float keys[16 * WIDEST], values[16 * WIDEST], sums_k[16 * WIDEST], sums_v[16 * WIDEST], s[16 * TILE], d[16 * TILE];
    int seen[16 * TILE], ends[32];
    for (uint j = 0; j < 16; j++) {
        ends[j] = (int)first_query(min(j0 + j, last), p.window);
        ends[16 + j] = (int)end_query(min(j0 + j, last), p.window, min(j0 + j, last) < length ? queries : 0);
    }
    const int16 from = vload16(0, ends), until = vload16(1, ends);
    turn(k + place + p.k_first, p.k_stride, rows, width, keys);
    turn(v + place + p.v_first, p.k_stride, rows, width, values);
    for (uint c = 0; c < width; c++) {
        vstore16((float16)(0.0f), c, sums_k);
        vstore16((float16)(0.0f), c, sums_v);
    }
    for (uint head = 0; head < p.share; head++) {
        const uint h = kv * p.share + head;
        __global const float *pq = q + (size_t)item * p.queries * p.q_stride + p.q_first + h * width;
        __global const float *py = dy + (size_t)item * p.queries * step_y + h * width;
        __global const float *pm = mask + (size_t)item * p.mask_item + h * p.mask_head + j0;
        __global const float *words = state + ((size_t)item * p.heads + h) * p.queries * STATE;
        for (uint i0 = begin, i1; i0 < end; i0 = i1) {
            i1 = min(i0 + TILE, i0 < all_begin ? min(end, all_begin) : i0 < all_end ? all_end : end);
            const uint count = i1 - i0;
            const bool is_whole = all_begin <= i0 && i1 <= all_end;
            dots(keys, pq + (size_t)i0 * p.q_stride, p.q_stride, count, width, s);
            dots(values, py + i0 * step_y, step_y, count, width, d);
            for (uint i = 0; i < count; i++) {
                __global const float *of = words + (size_t)(i0 + i) * STATE;
                float16 x = vload16(i, s) * p.scale, bend = (float16)(1.0f);
                if (CAPPED) {
                    const float16 t = BENT(x);
                    x = p.cap * t;
                    bend = 1.0f - t * t;
                }
                if (MASKED)
                    x += row_of(pm + (size_t)(i0 + i) * p.mask_query, rows);
                float16 e = m_exp(x - of[0]) * of[1];
                x = e * (vload16(i, d) - of[2]) * p.scale * bend;
                if (!is_whole) {
                    const int16 is = ((int16)((int)(i0 + i)) >= from) & ((int16)((int)(i0 + i)) < until);
                    e = select((float16)(0.0f), e, is);
                    x = select((float16)(0.0f), x, is);
                    vstore16(is, i, seen);
                }
                vstore16(e, i, s);
                vstore16(x, i, d);
            }
            weigh(d, is_whole ? 0 : seen, pq + (size_t)i0 * p.q_stride, p.q_stride, count, width, (float16)(1.0f), sums_k);
            weigh(s, is_whole ? 0 : seen, py + i0 * step_y, step_y, count, width, (float16)(1.0f), sums_v);
        }
    }
    const size_t to = ((size_t)item * p.keys + j0) * p.to_stride + kv * width;
    turn_back(sums_k, p.to_stride, rows, width, grad + to + p.to_k);
    turn_back(sums_v, p.to_stride, rows, width, grad + to + p.to_v);
}
