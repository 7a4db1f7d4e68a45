/* SPDX-License-Identifier: MIT */
/* The cross-check of a step: the launches of a replica's recording are executed one by one, and each result is
   compared with that of the host function on the same words. Then the recording is replayed, and must leave the same
   bits. The launches of the update are compared with the host in the same way. Then their results are overwritten with the
   old values. (copse/train/audit.h) */
#include <stdio.h>

#include "core/audit/chain.h"
#include "core/base/platform.h"
#include "core/train/execution.h"

#define BUDGET ((uint64_t)1 << 23) /* work of the host for one recording (core/audit/bound.h) */

/* What is checked, of one replica. */
struct check {
    struct copse_execution *e;
    uint32_t replica;
    copse_device *dev;
    struct copse_chain chain;
    unsigned char *reports; /* after the launches one by one, and after the replay */
    uint64_t hash; /* of all launches */
};

/* ---- texts ---- */

#define ADVICE "Nothing was changed. Use another device, or check this one: copse conformance --device %s; without " \
               "this check: --no-cross-check, copse_trainer_audit"

static copse_status fail_launch(const struct check *k)
{
    const struct copse_probe_fault *f = &k->chain.fault;
    const struct copse_device_info *info = &k->dev->info;
    char name[COPSE_FAULT_NAME], numbers[COPSE_FAULT_NUMBERS];
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "trainer: cross-check of step %llu: %s (driver %.64s) computes %s wrong: kernel %s returns %s. " ADVICE,
                      (unsigned long long)k->e->t->step + 1, info->id, info->driver,
                      copse__fault_name(k->e->t, k->replica, f, name),
                      copse__command_name(&k->chain.probe.command), copse__fault_numbers(f, numbers), info->id);
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

static copse_status run_recording(struct check *k)
{
    struct copse_program *program = k->e->shards->recordings[k->replica]->base.program;
    struct copse_segment *const *list = copse__program_list(program);
    const uint32_t count = copse__program_segments(program);
    k->chain.most = copse__chain_most(list, count, BUDGET);
    for (uint32_t i = 0; i < count && !k->chain.fault.is_found; i++)
        COPSE_TRY(copse__chain_run(&k->chain, list[i]));
    return k->chain.fault.is_found ? fail_launch(k) : replay(k);
}

static void hash_segment(struct check *k, const struct copse_segment *segment)
{
    for (const struct copse_segment *part = segment; part; part = part->rest)
        for (size_t i = 0; i < part->count; i++)
            k->hash = copse__probe_hash(k->hash, &part->commands[i]);
}

static void hash_recording(struct check *k)
{
    struct copse_program *program = k->e->shards->recordings[k->replica]->base.program;
    for (uint32_t i = 0; i < copse__program_segments(program); i++)
        hash_segment(k, copse__program_list(program)[i]);
}

/* ---- the update ---- */

static copse_status visit_updates(struct check *k, copse_replay_fn *visit)
{
    const copse_trainer *t = k->e->t;
    for (size_t b = 0; b < t->optimizer->buckets.count; b++)
        COPSE_TRY(copse__exchange_visit(t->strategy->store->exchange, t->optimizer->buckets.at[b].id, visit, k));
    return COPSE_OK;
}

static copse_status hash_update(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct check *k = user;
    if (rank == k->replica)
        hash_segment(k, segment);
    return COPSE_OK;
}

/* In the order of the buckets, until the budget is used. */
static copse_status run_update(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct check *k = user;
    if (rank != k->replica || k->chain.fault.is_found)
        return COPSE_OK;
    struct copse_segment *const list[] = { (struct copse_segment *)segment };
    k->chain.most = copse__chain_most(list, 1, BUDGET - COPSE_MIN(k->chain.work, BUDGET));
    COPSE_TRY(copse__chain_run(&k->chain, segment));
    return k->chain.fault.is_found ? fail_launch(k) : COPSE_OK;
}

static copse_status run_updates(struct check *k)
{
    k->chain.restores = true;
    const copse_status s = visit_updates(k, run_update);
    k->e->t->is_failed |= k->chain.is_torn;
    return s;
}

static copse_status hash_updates(struct check *k)
{
    return visit_updates(k, hash_update);
}

/* ---- both ---- */

/* `s` ended the check. A read that is still under way keeps its memory. Returns `s`, with its text. */
static copse_status drop_memory(struct check *k, copse_status s)
{
    char text[COPSE_ERROR_BYTES];
    bool is_idle = s == COPSE_OK || s == COPSE_ERR_UNRELIABLE;
    if (!is_idle) {
        snprintf(text, sizeof text, "%s", copse_last_error());
        is_idle = copse_queue_finish(k->e->t->strategy->replicas[k->replica].queue) != COPSE_ERR_TIMEOUT;
        copse__fail_again(text);
    }
    if (is_idle) {
        copse__probe_free(&k->chain.probe);
        copse__free(&k->dev->base->mem, k->reports);
    }
    return s;
}

/* Run a check unless it has passed before, on this device and driver. */
static copse_status once(struct check *k, copse_status (*run)(struct check *k), const char *what)
{
    copse_trainer *t = k->e->t;
    const uint64_t start = copse__now_ns();
    bool has;
    COPSE_TRY(copse__device_has_checked(k->dev, k->hash, &has));
    if (has)
        return COPSE_OK;
    const copse_status s = drop_memory(k, run(k));
    t->watches.cross_check.compared += k->chain.compared;
    copse__log(&k->dev->base->log, COPSE_LOG_DEBUG, "cross-check: %s: %s: %zu launches compared, %zu of them in part, %zu not, %.1f ms",
               k->dev->info.id, what, k->chain.compared, k->chain.sampled, k->chain.skipped, (double)(copse__now_ns() - start) * 1e-6);
    if (s == COPSE_OK)
        return copse__device_note_checked(k->dev, k->hash);
    if (s != COPSE_ERR_UNRELIABLE)
        return s;
    t->watches.audit.has_failed = true;
    char text[COPSE_ERROR_BYTES];
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (copse__device_forget_checked(k->dev) != COPSE_OK)
        copse__log(&k->dev->base->log, COPSE_LOG_WARN, "cross-check: %s", copse_last_error());
    copse__fail_again(text);
    return s;
}

static copse_status check_replica(struct copse_execution *e, uint32_t r)
{
    copse_trainer *t = e->t;
    copse_device *dev = t->strategy->replicas[r].dev;
    struct copse_step_recording *rec = e->shards->recordings[r];
    if (dev->info.kind == COPSE_DEVICE_REFERENCE)
        return COPSE_OK;
    if (!rec->is_checked && rec->base.program) {
        struct check k = { .e = e, .replica = r, .dev = dev, .hash = COPSE_HASH_START };
        hash_recording(&k);
        COPSE_TRY(once(&k, run_recording, "the step"));
    }
    if (!t->watches.cross_check.updates_are_checked) {
        struct check k = { .e = e, .replica = r, .dev = dev, .hash = COPSE_HASH_START };
        COPSE_TRY(hash_updates(&k));
        COPSE_TRY(once(&k, run_updates, "the update"));
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
