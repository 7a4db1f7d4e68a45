/* SPDX-License-Identifier: MIT */
/* Cross-checks of a tower optimizer: before the first use of a recording, and before the first
   update of new variables. */
#include "core/compat/tower.h"

static struct copse_check_owner owner_of(const copse_tower_optimizer *t)
{
    return (struct copse_check_owner){ .name = "tower optimizer",
                                       .turn_off = "copse_tower_params.no_cross_check",
                                       .strategy = t->strategy,
                                       .optimizer = t->optimizer };
}

copse_status copse__tower_check_recording(const copse_tower_optimizer *t, uint32_t replica,
                                          struct copse_program *program)
{
    const struct copse_check_owner owner = owner_of(t);
    struct copse_cross_check k = copse__cross_check_of(&owner, replica, t->optimizer->step + 1);
    k.program = program;
    return t->params.no_cross_check || !program ? COPSE_OK
                                                : copse__cross_check_program(&k, "a loss function");
}

copse_status copse__tower_check_update(copse_tower_optimizer *t)
{
    const struct copse_check_owner owner = owner_of(t);
    const size_t buckets = t->optimizer->buckets.count;
    if (t->params.no_cross_check || t->checked_buckets >= buckets)
        return COPSE_OK;
    /* devices share memory, into which gradients are copied */
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_queue_finish(t->strategy->replicas[r].queue));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        struct copse_cross_check k = copse__cross_check_of(&owner, r, t->optimizer->step + 1);
        const copse_status s = copse__cross_check_update(&k, "an update");
        t->optimizer->is_torn |= k.base.chain.is_torn;
        COPSE_TRY(s);
    }
    t->checked_buckets = buckets;
    return COPSE_OK;
}
