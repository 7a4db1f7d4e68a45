/* SPDX-License-Identifier: MIT */
/* The cross-check of a step: the launches of a replica's recording are executed one by one, and each result is
   compared with that of the host function on the same words. Then the recording is replayed, and must leave the same
   bits. The launches of the update are compared with the host in the same way. Then their results are overwritten with the
   old values. (copse/train/audit.h) */
#include <stdio.h>

#include "core/audit/check.h"
#include "core/train/execution.h"

/* What is checked, of one replica. */
struct check {
    struct copse_check base;
    struct copse_execution *e;
    uint32_t replica;
    copse_device *dev;
    unsigned char *reports; /* after the launches one by one, and after the replay */
};

/* ---- texts ---- */

#define ADVICE COPSE_CHECK_ADVICE "; without this check: --no-cross-check, copse_trainer_audit"

static copse_status fail_launch(const struct check *k)
{
    const struct copse_probe_fault *f = &k->base.chain.fault;
    const struct copse_device_info *info = &k->dev->info;
    char name[COPSE_FAULT_NAME], numbers[COPSE_FAULT_NUMBERS];
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "trainer: cross-check of step %llu: %s (driver %.64s) computes %s wrong: kernel %s returns %s. " ADVICE,
                      (unsigned long long)k->e->t->step + 1, info->id, info->driver,
                      copse__fault_name(k->e->t, k->replica, f, name),
                      copse__command_name(&k->base.chain.probe.command), copse__fault_numbers(f, numbers), info->id);
}

static copse_status fail_replay(const struct check *k, const char *what, const char *name)
{
    const struct copse_device_info *info = &k->dev->info;
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "trainer: cross-check of step %llu: %s (driver %.64s) computes %s%s wrong: the launches of the "
                      "step, queued together, give other bits than one by one. " ADVICE,
                      (unsigned long long)k->e->t->step + 1, info->id, info->driver, what, name, info->id);
}

/* ---- the recording ---- */

/* NaN, so that a result of a launch that is lost does not stay. */
static copse_status poison(const struct check *k)
{
    copse_trainer *t = k->e->t;
    copse_queue *q = t->strategy->replicas[k->replica].queue;
    COPSE_TRY(copse__audit_poison(&t->watches.audit, k->replica, q));
    return copse_queue_fill(q, t->reports.buffers[k->replica], 0, COPSE_REPORT_BYTES, 0x7fc00000u);
}

/* The same launches as they are recorded: loss, reports and gradients must have the same bits. Results of all-reduces are
   what their memory holds, both times. */
static copse_status replay(struct check *k)
{
    copse_trainer *t = k->e->t;
    struct copse_audit *a = &t->watches.audit;
    struct copse_digests *d = &a->digests[k->replica];
    copse_queue *q = t->strategy->replicas[k->replica].queue;
    copse_buffer *reports = t->reports.buffers[k->replica];
    struct copse_program *program = k->e->shards->recordings[k->replica]->base.program;
    const uint32_t segments = copse__program_segments(program), buckets = (uint32_t)t->optimizer->buckets.count;
    k->reports = copse__alloc(&k->dev->base->mem, 2, COPSE_REPORT_BYTES);
    COPSE_TRY(copse_need_memory(k->reports, "cross-check"));
    a->has[k->replica] = d->queue != NULL;
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (turn == 1)
            COPSE_TRY(poison(k));
        for (uint32_t i = 0; turn == 1 && i < segments; i++)
            COPSE_TRY(copse__program_replay(program, i));
        for (uint32_t b = 0; b < buckets; b++)
            COPSE_TRY(copse__audit_gradients(a, k->replica, b, turn == 1));
        COPSE_TRY(copse_queue_read(q, reports, 0, k->reports + turn * COPSE_REPORT_BYTES, COPSE_REPORT_BYTES));
    }
    if (d->queue)
        COPSE_TRY(copse__digests_read(d));
    COPSE_TRY(copse_queue_finish(q));
    for (uint32_t i = 0; i <= t->reports.count; i++) {
        const unsigned char *value = k->reports + i * COPSE_REPORT_STRIDE;
        if (memcmp(value, value + COPSE_REPORT_BYTES, COPSE_WORD_BYTES) != 0)
            return fail_replay(k, i == 0 ? "the loss" : "the report ", i == 0 ? "" : t->reports.names[i - 1]);
    }
    const char *variable = d->queue ? copse__audit_repeated(a, k->replica) : NULL;
    return variable ? fail_replay(k, "the gradient of ", variable) : COPSE_OK;
}

