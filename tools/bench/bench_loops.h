/* SPDX-License-Identifier: MIT */
/* Loops that load a core fully, for one kind of vectors. bench_limits.c includes this file once per
   kind and defines LOOPS(name), TARGET, VECTOR, LANES and the operations. */

/* Twelve chains hide the latency of every processor's multiply-add. FLOPs: 24 LANES `turns`. */
TARGET static float LOOPS(multiply_add)(unsigned long turns)
{
    const VECTOR m = SET(0.999f), c = SET(1e-3f);
    VECTOR x0 = SET(0.0f), x1 = SET(0.1f), x2 = SET(0.2f), x3 = SET(0.3f), x4 = SET(0.4f),
           x5 = SET(0.5f), x6 = SET(0.6f), x7 = SET(0.7f), x8 = SET(0.8f), x9 = SET(0.9f),
           x10 = SET(1.0f), x11 = SET(1.1f);
    for (unsigned long i = 0; i < turns; i++) {
        x0 = MULTIPLY_ADD(x0, m, c);
        x1 = MULTIPLY_ADD(x1, m, c);
        x2 = MULTIPLY_ADD(x2, m, c);
        x3 = MULTIPLY_ADD(x3, m, c);
        x4 = MULTIPLY_ADD(x4, m, c);
        x5 = MULTIPLY_ADD(x5, m, c);
        x6 = MULTIPLY_ADD(x6, m, c);
        x7 = MULTIPLY_ADD(x7, m, c);
        x8 = MULTIPLY_ADD(x8, m, c);
        x9 = MULTIPLY_ADD(x9, m, c);
        x10 = MULTIPLY_ADD(x10, m, c);
        x11 = MULTIPLY_ADD(x11, m, c);
    }
    const VECTOR sum = x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + x10 + x11;
    float lanes[LANES];
    memcpy(lanes, &sum, sizeof lanes);
    return lanes[0];
}

TARGET static void LOOPS(copy)(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        *(VECTOR *)(to + i) = *(const VECTOR *)(from + i);
}

TARGET static void LOOPS(triad)(float *restrict to, const float *restrict a,
                                const float *restrict b, size_t n)
{
    const VECTOR s = SET(3.0f);
    for (size_t i = 0; i < n; i += LANES)
        *(VECTOR *)(to + i) = MULTIPLY_ADD(s, *(const VECTOR *)(b + i), *(const VECTOR *)(a + i));
}

TARGET static void LOOPS(update)(float *restrict p, float *restrict m, float *restrict v,
                                 float *restrict g, size_t n)
{
    const VECTOR b1 = SET(0.9f), c1 = SET(0.1f), b2 = SET(0.999f), c2 = SET(0.001f),
                 rate = SET(-1e-3f), epsilon = SET(1e-8f);
    for (size_t i = 0; i < n; i += LANES)
        *(VECTOR *)(g + i) = c2;
    for (size_t i = 0; i < n; i += LANES) {
        const VECTOR gi = *(const VECTOR *)(g + i);
        const VECTOR mi = MULTIPLY_ADD(b1, *(const VECTOR *)(m + i), c1 * gi);
        const VECTOR vi = MULTIPLY_ADD(b2, *(const VECTOR *)(v + i), c2 * gi * gi);
        *(VECTOR *)(m + i) = mi;
        *(VECTOR *)(v + i) = vi;
        *(VECTOR *)(p + i) =
            MULTIPLY_ADD(rate, mi / (ROOT(vi) + epsilon), *(const VECTOR *)(p + i));
    }
}

#undef LOOPS
#undef TARGET
#undef VECTOR
#undef LANES
#undef SET
#undef MULTIPLY_ADD
#undef ROOT
