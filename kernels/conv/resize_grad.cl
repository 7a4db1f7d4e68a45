/* SPDX-License-Identifier: MIT */
/* Gradient of resize: an invocation sums over the elements of the result that one element of x is part of. */
GROUP(64, 1)
SPEC(0, KIND)
PARAMS(uint count; uint size; uint to; uint inner;)

#include "conv/resize.clh"

/* The first element of the result that element e may be part of, and behind the last. */
FN uint reaches_from(uint e, uint size, uint to)
{
    uint from = e * to / size;
    if (KIND == 1)
        from = e == 0u ? 0u : to * (2u * e - 1u) / size / 2u;
    return from;
}

FN uint reaches_to(uint e, uint size, uint to)
{
    return KIND == 1 ? MIN(to, to * (2u * e + 3u) / size / 2u + 1u) : ((e + 1u) * to - 1u) / size + 1u;
}

KERNEL2(resize_grad, IN(real, dy), OUT(real, dx))
{
    const uint i = INDEX();
    if (i >= p.count)
        return;
    const uint line = i / p.inner, outer = line / p.size, e = line - outer * p.size, c = i - line * p.inner;
    const uint to = reaches_to(e, p.size, p.to);
    EXACT float total = 0.0f;
    for (uint o = reaches_from(e, p.size, p.to); o < to; o++) {
        const uint first = resize_first(o, p.size, p.to), end = resize_end(o, p.size, p.to);
        if (first <= e && e < end) {
            const float d = LOAD(dy, (outer * p.to + o) * p.inner + c);
            float part = d;
            if (KIND == 1)
                part = d * resize_weight(o, e, p.size, p.to);
            if (KIND == 2)
                part = d / TO_F32(end - first);
            total = total + part;
        }
    }
    STORE(dx, i, total);
}
