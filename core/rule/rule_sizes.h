/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of update kernels: see struct copse_limit. */
#ifndef COPSE_RULE_SIZES_H
#define COPSE_RULE_SIZES_H

#include "core/device/kernel/law.h"

copse_host_fn copse__adam_size, copse__adaptive_size, copse__trust_size, copse__lamb_sum_size,
    copse__adam8_size;

#endif
