/* SPDX-License-Identifier: MIT */
/* attention_grad_key for GPUs: a group computes 64 keys of a key head over all queries of the heads that share it, in
   their order, see attention_tile.clh. */
GROUP(256, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
SPEC(4, LOG_WIDTH)
PARAMS(uint blocks; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first;
       uint k_first; uint v_first; uint q_stride; uint k_stride; uint to_k; uint to_v; uint to_stride;
       uint mask_item; uint mask_head; uint mask_query; float scale; float cap;)
QUAD_VIEW(0, q)
QUAD_VIEW(1, k)
QUAD_VIEW(2, v)
QUAD_VIEW(4, dy)
GROUP_ARRAY(QUAD, strips, 544)
GROUP_ARRAY(QUAD, weights, 1088)

#include "attention/attention_tile.clh"

/* Words of the state of the columns of an invocation. */
#define READ_STATE(to, word)                                                                       \
    to = MAKE_QUAD(LOAD(state, at_state + MIN(column, last_query) * STATE + word),                 \
                   LOAD(state, at_state + MIN(column + 1u, last_query) * STATE + word),            \
                   LOAD(state, at_state + MIN(column + 2u, last_query) * STATE + word),            \
                   LOAD(state, at_state + MIN(column + 3u, last_query) * STATE + word));

/* The share of row r and column i, and the derivative of a capped score, which registers keep. */
#define SHARE(r, f, i)                                                                             \
    s##r.f = s##r.f * p.scale;                                                                     \
    if (CAPPED != 0) {                                                                             \
        const float t = BENT(s##r.f);                                                              \
        s##r.f = p.cap * t;                                                                        \
        bend##r.f = 1.0f - t * t;                                                                  \
    }                                                                                              \
    if (MASKED != 0)                                                                               \
        s##r.f = s##r.f + MASK_OF(i, last_query, ROW_AT(r), last);                                 \
    s##r.f = m_exp(s##r.f - m.f) * inverse.f;                                                      \
    if (!is_whole)                                                                                 \
        s##r.f = SELECT(SEES(r, i), s##r.f, 0.0f);
#define SHARES(r, e)                                                                               \
    SHARE(r, x, column)                                                                            \
    SHARE(r, y, column + 1u)                                                                       \
    SHARE(r, z, column + 2u)                                                                       \
    SHARE(r, w, column + 3u)

/* Its slope, from the share that is in group memory: so no registers keep it during the second product. */
#define SLOPE(r, e, f, i)                                                                          \
    s##r.f = own.e * (s##r.f - along.f) * p.scale;                                                 \
    if (CAPPED != 0)                                                                               \
        s##r.f = s##r.f * bend##r.f;                                                               \
    if (!is_whole)                                                                                 \
        s##r.f = SELECT(SEES(r, i), s##r.f, 0.0f);
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
        const uint row = (item * p.keys + ROW_AT(r)) * p.to_stride + kv * W;                       \
        STORE_HEAD(grad, r, k_left, k_right, p.to_k + row)                                         \
        STORE_HEAD(grad, r, v_left, v_right, p.to_v + row)                                         \
    }

KERNEL7(attention_grad_key_tile, IN(real, q), IN(real, k), IN(real, v), IN(real, mask), IN(real, dy), IN(real, state),
        OUT(real, grad))
{
    GROUP_ARRAY_HERE(QUAD, strips, 544)
    GROUP_ARRAY_HERE(QUAD, weights, 1088)
    const uint each = (p.keys + TILE - 1u) / TILE, kv_heads = p.heads / p.share;
    const uint block = MIN(GROUP_INDEX(), p.blocks - 1u), line = block / each;
    const uint j0 = (block - line * each) * TILE;
    const bool is_surplus = GROUP_INDEX() >= p.blocks;
    const uint kv = line % kv_heads, item = line / kv_heads;
    const uint lane = LOCAL_INDEX(), x = lane % 16u, y = lane / 16u, first_row = j0 + 4u * y;
    const uint last = MIN(j0 + TILE, p.keys) - 1u, last_query = p.queries - 1u, step_y = p.heads * W;
    const uint of_k = PLACE(item * p.keys * p.k_stride + p.k_first + kv * W, j0, last, p.k_stride);
    const uint of_v = PLACE(item * p.keys * p.k_stride + p.v_first + kv * W, j0, last, p.k_stride);
    uint length = p.keys;
    if (LENGTHS != 0)
        length = TO_U32(LOAD(state, (item * p.heads + kv * p.share) * p.queries * STATE + 3u));
    const uint queries = SELECT(LENGTHS == 2, MIN(p.queries, length), p.queries);
    const uint begin = first_query(j0, p.window), all_begin = first_query(last, p.window);
    const uint end = SELECT(j0 < length && !is_surplus, end_query(MIN(last, length - 1u), p.window, queries), 0u);
    const uint all_end = SELECT(last < length, end_query(j0, p.window, queries), 0u);
    EACH_ROW(DECLARE_ENDS)
    EACH_ROW(KEY_ENDS)

    QUAD s0, s1, s2, s3, t0, t1, t2, t3, m, inverse, along, bend0, bend1, bend2, bend3;
    QUAD k_left0, k_left1, k_left2, k_left3, k_right0, k_right1, k_right2, k_right3;
    QUAD v_left0, v_left1, v_left2, v_left3, v_right0, v_right1, v_right2, v_right3;
    CLEAR(k_left)
    CLEAR(k_right)
    CLEAR(v_left)
    CLEAR(v_right)
    for (uint h = kv * p.share; h < (kv + 1u) * p.share; h++) {
        const uint base_q = item * p.queries * p.q_stride + p.q_first + h * W;
        const uint base_y = item * p.queries * step_y + h * W;
        const uint at_state = (item * p.heads + h) * p.queries * STATE;
        const uint at_mask = item * p.mask_item + h * p.mask_head;
        for (uint tile = begin / TILE * TILE; tile < end; tile += TILE) {
            const bool is_whole = all_begin <= tile && tile + TILE <= all_end;
            const uint column = tile + 4u * x;
            const uint of_q = PLACE(base_q, tile, last_query, p.q_stride);
            const uint of_y = PLACE(base_y, tile, last_query, step_y);
            PRODUCT(s, k, of_k, q, of_q)
            READ_STATE(m, 0u)
            READ_STATE(inverse, 1u)
            EACH_ROW(SHARES)
            KEEP_WEIGHTS(s)
            WEIGH(dy, base_y, step_y, last_query, 0u)
            ADD_TO(v_left)
            if (LOG_WIDTH == 2) {
                WEIGH(dy, base_y, step_y, last_query, 64u)
                ADD_TO(v_right)
            }
            PRODUCT(s, v, of_v, dy, of_y)
            READ_STATE(along, 2u)
            EACH_COLUMN(SLOPES)
            KEEP_WEIGHTS(s)
            WEIGH(q, base_q, p.q_stride, last_query, 0u)
            ADD_TO(k_left)
            if (LOG_WIDTH == 2) {
                WEIGH(q, base_q, p.q_stride, last_query, 64u)
                ADD_TO(k_right)
            }
        }
    }
    JOIN_HALVES(k_left)
    JOIN_HALVES(v_left)
    EACH_ROW(FINISH)
}
