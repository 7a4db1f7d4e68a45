/* SPDX-License-Identifier: MIT */
/* How far a device may be from the host function in a launch, while training: the limit of the
   launch's law times COPSE_BOUND_MARGIN, because a training step has any numbers and conformance
   has chosen ones. Sums may err by what is proven for any numbers (core/device/kernel/sum_bound.h), where
   that is more. */
#ifndef COPSE_BOUND_H
#define COPSE_BOUND_H

#include "core/device/device.h"

#define COPSE_BOUND_MARGIN 8.0

struct copse_bound {
    const struct copse_law *law;
    /* r, the root mean square of the results of the launch, is a floor, too */
    struct copse_limit limit;
    int32_t spec[COPSE_MAX_SPECS]; /* with which the host function computes the basis */
};

/* The bound of a command that copse__probe_can takes, on a device with these limits. */
void copse__bound_of(const struct copse_command *c, const struct copse_limits *limits,
                     struct copse_bound *out);
/* Multiplications and additions of the host function, or words that it reads and writes,
   roughly. */
uint64_t copse__bound_work(const struct copse_command *c);

#endif
