/* SPDX-License-Identifier: MIT */
/* attention for GPUs: a group computes 64 queries of a head, see attention_tile.clh. It keeps the largest score m of
   each query and the sum of exp(score - m) so far, and scales its sums when m grows, as `attention` does. All keys are
   in one launch.
   LOG_WIDTH: 0 heads of 32 numbers, 1 of 64, 2 of 128. */
GROUP(256, 1)
SPEC(0, CAUSAL)
SPEC(1, VALUES)
SPEC(2, MASKED)
SPEC(3, LENGTHS)
SPEC(4, CAPPED)
SPEC(5, LOG_WIDTH)
PARAMS(uint blocks; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first;
       uint k_first; uint v_first; uint q_stride; uint k_stride; uint mask_item; uint mask_head; uint mask_query;
       float scale; float cap;)
QUAD_VIEW(0, q)
QUAD_VIEW(1, k)
QUAD_VIEW(2, v)
GROUP_ARRAY(QUAD, strips, 544)
GROUP_ARRAY(QUAD, weights, 1088)

#include "attention/attention_tile.clh"

/* The score of row r and column j, and the largest score of the row. */
#define SCORE(r, e, f, j)                                                                          \
    s##r.f = s##r.f * p.scale;                                                                     \
    if (CAPPED != 0)                                                                               \
        s##r.f = p.cap * BENT(s##r.f);                                                             \
    if (MASKED != 0)                                                                               \
        s##r.f = s##r.f + MASK_OF(ROW_AT(r), last, j, last_key);                                   \
    if (!is_whole)                                                                                 \
        s##r.f = SELECT(SEES(r, j), s##r.f, -INF);                                                 \
    top.e = SELECT(s##r.f > top.e, s##r.f, top.e);
#define SCORES(r, e)                                                                               \
    SCORE(r, e, x, column)                                                                         \
    SCORE(r, e, y, column + 1u)                                                                    \
    SCORE(r, e, z, column + 2u)                                                                    \
    SCORE(r, e, w, column + 3u)
#define EXPONENTIALS(r, e)                                                                         \
    {                                                                                              \
        const float shift = SELECT(top.e == -INF, 0.0f, top.e);                                    \
        keep.e = m_exp(m.e - shift);                                                               \
        s##r.x = m_exp(s##r.x - shift);                                                            \
        s##r.y = m_exp(s##r.y - shift);                                                            \
        s##r.z = m_exp(s##r.z - shift);                                                            \
        s##r.w = m_exp(s##r.w - shift);                                                            \
        EXACT float part = (s##r.x + s##r.y) + (s##r.z + s##r.w);                                  \
        total.e = total.e * keep.e + part;                                                         \
    }
#define SCALE_AND_ADD(o)                                                                           \
    o##0 = o##0 * TO_QUAD(keep.x) + t0;                                                            \
    o##1 = o##1 * TO_QUAD(keep.y) + t1;                                                            \
    o##2 = o##2 * TO_QUAD(keep.z) + t2;                                                            \
    o##3 = o##3 * TO_QUAD(keep.w) + t3;

#define FINISH(r, e)                                                                               \
    if (!is_surplus && ROW_AT(r) <= last) {                                                        \
        const uint row = line * p.queries + ROW_AT(r);                                             \
        const bool is_empty = SELECT(MASKED != 0, total.e == 0.0f, lo##r >= hi##r);                \
        const float inverse = SELECT(is_empty, 0.0f, 1.0f / total.e);                              \
        if (x == 0u) {                                                                             \
            STORE(state, row * STATE, SELECT(is_empty, 0.0f, m.e));                                \
            STORE(state, row * STATE + 1u, inverse);                                               \
            STORE(state, row * STATE + 2u, 0.0f);                                                  \
            STORE(state, row * STATE + 3u, TO_F32(SELECT(ROW_AT(r) < seeing, length, 0u)));        \
        }                                                                                          \
        if (VALUES != 0) {                                                                         \
            left##r = PICK_QUAD(is_empty, TO_QUAD(0.0f), left##r * TO_QUAD(inverse));              \
            right##r = PICK_QUAD(is_empty, TO_QUAD(0.0f), right##r * TO_QUAD(inverse));            \
            const uint to_y = ((item * p.queries + ROW_AT(r)) * p.heads + h) * W;                  \
            STORE_HEAD(y_out, r, left, right, to_y)                                                \
        }                                                                                          \
    }

KERNEL7(attention_tile, IN(real, q), IN(real, k), IN(real, v), IN(real, mask), IN(int, lengths), OUT(real, state),
        OUT(real, y_out))
{
    GROUP_ARRAY_HERE(QUAD, strips, 544)
    GROUP_ARRAY_HERE(QUAD, weights, 1088)
    QUERY_GROUP
    uint length = p.keys;
    if (LENGTHS != 0)
        length = MIN(length, TO_U32(MAX(lengths[item], 0)));
    QUERY_RANGE

    QUAD s0, s1, s2, s3, t0, t1, t2, t3, left0, left1, left2, left3, right0, right1, right2, right3;
    QUAD m = TO_QUAD(-INF), total = TO_QUAD(0.0f), keep;
    CLEAR(left)
    CLEAR(right)
    for (uint tile = begin / TILE * TILE; tile < end; tile += TILE) {
        const bool is_whole = all_begin <= tile && tile + TILE <= all_end;
        const uint column = tile + 4u * x;
        const uint of_k = PLACE(base_k, tile, last_key, p.k_stride);
        PRODUCT(s, q, of_q, k, of_k)
        QUAD top = m;
        EACH_ROW(SCORES)
        BARRIER();
        strips[x * ROW + y] = top;
        BARRIER();
        UNROLL for (uint n = 0u; n < 16u; n++)
            top = fmax(top, strips[n * ROW + y]);
        EACH_ROW(EXPONENTIALS)
        m = top;
        if (VALUES != 0) {
            KEEP_WEIGHTS(s)
            WEIGH(v, base_v, p.k_stride, last_key, 0u)
            SCALE_AND_ADD(left)
            if (LOG_WIDTH == 2) {
                WEIGH(v, base_v, p.k_stride, last_key, 64u)
                SCALE_AND_ADD(right)
            }
        }
    }
    BARRIER();
    strips[x * ROW + y] = total;
    BARRIER();
    EXACT QUAD sum = strips[y];
    UNROLL for (uint n = 1u; n < 16u; n++)
        sum = sum + strips[n * ROW + y];
    total = sum;
    if (VALUES != 0) {
        JOIN_HALVES(left)
    }
    EACH_ROW(FINISH)
}
