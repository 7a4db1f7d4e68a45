/* SPDX-License-Identifier: MIT */
/* Calls of one function by several threads. */
#ifndef COPSE_DATA_PARALLEL_H
#define COPSE_DATA_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

#include "copse/status.h"

#define COPSE_PARALLEL_MAX 16u

/* Call fn(user, i) for i = 0..count-1 on up to `threads` threads, at most COPSE_PARALLEL_MAX, and
   wait. Calls begin in order; none begins after a failure. The result is that of the failed call
   with the smallest i, with its text: it does not depend on the number of threads. */
copse_status copse__parallel_for(uint32_t threads, size_t count,
                                 copse_status (*fn)(void *user, size_t i), void *user);

#endif
