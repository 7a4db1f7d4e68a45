/* SPDX-License-Identifier: MIT */
/* Moves dy of each row of k elements to the row's k indices, which differ, of `extent` elements. Other elements of dx, and
   indices out of range, are left as they are. */
GROUP(256, 1)
PARAMS(uint n; uint k; uint extent;)

KERNEL3(top_k_grad, IN(real, dy), IN(int, indices), OUT(real, dx))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint index = TO_U32(indices[i]);
        if (index < p.extent)
            STORE(dx, i / p.k * p.extent + index, LOAD(dy, i));
    }
}
