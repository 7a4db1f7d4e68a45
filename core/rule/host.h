/* SPDX-License-Identifier: MIT */
/* Arithmetic that host functions of update kernels share. */
#ifndef COPSE_RULE_HOST_H
#define COPSE_RULE_HOST_H

#include <math.h>

#include "core/graph/op.h"

static inline float copse__rule_word(const struct copse_host_arg *step, uint32_t index)
{
    float value;
    memcpy(&value, (const uint32_t *)step->data + index, sizeof value);
    return value;
}

static inline uint32_t copse__rule_bits(double value)
{
    const float f = (float)value;
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return word;
}

/* Same as SETTLED in kernels/stream.clh. */
static inline float copse__rule_settled(float x, float below)
{
    return fabsf(x) < below ? 0.0f : x;
}

/* x moved towards 0 by `by`, and not beyond; NaN stays. */
static inline float copse__rule_shrunk(float x, float by)
{
    return x > by ? x - by : x < -by ? x + by : isnan(x) ? x : 0.0f;
}

#endif
