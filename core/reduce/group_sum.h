/* SPDX-License-Identifier: MIT */
/* Sums of words in host memory over the workers of a group, by the canonical tree. */
#ifndef COPSE_GROUP_SUM_H
#define COPSE_GROUP_SUM_H

#include "core/comm/group.h"

/* After a barrier, as part of the same collective, so that only the cluster can fail here. Each
   word becomes the tree (sum_schedule.h) over the workers' words: first `floats` f32, then `whole` i32,
   which wrap around. `room` has copse__group_sum_room words. In a group of one nothing happens. */
size_t copse__group_sum_room(const struct copse_group *g, size_t words);
copse_status copse__group_sum(struct copse_group *g, uint32_t *words, size_t floats, size_t whole,
                              uint32_t *room);

#endif
