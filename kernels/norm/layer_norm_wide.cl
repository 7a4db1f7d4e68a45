/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* layer_norm for CPUs with wide vectors: one invocation processes `each` rows, 16 elements of a row at a time. No
   chain of additions is longer than 64, except a chain of two-sums. */
GROUP(1, 1)
SPEC(0, OP)
SPEC(1, CENTERED)
SPEC(2, ADDS)
PARAMS(uint rows; uint cols; float epsilon; uint each;)

#include "math.clh"
#include "row_wide.clh"

#define FORWARD 0
#define GRADIENT 1
#define SCALE_GRADIENT 2
#define BOTH 3
#define HAS_SUM (OP + 4 * ADDS == 4) /* FORWARD */
#define HAS_SLOPES (OP % 2 == 1)     /* GRADIENT and BOTH */

/* u of the elements vx of a row, and the slopes of u. */
#define U(vx)         ((((vx) - first) - shift) * inverse)
#define SLOPE(va, vb) ((vb) * (va))

/* Two terms of 16 elements of the row and of both other operands, whose sums are computed. */
#define SPREAD_TERMS(vx, va, vb)                                                                   \
    const float16 term_s = (vx) - first;                                                           \
    const float16 term_t = term_s * term_s;
#define SLOPE_TERMS(vx, va, vb)                                                                    \
    const float16 term_s = SLOPE(va, vb);                                                          \
    const float16 term_t = term_s * U(vx);

/* s and t = the sums of both terms over a row. The tail is the last vector of its block. */
#define ROW_SUMS(TERMS)                                                                            \
    {                                                                                              \
        float16 s2 = (float16)(0.0f), t2 = (float16)(0.0f);                                        \
        for (uint k2 = 0; k2 < cols; k2 += RUN) {                                                  \
            float16 s1 = (float16)(0.0f), t1 = (float16)(0.0f);                                    \
            for (uint k1 = k2; k1 < min(cols, k2 + RUN); k1 += BLOCK) {                            \
                float16 s0 = (float16)(0.0f), t0 = (float16)(0.0f);                                \
                for (uint k = k1; k < min(whole, k1 + BLOCK); k += 16) {                           \
                    TERMS(load16(px + k), load16(a + k), load16(pb + k))                           \
                    s0 += term_s;                                                                  \
                    t0 += term_t;                                                                  \
                }                                                                                  \
                if (whole < cols && whole < k1 + BLOCK) {                                          \
                    TERMS(tail_x, tail_a, tail_b)                                                  \
                    s0 += is_tail ? term_s : (float16)(0.0f);                                      \
                    t0 += is_tail ? term_t : (float16)(0.0f);                                      \
                }                                                                                  \
                s1 += s0;                                                                          \
                t1 += t0;                                                                          \
            }                                                                                      \
            s2 += s1;                                                                              \
            t2 += t1;                                                                              \
        }                                                                                          \
        s = add_up(s2);                                                                            \
        t = add_up(t2);                                                                            \
    }

/* s = s + x, t = t + the rounding error of that. */
#define TWO_SUM(T, s, t, x)                                                                        \
    {                                                                                              \
        const T value = x, sum = s + value, part_of = sum - s;                                     \
        t += (s - (sum - part_of)) + (value - part_of);                                            \
        s = sum;                                                                                   \
    }

/* s and t = the sum of a row and its rounding error. */
#define ROW_SUM()                                                                                  \
    {                                                                                              \
        float16 s2 = (float16)(0.0f), t2 = (float16)(0.0f);                                        \
        for (uint k = 0; k < whole; k += 16)                                                       \
            TWO_SUM(float16, s2, t2, load16(px + k))                                               \
        if (whole < cols)                                                                          \
            TWO_SUM(float16, s2, t2, tail_x)                                                       \
        float8 s1 = s2.lo, t1 = t2.lo + t2.hi;                                                     \
        TWO_SUM(float8, s1, t1, s2.hi)                                                             \
        float4 s0 = s1.lo, t0 = t1.lo + t1.hi;                                                     \
        TWO_SUM(float4, s0, t0, s1.hi)                                                             \
        s = s0.x;                                                                                  \
        t = (t0.x + t0.y) + (t0.z + t0.w);                                                         \
        TWO_SUM(float, s, t, s0.y)                                                                 \
        TWO_SUM(float, s, t, s0.z)                                                                 \
        TWO_SUM(float, s, t, s0.w)                                                                 \
    }

