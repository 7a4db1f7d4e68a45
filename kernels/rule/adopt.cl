/* SPDX-License-Identifier: MIT */
/* ADOPT: q = g / max(sqrt(v), epsilon), limited to [-c, c]; m = beta1 m + (1 - beta1) q; p -= rate m; then
   v = beta2 v + w g^2. Slots [m][v]. c = step[13] is (t - 1)^(1/4), so that the first step changes no p; w = step[14] is
   1 in the first step, so that v begins with g^2, and 1 - beta2 in later ones. g is scaled first. DECAY 0: none; 1: adds
   decay p to g.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, DECAY)
PARAMS(uint n; float decay; float beta1; float beta2; float rest1; float epsilon; uint group;)
#include "stream.clh"

KERNEL4(adopt, IN(real, grad), OUT(real, value), OUT(real, slots), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    const float most = AS_FLOAT(step[13]), weight = AS_FLOAT(step[14]);
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        if (DECAY == 1)
            g = g + p.decay * x;
        EXACT float v = LOAD(slots, p.n + i);
        EXACT float root = sqrt(v);
        EXACT float q = g / SELECT(root < p.epsilon, p.epsilon, root);
        q = SELECT(q > most, most, SELECT(q < -most, -most, q));
        EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * q;
        m = SETTLED(m, 1e-30f);
        x = x - rate * m;
        v = p.beta2 * v + weight * g * g;
        v = SETTLED(v, 1e-36f);
        STORE(slots, i, m);
        STORE(slots, p.n + i, v);
        STORE(value, i, x);
    }
}
