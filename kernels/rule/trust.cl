/* SPDX-License-Identifier: MIT */
/* Updates with one factor f for each variable, stored for each block of 128 elements. LARS: v = momentum v + rate f (g +
   decay x); x -= v. LAMB: m and v as Adam; u = (m / bias1) / (sqrt(v / bias2) + epsilon) + decay x; x -= rate f u. g is
   scaled first. Slots are one behind another.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, RULE)
PARAMS(uint n; float decay; float momentum; float beta1; float beta2; float rest1; float rest2; float epsilon; uint group;)
#include "stream.clh"

/* The same numbers as enum copse_trust_rule (core/rule/rows.h). */
#define LARS 0
#define LAMB 1

KERNEL5(trust, IN(real, factors), IN(real, grad), OUT(real, value), OUT(real, slots), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    EXACT float root = sqrt(AS_FLOAT(step[8]));
    EXACT float pace = root / AS_FLOAT(step[7]);
    EXACT float epsilon = p.epsilon * root;
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        EXACT float own = rate * LOAD(factors, i >> 7);
        if (RULE == LARS) {
            EXACT float v = p.momentum * LOAD(slots, i) + own * (g + p.decay * x);
            v = SETTLED(v, 1e-30f);
            STORE(slots, i, v);
            x = x - v;
        }
        if (RULE == LAMB) {
            EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * g;
            EXACT float v = p.beta2 * LOAD(slots, p.n + i) + p.rest2 * g * g;
            m = SETTLED(m, 1e-30f);
            v = SETTLED(v, 1e-36f);
            STORE(slots, i, m);
            STORE(slots, p.n + i, v);
            EXACT float u = pace * m / (sqrt(v) + epsilon) + p.decay * x;
            x = x - own * u;
        }
        STORE(value, i, x);
    }
}
