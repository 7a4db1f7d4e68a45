/* SPDX-License-Identifier: MIT */
/* What the tuning jobs of the families conv and conv_weight have in common. */
#include "core/ops/conv/conv.h"

static const uint32_t sizes[] = { 4, 32, 128 };
enum { SIZES = COPSE_COUNT(sizes) };
_Static_assert(SIZES *SIZES == COPSE_CONV_JOBS, "a job for each pair of sizes");

void copse__conv_size_class(const struct copse_conv_geometry *of, char name[COPSE_SIZE_CLASS])
{
    snprintf(name, COPSE_SIZE_CLASS, "%u-%u",
             (unsigned)copse__size_class(sizes, SIZES, of->in_channels / of->groups),
             (unsigned)copse__size_class(sizes, SIZES, of->out_channels / of->groups));
}

struct copse_conv_geometry copse__conv_job(size_t index, struct copse_tune_job *j)
{
    static const struct copse_conv_axis axis = { 14, 14, 3, 1, 1, 1, -1 };
    const struct copse_conv_geometry of = {
        8, sizes[index / SIZES], sizes[index % SIZES], 1, axis, axis
    };
    snprintf(j->name, sizeof j->name, "8 x 14 x 14, 3 x 3, %u to %u channels",
             (unsigned)of.in_channels, (unsigned)of.out_channels);
    j->operations = 2.0 * 8 * 14 * 14 * 9 * of.in_channels * of.out_channels;
    j->in_count = 2;
    j->in[0] = COPSE_SHAPE(8, 14, 14, of.in_channels);
    return of;
}
