/* SPDX-License-Identifier: MIT */
/* y = a constant. */
GROUP(256, 1)
PARAMS(uint n; float value;)

KERNEL1(fill, OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n)
        STORE(to, i, p.value);
}
