/* SPDX-License-Identifier: MIT */
/* What channels are normalised by, from their means and from `spread`, the means of (x - mean)^2 and then of x - mean, the
   rest: OP 0 the mean, and the rest where it corrects a mean larger than sigma, else 0; 1 1 / sqrt(variance + epsilon);
   2 the variance about mean + rest. */
GROUP(64, 1)
SPEC(0, OP)
PARAMS(uint n; float epsilon;)

#define CENTRE 0
#define INVERSE 1

KERNEL3(channel_finish, IN(real, mean), IN(real, spread), OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.n) {
        EXACT float m = LOAD(mean, i);
        EXACT float rest = LOAD(spread, p.n + i);
        EXACT float of_rest = rest * rest;
        EXACT float difference = LOAD(spread, i) - of_rest;
        EXACT float variance = SELECT(difference <= 0.0f, 0.0f, difference);
        EXACT float of_mean = m * m;
        EXACT float shifted = variance + p.epsilon;
        if (OP == CENTRE) {
            STORE(y, i, m);
            STORE(y, p.n + i, SELECT(of_mean < variance, 0.0f, rest));
        }
        if (OP == INVERSE)
            STORE(y, i, rsqrt(shifted));
        if (OP > INVERSE)
            STORE(y, i, variance);
    }
}
