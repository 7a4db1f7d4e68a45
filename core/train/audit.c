/* SPDX-License-Identifier: MIT */
/* Audits of a trainer: in some steps the gradients are computed twice, and the variables of all replicas are compared. */
#include "copse/train/audit.h"

#include "core/train/execution.h"

#define EVERY 128u
#define FIRST 8u /* all steps up to here, apart from the first one */

enum row { ROW_VALUES, ROW_FIRST, ROW_SECOND, ROWS }; /* of the digests */

/* ---- memory ---- */

static copse_status make(copse_trainer *t, const uint64_t *counts)
{
    struct copse_trainer_audit *a = &t->watches.audit;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse__digests_create(t->strategy->replicas[r].queue, counts, (uint32_t)t->trained.count, ROWS,
                                        &a->digests[r]));
    return COPSE_OK;
}

copse_status copse__audit_make(copse_trainer *t)
{
    struct copse_base *base = &t->strategy->ctx->base;
    uint64_t *counts = copse__alloc(&base->mem, t->trained.count, sizeof *counts);
    if (!counts)
        return copse_no_memory("trainer");
    for (size_t i = 0; i < t->trained.count; i++)
        counts[i] = t->trained.at[i]->count;
    const copse_status s = make(t, counts);
    copse__free(&base->mem, counts);
    if (s == COPSE_OK || s == COPSE_ERR_NO_MEMORY || s == COPSE_ERR_NO_DEVICE_MEMORY || s == COPSE_ERR_DEVICE_LOST)
        return s;
    t->watches.audit.params.is_off = true;
    copse__log(&base->log, COPSE_LOG_WARN, "trainer: not audited: %s", copse_last_error());
    return COPSE_OK;
}

void copse__audit_free(copse_trainer *t, bool is_idle)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        copse__digests_free(&t->watches.audit.digests[r], is_idle);
}

/* ---- queueing ---- */

static bool is_due(const struct copse_execution *e)
{
    const struct copse_trainer_audit *a = &e->t->watches.audit;
    const uint64_t step = e->t->step + 1, every = a->params.every > 0 ? a->params.every : EVERY;
    return e->is_training && e->part == 0 && !e->is_resident && !a->params.is_off && a->step == 0 &&
           e->layout->all_reduces.count == 0 &&
           (step % every == 0 || (step > 1 && step < every && (step <= FIRST || (step & (step - 1)) == 0)));
}

static bool compares_values(const copse_trainer *t)
{
    return t->strategy->replica_count > 1 && !t->optimizer->table->is_sharing;
}

/* Behind segment `i`, which is that of bucket `i` where no loss function all-reduces. */
static copse_status queue_gradients(copse_trainer *t, enum row row, uint32_t r, uint32_t i)
{
    for (uint32_t v = 0; v < t->trained.count; v++) {
        if (copse__optimizer_bucket(t->optimizer, t->trained.at[v]) != i)
            continue;
        const struct copse_binding range = copse__variable_gradient(t->trained.at[v], r);
        COPSE_TRY(copse__digest_queue(&t->watches.audit.digests[r], row, v, &range));
    }
    return COPSE_OK;
}

static copse_status queue_first(struct copse_execution *e, uint32_t r)
{
    copse_trainer *t = e->t;
    struct copse_program *program = e->shards->recordings[r]->base.program;
    t->watches.audit.has[r] = program != NULL;
    for (uint32_t v = 0; compares_values(t) && v < t->trained.count; v++) {
        const struct copse_binding range = copse__variable_values(t->trained.at[v], r);
        COPSE_TRY(copse__digest_queue(&t->watches.audit.digests[r], ROW_VALUES, v, &range));
    }
    for (uint32_t i = 0; program && i < e->layout->events.count; i++) {
        COPSE_TRY(copse__program_replay(program, i));
        COPSE_TRY(queue_gradients(t, ROW_FIRST, r, i));
    }
    return COPSE_OK;
}

