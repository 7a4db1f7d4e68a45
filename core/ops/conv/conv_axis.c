/* SPDX-License-Identifier: MIT */
/* The geometry of windows along a spatial axis, of convolutions and of pooling. */
#include "core/ops/conv/conv.h"
#include "core/ops/ops.h"

copse_status copse__conv_axis(const copse_tensor *y, const struct copse_window *of, uint64_t size,
                              struct copse_conv_axis *axis)
{
    const uint64_t span = (uint64_t)(of->taps - 1) * of->dilation + 1, stride = of->stride;
    uint64_t out = (size + stride - 1) / stride, before = of->before;
    if (size > COPSE_MAX_AXIS || span > COPSE_MAX_AXIS)
        return copse__shape_error(y, "expected spatial axes of at most %u", COPSE_MAX_AXIS);
    if (of->is_same) {
        const uint64_t covered = out ? (out - 1) * stride + span : 0;
        before = covered > size ? (covered - size) / 2 : 0;
    } else {
        const uint64_t padded = before + size + of->after;
        if (span > padded)
            return copse__shape_error(
                y,
                "expected a window of at most %llu elements, the padded size of x; it spans %llu",
                (unsigned long long)padded, (unsigned long long)span);
        out = (padded - span) / stride + 1;
    }
    *axis =
        (struct copse_conv_axis){ (uint32_t)size,        (uint32_t)out,   of->taps, of->stride, 1,
                                  (int32_t)of->dilation, -(int32_t)before };
    return COPSE_OK;
}

copse_status copse__check_numbers(const char *op, const char *what, const uint32_t numbers[2])
{
    for (uint32_t i = 0; i < 2; i++)
        if (numbers[i] > COPSE_MAX_NUMBER)
            return copse_fail(COPSE_ERR_ARGUMENT, "%s: %s %u is not at most %u", op, what,
                              (unsigned)numbers[i], COPSE_MAX_NUMBER);
    return COPSE_OK;
}
