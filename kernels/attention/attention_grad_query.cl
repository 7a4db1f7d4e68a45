/* SPDX-License-Identifier: MIT */
/* The derivative of attention with respect to q: an invocation computes a query of a head, from the state that `attention`
   left. It adds the sum of dy y to the state, which attention_grad_key reads. A launch processes `count` keys from `first` on,
   whole tiles; launches after the first one add to the result. */
GROUP(32, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
PARAMS(uint rows; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first; uint v_first;
       uint q_stride; uint k_stride; uint first; uint count; uint to_first; uint to_stride;
       uint mask_item; uint mask_head; uint mask_query; float scale; float cap;)
GROUP_ARRAY(float, slope, 64u * GROUP_SIZE)

#include "math.clh"
#include "attention/attention.clh"
#include "by_four.clh"

KERNEL8(attention_grad_query, IN(real, q), IN(real, k), IN(real, v), IN(real, mask), IN(real, y), IN(real, dy),
        OUT(real, state), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, slope, 64u * GROUP_SIZE)
    const uint row = INDEX();
    if (row < p.rows) {
        const uint i = row % p.queries, line = row / p.queries, h = line % p.heads, item = line / p.heads;
        const uint width = p.width, kv = h / p.share * width;
        const uint at_q = (item * p.queries + i) * p.q_stride + p.q_first + h * width;
        const uint at_k = item * p.keys * p.k_stride + p.k_first + kv, at_v = item * p.keys * p.k_stride + p.v_first + kv;
        const uint at_y = (item * p.queries + i) * p.heads * width + h * width;
        const uint to_q = (item * p.queries + i) * p.to_stride + p.to_first + h * width;
        const uint at_mask = item * p.mask_item + h * p.mask_head + i * p.mask_query;
        uint keys = p.keys;
        if (LENGTHS != 0)
            keys = TO_U32(LOAD(state, row * STATE + 3u));
        const uint begin = first_key(i, p.window), end = end_key(i, p.window, keys);
        const float m = LOAD(state, row * STATE), inverse = LOAD(state, row * STATE + 1u);
        const uint lane = LOCAL_INDEX();
        EXACT float along = 0.0f;
        BY_FOUR(c, 0u, width, 1u, along = FMA(LOAD(dy, at_y + c), LOAD(y, at_y + c), along);)
        if (p.first == 0u)
            for (uint c = 0u; c < width; c++)
                STORE(to, to_q + c, 0.0f);
        const uint from = MAX(begin, p.first), until = MIN(end, p.first + p.count);
        for (uint tile = from / TILE * TILE; tile < until; tile += TILE) {
            const uint j0 = MAX(tile, from), j1 = MIN(tile + TILE, until);
            for (uint j = j0; j < j1; j++) {
                EXACT float s = 0.0f;
                EXACT float d = 0.0f;
                BY_FOUR(c, 0u, width, 1u,
                        s = FMA(LOAD(q, at_q + c), LOAD(k, at_k + j * p.k_stride + c), s);
                        d = FMA(LOAD(dy, at_y + c), LOAD(v, at_v + j * p.k_stride + c), d);)
                s = s * p.scale;
                float bend = 1.0f;
                if (CAPPED != 0) {
                    const float t = BENT(s);
                    s = p.cap * t;
                    bend = 1.0f - t * t;
                }
                if (MASKED != 0)
                    s = s + LOAD(mask, at_mask + j);
                slope[MINE(j - j0)] = m_exp(s - m) * inverse * (d - along) * p.scale * bend;
            }
            for (uint c = 0u; c < width; c++) {
                EXACT float t = 0.0f;
                BY_FOUR(j, j0, j1, 1u, t = FMA(slope[MINE(j - j0)], LOAD(k, at_k + j * p.k_stride + c), t);)
                STORE(to, to_q + c, LOAD(to, to_q + c) + t);
            }
        }
        STORE(state, row * STATE + 2u, along);
    }
}
