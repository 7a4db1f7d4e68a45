/* SPDX-License-Identifier: MIT */
/* parts[2 b] = sum of u^2 over the 128 elements of block b, parts[2 b + 1] = 1, as square_sum has them; u is the update of
   LAMB that kernel `trust` makes in this step. Sums below 1e-37 become 0. Slots are only read; they are OUT because their
   second half is never negative (core/check/probe.c). One invocation for each block, in one fixed order. */
GROUP(64, 1)
PARAMS(uint n; float decay; float beta1; float beta2; float rest1; float rest2; float epsilon;)
#include "stream.clh"

KERNEL5(lamb_sum, IN(real, grad), IN(real, value), OUT(real, slots), IN(uint, step), OUT(real, parts))
{
    const uint first = INDEX() * 128u;
    if (first < p.n) {
        const uint end = MIN(first + 128u, p.n);
        const float scale = AS_FLOAT(step[9]);
        EXACT float root = sqrt(AS_FLOAT(step[8]));
        EXACT float pace = root / AS_FLOAT(step[7]);
        EXACT float epsilon = p.epsilon * root;
        EXACT float sum = 0.0f;
        for (uint k = 0u; k < 4u; k++) {
            EXACT float part = 0.0f;
            for (uint i = first + k; i < end; i += 4u) {
                EXACT float g = scale * LOAD(grad, i);
                EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * g;
                EXACT float v = p.beta2 * LOAD(slots, p.n + i) + p.rest2 * g * g;
                m = SETTLED(m, 1e-30f);
                v = SETTLED(v, 1e-36f);
                EXACT float u = pace * m / (sqrt(v) + epsilon) + p.decay * LOAD(value, i);
                EXACT float square = u * u;
                part = part + square;
            }
            sum = sum + part;
        }
        STORE(parts, 2u * INDEX(), SETTLED(sum, 1e-37f));
        STORE(parts, 2u * INDEX() + 1u, 1.0f);
    }
}