static copse_status run_recording(void *user)
{
    struct check *k = user;
    struct copse_program *program = k->e->shards->recordings[k->replica]->base.program;
    struct copse_segment *const *list = copse__program_list(program);
    const uint32_t count = copse__program_segments(program);
    k->base.chain.most = copse__chain_most(list, count, COPSE_CHECK_BUDGET);
    for (uint32_t i = 0; i < count && !k->base.chain.fault.is_found; i++)
        COPSE_TRY(copse__chain_run(&k->base.chain, list[i]));
    return k->base.chain.fault.is_found ? fail_launch(k) : replay(k);
}

static void hash_recording(struct check *k)
{
    struct copse_program *program = k->e->shards->recordings[k->replica]->base.program;
    for (uint32_t i = 0; i < copse__program_segments(program); i++)
        copse__check_hash(&k->base, copse__program_list(program)[i]);
}

/* ---- the update ---- */

static copse_status visit_updates(struct check *k, copse_replay_fn *visit)
{
    const struct copse_optimizer *o = k->e->t->optimizer;
    for (uint32_t b = 0; b < o->buckets.count; b++)
        COPSE_TRY(copse__optimizer_visit(o, b, visit, k));
    return COPSE_OK;
}

static copse_status hash_update(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct check *k = user;
    if (rank == k->replica)
        copse__check_hash(&k->base, segment);
    return COPSE_OK;
}

/* In the order of the buckets, until the budget is used. */
static copse_status run_update(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct check *k = user;
    if (rank != k->replica || k->base.chain.fault.is_found)
        return COPSE_OK;
    COPSE_TRY(copse__check_update(&k->base, segment));
    return k->base.chain.fault.is_found ? fail_launch(k) : COPSE_OK;
}

static copse_status run_updates(void *user)
{
    struct check *k = user;
    const copse_status s = visit_updates(k, run_update);
    k->e->t->is_failed |= k->base.chain.is_torn;
    return s;
}

static copse_status hash_updates(struct check *k)
{
    return visit_updates(k, hash_update);
}

/* ---- both ---- */

static copse_status once(struct check *k, const char *what, copse_status (*run)(void *user))
{
    copse_trainer *t = k->e->t;
    const copse_status s = copse__check_once(&k->base, what, run, k);
    if (k->base.chain.probe.dev == NULL) /* no read is under way */
        copse__free(&k->dev->base->mem, k->reports);
    t->watches.cross_check.compared += k->base.chain.compared;
    t->watches.audit.has_failed |= s == COPSE_ERR_UNRELIABLE;
    return s;
}

static copse_status check_replica(struct copse_execution *e, uint32_t r)
{
    copse_trainer *t = e->t;
    copse_device *dev = t->strategy->replicas[r].dev;
    struct copse_step_recording *rec = e->shards->recordings[r];
    if (!copse__check_needs(t->strategy->replicas[r].queue))
        return COPSE_OK;
    if (!rec->is_checked && rec->base.program) {
        struct check k = { .base = { .queue = t->strategy->replicas[r].queue }, .e = e, .replica = r, .dev = dev };
        hash_recording(&k);
        COPSE_TRY(once(&k, "the step", run_recording));
    }
    if (!t->watches.cross_check.updates_are_checked) {
        struct check k = { .base = { .queue = t->strategy->replicas[r].queue }, .e = e, .replica = r, .dev = dev };
        COPSE_TRY(hash_updates(&k));
        COPSE_TRY(once(&k, "the update", run_updates));
    }
    return COPSE_OK;
}

copse_status copse__cross_check(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    if (!e->is_training || e->part > 0 || t->watches.audit.params.is_cross_check_off)
        return COPSE_OK;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(check_replica(e, r));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        e->shards->recordings[r]->is_checked = true;
    t->watches.cross_check.updates_are_checked = true;
    return COPSE_OK;
}

uint64_t copse_trainer_cross_checked(const copse_trainer *t)
{
    return t ? t->watches.cross_check.compared : 0;
}
