/* SPDX-License-Identifier: MIT */
/* p -= rate (g + decay p); g is scaled first. With PROXIMAL the result moves towards 0 by rate l1, and not beyond, and is
   divided by 1 + rate l2.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, DECAYS)
SPEC(3, PROXIMAL)
PARAMS(uint n; float decay; float l1; uint group;)
#include "stream.clh"

KERNEL3(sgd, IN(real, grad), OUT(real, value), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        if (DECAYS != 0)
            g = g + p.decay * x;
        x = x - rate * g;
        if (PROXIMAL != 0) {
            EXACT float by = rate * p.l1;
            EXACT float less = x - by;
            EXACT float more = x + by;
            x = SELECT(x > by, less, SELECT(x < -by, more, SELECT(IS_NAN(x), x, 0.0f))) * AS_FLOAT(step[15u + p.group]);
        }
        STORE(value, i, x);
    }
}
