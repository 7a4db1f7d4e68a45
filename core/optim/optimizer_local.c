/* SPDX-License-Identifier: MIT */
/* The optimizer whose variables replicas have: each slice of a bucket is summed over replicas and workers and updated
   at its owner, which has the slots and hands the new values on. */
#include "core/optim/optimizer.h"

static copse_status update(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out)
{
    return copse__rule_command(user, dev, &u->values, &u->gradients, &u->slots, &u->step, u->count, out);
}

static copse_status clip(void *user, copse_device *dev, const struct copse_update *u, struct copse_command *out)
{
    return copse__rule_clip(user, dev, &u->gradients, &u->step, u->count, out);
}

static copse_status average(void *user, copse_device *dev, const struct copse_update *u, struct copse_command *out)
{
    return copse__rule_average(user, dev, &u->values, &u->slots, &u->step, u->count, out);
}

static copse_status prepare(struct copse_optimizer *o, copse_variable *const *list, size_t count)
{
    const struct copse_optimizer_params *p = &o->rule.params;
    const struct copse_exchange_rule rule = {
        .slots = o->rule.slots,
        .before = p->clip_value > 0.0f ? clip : NULL,
        .update = update,
        .behind = p->average > 0.0f ? average : NULL,
        .user = &o->rule,
    };
    return copse__optimizer_cut(o, list, count, &rule);
}

static copse_status apply(struct copse_optimizer *o, uint32_t bucket, const struct copse_optimizer_ready *ready)
{
    copse_exchange *x = o->strategy->store->exchange;
    copse__exchange_stop_by(x, ready->stop);
    const copse_status s =
        copse__exchange_run(x, o->buckets.at[bucket].id, ready->tickets, ready->busy, ready->user);
    copse__exchange_stop_by(x, NULL);
    return s;
}

static copse_status queue(struct copse_optimizer *o, uint32_t bucket)
{
    return copse__exchange_queue(o->strategy->store->exchange, o->buckets.at[bucket].id);
}

static copse_status commit(struct copse_optimizer *o, const struct copse_optimizer_commit *c)
{
    (void)o;
    (void)c;
    return COPSE_OK;
}

static copse_status pull(struct copse_optimizer *o, enum copse_pull when, uint32_t replica)
{
    (void)o;
    (void)when;
    (void)replica;
    return COPSE_OK;
}

static uint64_t next(const struct copse_optimizer *o, uint64_t step)
{
    (void)o;
    return step;
}

static copse_status read_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot, float *values)
{
    return copse__slot_read_own(o, v, slot, values);
}

static copse_status write_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                               const float *values)
{
    return copse__slot_write_own(o, v, slot, values);
}

const struct copse_optimizer_table copse__optimizer_local = {
    .name = "local",
    .prepare = prepare,
    .apply = apply,
    .queue = queue,
    .commit = commit,
    .pull = pull,
    .next = next,
    .read_slot = read_slot,
    .write_slot = write_slot,
};
