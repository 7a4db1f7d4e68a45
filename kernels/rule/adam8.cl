/* SPDX-License-Identifier: MIT */
/* Adam with 8-bit slots (Dettmers et al., ICLR 2022): m and v are codes times the largest magnitude of their block of 128
   elements (eight_bit.clh); kernel adam has the formulas. The update takes m and v of this step before they are coded. Words of
   the slots: codes of m, 4 to a word, from the lowest byte; scales of m; codes and scales of v. A code of m is a sign and 7
   bits; 128 is a number that is not finite, which is no part of the scale. A v > 0 has a code > 0, and is at most the largest
   float; a v that is NaN has code 0: its m is not finite. A group has a block.
   step[6 + group] is the rate: a parameter group has its own (core/rule/groups.h). */
GROUP(32, 1)
SPEC(0, DECAY)
PARAMS(uint n; float decay; float beta1; float beta2; float rest1; float rest2; float epsilon; uint group;)
GROUP_ARRAY(float, mean, 128u)
GROUP_ARRAY(float, square, 128u)
GROUP_ARRAY(uint, most, 2u * GROUP_SIZE)
#include "stream.clh"
#include "rule/eight_bit.clh"

#define LARGEST 3.402823466e38f
#define IS_FINITE(x) ((AS_UINT(x) & 0x7f800000u) != 0x7f800000u)

KERNEL4(adam8, IN(real, grad), OUT(real, value), OUT(uint, slots), IN(uint, step))
{
    GROUP_ARRAY_HERE(float, mean, 128u)
    GROUP_ARRAY_HERE(float, square, 128u)
    GROUP_ARRAY_HERE(uint, most, 2u * GROUP_SIZE)
    const uint lane = LOCAL_INDEX(), block = GROUP_INDEX();
    const uint words = (p.n + 3u) / 4u, blocks = (p.n + 127u) / 128u;
    const uint first_v = words + blocks;
    const bool is_block = block < blocks;
    const float rate = AS_FLOAT(step[6u + p.group]), scale = AS_FLOAT(step[9]);
    EXACT float root = sqrt(AS_FLOAT(step[8]));
    EXACT float pace = rate * root / AS_FLOAT(step[7]);
    EXACT float epsilon = p.epsilon * root;
    EXACT float decay = rate * p.decay;
    uint most_m = 0u, most_v = 0u;
    for (uint k = lane; k < 128u; k += GROUP_SIZE) {
        const uint i = block * 128u + k;
        EXACT float m = 0.0f;
        EXACT float v = 0.0f;
        if (is_block && i < p.n) {
            const uint at = i / 4u, by = i % 4u * 8u;
            const uint code_m = slots[at] >> by & 255u, code_v = slots[first_v + at] >> by & 255u;
            EXACT float x = LOAD(value, i);
            EXACT float g = scale * LOAD(grad, i);
            if (DECAY == 1)
                g = g + p.decay * x;
            m = code_value(code_m & 127u, 7u) * AS_FLOAT(slots[words + block]);
            m = SELECT(code_m > 127u, -m, m);
            m = SELECT(code_m == 128u, NAN_, m);
            v = code_value(code_v, 8u) * AS_FLOAT(slots[first_v + words + block]);
            v = SETTLED(v, 1e-36f);
            EXACT float term = p.rest2 * g * g;
            term = SETTLED(term, 1e-37f);
            m = p.beta1 * m + p.rest1 * g;
            v = p.beta2 * v + term;
            m = SETTLED(m, 1e-30f);
            v = SETTLED(v, 1e-36f);
            EXACT float d = pace * m / (sqrt(v) + epsilon);
            if (DECAY == 2)
                d = d + decay * x;
            x = x - d;
            STORE(value, i, x);
            v = SELECT(IS_NAN(v), 0.0f, SELECT(v > LARGEST, LARGEST, v));
            most_m = MAX(most_m, SELECT(IS_FINITE(m), AS_UINT(m) & 0x7fffffffu, 0u));
            most_v = MAX(most_v, AS_UINT(v));
        }
        mean[k] = m;
        square[k] = v;
    }
    most[lane] = most_m;
    most[GROUP_SIZE + lane] = most_v;
    BARRIER();
    for (uint width = GROUP_SIZE / 2u; width > 0u; width /= 2u) {
        if (lane < width) {
            most[lane] = MAX(most[lane], most[lane + width]);
            most[GROUP_SIZE + lane] = MAX(most[GROUP_SIZE + lane], most[GROUP_SIZE + lane + width]);
        }
        BARRIER();
    }
    const uint all_m = most[0], all_v = most[GROUP_SIZE];
    const float down_m = DOWN_OF(all_m), down_v = DOWN_OF(all_v);
    const float inverse_m = inverse_of(AS_FLOAT(MAX(all_m, 0x00800000u)) * down_m);
    const float inverse_v = inverse_of(AS_FLOAT(MAX(all_v, 0x00800000u)) * down_v);
    for (uint w = lane; w < 32u; w += GROUP_SIZE) {
        uint codes_m = 0u, codes_v = 0u;
        for (uint b = 0u; b < 4u; b++) {
            const float m = mean[4u * w + b], v = square[4u * w + b];
            EXACT float part_m = SELECT(IS_FINITE(m), fabs(m), 0.0f) * down_m * inverse_m;
            EXACT float part_v = v * down_v * inverse_v;
            const uint code = code_of(part_m, 7u);
            const uint sign = SELECT(m < 0.0f && code > 0u, 128u, 0u);
            const uint code_v = code_of(part_v, 8u);
            codes_m |= SELECT(IS_FINITE(m), sign | code, 128u) << (8u * b);
            codes_v |= SELECT(v > 0.0f, MAX(code_v, 1u), 0u) << (8u * b);
        }
        if (is_block && block * 32u + w < words) {
            slots[block * 32u + w] = codes_m;
            slots[first_v + block * 32u + w] = codes_v;
        }
    }
    if (is_block && lane == 0u) {
        slots[words + block] = all_m;
        slots[first_v + words + block] = all_v;
    }
}
