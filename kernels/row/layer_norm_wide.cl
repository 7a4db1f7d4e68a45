/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* layer_norm for CPUs with wide vectors: one invocation processes `each` rows, 16 elements of a row at a time. No
   chain of additions is longer than 64, but that of two-sums. */
GROUP(1, 1)
SPEC(0, OP)
SPEC(1, CENTERED)
PARAMS(uint rows; uint cols; float epsilon; uint each;)

#include "math.clh"
#include "part_wide.clh"
#include "row/row_wide.clh"

#define FORWARD 0
#define GRADIENT 1

/* x[k .. k + 15] of a row; zeros after its end, where `tail` is also zero. */
#define ROW(x) (tail_at <= k ? load_part(x, k, cols) : vload16(0, (x) + k))
#define KEEP(v) (tail_at <= k ? (v) * tail : (v))
#define X     (ROW(px) - first)
#define U     ((X - shift) * inverse)
#define SLOPE (ROW(pb) * ROW(a))

/* s and t = the sums of two terms over a row. */
#define ROW_SUMS(TERM_S, TERM_T)                                                                   \
    {                                                                                              \
        float16 s2 = (float16)(0.0f), t2 = (float16)(0.0f);                                        \
        for (uint k2 = 0; k2 < cols; k2 += RUN) {                                                  \
            float16 s1 = (float16)(0.0f), t1 = (float16)(0.0f);                                    \
            for (uint k1 = k2; k1 < min(cols, k2 + RUN); k1 += BLOCK) {                            \
                float16 s0 = (float16)(0.0f), t0 = (float16)(0.0f);                                \
                for (uint k = k1; k < min(cols, k1 + BLOCK); k += 16) {                            \
                    const float16 term_s = TERM_S, term_t = TERM_T;                                \
                    s0 += KEEP(term_s);                                                            \
                    t0 += KEEP(term_t);                                                            \
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
        for (uint k = 0; k < cols; k += 16)                                                        \
            TWO_SUM(float16, s2, t2, ROW(px))                                                      \
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

#define STORE_ROW(v)                                                                               \
    for (uint k = 0; k < tail_at; k += 16) {                                                       \
        const float16 value = v;                                                                   \
        vstore16(value, 0, py + k);                                                                \
    }                                                                                              \
    if (tail_at < cols) {                                                                          \
        const uint k = tail_at;                                                                    \
        float part[16];                                                                            \
        const float16 value = v;                                                                   \
        vstore16(value, 0, part);                                                                  \
        for (uint i = 0; k + i < cols; i++)                                                        \
            py[k + i] = part[i];                                                                   \
    }

KERNEL4(layer_norm_wide, IN(float, x), IN(float, a), IN(float, b), OUT(float, y))
{
    const uint cols = p.cols, tail_at = cols / 16 * 16;
    const float count = (float)cols;
    float ones[16];
    for (uint i = 0; i < 16; i++)
        ones[i] = tail_at + i < cols ? 1.0f : 0.0f;
    const float16 tail = vload16(0, ones);
    const uint row = GROUP_INDEX() * p.each, end = min(p.rows, row + p.each);
    for (uint r = row; r < end; r++) {
        __global const float *px = x + (size_t)r * cols, *pb = OP == FORWARD ? b : b + (size_t)r * cols;
        __global float *py = y + (size_t)r * cols;
        float first = 0.0f, shift = 0.0f, inverse = 1.0f;
        float s, t;
        if (CENTERED) {
            ROW_SUM()
            first = (s + t) / count;
        }
        ROW_SUMS(X, X * X)
        if (CENTERED)
            shift = s / count;
        const float spread = t / count - shift * shift;
        shift = first * first < spread ? 0.0f : shift;
        inverse = 1.0f / m_sqrt((spread < 0.0f ? 0.0f : spread) + p.epsilon);
        if (OP == FORWARD) {
            if (CENTERED) {
                STORE_ROW(U * ROW(a) + ROW(b))
            } else {
                STORE_ROW(U * ROW(a))
            }
        }
        if (OP == GRADIENT) {
            ROW_SUMS(SLOPE, SLOPE * U)
            const float mean = CENTERED ? s / count : 0.0f, share = t / count;
            STORE_ROW(((SLOPE - mean) - U * share) * inverse)
        }
        if (OP > GRADIENT) {
            STORE_ROW(U * ROW(pb))
        }
    }
}
