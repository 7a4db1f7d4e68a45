/* SPDX-License-Identifier: MIT */
/* y = one integer everywhere. */
GROUP(256, 1)
PARAMS(uint n; int value;)

KERNEL1(fill_i32, OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n)
        to[i] = p.value;
}