copse_status copse__audit_begin(struct copse_execution *e)
{
    e->is_audited = is_due(e);
    for (uint32_t r = 0; e->is_audited && r < e->t->strategy->replica_count; r++)
        COPSE_TRY(queue_first(e, r));
    return COPSE_OK;
}

copse_status copse__audit_segment(struct copse_execution *e, uint32_t r, uint32_t i)
{
    struct copse_trainer_audit *a = &e->t->watches.audit;
    if (a->has[r])
        COPSE_TRY(queue_gradients(e->t, ROW_SECOND, r, i));
    if (i + 1 < e->layout->events.count)
        return COPSE_OK;
    a->step = e->slot->step;
    return copse__digests_read(&a->digests[r]);
}

/* ---- comparing ---- */

static copse_status two_gradients(const copse_trainer *t, uint64_t step, uint32_t r, uint32_t v)
{
    const char *device = t->strategy->replicas[r].dev->info.id;
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "trainer: audit of step %llu: %s computed the gradient of '%s' twice from the same inputs, with "
                      "different results. The device or its driver makes errors; do not use the parameters. "
                      "Check it: copse conformance --device %s",
                      (unsigned long long)step, device, t->trained.at[v]->name, device);
}

static copse_status two_values(const copse_trainer *t, uint64_t step, uint32_t r, uint32_t v)
{
    const char *const ids[] = { t->strategy->replicas[0].dev->info.id, t->strategy->replicas[r].dev->info.id };
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "trainer: audit of step %llu: replica 0 (%s) and replica %u (%s) have different values of '%s' "
                      "before the step. A device or its driver makes errors; do not use the parameters. Check "
                      "both: copse conformance --device %s,%s",
                      (unsigned long long)step, ids[0], r, ids[1], t->trained.at[v]->name, ids[0], ids[1]);
}

static copse_status compare(const copse_trainer *t, uint64_t step)
{
    const struct copse_trainer_audit *a = &t->watches.audit;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        for (uint32_t v = 0; a->has[r] && v < t->trained.count; v++)
            if (!copse__digest_equal(&a->digests[r], ROW_FIRST, &a->digests[r], ROW_SECOND, v))
                return two_gradients(t, step, r, v);
    for (uint32_t r = 1; compares_values(t) && r < t->strategy->replica_count; r++)
        for (uint32_t v = 0; v < t->trained.count; v++)
            if (!copse__digest_equal(&a->digests[0], ROW_VALUES, &a->digests[r], ROW_VALUES, v))
                return two_values(t, step, r, v);
    return COPSE_OK;
}

copse_status copse__audit_compare(copse_trainer *t, const struct copse_step_slot *slot)
{
    struct copse_trainer_audit *a = &t->watches.audit;
    if (a->step == 0 || a->step != slot->step)
        return COPSE_OK;
    a->step = 0;
    const copse_status s = compare(t, slot->step);
    if (s != COPSE_OK)
        t->is_failed = a->has_failed = true;
    else
        a->passed++;
    return s;
}

copse_status copse__audit_settle(copse_trainer *t)
{
    if (t->watches.audit.step == 0)
        return COPSE_OK;
    const struct copse_step_slot *slot = copse__slot_of(t, t->watches.audit.step - 1);
    COPSE_TRY(copse__slot_wait(t, slot, true));
    return copse__audit_compare(t, slot);
}

/* ---- settings ---- */

copse_status copse_trainer_audit(copse_trainer *t, const struct copse_audit_params *params)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse_no_reserved(copse_audit_params, params));
    COPSE_TRY(copse__callback_check("copse_trainer_audit", t));
    COPSE_TRY(copse__audit_settle(t));
    const bool can = t->watches.audit.digests[t->strategy->replica_count - 1].queue != NULL;
    t->watches.audit.params = params ? *params : (struct copse_audit_params){ .every = 0 };
    t->watches.audit.params.is_off |= !can;
    return COPSE_OK;
}

uint64_t copse_trainer_audits(const copse_trainer *t)
{
    return t ? t->watches.audit.passed : 0;
}
