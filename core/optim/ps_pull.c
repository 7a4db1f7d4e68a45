/* SPDX-License-Identifier: MIT */
/* Working copies become what the stores have, unless a step is under way: all replicas compute it
   from the same values. */
#include "copse/distribute/value.h"
#include "core/optim/ps.h"
#include "core/variable/storage.h"

static bool is_idle(const copse_strategy *st)
{
    for (const struct copse_optimizer *o = NULL; (o = copse__optimizer_next(st, o));)
        for (uint32_t r = 0; r < st->replica_count; r++)
            if (o->held[r] > 0)
                return false;
    return true;
}

/* Some of several replicas have handed gradients over and wait for the others. */
static copse_status check_held(const copse_strategy *st)
{
    for (const struct copse_optimizer *o = NULL; (o = copse__optimizer_next(st, o));) {
        uint32_t has = COPSE_HOST, misses = 0;
        for (uint32_t r = 0; r < st->replica_count; r++)
            if (o->held[r] == 0)
                misses = r;
            else
                has = r;
        if (has != COPSE_HOST)
            return copse_fail(
                COPSE_ERR_CONTEXT,
                "trainer: tower optimizer '%s' has gradients of replica %u and none of "
                "replica %u, which computes them from the same values: take the step "
                "when all have handed over, or drop them by copse_tower_finish",
                o->name, has, misses);
    }
    return COPSE_OK;
}

copse_status copse__ps_pull(struct copse_optimizer *o, enum copse_pull when, uint32_t replica)
{
    copse_strategy *st = o->strategy;
    bool is_due = true;
    switch (when) {
    case COPSE_PULL_STEP:
        COPSE_TRY(check_held(st));
        break;
    case COPSE_PULL_EVALUATE:
        is_due = is_idle(st);
        break;
    case COPSE_PULL_REPLICA:
        is_due = replica == 0 && is_idle(st);
        break;
    case COPSE_PULL_ALWAYS:
        break;
    }
    return is_due && st->storage->table->pull ? st->storage->table->pull(st) : COPSE_OK;
}
