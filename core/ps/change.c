/* SPDX-License-Identifier: MIT */
/* Arithmetic on values of a variable, whole or row by row. */
#include "core/ps/change.h"

static int32_t change_int(enum copse_change how, int32_t now, int32_t by)
{
    const uint32_t a = (uint32_t)now, b = (uint32_t)by; /* wraps */
    const uint32_t sum = how == COPSE_CHANGE_ADD ? a + b : a - b;
    int32_t result;
    memcpy(&result, &sum, sizeof result);
    return result;
}

void copse__change_apply(enum copse_change how, copse_type type, uint64_t count, void *now,
                         const void *by)
{
    if (how == COPSE_CHANGE_SET) {
        memcpy(now, by, (size_t)count * COPSE_WORD_BYTES);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        if (type == COPSE_I32)
            ((int32_t *)now)[i] =
                change_int(how, ((const int32_t *)now)[i], ((const int32_t *)by)[i]);
        else if (how == COPSE_CHANGE_ADD)
            ((float *)now)[i] += ((const float *)by)[i];
        else
            ((float *)now)[i] -= ((const float *)by)[i];
}

static float change_float(enum copse_change how, float now, float by)
{
    switch (how) {
    case COPSE_SCATTER_ADD:
        return now + by;
    case COPSE_SCATTER_SUB:
        return now - by;
    case COPSE_SCATTER_MUL:
        return now * by;
    case COPSE_SCATTER_DIV:
        return now / by;
    case COPSE_SCATTER_MIN: /* comparisons with a NaN are false */
        return by < now ? by : now;
    case COPSE_SCATTER_MAX:
        return by > now ? by : now;
    default:
        return by;
    }
}

void copse__change_rows(enum copse_change how, size_t row, size_t count, const int32_t *indices,
                        const float *slices, float *now)
{
    for (size_t k = 0; k < count; k++) {
        float *to = now + (size_t)indices[k] * row;
        for (size_t i = 0; i < row; i++)
            to[i] = change_float(how, to[i], slices[k * row + i]);
    }
}
