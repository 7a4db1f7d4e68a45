/* SPDX-License-Identifier: MIT */
/* Integer part of x, towards zero; values outside the range become its limits, NaN becomes 0. */
GROUP(256, 1)
PARAMS(uint n;)

KERNEL2(to_i32, IN(real, from), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const float x = LOAD(from, i);
        const bool fits = x > -2147483648.0f && x < 2147483648.0f;
        const int end = SELECT(x >= 2147483648.0f, 2147483647, -2147483647 - 1);
        to[i] = SELECT(fits, TO_I32(SELECT(fits, x, 0.0f)), SELECT(IS_NAN(x), 0, end));
    }
}
