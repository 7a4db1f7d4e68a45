/* SPDX-License-Identifier: MIT */
/* The derivatives of attention with respect to k and v: an invocation computes a key, from the complete state of the queries.
   A launch processes `count` queries from `first` on, whole tiles, of query head `head` of those that share the key;
   launches after the first one add to the result. */
GROUP(32, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
PARAMS(uint rows; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first; uint v_first;
       uint q_stride; uint k_stride; uint head; uint first; uint count; uint to_k; uint to_v; uint to_stride;
       uint mask_item; uint mask_head; uint mask_query; float scale; float cap;)
GROUP_ARRAY(float, share, 64u * GROUP_SIZE)
GROUP_ARRAY(float, slope, 64u * GROUP_SIZE)

#include "math.clh"
#include "attention/attention.clh"
#include "by_four.clh"

KERNEL7(attention_grad_key, IN(real, q), IN(real, k), IN(real, v), IN(real, mask), IN(real, dy), IN(real, state), OUT(real, grad))
{
    GROUP_ARRAY_HERE(float, share, 64u * GROUP_SIZE)
    GROUP_ARRAY_HERE(float, slope, 64u * GROUP_SIZE)
    const uint row = INDEX();
    if (row < p.rows) {
        const uint j = row % p.keys, line = row / p.keys, kv_heads = p.heads / p.share, item = line / kv_heads;
        const uint width = p.width, h = line % kv_heads * p.share + p.head, kv = line % kv_heads * width;
        const uint at_q = item * p.queries * p.q_stride + p.q_first + h * width;
        const uint at_k = (item * p.keys + j) * p.k_stride + p.k_first + kv;
        const uint at_v = (item * p.keys + j) * p.k_stride + p.v_first + kv;
        const uint at_y = item * p.queries * p.heads * width + h * width, step_y = p.heads * width;
        const uint at_state = (item * p.heads + h) * p.queries * STATE;
        const uint to = (item * p.keys + j) * p.to_stride + kv;
        const uint at_mask = item * p.mask_item + h * p.mask_head + j;
        uint keys = p.keys;
        if (LENGTHS != 0)
            keys = TO_U32(LOAD(state, at_state + 3u));
        uint queries = p.queries;
        if (LENGTHS == 2)
            queries = MIN(queries, keys);
        const uint begin = first_query(j, p.window);
        const uint end = SELECT(j < keys, end_query(j, p.window, queries), 0u);
        const uint lane = LOCAL_INDEX();
        if (p.first + p.head == 0u)
            for (uint c = 0u; c < width; c++) {
                STORE(grad, to + p.to_k + c, 0.0f);
                STORE(grad, to + p.to_v + c, 0.0f);
            }
        const uint from = MAX(begin, p.first), until = MIN(end, p.first + p.count);
        for (uint tile = from / TILE * TILE; tile < until; tile += TILE) {
            const uint i0 = MAX(tile, from), i1 = MIN(tile + TILE, until);
            for (uint i = i0; i < i1; i++) {
                EXACT float s = 0.0f;
                EXACT float d = 0.0f;
                BY_FOUR(c, 0u, width, 1u,
                        s = FMA(LOAD(q, at_q + i * p.q_stride + c), LOAD(k, at_k + c), s);
                        d = FMA(LOAD(dy, at_y + i * step_y + c), LOAD(v, at_v + c), d);)
                const uint of = at_state + i * STATE;
                s = s * p.scale;
                float bend = 1.0f;
                if (CAPPED != 0) {
                    const float t = BENT(s);
                    s = p.cap * t;
                    bend = 1.0f - t * t;
                }
                if (MASKED != 0)
                    s = s + LOAD(mask, at_mask + i * p.mask_query);
                const float e = m_exp(s - LOAD(state, of)) * LOAD(state, of + 1u);
                share[MINE(i - i0)] = e;
                slope[MINE(i - i0)] = e * (d - LOAD(state, of + 2u)) * p.scale * bend;
            }
            for (uint c = 0u; c < width; c++) {
                EXACT float tk = 0.0f;
                EXACT float tv = 0.0f;
                BY_FOUR(i, i0, i1, 1u,
                        tk = FMA(slope[MINE(i - i0)], LOAD(q, at_q + i * p.q_stride + c), tk);
                        tv = FMA(share[MINE(i - i0)], LOAD(dy, at_y + i * step_y + c), tv);)
                STORE(grad, to + p.to_k + c, LOAD(grad, to + p.to_k + c) + tk);
                STORE(grad, to + p.to_v + c, LOAD(grad, to + p.to_v + c) + tv);
            }
        }
    }
}
