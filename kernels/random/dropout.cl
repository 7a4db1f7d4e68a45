/* SPDX-License-Identifier: MIT */
/* y = x * scale, or 0 if the random word is below the threshold. The key of the word is the seed; its counter is made
   of step, stream and the element's position in the epoch's data, so the mask does not depend on the split of a batch
   or on the device. `words` is the step buffer: number, seed, first example. */
GROUP(256, 1)
PARAMS(uint n; uint row_elements; uint m; uint h; uint stream; uint threshold; float scale;)

#include "divide.clh"
#include "random/philox.clh"

KERNEL3(dropout, IN(real, from), IN(uint, words), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), col = i - row * p.row_elements;
        const uint example = words[3] + row;
        const uint low = example * p.row_elements;
        uint c0 = low + col;
        uint c1 = MUL_HI(example, p.row_elements) + SELECT(c0 < low, 1u, 0u);
        uint c2 = words[0], c3 = p.stream;
        PHILOX(c0, c1, c2, c3, words[1], words[2])
        STORE(to, i, SELECT(c0 < p.threshold, 0.0f, LOAD(from, i) * p.scale));
    }
}
