/* SPDX-License-Identifier: MIT */
/* The elements of each row of `extent` elements that are at its k indices; NaN for an index out of range. */
GROUP(256, 1)
PARAMS(uint n; uint k; uint extent;)

KERNEL3(top_k_values, IN(real, x), IN(int, indices), OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint index = TO_U32(indices[i]);
        float v = NAN_;
        if (index < p.extent)
            v = LOAD(x, i / p.k * p.extent + index);
        STORE(y, i, v);
    }
}
