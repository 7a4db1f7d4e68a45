/* SPDX-License-Identifier: MIT */
/* Shared by the tests of train steps: a context, lists of devices, variables, rows. */
#ifndef STEP_RIG_H
#define STEP_RIG_H

#include <math.h>

#include "tests/rig/rig.h"

static copse_context *ctx;
static const char *rig_devices[5] = { "host:0", "host:0", "host:0", "host:0", "host:0" };

static int open_context(void **state)
{
    (void)state;
    const struct copse_device_info *list;
    size_t count;
    if (copse_context_create(NULL, &ctx) != COPSE_OK)
        return -1;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].id, "opencl:0") == 0 && list[i].is_usable)
            rig_devices[1] = rig_devices[4] = list[i].id;
        if (strcmp(list[i].id, "vulkan:0") == 0 && list[i].is_usable)
            rig_devices[2] = list[i].id;
    }
    printf("devices: %s, %s, %s, %s, %s\n", rig_devices[0], rig_devices[1], rig_devices[2],
           rig_devices[3], rig_devices[4]);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

/* A strategy over the first `count` devices of the list. */
static inline copse_strategy *rig_strategy(size_t count, const struct copse_strategy_params *params)
{
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, rig_devices, count, params, &st));
    return st;
}

static inline copse_variable *rig_variable(copse_strategy *st, const char *name, copse_shape shape,
                                           const float *values)
{
    copse_variable *v = NULL;
    const struct copse_variable_params params = { .name = name, .shape = shape, .values = values };
    OK(copse_variable_create(st, &params, &v));
    return v;
}

static inline copse_variable *rig_scalar(copse_strategy *st, const char *name, float value)
{
    return rig_variable(st, name, COPSE_SHAPE(1), &value);
}

static inline float rig_value(copse_variable *v, uint32_t replica)
{
    float value = NAN;
    OK(copse_variable_read(v, replica, &value));
    return value;
}

static inline void rig_near(double got, double expected, double limit)
{
    if (!(fabs(got - expected) <= limit))
        fail_msg("%.9g, expected %.9g within %.1e", got, expected, limit);
}

/* `count` rows of one value each: 1, 2, 3, ... */
static inline struct copse_host_batch rig_rows(size_t count)
{
    static float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)(i + 1);
    return rig_kept((struct copse_host_batch){ RIG_X(1, x), .count = count });
}

#endif
