/* SPDX-License-Identifier: MIT */
/* Attention: y = the sum of softmax(scale q k) v over the keys that a query sees. An invocation computes a query of a head.
   It keeps the largest score m and the sum of exp(score - m) so far, and scales its sums when m grows (Milakov and Gimelshein,
   2018). A launch processes `count` keys from `first` on, whole tiles; m, the sum and the numerators of y are kept in `state`
   and y between launches. Without VALUES it computes the state alone, for the derivatives. A query that sees no key has
   y = 0, and so has one whose keys are all masked by -infinity. */
GROUP(32, 1)
SPEC(0, CAUSAL)
SPEC(1, VALUES)
SPEC(2, MASKED)
SPEC(3, LENGTHS)
SPEC(4, CAPPED)
PARAMS(uint rows; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first; uint v_first;
       uint q_stride; uint k_stride; uint first; uint count; uint mask_item; uint mask_head; uint mask_query; float scale; float cap;)
GROUP_ARRAY(float, score, 64u * GROUP_SIZE)

#include "math.clh"
#include "attention/attention.clh"
#include "by_four.clh"

KERNEL7(attention, IN(real, q), IN(real, k), IN(real, v), IN(real, mask), IN(int, lengths), OUT(real, state), OUT(real, y))
{
    GROUP_ARRAY_HERE(float, score, 64u * GROUP_SIZE)
    const uint row = INDEX();
    if (row < p.rows) {
        const uint i = row % p.queries, line = row / p.queries, h = line % p.heads, item = line / p.heads;
        const uint width = p.width, kv = h / p.share * width;
        const uint at_q = (item * p.queries + i) * p.q_stride + p.q_first + h * width;
        const uint at_k = item * p.keys * p.k_stride + p.k_first + kv, at_v = item * p.keys * p.k_stride + p.v_first + kv;
        const uint at_y = (item * p.queries + i) * p.heads * width + h * width;
        const uint at_mask = item * p.mask_item + h * p.mask_head + i * p.mask_query;
        uint keys = p.keys;
        if (LENGTHS != 0)
            keys = MIN(keys, TO_U32(MAX(lengths[item], 0)));
        if (LENGTHS == 2)
            keys = SELECT(i < keys, keys, 0u);
        const uint begin = first_key(i, p.window), end = end_key(i, p.window, keys);
        const uint lane = LOCAL_INDEX();
        float m = -INF;
        EXACT float total = 0.0f;
        if (p.first > 0u) {
            m = LOAD(state, row * STATE);
            total = LOAD(state, row * STATE + 1u);
        }
        if (VALUES != 0)
            if (p.first == 0u)
                for (uint c = 0u; c < width; c++)
                    STORE(y, at_y + c, 0.0f);
        const uint from = MAX(begin, p.first), until = MIN(end, p.first + p.count);
        for (uint tile = from / TILE * TILE; tile < until; tile += TILE) {
            const uint j0 = MAX(tile, from), j1 = MIN(tile + TILE, until);
            float top = m;
            for (uint j = j0; j < j1; j++) {
                EXACT float s = 0.0f;
                BY_FOUR(c, 0u, width, 1u, s = FMA(LOAD(q, at_q + c), LOAD(k, at_k + j * p.k_stride + c), s);)
                s = s * p.scale;
                if (CAPPED != 0)
                    s = p.cap * BENT(s);
                if (MASKED != 0)
                    s = s + LOAD(mask, at_mask + j);
                score[MINE(j - j0)] = s;
                top = SELECT(s > top, s, top);
            }
            const float shift = SELECT(top == -INF, 0.0f, top), keep = m_exp(m - shift);
            EXACT float part = 0.0f;
            for (uint j = j0; j < j1; j++) {
                const float e = m_exp(score[MINE(j - j0)] - shift);
                score[MINE(j - j0)] = e;
                part += e;
            }
            total = total * keep + part;
            m = top;
            if (VALUES != 0)
                for (uint c = 0u; c < width; c++) {
                    EXACT float t = 0.0f;
                    BY_FOUR(j, j0, j1, 1u, t = FMA(score[MINE(j - j0)], LOAD(v, at_v + j * p.k_stride + c), t);)
                    STORE(y, at_y + c, LOAD(y, at_y + c) * keep + t);
                }
        }
        const bool is_last = p.first + p.count >= p.keys;
        const bool is_empty = SELECT(MASKED != 0, total == 0.0f, begin >= end);
        const float inverse = SELECT(is_empty, 0.0f, 1.0f / total);
        STORE(state, row * STATE, SELECT(is_last, SELECT(is_empty, 0.0f, m), m));
        STORE(state, row * STATE + 1u, SELECT(is_last, inverse, total));
        STORE(state, row * STATE + 2u, 0.0f);
        STORE(state, row * STATE + 3u, TO_F32(keys));
        if (VALUES != 0)
            if (is_last)
                for (uint c = 0u; c < width; c++)
                    STORE(y, at_y + c, SELECT(is_empty, 0.0f, LOAD(y, at_y + c) * inverse));
    }
}
