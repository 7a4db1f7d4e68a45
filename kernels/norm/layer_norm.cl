/* SPDX-License-Identifier: MIT */
/* Layer norm of the rows of x, with u = (x - mean) / sqrt(variance + epsilon): y = scale u + offset (a, b), the
   derivative of x (scale, dy), u dy, or the derivative in y and u dy in z. RMS norm (CENTERED 0): u = x / sqrt(mean of
   x^2 + epsilon), no offset. With ADDS the rows are x + r, and z gets them; a derivative of x is added to r. A group
   processes a row; its lanes interleave the elements. The mean is of a sum with its rounding errors (Knuth's two-sum), so
   that it is exact to its last digits also where the elements cancel. The variance is the mean square of the differences
   to it; their mean corrects a mean larger than sigma, and is only rounding errors of a smaller one. No chain of
   additions is longer than 64, except a chain of two-sums. */
GROUP(64, 1)
SPEC(0, OP)
SPEC(1, CENTERED)
SPEC(2, ADDS)
SPEC(3, SHORT) /* rows have at most three elements for each lane */
PARAMS(uint rows; uint cols; float epsilon;)
GROUP_ARRAY(float, part, 2u * GROUP_SIZE)

#include "math.clh"
#include "norm/two_sum.clh"
#define HAS_FOURS SHORT == 0
#include "by_four.clh"

#define FORWARD 0
#define GRADIENT 1
#define SCALE_GRADIENT 2
#define BOTH 3
#define CHAIN 64u

/* An invocation reads only elements of z that it has written. */
#define HAS_SUM (OP + 4 * ADDS == 4) /* FORWARD */
#define HAS_SLOPES (OP % 2 == 1) /* GRADIENT and BOTH */
#define OF_X SELECT(HAS_SUM, LOAD(z, base + k), LOAD(x, base + k))
#define X (OF_X - first)
#define U ((X - shift) * inverse)
#define SLOPE (LOAD(b, base + k) * LOAD(a, k))

/* s and t = the sums of two terms over a row: CHAIN elements in a lane, CHAIN of these sums, then all of those; then
   the lanes, pairwise. */
#define ROW_SUMS(TERM_S, TERM_T)                                                                   \
    s = 0.0f;                                                                                      \
    t = 0.0f;                                                                                      \
    for (uint k2 = lane; k2 < cols; k2 += CHAIN * CHAIN * GROUP_SIZE) {                            \
        const uint end2 = MIN(cols, k2 - lane + CHAIN * CHAIN * GROUP_SIZE);                       \
        EXACT float s1 = 0.0f;                                                                     \
        EXACT float t1 = 0.0f;                                                                     \
        for (uint k1 = k2; k1 < end2; k1 += CHAIN * GROUP_SIZE) {                                  \
            const uint end1 = MIN(end2, k1 - lane + CHAIN * GROUP_SIZE);                           \
            EXACT float s0 = 0.0f;                                                                 \
            EXACT float t0 = 0.0f;                                                                 \
            BY_FOUR(k, k1, end1, GROUP_SIZE, EXACT float term_s = TERM_S; EXACT float term_t = TERM_T;  \
                    s0 += term_s; t0 += term_t;)                                                   \
            s1 += s0;                                                                              \
            t1 += t0;                                                                              \
        }                                                                                          \
        s += s1;                                                                                   \
        t += t1;                                                                                   \
    }                                                                                              \
    part[lane] = s;                                                                                \
    part[GROUP_SIZE + lane] = t;                                                                   \
    BARRIER();                                                                                     \
    for (uint width = GROUP_SIZE / 2u; width > 0u; width /= 2u) {                                  \
        if (lane < width) {                                                                        \
            EXACT float pair_s = part[lane] + part[lane + width];                                  \
            EXACT float pair_t = part[GROUP_SIZE + lane] + part[GROUP_SIZE + lane + width];        \
            part[lane] = pair_s;                                                                   \
            part[GROUP_SIZE + lane] = pair_t;                                                      \
        }                                                                                          \
        BARRIER();                                                                                 \
    }                                                                                              \
    s = part[0];                                                                                   \
    t = part[GROUP_SIZE];                                                                          \
    BARRIER();