#define STORE_ROW_IN(y, VALUE)                                                                     \
    for (uint k = 0; k < whole; k += 16)                                                           \
        store16(VALUE(load16(px + k), load16(a + k), load16(pb + k), load16(pr + k)), y + base + k); \
    if (whole < cols)                                                                              \
        store_tail(VALUE(tail_x, tail_a, tail_b, tail_r), y, base + whole, cols - whole, end_of_y);
#define STORE_ROW(VALUE) STORE_ROW_IN(y, VALUE)

#define SUM_OF_TWO(vx, va, vb, vr)  ((vx) + (vr))
#define SCALED_U(vx, va, vb, vr)    (U(vx) * (va))
#define NORM(vx, va, vb, vr)        (U(vx) * (va) + (vb))
#define DERIVATIVE(vx, va, vb, vr)  (((SLOPE(va, vb) - mean) - U(vx) * share) * inverse)
#define ADDED(vx, va, vb, vr)       (DERIVATIVE(vx, va, vb, vr) + (vr))
#define SCALE_SLOPE(vx, va, vb, vr) (U(vx) * (vb))

KERNEL6(layer_norm_wide, IN(float, x), IN(float, a), IN(float, b), IN(float, r), OUT(float, y), OUT(float, z))
{
    const uint cols = p.cols, whole = cols / 16 * 16;
    const float count = (float)cols;
    const int16 is_tail = tail_mask(cols - whole);
    const uint row = GROUP_INDEX() * p.each, end = min(p.rows, row + p.each);
    const size_t end_of_x = (size_t)p.rows * cols, end_of_y = (size_t)end * cols;
    const float16 tail_a = load_tail(a, whole, cols);
    for (uint at = row; at < end; at++) {
        const size_t base = (size_t)at * cols;
        __global const float *px = x + base, *pb = OP == FORWARD ? b : b + base, *pr = r + base;
        float16 tail_x = (float16)(0.0f), tail_b = (float16)(0.0f), tail_r = (float16)(0.0f);
        if (whole < cols) {
            tail_x = load_tail(x, base + whole, end_of_x);
            tail_x = is_tail ? tail_x : (float16)(0.0f);
            tail_b = OP == FORWARD ? load_tail(b, whole, cols) : load_tail(b, base + whole, end_of_x);
            if (ADDS)
                tail_r = load_tail(r, base + whole, end_of_x);
            tail_r = is_tail ? tail_r : (float16)(0.0f);
        }
        if (HAS_SUM) {
            STORE_ROW_IN(z, SUM_OF_TWO)
            tail_x = tail_x + tail_r;
            px = z + base;
        }
        float first = 0.0f, shift = 0.0f, inverse = 1.0f;
        float s, t;
        if (CENTERED) {
            ROW_SUM()
            first = (s + t) / count;
        }
        ROW_SUMS(SPREAD_TERMS)
        if (CENTERED)
            shift = s / count;
        const float spread = t / count - shift * shift;
        shift = first * first < spread ? 0.0f : shift;
        inverse = 1.0f / m_sqrt((spread < 0.0f ? 0.0f : spread) + p.epsilon);
        if (OP == FORWARD) {
            if (CENTERED) {
                STORE_ROW(NORM)
            } else {
                STORE_ROW(SCALED_U)
            }
        }
        if (HAS_SLOPES) {
            ROW_SUMS(SLOPE_TERMS)
            const float mean = CENTERED ? s / count : 0.0f, share = t / count;
            if (ADDS) {
                STORE_ROW(ADDED)
            } else {
                STORE_ROW(DERIVATIVE)
            }
        }
        if (OP == BOTH) {
            STORE_ROW_IN(z, SCALE_SLOPE)
        }
        if (OP == SCALE_GRADIENT) {
            STORE_ROW(SCALE_SLOPE)
        }
    }
}
