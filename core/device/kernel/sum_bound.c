/* SPDX-License-Identifier: MIT */
#include "core/device/kernel/sum_bound.h"

#include "copse/matmul.h"

#define UNIT 0x1p-24 /* u */

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

uint64_t copse__sum_levels(uint64_t terms, uint64_t chains, uint64_t most)
{
    if (terms == 0)
        return 0;
    return COPSE_MIN(terms, COPSE_SUM_CHAIN) +
           COPSE_MIN(divide_up(terms, COPSE_SUM_CHAIN), chains) - 1 + divide_up(terms, most) - 1;
}

struct copse_sum copse__sum_of(uint64_t roundings, bool adds, const int32_t *spec)
{
    const double slope = spec[1] >= COPSE_GELU ? COPSE_SUM_SLOPE : 1;
    return (struct copse_sum){ roundings > 0 ? roundings + adds + (spec[0] != 0) : 0, slope };
}

static double bound_of(uint64_t roundings, const struct copse_limits *limits)
{
    const double error = (double)roundings * UNIT * (limits->rounds_to_nearest ? 1 : 2);
    return error / (1 - error) / UNIT;
}

double copse__sum_bound(const struct copse_law *law, uint64_t terms,
                        const struct copse_limits *limits)
{
    return law->roundings ? bound_of(law->roundings(terms) + 1, limits) : 0;
}

double copse__launch_bound(const struct copse_law *law, const void *params, const int32_t *spec,
                           const struct copse_limits *limits)
{
    const struct copse_sum sum = law->sum ? law->sum(params, spec) : (struct copse_sum){ 0, 1 };
    return sum.roundings > 0 ? bound_of(sum.roundings, limits) * sum.slope : 0;
}