/* s and t = the sum of a row and its rounding error. */
#define ROW_SUM()                                                                                  \
    {                                                                                              \
        EXACT float s0 = 0.0f;                                                                     \
        EXACT float t0 = 0.0f;                                                                     \
        BY_FOUR(k, lane, cols, GROUP_SIZE, TWO_SUM(s0, t0, OF_X))                                  \
        part[lane] = s0;                                                                           \
        part[GROUP_SIZE + lane] = t0;                                                              \
    }                                                                                              \
    BARRIER();                                                                                     \
    for (uint width = GROUP_SIZE / 2u; width > 0u; width /= 2u) {                                  \
        if (lane < width) {                                                                        \
            EXACT float pair_s = part[lane];                                                       \
            EXACT float pair_t = part[GROUP_SIZE + lane] + part[GROUP_SIZE + lane + width];        \
            TWO_SUM(pair_s, pair_t, part[lane + width])                                            \
            part[lane] = pair_s;                                                                   \
            part[GROUP_SIZE + lane] = pair_t;                                                      \
        }                                                                                          \
        BARRIER();                                                                                 \
    }                                                                                              \
    s = part[0];                                                                                   \
    t = part[GROUP_SIZE];                                                                          \
    BARRIER();

#define STORE_ROW(VALUE)                                                                           \
    BY_FOUR(k, lane, cols, GROUP_SIZE, STORE(y, base + k, VALUE);)

FN float add_r(float value, float r)
{
    EXACT float sum = value + r;
    return sum;
}

KERNEL6(layer_norm, IN(real, x), IN(real, a), IN(real, b), IN(real, r), OUT(real, y), OUT(real, z))
{
    GROUP_ARRAY_HERE(float, part, 2u * GROUP_SIZE)
    const uint lane = LOCAL_INDEX(), row = GROUP_INDEX();
    const uint cols = SELECT(row < p.rows, p.cols, 0u); /* surplus groups have no elements */
    const uint base = row * p.cols;
    const float count = TO_F32(p.cols);
    float first = 0.0f, shift = 0.0f, inverse = 1.0f;
    EXACT float s = 0.0f;
    EXACT float t = 0.0f;
    if (HAS_SUM)
        BY_FOUR(k, lane, cols, GROUP_SIZE, STORE(z, base + k, add_r(LOAD(x, base + k), LOAD(r, base + k)));)
    if (CENTERED != 0) {
        ROW_SUM()
        first = (s + t) / count;
    }
    ROW_SUMS(X, X * X)
    if (CENTERED != 0)
        shift = s / count;
    EXACT float spread = t / count - shift * shift;
    shift = SELECT(first * first < spread, 0.0f, shift);
    inverse = 1.0f / m_sqrt(SELECT(spread < 0.0f, 0.0f, spread) + p.epsilon);
    if (OP == FORWARD) {
        if (CENTERED != 0)
            STORE_ROW(U * LOAD(a, k) + LOAD(b, k))
        if (CENTERED == 0)
            STORE_ROW(U * LOAD(a, k))
    }
    if (HAS_SLOPES) {
        ROW_SUMS(SLOPE, SLOPE * U)
        const float mean = SELECT(CENTERED != 0, s / count, 0.0f), share = t / count;
        if (ADDS == 0)
            STORE_ROW(((SLOPE - mean) - U * share) * inverse)
        if (ADDS != 0)
            STORE_ROW(add_r(((SLOPE - mean) - U * share) * inverse, LOAD(r, base + k)))
    }
    if (OP == BOTH)
        BY_FOUR(k, lane, cols, GROUP_SIZE, STORE(z, base + k, U * LOAD(b, base + k));)
    if (OP == SCALE_GRADIENT)
        STORE_ROW(U * LOAD(b, base + k))
}
