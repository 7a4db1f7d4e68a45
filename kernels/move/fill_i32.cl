/* SPDX-License-Identifier: MIT */
/* y = an integer constant. */
GROUP(256, 1)
PARAMS(uint n; int value;)

KERNEL1(fill_i32, OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n)
        to[i] = p.value;
}
