/* SPDX-License-Identifier: MIT */
/* Working copies become what the stores have, unless a step is under way: all replicas compute it from the same
   values. */
#include "core/optim/ps.h"
#include "core/replica/context.h"
#include "core/variable/storage.h"

/* The replica that the thread is in, where the strategy has others; else COPSE_HOST. */
static uint32_t one_of_several(const copse_strategy *st)
{
    const struct copse_frame *f = copse__context_top();
    return f && f->handle && f->strategy == st && st->replica_count > 1 ? f->rank : COPSE_HOST;
}

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
            return copse_fail(COPSE_ERR_CONTEXT, "trainer: tower optimizer '%s' has gradients of replica %u and none of "
                                                 "replica %u, which computes them from the same values: take the step "
                                                 "when all have handed over, or drop them by copse_tower_finish",
                              o->name, has, misses);
    }
    return COPSE_OK;
}

static copse_status check_step(const copse_strategy *st)
{
    const uint32_t replica = one_of_several(st);
    if (replica != COPSE_HOST)
        return copse_fail(COPSE_ERR_CONTEXT, "trainer: a step in replica %u of the parameter server strategy brings "
                                             "other values to all of its replicas, of which some have computed and "
                                             "others have not: take it outside, or in a merge function", replica);
    return check_held(st);
}

copse_status copse__ps_pull(struct copse_optimizer *o, enum copse_pull when, uint32_t replica)
{
    copse_strategy *st = o->strategy;
    bool is_due = true;
    switch (when) {
    case COPSE_PULL_STEP:
        COPSE_TRY(check_step(st));
        break;
    case COPSE_PULL_EVALUATE:
        is_due = one_of_several(st) == COPSE_HOST && is_idle(st);
        break;
    case COPSE_PULL_REPLICA:
        is_due = replica == 0 && is_idle(st);
        break;
    case COPSE_PULL_ALWAYS:
        break;
    }
    return is_due && st->storage->table->pull ? st->storage->table->pull(st) : COPSE_OK;
}
