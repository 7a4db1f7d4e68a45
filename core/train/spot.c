/* SPDX-License-Identifier: MIT */
/* Spot recomputation: in some audited steps one launch, of a replica's recording or of the update, is computed again on
   the host from the words that it read. (copse/train/audit.h) */
#include "core/audit/bound.h"
#include "core/audit/check.h"
#include "core/train/execution.h"

#define MOST_WORK  ((uint64_t)1 << 20) /* of the launch (core/audit/bound.h) */
#define MOST_BYTES ((size_t)4 << 20)   /* of its buffers */

/* A number among the launches that may be chosen; counted, then found. */
struct draw {
    copse_trainer *t;
    bool is_found;
    size_t count, wanted;
};

static bool may_choose(const struct copse_command *c)
{
    return copse__probe_can(c) && copse__probe_bytes(c) <= MOST_BYTES && copse__bound_work(c) <= MOST_WORK;
}

static copse_status visit(void *user, uint32_t r, const struct copse_segment *segment)
{
    struct draw *d = user;
    const struct copse_command *c;
    if (d->t->strategy->replicas[r].dev->info.kind == COPSE_DEVICE_REFERENCE)
        return COPSE_OK;
    for (size_t i = 0; !d->is_found && (c = copse__probe_command(segment, i)) != NULL; i++) {
        if (!may_choose(c) || d->count++ != d->wanted)
            continue;
        d->is_found = true;
        d->t->watches.spot.segment = segment;
        d->t->watches.spot.which = i;
    }
    return COPSE_OK;
}

static copse_status visit_recordings(struct copse_execution *e, struct draw *d)
{
    for (uint32_t r = 0; r < d->t->strategy->replica_count; r++) {
        struct copse_program *program = e->shards->recordings[r]->base.program;
        for (uint32_t i = 0; program && i < copse__program_segments(program); i++)
            COPSE_TRY(visit(d, r, copse__program_list(program)[i]));
    }
    return COPSE_OK;
}

static copse_status visit_updates(struct copse_execution *e, struct draw *d)
{
    (void)e;
    for (uint32_t b = 0; b < d->t->optimizer->buckets.count; b++)
        COPSE_TRY(copse__optimizer_visit(d->t->optimizer, b, visit, d));
    return COPSE_OK;
}

/* Choose one of the launches that `all` visits. */
static copse_status choose(struct copse_execution *e, uint64_t random,
                           copse_status (*all)(struct copse_execution *e, struct draw *d))
{
    struct draw d = { .t = e->t, .wanted = SIZE_MAX };
    COPSE_TRY(all(e, &d));
    if (d.count == 0)
        return COPSE_OK;
    d.wanted = (size_t)(random % d.count);
    d.count = 0;
    return all(e, &d);
}

static copse_status replay(void *user, uint32_t r, const struct copse_segment *segment)
{
    copse_trainer *t = user;
    struct copse_spot *s = &t->watches.spot;
    copse__exchange_replay_by(t->strategy->store->exchange, NULL, NULL, NULL);
    s->segment = NULL;
    s->replica = r;
    COPSE_TRY(copse__probe_replay(&s->probe, segment, s->which));
    s->ticket = copse__queue_next(t->strategy->replicas[r].queue);
    s->step = t->step + 1;
    return COPSE_OK;
}

copse_status copse__spot_replay(copse_trainer *t, uint32_t r, struct copse_segment *segment)
{
    return segment == t->watches.spot.segment ? replay(t, r, segment) : copse__segment_replay(segment);
}

copse_status copse__spot_begin(struct copse_execution *e)
{
    copse_trainer *t = e->t;
    struct copse_spot *s = &t->watches.spot;
    const uint64_t seed[] = { t->params.seed, t->step + 1 };
    const uint64_t random = copse__hash(COPSE_HASH_START, seed, sizeof seed) >> 8;
    if (s->segment) { /* of a step that ended before it */
        copse__exchange_replay_by(t->strategy->store->exchange, NULL, NULL, NULL);
        s->segment = NULL;
    }
    if (!e->is_audited || s->step > 0 || !copse__audit_has_spot(&t->watches.audit, t->step + 1))
        return COPSE_OK;
    const bool is_update = random % 2 == 0;
    COPSE_TRY(choose(e, random / 2, is_update ? visit_updates : visit_recordings));
    if (s->segment && is_update)
        copse__exchange_replay_by(t->strategy->store->exchange, s->segment, replay, t);
    return COPSE_OK;
}

static copse_status judge(copse_trainer *t)
{
    const struct copse_spot *s = &t->watches.spot;
    const struct copse_device_info *info = &t->strategy->replicas[s->replica].dev->info;
    struct copse_probe_fault f;
    char name[COPSE_FAULT_NAME], numbers[COPSE_FAULT_NUMBERS];
    COPSE_TRY(copse__probe_judge(&s->probe, &f));
    if (!f.is_found)
        return COPSE_OK;
    t->watches.audit.has_failed = true;
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "trainer: audit of step %llu: %s (driver %.64s) computed %s wrong: kernel %s returned %s. The device or "
                      "its driver makes errors; do not use the parameters. Check it: copse conformance --device %s",
                      (unsigned long long)s->step, info->id, info->driver, copse__fault_name(t, s->replica, &f, name),
                      copse__command_name(&s->probe.command), copse__fault_numbers(&f, numbers), info->id);
}

copse_status copse__spot_compare(copse_trainer *t, uint64_t step, bool wait)
{
    struct copse_spot *s = &t->watches.spot;
    if (s->step == 0 || s->step != step)
        return COPSE_OK;
    copse_queue *q = t->strategy->replicas[s->replica].queue;
    COPSE_TRY(wait ? copse__queue_await(q, s->ticket) : copse_queue_wait(q, s->ticket, 0));
    const copse_status status = judge(t);
    s->step = 0;
    t->watches.spot.compared += status == COPSE_OK;
    return status;
}
