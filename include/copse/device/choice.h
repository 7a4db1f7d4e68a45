/* SPDX-License-Identifier: MIT */
/** @file What the selector "auto" makes of each device, and why; selections for tests of drivers.
 *
 * "auto" takes each physical device once, through one driver, and only devices of one kind:
 * - The drivers of a GPU: the one with matrix units that are known to be fast
 *   (COPSE_MATRIX_PREFERRED of copse_limits.matrix_units), else the one that was measured faster
 *   by `copse tune` in the mean over the sizes that both were measured in, else
 *   the first of the list. The drivers of the processor: one with wide vectors, else the first.
 * - All discrete GPUs; without one all integrated GPUs; without one all other accelerators; without
 *   one the processor; without one `host:0`. Replicas train in step, so a slower kind would slow
 *   each step.
 * - A driver that is unreliable (copse_device_state) is left out.
 */
#ifndef COPSE_PUBLIC_DEVICE_CHOICE_H
#define COPSE_PUBLIC_DEVICE_CHOICE_H

#include "copse/device.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What a device multiplies on matrix units through Vulkan: bits of copse_limits.matrix_units. 0: it has
    none, or none that can be used (docs/half-precision.md). */
enum copse_matrix_unit {
    COPSE_MATRIX_F16 = 1,
    COPSE_MATRIX_BF16 = 2,
    /** Known to be fast on this architecture, so products take them without measurement. Elsewhere
        `copse tune` has to measure them. */
    COPSE_MATRIX_PREFERRED = 4
};

/** What "auto" makes of a device. */
struct copse_device_choice {
    bool is_taken;
    /** it is left out only because its kind is slower, such as an integrated GPU beside a discrete
        one: it can help where shards follow the measured speed (COPSE_SHARD_MEASURED) */
    bool can_join;
    char reason[206];     /**< why it is taken or left out: a clause without a capital letter */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * What "auto" makes of a listed device.
 * @param device  Id: "opencl:0".
 * @retval COPSE_ERR_NO_DEVICE  No such device in the list of the context.
 *
 * Thread-safety: any. Blocking: while the kernel cache is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_choice(copse_context *ctx, const char *device,
                                                         struct copse_device_choice *out);

/**
 * As copse_select_devices, but a physical device counts once for each of its drivers: "all" is
 * every usable device except `host`, "vulkan" every usable device of Vulkan. For tests of drivers.
 */
COPSE_API COPSE_CHECKED copse_status copse_select_drivers(copse_context *ctx, const char *selector,
                                                          char (*ids)[32], size_t room,
                                                          size_t *count);

#if defined(__cplusplus)
}
#endif
#endif
