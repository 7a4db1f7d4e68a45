/* SPDX-License-Identifier: MIT */
/* Spot recomputation: in some audited steps one launch, of a replica's program or of the update, is
   computed again on the host from the words that it read. */
#include "core/check/bound.h"
#include "core/train/verify/verifier.h"

#define MOST_WORK  ((uint64_t)1 << 20) /* of the launch (core/check/bound.h) */
#define MOST_BYTES ((size_t)4 << 20)   /* of its buffers */

/* A number among the launches that may be chosen; counted, then found. */
struct draw {
    struct copse_verifier *v;
    const struct copse_verified *m;
    bool is_found;
    size_t count, wanted;
};

static bool may_choose(const struct copse_command *c)
{
    return copse__probe_can(c) && copse__probe_bytes(c) <= MOST_BYTES &&
           copse__bound_work(c) <= MOST_WORK;
}

static copse_status spot_visit(void *user, uint32_t r, const struct copse_segment *segment)
{
    struct draw *d = user;
    const struct copse_command *c;
    if (d->v->owner.strategy->replicas[r].dev->info.kind == COPSE_DEVICE_REFERENCE)
        return COPSE_OK;
    for (size_t i = 0; !d->is_found && (c = copse__probe_command(segment, i)) != NULL; i++) {
        if (!may_choose(c) || d->count++ != d->wanted)
            continue;
        d->is_found = true;
        d->v->spot.segment = segment;
        d->v->spot.which = i;
    }
    return COPSE_OK;
}

static copse_status visit_programs(struct draw *d)
{
    for (uint32_t r = 0; r < d->v->owner.strategy->replica_count; r++) {
        struct copse_program *program = d->m->programs[r];
        for (uint32_t i = 0; program && i < copse__program_segments(program); i++)
            COPSE_TRY(spot_visit(d, r, copse__program_list(program)[i]));
    }
    return COPSE_OK;
}

static copse_status visit_update(struct draw *d)
{
    return copse__visit_update(&d->v->owner, spot_visit, d);
}

/* Choose one of the launches that `all` visits. */
static copse_status spot_choose(struct copse_verifier *v, const struct copse_verified *m,
                                uint64_t random, copse_status (*all)(struct draw *d))
{
    struct draw d = { .v = v, .m = m, .wanted = SIZE_MAX };
    COPSE_TRY(all(&d));
    if (d.count == 0)
        return COPSE_OK;
    d.wanted = (size_t)(random % d.count);
    d.count = 0;
    return all(&d);
}

static copse_status spot_replay(void *user, uint32_t r, const struct copse_segment *segment)
{
    struct copse_verifier *v = user;
    struct copse_spot *s = &v->spot;
    copse__optimizer_replay_by(v->owner.optimizer, NULL, NULL, NULL);
    s->segment = NULL;
    s->replica = r;
    COPSE_TRY(copse__probe_replay(&s->probe, segment, s->which));
    s->ticket = copse__queue_next(v->owner.strategy->replicas[r].queue);
    s->step = v->spot_step;
    return COPSE_OK;
}

copse_status copse__spot_replay(struct copse_verifier *v, uint32_t r, struct copse_segment *segment)
{
    return segment == v->spot.segment ? spot_replay(v, r, segment) : copse__segment_replay(segment);
}

copse_status copse__spot_begin(struct copse_verifier *v, const struct copse_verified *m)
{
    struct copse_spot *s = &v->spot;
    const uint64_t seed[] = { m->seed, m->step };
    const uint64_t random = copse__hash(COPSE_HASH_START, seed, sizeof seed) >> 8;
    if (s->segment) { /* of a step that ended before it */
        copse__optimizer_replay_by(v->owner.optimizer, NULL, NULL, NULL);
        s->segment = NULL;
    }
    if (!m->is_audited || s->step > 0 || !copse__audit_has_spot(&v->audit, m->step))
        return COPSE_OK;
    const bool is_update = random % 2 == 0;
    v->spot_step = m->step;
    COPSE_TRY(spot_choose(v, m, random / 2, is_update ? visit_update : visit_programs));
    if (s->segment && is_update)
        copse__optimizer_replay_by(v->owner.optimizer, s->segment, spot_replay, v);
    return COPSE_OK;
}

static copse_status spot_judge(struct copse_verifier *v)
{
    const struct copse_spot *s = &v->spot;
    const struct copse_device_info *info = &v->owner.strategy->replicas[s->replica].dev->info;
    struct copse_probe_fault f;
    char name[COPSE_FAULT_NAME], numbers[COPSE_FAULT_NUMBERS];
    COPSE_TRY(copse__probe_judge(&s->probe, &f));
    if (!f.is_found)
        return COPSE_OK;
    v->audit.has_failed = true;
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "%s: audit of step %llu: %s (driver %.64s) computed %s wrong: kernel %s "
                      "returned %s. The device or "
                      "its driver makes errors; do not use the parameters. Check it: copse "
                      "conformance --device %s",
                      v->owner.name, (unsigned long long)s->step, info->id, info->driver,
                      copse__fault_name(&v->owner, s->replica, &f, name),
                      copse__command_name(&s->probe.command), copse__fault_numbers(&f, numbers),
                      info->id);
}

copse_status copse__spot_end(struct copse_verifier *v, uint64_t step, bool wait)
{
    struct copse_spot *s = &v->spot;
    if (s->step == 0 || s->step != step)
        return COPSE_OK;
    copse_queue *q = v->owner.strategy->replicas[s->replica].queue;
    COPSE_TRY(wait ? copse__queue_await(q, s->ticket) : copse_queue_wait(q, s->ticket, 0));
    const copse_status status = spot_judge(v);
    s->step = 0;
    s->compared += status == COPSE_OK;
    return status;
}
