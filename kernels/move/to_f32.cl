/* SPDX-License-Identifier: MIT */
/* The nearest f32 to an integer. */
GROUP(256, 1)
PARAMS(uint n;)

KERNEL2(to_f32, IN(int, from), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n)
        STORE(to, i, TO_F32(from[i]));
}
