/* SPDX-License-Identifier: MIT */
/* Programs that passed their cross-check on a device, as digests: one list for each device, driver
   and library version, in memory and in the kernel cache. All functions lock. */
#ifndef COPSE_CHECKED_H
#define COPSE_CHECKED_H

#include "core/trust/trust.h"

struct copse_checked_list;

/* Whether the program passed. Reads the kernel cache when the device is first asked for. */
copse_status copse__checked_has(struct copse_trust *t, const struct copse_device_info *info,
                                uint64_t program, bool *has);
/* It passed. */
copse_status copse__checked_add(struct copse_trust *t, const struct copse_device_info *info,
                                uint64_t program);
/* A program failed: no other one of the device counts as checked any more. */
copse_status copse__checked_clear(struct copse_trust *t, const struct copse_device_info *info);
void copse__checked_free(struct copse_trust *t);

#endif
