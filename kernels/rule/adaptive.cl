/* SPDX-License-Identifier: MIT */
/* Update rules with slots, one of them by RULE: see docs/optimizers.md for the formulas and their sources. g is scaled
   first. DECAY 0: none; 1: adds decay p to g; 2: subtracts in addition rate decay p from p. Slots are one behind
   another: [n of slot 0][n of slot 1]... Sums and means of squares below 1e-36 and other means below 1e-30 become 0.
   VARIANCE, of rmsprop: 1 is centred, 2 has epsilon in the root, 3 both.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, RULE)
SPEC(3, DECAY)
SPEC(4, VARIANCE)
SPEC(5, MOMENTUM)
PARAMS(uint n; float decay; float momentum; float beta1; float beta2; float rest1; float rest2; float epsilon; float l1;
       float l2; uint group;)
#include "stream.clh"

/* The same numbers as enum copse_adaptive (core/rule/adaptive.h). */
#define ADAGRAD 0
#define ADADELTA 1
#define RMSPROP 2
#define AMSGRAD 3
#define ADAMAX 4
#define NADAM 5
#define LION 6
#define FTRL 7
#define PROXIMAL 8

/* x moved towards 0 by `by`, and not beyond; NaN stays. */
#define SHRUNK(x, by) SELECT((x) > (by), (x) - (by), SELECT((x) < -(by), (x) + (by), SELECT(IS_NAN(x), x, 0.0f)))
/* The larger one, or b where one is NaN. */
#define LARGER(a, b) SELECT((a) > (b), a, b)

KERNEL4(adaptive, IN(real, grad), OUT(real, value), OUT(real, slots), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    EXACT float root = sqrt(AS_FLOAT(step[8]));
    EXACT float pace = rate * root / AS_FLOAT(step[7]);
    EXACT float epsilon = p.epsilon * root;
    EXACT float decay = rate * p.decay;
    const float nesterov_g = AS_FLOAT(step[13]), nesterov_m = AS_FLOAT(step[14]);
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        if (DECAY == 1)
            g = g + p.decay * x;
        EXACT float d = 0.0f;
        if (RULE == ADAGRAD) {
            EXACT float v = LOAD(slots, i) + g * g;
            v = SETTLED(v, 1e-36f);
            STORE(slots, i, v);
            d = rate * g / (sqrt(v) + p.epsilon);
        }
        if (RULE == ADADELTA) {
            EXACT float v = p.beta2 * LOAD(slots, i) + p.rest2 * g * g;
            EXACT float a = LOAD(slots, p.n + i);
            v = SETTLED(v, 1e-36f);
            EXACT float change = sqrt(a + p.epsilon) / sqrt(v + p.epsilon) * g;
            a = p.beta2 * a + p.rest2 * change * change;
            a = SETTLED(a, 1e-36f);
            STORE(slots, i, v);
            STORE(slots, p.n + i, a);
            d = rate * change;
        }
        if (RULE == RMSPROP) {
            EXACT float v = p.beta2 * LOAD(slots, i) + p.rest2 * g * g;
            v = SETTLED(v, 1e-36f);
            STORE(slots, i, v);
            EXACT float w = v;
            if ((VARIANCE & 1) != 0) {
                EXACT float m = p.beta2 * LOAD(slots, p.n + i) + p.rest2 * g;
                m = SETTLED(m, 1e-30f);
                STORE(slots, p.n + i, m);
                w = v - m * m;
                w = SELECT(w < 0.0f, 0.0f, w);
            }
            EXACT float divisor = sqrt(w) + p.epsilon;
            if ((VARIANCE & 2) != 0)
                divisor = sqrt(w + p.epsilon);
            EXACT float u = g / divisor;
            if (MOMENTUM != 0) {
                const uint at = ((VARIANCE & 1) != 0 ? 2u : 1u) * p.n + i;
                u = p.momentum * LOAD(slots, at) + u;
                u = SETTLED(u, 1e-30f);
                STORE(slots, at, u);
            }
            d = rate * u;
        }
        if (RULE == AMSGRAD) {
            EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * g;
            EXACT float v = p.beta2 * LOAD(slots, p.n + i) + p.rest2 * g * g;
            m = SETTLED(m, 1e-30f);
            v = SETTLED(v, 1e-36f);
            const float before = LOAD(slots, 2u * p.n + i);
            const float top = LARGER(before, v);
            STORE(slots, i, m);
            STORE(slots, p.n + i, v);
            STORE(slots, 2u * p.n + i, top);
            d = pace * m / (sqrt(top) + epsilon);
        }
        if (RULE == ADAMAX) {
            EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * g;
            EXACT float kept = p.beta2 * LOAD(slots, p.n + i);
            EXACT float now = fabs(g) + p.epsilon;
            m = SETTLED(m, 1e-30f);
            const float u = LARGER(kept, now);
            STORE(slots, i, m);
            STORE(slots, p.n + i, u);
            EXACT float slow = rate / AS_FLOAT(step[7]);
            d = slow * m / u;
        }
        if (RULE == NADAM) {
            EXACT float m = p.beta1 * LOAD(slots, i) + p.rest1 * g;
            EXACT float v = p.beta2 * LOAD(slots, p.n + i) + p.rest2 * g * g;
            m = SETTLED(m, 1e-30f);
            v = SETTLED(v, 1e-36f);
            STORE(slots, i, m);
            STORE(slots, p.n + i, v);
            EXACT float ahead = nesterov_g * g + nesterov_m * m;
            EXACT float quick = rate * root;
            d = quick * ahead / (sqrt(v) + epsilon);
        }
        if (RULE == LION) {
            const float before = LOAD(slots, i);
            EXACT float c = p.beta1 * before + p.rest1 * g;
            EXACT float m = p.beta2 * before + p.rest2 * g;
            m = SETTLED(m, 1e-30f);
            STORE(slots, i, m);
            d = SELECT(c > 0.0f, rate, SELECT(c < 0.0f, -rate, SELECT(IS_NAN(c), c, 0.0f)));
        }
        if (DECAY == 2)
            d = d + decay * x;
        x = x - d;
        if (RULE == FTRL) {
            const float before = LOAD(slots, i);
            EXACT float square = g * g;
            EXACT float v = before + square;
            EXACT float deviation = sqrt(v);
            EXACT float sigma = square / (deviation + sqrt(before)) / rate;
            EXACT float l = LOAD(slots, p.n + i) + g - sigma * LOAD(value, i);
            STORE(slots, i, v);
            STORE(slots, p.n + i, l);
            EXACT float excess = SHRUNK(l, p.l1);
            EXACT float divisor = deviation / rate + 2.0f * p.l2;
            x = -excess / divisor;
        }
        if (RULE == PROXIMAL) {
            EXACT float v = LOAD(slots, i) + g * g;
            STORE(slots, i, v);
            EXACT float r = rate / sqrt(v);
            EXACT float y = LOAD(value, i) - r * g;
            EXACT float by = r * p.l1;
            EXACT float excess = SHRUNK(y, by);
            EXACT float divisor = 1.0f + r * p.l2;
            x = excess / divisor;
        }
        STORE(value, i, x);
    }
}
