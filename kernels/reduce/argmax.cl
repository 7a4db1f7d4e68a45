/* SPDX-License-Identifier: MIT */
/* One pass of argmax over the middle of [outer, extent, inner]: each invocation compares up to 64 adjacent
   candidates. In the first pass candidate k is k itself; later passes read the indices from the pass before ([outer,
   count, inner]). The first NaN has priority, then the lowest index of the maximum. */
GROUP(64, 1)
SPEC(0, FIRST)
PARAMS(uint n; uint extent; uint count; uint chunks; uint inner;)

KERNEL3(argmax, IN(real, from), IN(int, candidates), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint lane = i % p.inner, line = i / p.inner;
        const uint chunk = line % p.chunks, outer = line / p.chunks;
        const uint end = MIN(chunk * 64u + 64u, p.count);
        float best = 0.0f;
        int best_index = -1;
        for (uint k = chunk * 64u; k < end; k++) {
            int index = TO_I32(k);
            if (FIRST == 0)
                index = candidates[(outer * p.count + k) * p.inner + lane];
            const float x = LOAD(from, (outer * p.extent + TO_U32(index)) * p.inner + lane);
            const bool wins = best_index < 0 || (!IS_NAN(best) && (IS_NAN(x) || x > best));
            best = SELECT(wins, x, best);
            best_index = SELECT(wins, index, best_index);
        }
        to[i] = best_index;
    }
}
