/* SPDX-License-Identifier: MIT */
/* Costs of links between the host and devices, and the cheapest algorithm for them. */
#ifndef COPSE_LINK_H
#define COPSE_LINK_H

#include "core/reduce/value/value_reduce.h"

/* Of a queue's device; NULL = of the host itself. Waits for the queue. */
copse_status copse__link_measure(struct copse_mem *mem, copse_queue *queue, struct copse_link *out);

/* The cheapest algorithm and root to reduce `bytes` of each of `ranks` contributors to `to` (ranks
   or COPSE_HOST), by estimate; the first of those that cost the same. Pure arithmetic. */
struct copse_way {
    enum copse_collective algorithm;
    uint32_t root;
};
struct copse_way copse__link_choose(const struct copse_link *links, uint32_t ranks, double bytes,
                                    const uint32_t *to, uint32_t to_count);

#endif
