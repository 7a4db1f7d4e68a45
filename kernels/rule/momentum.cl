/* SPDX-License-Identifier: MIT */
/* v = momentum v + g; p -= rate v, or with NESTEROV p -= rate (g + momentum v). Weight decay adds
   decay p to g, which is scaled first.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, DECAYS)
SPEC(3, NESTEROV)
PARAMS(uint n; float decay; float momentum; uint group;)
#include "stream.clh"

KERNEL4(momentum, IN(real, grad), OUT(real, value), OUT(real, slot), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        if (DECAYS != 0)
            g = g + p.decay * x;
        EXACT float v = p.momentum * LOAD(slot, i) + g;
        v = SETTLED(v, 1e-30f);
        STORE(slot, i, v);
        if (NESTEROV != 0)
            v = g + p.momentum * v;
        x = x - rate * v;
        STORE(value, i, x);
    }
}
