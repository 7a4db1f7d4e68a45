/* SPDX-License-Identifier: MIT */
/* Cross-checks of a tower optimizer: before the first use of a recording, and before the first update of new variables,
   the launches are compared with the host (core/audit/check.h). */
#include <stdio.h>

#include "core/audit/check.h"
#include "core/compat/tower.h"

struct tower_check {
    struct copse_check base;
    const copse_tower_optimizer *t;
    uint32_t replica;
    struct copse_program *program; /* of a recording; else the update */
};

/* What the fault is in: a variable, or a result of the loss function. */
static void name_fault(const struct tower_check *k, char *text, size_t room)
{
    const struct copse_probe_fault *f = &k->base.chain.fault;
    const size_t byte = f->result.offset + f->element * COPSE_WORD_BYTES;
    snprintf(text, room, "element %zu of a result", f->element);
    for (size_t i = 0; i < k->t->strategy->variables.count; i++) {
        const copse_variable *v = k->t->strategy->variables.at[i];
        const struct copse_binding at = copse__variable_values(v, k->replica);
        if (v->tensor.type == COPSE_F32 && at.buffer == f->result.buffer && byte >= at.offset && byte - at.offset < at.size)
            snprintf(text, room, "the new values of '%.64s', element %zu", v->name, (byte - at.offset) / COPSE_WORD_BYTES);
    }
}

static copse_status fail_launch(const struct tower_check *k)
{
    const struct copse_device_info *info = &k->base.queue->dev->info;
    char name[128], numbers[COPSE_FAULT_NUMBERS];
    name_fault(k, name, sizeof name);
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "tower optimizer: cross-check of step %llu: %s (driver %.64s) computes %s wrong: kernel %s returns %s. "
                      COPSE_CHECK_ADVICE "; without this check: copse_tower_params.no_cross_check",
                      (unsigned long long)k->t->optimizer->step + 1, info->id, info->driver, name,
                      copse__command_name(&k->base.chain.probe.command),
                      copse__fault_numbers(&k->base.chain.fault, numbers), info->id);
}

/* ---- a recording ---- */

static copse_status run_recording(void *user)
{
    struct tower_check *k = user;
    struct copse_segment *const *list = copse__program_list(k->program);
    const uint32_t count = copse__program_segments(k->program);
    k->base.chain.most = copse__chain_most(list, count, COPSE_CHECK_BUDGET);
    for (uint32_t i = 0; i < count && !k->base.chain.fault.is_found; i++)
        COPSE_TRY(copse__chain_run(&k->base.chain, list[i]));
    return k->base.chain.fault.is_found ? fail_launch(k) : COPSE_OK;
}

copse_status copse__tower_check_recording(const copse_tower_optimizer *t, uint32_t replica, struct copse_program *program)
{
    struct tower_check k = { .base = { .queue = t->strategy->replicas[replica].queue }, .t = t, .replica = replica,
                             .program = program };
    if (t->params.no_cross_check || !program || !copse__check_needs(k.base.queue))
        return COPSE_OK;
    for (uint32_t i = 0; i < copse__program_segments(program); i++)
        copse__check_hash(&k.base, copse__program_list(program)[i]);
    return copse__check_once(&k.base, "a loss function", run_recording, &k);
}

/* ---- the update ---- */

static copse_status visit_buckets(struct tower_check *k, copse_replay_fn *visit)
{
    const struct copse_optimizer *o = k->t->optimizer;
    for (uint32_t b = 0; b < o->buckets.count; b++)
        COPSE_TRY(copse__optimizer_visit(o, b, visit, k));
    return COPSE_OK;
}

static copse_status hash_segment(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct tower_check *k = user;
    if (rank == k->replica)
        copse__check_hash(&k->base, segment);
    return COPSE_OK;
}

static copse_status run_segment(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct tower_check *k = user;
    if (rank != k->replica || k->base.chain.fault.is_found)
        return COPSE_OK;
    COPSE_TRY(copse__check_update(&k->base, segment));
    return k->base.chain.fault.is_found ? fail_launch(k) : COPSE_OK;
}

static copse_status run_update(void *user)
{
    return visit_buckets(user, run_segment);
}

static copse_status check_replica(copse_tower_optimizer *t, uint32_t r)
{
    struct tower_check k = { .base = { .queue = t->strategy->replicas[r].queue }, .t = t, .replica = r };
    if (!copse__check_needs(k.base.queue))
        return COPSE_OK;
    COPSE_TRY(visit_buckets(&k, hash_segment));
    const copse_status s = copse__check_once(&k.base, "an update", run_update, &k);
    t->optimizer->is_torn |= k.base.chain.is_torn;
    return s;
}

copse_status copse__tower_check_update(copse_tower_optimizer *t)
{
    const size_t buckets = t->optimizer->buckets.count;
    if (t->params.no_cross_check || t->checked_buckets >= buckets)
        return COPSE_OK;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) /* devices share memory, into which gradients are copied */
        COPSE_TRY(copse_queue_finish(t->strategy->replicas[r].queue));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(check_replica(t, r));
    t->checked_buckets = buckets;
    return COPSE_OK;
}
