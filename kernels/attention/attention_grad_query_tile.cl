/* SPDX-License-Identifier: MIT */
/* attention_grad_query for GPUs: a group computes 64 queries of a head over all keys, see attention_tile.clh. */
GROUP(256, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
SPEC(4, LOG_WIDTH)
PARAMS(uint blocks; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first;
       uint k_first; uint v_first; uint q_stride; uint k_stride; uint to_first; uint to_stride; uint mask_item;
       uint mask_head; uint mask_query; float scale; float cap;)
QUAD_VIEW(0, q)
QUAD_VIEW(1, k)
QUAD_VIEW(2, v)
QUAD_VIEW(4, y_in)
QUAD_VIEW(5, dy)
GROUP_ARRAY(QUAD, strips, 544)
GROUP_ARRAY(QUAD, weights, 1088)

#include "attention/attention_tile.clh"

/* The largest score of row r, the inverse of its sum, and the sum of dy y. */
#define READ_STATE(r, e)                                                                           \
    {                                                                                              \
        const uint word = (line * p.queries + MIN(ROW_AT(r), last)) * STATE;                       \
        m.e = LOAD(state, word);                                                                   \
        inverse.e = LOAD(state, word + 1u);                                                        \
        const QUAD four = strips[4u * y + TO_U32(r)];                                              \
        EXACT float sum = (four.x + four.y) + (four.z + four.w);                                   \
        along.e = sum;                                                                             \
    }

/* The share of row r and column j, times the derivative of a capped score. */
#define SHARE(r, e, f, j)                                                                          \
    s##r.f = s##r.f * p.scale;                                                                     \
    if (CAPPED != 0) {                                                                             \
        bend = BENT(s##r.f);                                                                       \
        s##r.f = p.cap * bend;                                                                     \
        bend = 1.0f - bend * bend;                                                                 \
    }                                                                                              \
    if (MASKED != 0)                                                                               \
        s##r.f = s##r.f + MASK_OF(ROW_AT(r), last, j, last_key);                                   \
    s##r.f = m_exp(s##r.f - m.e) * inverse.e * bend;
#define SHARES(r, e)                                                                               \
    SHARE(r, e, x, column)                                                                         \
    SHARE(r, e, y, column + 1u)                                                                    \
    SHARE(r, e, z, column + 2u)                                                                    \
    SHARE(r, e, w, column + 3u)

/* Its slope, from the share that is in group memory: so no registers keep it during the second product. */
#define SLOPE(r, e, f, j)                                                                          \
    s##r.f = own.e * (s##r.f - along.e) * p.scale;                                                 \
    if (!is_whole)                                                                                 \
        s##r.f = SELECT(SEES(r, j), s##r.f, 0.0f);
#define SLOPES(n, f)                                                                               \
    {                                                                                              \
        const QUAD own = weights[(4u * x + TO_U32(n)) * ROW + y];                                  \
        SLOPE(0, x, f, column + TO_U32(n))                                                         \
        SLOPE(1, y, f, column + TO_U32(n))                                                         \
        SLOPE(2, z, f, column + TO_U32(n))                                                         \
        SLOPE(3, w, f, column + TO_U32(n))                                                         \
    }

#define FINISH(r, e)                                                                               \
    if (!is_surplus && ROW_AT(r) <= last) {                                                        \
        const uint to_q = (item * p.queries + ROW_AT(r)) * p.to_stride + p.to_first + h * W;       \
        if (x == 0u)                                                                               \
            STORE(state, (line * p.queries + ROW_AT(r)) * STATE + 2u, along.e);                    \
        STORE_HEAD(to, r, left, right, to_q)                                                       \
    }

KERNEL8(attention_grad_query_tile, IN(real, q), IN(real, k), IN(real, v), IN(real, mask), IN(real, y_in), IN(real, dy),
        OUT(real, state), OUT(real, to))
{
    GROUP_ARRAY_HERE(QUAD, strips, 544)
    GROUP_ARRAY_HERE(QUAD, weights, 1088)
    QUERY_GROUP
    const uint of_y = PLACE((item * p.queries * p.heads + h) * W, i0, last, p.heads * W);
    uint length = p.keys;
    if (LENGTHS != 0)
        length = TO_U32(LOAD(state, line * p.queries * STATE + 3u));
    QUERY_RANGE

    QUAD s0, s1, s2, s3, t0, t1, t2, t3, left0, left1, left2, left3, right0, right1, right2, right3;
    QUAD m, inverse, along, sums = TO_QUAD(0.0f);
    float bend = 1.0f;
    /* four invocations sum dy y of a row */
    for (uint c = 0u; c < p.width; c += STRIP) /* the width is W; written out, the loop would need too many registers */
        sums = FMA(LOAD_QUAD(y_in, (of_y + c) / 4u), LOAD_QUAD(dy, (of_y + c) / 4u), sums);
    EXACT float sum_of_four = (sums.x + sums.y) + (sums.z + sums.w);
    PUT_IN_QUADS(strips, lane, sum_of_four);
    BARRIER();
    EACH_ROW(READ_STATE)
    CLEAR(left)
    CLEAR(right)
    for (uint tile = begin / TILE * TILE; tile < end; tile += TILE) {
        const bool is_whole = all_begin <= tile && tile + TILE <= all_end;
        const uint column = tile + 4u * x;
        const uint of_k = PLACE(base_k, tile, last_key, p.k_stride), of_v = PLACE(base_v, tile, last_key, p.k_stride);
        PRODUCT(s, q, of_q, k, of_k)
        EACH_ROW(SHARES)
        KEEP_WEIGHTS(s)
        PRODUCT(s, dy, of_y, v, of_v)
        EACH_COLUMN(SLOPES)
        KEEP_WEIGHTS(s)
        WEIGH(k, base_k, p.k_stride, last_key, 0u)
        ADD_TO(left)
        if (LOG_WIDTH == 2) {
            WEIGH(k, base_k, p.k_stride, last_key, 64u)
            ADD_TO(right)
        }
    }
    JOIN_HALVES(left)
    EACH_ROW(FINISH)
}
