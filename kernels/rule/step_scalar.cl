/* SPDX-License-Identifier: MIT */
/* One float of the step buffer as a scalar tensor. */
GROUP(1, 1)
PARAMS(uint word;)

KERNEL2(step_scalar, IN(uint, words), OUT(real, to))
{
    if (INDEX() == 0u)
        STORE(to, 0, AS_FLOAT(words[p.word]));
}
