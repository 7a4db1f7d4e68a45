/* SPDX-License-Identifier: MIT */
/* What the tuning jobs of the families conv and conv_weight have in common. */
#include "core/ops/conv/conv.h"

void copse__conv_size(const struct copse_conv_geometry *of, struct copse_size *out)
{
    out->of[0] = of->in_channels / of->groups;
    out->of[1] = of->out_channels / of->groups;
}

struct copse_conv_geometry copse__conv_job(const struct copse_size *at, struct copse_tune_job *j)
{
    static const struct copse_conv_axis axis = { 14, 14, 3, 1, 1, 1, -1 };
    const struct copse_conv_geometry of = { 8, at->of[0], at->of[1], 1, axis, axis };
    snprintf(j->name, sizeof j->name, "8 x 14 x 14, 3 x 3, %u to %u channels",
             (unsigned)of.in_channels, (unsigned)of.out_channels);
    j->operations = 2.0 * 8 * 14 * 14 * 9 * of.in_channels * of.out_channels;
    j->in[0] = COPSE_SHAPE(8, 14, 14, of.in_channels);
    return of;
}
