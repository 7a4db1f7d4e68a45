/* SPDX-License-Identifier: MIT */
/* The optimizer whose variables replicas have: each slice of a bucket is summed over replicas and
   workers and updated at its owner, which has the slots and broadcasts the new values. */
#include "core/optim/optimizer.h"

static copse_status optimizer_local_update(void *user, copse_device *dev,
                                           const struct copse_update *u, struct copse_command *out)
{
    return copse__rule_command(user, dev, &u->values, &u->gradients, &u->slots, &u->step,
                               &u->measures[0], u->count, out);
}

static copse_status optimizer_local_clip(void *user, copse_device *dev,
                                         const struct copse_update *u, struct copse_command *out)
{
    return copse__rule_clip(user, dev, &u->gradients, &u->step, u->count, out);
}

static copse_status optimizer_local_average(void *user, copse_device *dev,
                                            const struct copse_update *u, struct copse_command *out)
{
    return copse__rule_average(user, dev, &u->values, &u->slots, &u->step, u->count, out);
}

static copse_status optimizer_local_measure(void *user, copse_device *dev,
                                            const struct copse_update *u,
                                            struct copse_command out[])
{
    const struct copse_rule *rule = user;
    return rule->trusts ? copse__rule_measure_trust(rule, dev, &u->values, &u->gradients, &u->slots,
                                                    &u->step, u->measures, u->count, out)
                        : copse__rule_measure(dev, &u->gradients, &u->measures[0], u->count, out);
}

static copse_status clip_norm(void *user, copse_device *dev, const struct copse_update *u,
                              struct copse_command *out)
{
    (void)user;
    return copse__rule_scale(dev, &u->measures[0], &u->gradients, u->count, out);
}

static uint64_t slot_words(const void *user, uint64_t count)
{
    return copse__rule_words_of(user, count);
}

static copse_status optimizer_local_prepare(struct copse_optimizer *o, copse_variable *const *list,
                                            size_t count)
{
    const bool is_coded = o->rule.slots > 0 && o->rule.slot_kinds[0] == COPSE_SLOT_CODES;
    const struct copse_optimizer_params *p = &o->rule.params;
    struct copse_exchange_rule rule = {
        .slots = is_coded ? 1 + o->rule.slots - o->rule.update_slots : o->rule.slots,
        .slot_words = is_coded ? slot_words : NULL,
        .measures = o->rule.trusts ? 2 : o->rule.measures,
        .measure = optimizer_local_measure,
        .before = p->clip_value > 0.0f  ? optimizer_local_clip
                  : p->clip_norm > 0.0f ? clip_norm
                                        : NULL,
        .update = optimizer_local_update,
        .behind = p->average > 0.0f ? optimizer_local_average : NULL,
        .user = &o->rule,
        .is_summed = copse__strategy_has_own_sums(o->strategy),
    };
    memcpy(rule.starts, o->rule.slot_starts, sizeof rule.starts);
    const size_t before = o->buckets.count;
    COPSE_TRY(copse__optimizer_cut_rows(o, list, count, &rule));
    const copse_status s = o->rule.measures ? copse__norms_plan(o, before) : COPSE_OK;
    if (s)
        copse__optimizer_drop(o, before);
    return s;
}

static void forget_kept(struct copse_optimizer *o)
{
    for (size_t i = 0; i < o->kept.count; i++)
        o->buckets.at[o->kept.at[i]].is_kept = false;
    o->kept.count = 0;
}

/* There is room for all buckets. A bucket that is kept already is of an update that was cut
   short. */
static void note_kept(struct copse_optimizer *o, uint32_t bucket)
{
    if (o->buckets.at[bucket].is_kept)
        forget_kept(o);
    o->buckets.at[bucket].is_kept = true;
    o->kept.at[o->kept.count++] = bucket;
}

static copse_status optimizer_local_apply(struct copse_optimizer *o, uint32_t bucket,
                                          const struct copse_optimizer_ready *ready)
{
    const copse_status s = copse__optimizer_exchange(o, bucket, ready);
    if (s)
        forget_kept(o);
    else if (o->rule.measures)
        note_kept(o, bucket);
    return s;
}

static copse_status optimizer_local_queue(struct copse_optimizer *o, uint32_t bucket)
{
    return copse__optimizer_queue(o, bucket);
}

/* The factor of all gradients that clip_global_norm demands becomes that of the update. */
static copse_status write_scale(struct copse_optimizer *o, float before)
{
    const copse_strategy *st = o->strategy;
    const float scale = copse__norms_scale(o, before);
    for (uint32_t r = 0; r < st->replica_count && scale != before; r++)
        COPSE_TRY(copse_queue_write(st->replicas[r].queue, st->replicas[r].step,
                                    COPSE_STEP_SCALE * sizeof(uint32_t), &scale, sizeof scale));
    return COPSE_OK;
}

static copse_status update_kept(struct copse_optimizer *o, const struct copse_optimizer_commit *c)
{
    float scale;
    memcpy(&scale, &c->words[COPSE_STEP_SCALE], sizeof scale);
    COPSE_TRY(copse__norms_read(o));
    if (o->scaling.scale > 0.0f && !copse__norms_are_finite(o)) {
        copse__scaling_note(o, false);
        return COPSE_OK;
    }
    if (o->rule.params.clip_norm > 0.0f || o->rule.trusts)
        COPSE_TRY(copse__norms_write(o, scale));
    COPSE_TRY(write_scale(o, scale));
    for (size_t i = 0; i < o->kept.count; i++)
        COPSE_TRY(copse__optimizer_finish(o, o->kept.at[i]));
    copse__scaling_note(o, true);
    return COPSE_OK;
}

static copse_status optimizer_local_commit(struct copse_optimizer *o,
                                           const struct copse_optimizer_commit *c)
{
    if (!o->rule.measures)
        return COPSE_OK;
    const copse_status s = update_kept(o, c);
    forget_kept(o);
    return s;
}

static copse_status optimizer_local_pull(struct copse_optimizer *o, enum copse_pull when,
                                         uint32_t replica)
{
    (void)o;
    (void)when;
    (void)replica;
    return COPSE_OK;
}

static uint64_t optimizer_local_next(const struct copse_optimizer *o, uint64_t step)
{
    /* a named one does not count what it skips */
    return o->name[0] ? step : step - o->scaling.skipped;
}

static copse_status read_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                              void *values)
{
    return copse__slot_read_own(o, v, slot, values);
}

static copse_status write_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                               const void *values)
{
    return copse__slot_write_own(o, v, slot, values);
}

const struct copse_optimizer_table copse__optimizer_local = {
    .name = "local",
    .prepare = optimizer_local_prepare,
    .apply = optimizer_local_apply,
    .queue = optimizer_local_queue,
    .commit = optimizer_local_commit,
    .pull = optimizer_local_pull,
    .next = optimizer_local_next,
    .read_slot = read_slot,
    .write_slot = write_slot,
};
