/* SPDX-License-Identifier: MIT */
/* The cross-check of a tower optimizer before the first update of new variables. */
#include "core/compat/tower.h"

copse_status copse__tower_check_update(copse_tower_optimizer *t)
{
    const size_t buckets = t->optimizer->buckets.count;
    if (t->params.no_cross_check || t->checked_buckets >= buckets)
        return COPSE_OK;
    /* devices share memory, into which gradients are copied */
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_queue_finish(t->strategy->replicas[r].queue));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        struct copse_cross_check k =
            copse__cross_check_of(&t->computing.owner, r, t->optimizer->step + 1);
        const copse_status s = copse__cross_check_update(&k, "an update");
        t->optimizer->is_torn |= k.base.chain.is_torn;
        COPSE_TRY(s);
    }
    t->checked_buckets = buckets;
    return COPSE_OK;
}
