/* SPDX-License-Identifier: MIT */
/* One pass of a sum, mean or maximum over the middle of [outer, count, inner]: each invocation reduces every
   chunks-th element of its line, at most 64 elements, added pairwise in groups of eight. The host repeats passes
   until one chunk is left, so that no chain of additions is long. */
GROUP(64, 1)
SPEC(0, OP)
PARAMS(uint n; uint count; uint chunks; uint inner; float divisor;)

#define SUM 0
#define MEAN 1
#define MAXIMUM 2
#define START SELECT(OP == MAXIMUM, -INF, 0.0f)
#define PLACE(k) (at + (k) * p.chunks)
#define TERM(k)                                                                                    \
    LOAD_OR(from, base + PLACE(k) * p.inner, base + (p.count - 1u) * p.inner, PLACE(k) < p.count, START)

FN float combine(float a, float b)
{
    if (OP == MAXIMUM)
        return SELECT(a >= b || IS_NAN(a), a, b);
    EXACT float sum = a + b;
    return sum;
}

KERNEL2(reduce, IN(real, from), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint lane = i % p.inner, line = i / p.inner;
        const uint chunk = line % p.chunks, outer = line / p.chunks;
        const uint base = outer * p.count * p.inner + lane;
        float total = START;
        for (uint at = chunk; at < p.count; at += 8u * p.chunks) {
            const float a = combine(combine(TERM(0u), TERM(1u)), combine(TERM(2u), TERM(3u)));
            const float b = combine(combine(TERM(4u), TERM(5u)), combine(TERM(6u), TERM(7u)));
            total = combine(total, combine(a, b));
        }
        if (OP == MEAN)
            total = total / p.divisor;
        STORE(to, i, total);
    }
}
