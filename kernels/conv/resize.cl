/* SPDX-License-Identifier: MIT */
/* Resizes the middle axis of [outer, size, inner] to `to` elements. */
GROUP(64, 1)
SPEC(0, KIND)
PARAMS(uint count; uint size; uint to; uint inner;)

#include "conv/resize.clh"

KERNEL2(resize, IN(real, x), OUT(real, y))
{
    const uint i = INDEX();
    if (i >= p.count)
        return;
    const uint line = i / p.inner, outer = line / p.to, o = line - outer * p.to, c = i - line * p.inner;
    const uint first = resize_first(o, p.size, p.to), end = resize_end(o, p.size, p.to);
    EXACT float total = 0.0f;
    for (uint e = first; e < end; e++) {
        const float v = LOAD(x, (outer * p.size + e) * p.inner + c);
        const float part = KIND == 1 ? v * resize_weight(o, e, p.size, p.to) : v;
        total = e == first ? part : total + part;
    }
    STORE(y, i, KIND == 2 ? total / TO_F32(end - first) : total);
}
