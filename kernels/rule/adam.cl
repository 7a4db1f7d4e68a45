/* SPDX-License-Identifier: MIT */
/* Adam: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, slots [m][v]; p -= rate (m / bias1) / (sqrt(v /
   bias2) + epsilon), with the bias corrections moved out of the loop. g is scaled first. DECAY 0: none; 1: adds decay
   p to g; 2, AdamW: subtracts in addition rate decay p from p.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, DECAY)
PARAMS(uint n; float decay; float beta1; float beta2; float rest1; float rest2; float epsilon; uint group;)
#include "stream.clh"

KERNEL4(adam, IN(real, grad), OUT(real, value), OUT(real, slots), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    EXACT float root = sqrt(AS_FLOAT(step[8]));
    EXACT float pace = rate * root / AS_FLOAT(step[7]);
    EXACT float epsilon = p.epsilon * root;
    EXACT float decay = rate * p.decay;
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        if (DECAY == 1)
            g = g + p.decay * x;
        EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * g;
        EXACT float v = p.beta2 * LOAD(slots, p.n + i) + p.rest2 * g * g;
        m = SETTLED(m, 1e-30f);
        v = SETTLED(v, 1e-36f);
        EXACT float d = pace * m / (sqrt(v) + epsilon);
        if (DECAY == 2)
            d = d + decay * x;
        x = x - d;
        STORE(slots, i, m);
        STORE(slots, p.n + i, v);
        STORE(value, i, x);
    }
}
