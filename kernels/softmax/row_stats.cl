/* SPDX-License-Identifier: MIT */
/* One pass over rows of logits: for each part of a row its maximum m and t, the sum of exp(x -
   m) over all elements but the (first) largest one, so that 1 + t is the denominator of softmax
   and log(1 + t) keeps its digits where t is tiny. Later passes (FIRST 0) combine such pairs. Up
   to 64 each. */
GROUP(64, 1)
SPEC(0, FIRST)
PARAMS(uint n; uint count; uint chunks;)

#include "math.clh"
#include "by_four.clh"

#define LARGER                                                                                     \
    const uint at = row * p.count + k;                                                             \
    const float x = LOAD(from, SELECT(FIRST != 0, at, 2u * at));                                   \
    const bool wins = !IS_NAN(m) && (x > m || IS_NAN(x));                                          \
    m = SELECT(wins, x, m);                                                                        \
    best = SELECT(wins, k, best);

/* A part of -Inf only adds nothing. */
#define ADD                                                                                        \
    const uint at = row * p.count + k;                                                             \
    if (FIRST != 0) {                                                                              \
        const float e = m_exp(LOAD(from, at) - base);                                              \
        t += SELECT(k == best, 0.0f, e);                                                           \
    }                                                                                              \
    if (FIRST == 0) {                                                                              \
        const float rest = LOAD(from, 2u * at + 1u), x = LOAD(from, 2u * at);                      \
        const float more = (1.0f + rest) * m_exp(x - base);                                        \
        t += SELECT(k == best, rest, SELECT(x == -INF, 0.0f, more));                               \
    }

KERNEL2(row_stats, IN(real, from), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint chunk = i % p.chunks, row = i / p.chunks;
        uint best = chunk;
        float m = -INF;
        BY_FOUR(k, chunk, p.count, p.chunks, LARGER)
        const float base = SELECT(m == -INF, 0.0f, m);
        float t = 0.0f;
        BY_FOUR(k, chunk, p.count, p.chunks, ADD)
        /* A whole row of -Inf, or one with +Inf, has no softmax. */
        t = SELECT(p.chunks == 1u && (m == INF || m == -INF), NAN_, t);
        STORE(to, 2u * i, m);
        STORE(to, 2u * i + 1u, t);
    }
}
