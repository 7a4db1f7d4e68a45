/* SPDX-License-Identifier: MIT */
/* Audits of a trainer (core/audit/audit.h): which variables, and when in a step. */
#include "core/train/execution.h"

/* Sparse variables are left out: audits read all of a variable, and their steps do not. */
static size_t audited(const copse_trainer *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->trained.count; i++)
        count += !t->trained.at[i]->is_sparse;
    return count;
}

copse_status copse__trainer_audit_make(copse_trainer *t)
{
    const copse_strategy *st = t->strategy;
    const size_t count = audited(t);
    COPSE_TRY(copse__audit_create(&st->ctx->base.mem, st->replica_count, count, &t->watches.audit));
    t->watches.audit.params.is_off = count == 0;
    t->watches.audit.compares_values = (st->replica_count > 1 || st->group.workers > 1) && !t->optimizer->table->is_sharing;
    for (uint32_t r = 0; r < st->replica_count && count > 0; r++) {
        for (size_t k = 0, i = 0; k < t->trained.count; k++) {
            const copse_variable *v = t->trained.at[k];
            if (v->is_sparse)
                continue;
            t->watches.audit.variables[i] = (struct copse_audit_variable){ v->name, v->count,
                                                                   copse__optimizer_bucket(t->optimizer, v) };
            t->watches.audit.ranges[r * count + i++] = (struct copse_audit_range){ copse__variable_values(v, r),
                                                                           copse__variable_gradient(v, r) };
        }
        COPSE_TRY(copse__audit_open(&t->watches.audit, r, st->replicas[r].queue));
    }
    return COPSE_OK;
}

copse_status copse__audit_first(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    e->is_audited = e->is_training && e->part == 0 && !e->is_resident && e->layout->all_reduces.count == 0 &&
                    copse__audit_is_due(&t->watches.audit, t->step + 1);
    if (e->part == 0)
        COPSE_TRY(copse__spot_begin(e));
    for (uint32_t r = 0; e->is_audited && r < t->strategy->replica_count; r++) {
        struct copse_program *program = e->shards->recordings[r]->base.program;
        COPSE_TRY(copse__audit_begin(&t->watches.audit, r, program != NULL));
        for (uint32_t i = 0; program && i < e->layout->events.count; i++) {
            COPSE_TRY(copse__spot_replay(t, r, copse__program_list(program)[i]));
            COPSE_TRY(copse__audit_gradients(&t->watches.audit, r, i, false));
        }
        COPSE_TRY(copse__audit_poison(&t->watches.audit, r, t->strategy->replicas[r].queue));
    }
    return COPSE_OK;
}

copse_status copse__audit_second(struct copse_execution *e, uint32_t r, uint32_t i)
{
    if (!e->is_audited)
        return COPSE_OK;
    COPSE_TRY(copse__audit_gradients(&e->t->watches.audit, r, i, true));
    return i + 1 < e->layout->events.count ? COPSE_OK : copse__audit_read(&e->t->watches.audit, r, e->slot->step);
}

copse_status copse__audit_settle(copse_trainer *t)
{
    const uint64_t step = COPSE_MAX(t->watches.audit.step, t->watches.spot.step);
    return step > 0 ? copse__slot_wait(t, copse__slot_of(t, step - 1), true) : COPSE_OK;
}

copse_status copse_trainer_audit(copse_trainer *t, const struct copse_audit_params *params)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__callback_check("copse_trainer_audit", t));
    COPSE_TRY(copse__audit_settle(t));
    return copse__audit_set(&t->watches.audit, params);
}

uint64_t copse_trainer_audits(const copse_trainer *t)
{
    return t ? t->watches.audit.passed : 0;
}
