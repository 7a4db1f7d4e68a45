/* SPDX-License-Identifier: MIT */
/* layer_norm for GPUs, with rows in registers: the same sums of the same terms, in another order. */
GROUP(256, 1)
SPEC(0, OP)
SPEC(1, CENTERED)
SPEC(2, ADDS)
SPEC(3, LOG_LANES)
SPEC(4, MORE)
SPEC(5, IN_QUADS)
PARAMS(uint rows; uint cols; float epsilon;)
QUAD_VIEW(0, x)
QUAD_VIEW(1, a)
QUAD_VIEW(2, b)
QUAD_VIEW(3, r)
GROUP_ARRAY(float, part, 2u * GROUP_SIZE)

#include "math.clh"
#include "norm/two_sum.clh"
#include "row_held.clh"

#define FORWARD 0
#define GRADIENT 1
#define SCALE_GRADIENT 2
#define BOTH 3
#define HAS_SUM (OP + 4 * ADDS == 4) /* FORWARD */
#define HAS_SLOPES (OP % 2 == 1) /* GRADIENT and BOTH */
#define ADDS_LAST (OP * ADDS > 0) /* not FORWARD */

/* s and t = the sum of a row and its rounding error. */
#define TAKE(value) TWO_SUM(s, t, value)
#define TWO_SUM_FOUR                                                                               \
    EXACT float four_s = part[self];                                                              \
    EXACT float four_t = part[GROUP_SIZE + self];                                                 \
    UNROLL for (uint k = 1u; k < 4u; k++) {                                                        \
        four_t += part[GROUP_SIZE + self + k * width];                                            \
        TWO_SUM(four_s, four_t, part[self + k * width])                                           \
    }                                                                                              \
    part[self] = four_s;                                                                          \
    part[GROUP_SIZE + self] = four_t;
#define ROW_SUM()                                                                                  \
    UNROLL for (uint i = 0u; i < QUADS; i++) {                                                     \
        EACH(held[i], TAKE)                                                                        \
    }                                                                                              \
    part[self] = s;                                                                               \
    part[GROUP_SIZE + self] = t;                                                                  \
    FOLD(TWO_SUM_FOUR)                                                                             \
    s = part[self - lane];                                                                        \
    t = part[GROUP_SIZE + self - lane];                                                           \
    if (HAS_PAIR) {                                                                                \
        t += part[GROUP_SIZE + self - lane + 1u];                                                 \
        TWO_SUM(s, t, part[self - lane + 1u])                                                     \
    }                                                                                              \
    BARRIER();

/* s and t = the sums of two quads of terms of each quad over the row. */
#define ADD_S(term) s += term;
#define ADD_T(term) t += term;
#define ROW_SUMS(TERMS_S, TERMS_T)                                                                 \
    s = 0.0f;                                                                                      \
    t = 0.0f;                                                                                      \
    UNROLL for (uint i = 0u; i < QUADS; i++) {                                                     \
        EXACT QUAD terms_s = TERMS_S;                                                              \
        EXACT QUAD terms_t = TERMS_T;                                                              \
        EACH(terms_s, ADD_S)                                                                       \
        EACH(terms_t, ADD_T)                                                                       \
    }                                                                                              \
    SUM_LANES_2(s, t)

/* x - first, 0 past the end of the row. */
#define FROM_FIRST(value, c) SELECT(COL(i, c) < cols, value - first, 0.0f)
#define U ((held[i] - TO_QUAD(shift)) * TO_QUAD(inverse))

FN QUAD add_r(QUAD value, QUAD r)
{
    EXACT QUAD sum = value + r;
    return sum;
}

KERNEL6(layer_norm_held, IN(real, x), IN(real, a), IN(real, b), IN(real, r), OUT(real, y), OUT(real, z))
{
    GROUP_ARRAY_HERE(float, part, 2u * GROUP_SIZE)
    HELD_ROW()
    const float count = TO_F32(p.cols);
    QUAD held[MOST_QUADS], of_a[MOST_QUADS], of_b[MOST_QUADS];
    HOLD(held, x, base, last, 0.0f)
    if (OP != SCALE_GRADIENT) {
        HOLD(of_a, a, 0u, p.cols - 1u, 0.0f)
    }
    if (OP != FORWARD) {
        HOLD(of_b, b, base, last, 0.0f)
    }
    if (HAS_SUM) {
        HOLD(of_b, r, base, last, 0.0f)
        UNROLL for (uint i = 0u; i < QUADS; i++) {
            held[i] = add_r(held[i], of_b[i]);
            STORE_HELD(z, i, held[i])
        }
    }
    float shift = 0.0f;
    EXACT float s = 0.0f;
    EXACT float t = 0.0f;
    float first = 0.0f;
    if (CENTERED != 0) {
        ROW_SUM()
        first = (s + t) / count;
        UNROLL for (uint i = 0u; i < QUADS; i++) {
            const QUAD of_x = held[i];
            held[i] = MAKE_QUAD(FROM_FIRST(of_x.x, 0u), FROM_FIRST(of_x.y, 1u), FROM_FIRST(of_x.z, 2u), FROM_FIRST(of_x.w, 3u));
        }
    }
    ROW_SUMS(held[i], held[i] * held[i])
    if (CENTERED != 0)
        shift = s / count;
    EXACT float spread = t / count - shift * shift;
    shift = SELECT(first * first < spread, 0.0f, shift);
    const float inverse = 1.0f / m_sqrt(SELECT(spread < 0.0f, 0.0f, spread) + p.epsilon);
    if (HAS_SLOPES) {
        UNROLL for (uint i = 0u; i < QUADS; i++)
            of_a[i] = of_b[i] * of_a[i];
        ROW_SUMS(of_a[i], of_a[i] * U)
        s = SELECT(CENTERED != 0, s / count, 0.0f);
        t = t / count;
    }
    if (OP == BOTH) {
        UNROLL for (uint i = 0u; i < QUADS; i++)
            STORE_HELD(z, i, U * of_b[i])
    }
    if (ADDS_LAST) {
        HOLD(of_b, r, base, last, 0.0f)
    }
    UNROLL for (uint i = 0u; i < QUADS; i++) {
        QUAD value = U;
        if (OP == FORWARD)
            value = value * of_a[i];
        if (HAS_SLOPES)
            value = ((of_a[i] - TO_QUAD(s)) - value * TO_QUAD(t)) * TO_QUAD(inverse);
        if (OP == SCALE_GRADIENT)
            value = value * of_b[i];
        if (ADDS_LAST)
            value = add_r(value, of_b[i]);
        if (OP == FORWARD)
            if (CENTERED != 0) {
                const uint end = p.cols - 1u;
                if (IN_QUADS != 0)
                    value = value + LOAD_QUAD(b, MIN(COL(i, 0u), end) / 4u);
                else
                    value = value + MAKE_QUAD(LOAD(b, MIN(COL(i, 0u), end)), LOAD(b, MIN(COL(i, 1u), end)),
                                              LOAD(b, MIN(COL(i, 2u), end)), LOAD(b, MIN(COL(i, 3u), end)));
            }
        STORE_HELD(y, i, value)
    }
}
