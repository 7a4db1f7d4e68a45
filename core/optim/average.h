/* SPDX-License-Identifier: MIT */
/* Variables take the values of their moving averages, the slots "average" of their optimizer, and
   get their own back. Both are kept in host memory, so that the bits are the same. */
#ifndef COPSE_OPTIM_AVERAGE_H
#define COPSE_OPTIM_AVERAGE_H

#include "core/optim/optimizer.h"

/* The variables' own values, while they have their averages. */
struct copse_average {
    float *values; /* else NULL */
};

/* Slot number `slot` has the averages; `step` is the caller's count of updates. `is_torn` becomes
   true where some of the variables have their averages and some do not. Blocking. */
copse_status copse__average_begin(struct copse_average *a, struct copse_optimizer *o,
                                  copse_variable *const *list, size_t count, uint32_t slot,
                                  uint64_t step, bool *is_torn);
copse_status copse__average_end(struct copse_average *a, struct copse_optimizer *o,
                                copse_variable *const *list, size_t count, bool *is_torn);
/* Forget the own values. */
void copse__average_free(struct copse_average *a, struct copse_mem *mem);

#endif
