/* SPDX-License-Identifier: MIT */
#include "core/verify/cross_check.h"

#include <stdio.h>

/* ---- texts ---- */

static bool is_in(const struct copse_binding *range, const struct copse_probe_fault *f, size_t *byte)
{
    *byte = f->result.offset + f->element * COPSE_WORD_BYTES - range->offset;
    return range->buffer && range->buffer == f->result.buffer && *byte < range->size; /* before it: a huge number */
}

const char *copse__fault_name(const struct copse_check_owner *owner, uint32_t replica, const struct copse_probe_fault *f,
                              char text[COPSE_FAULT_NAME])
{
    const copse_strategy *st = owner->strategy;
    size_t byte;
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (copse__optimizer_bucket(owner->optimizer, v) == COPSE_NO_BUCKET)
            continue;
        const struct copse_binding gradient = copse__variable_gradient(v, replica), values = copse__variable_values(v, replica);
        const bool is_gradient = is_in(&gradient, f, &byte);
        if (!is_gradient && !is_in(&values, f, &byte))
            continue;
        snprintf(text, COPSE_FAULT_NAME, "%s of '%.128s', element %zu", is_gradient ? "the gradient" : "the new values",
                 v->name, byte / COPSE_WORD_BYTES);
        return text;
    }
    if (owner->reports && f->result.buffer == owner->reports[replica])
        snprintf(text, COPSE_FAULT_NAME, "%s", f->result.offset + f->element * COPSE_WORD_BYTES < COPSE_REPORT_STRIDE
                                                   ? "the loss" : "a report of the loss function");
    else
        snprintf(text, COPSE_FAULT_NAME, "element %zu of an intermediate result", f->element);
    return text;
}

static copse_status fail_launch(const struct copse_cross_check *k)
{
    const struct copse_probe_fault *f = &k->base.chain.fault;
    const struct copse_device_info *info = &k->base.queue->dev->info;
    char name[COPSE_FAULT_NAME], numbers[COPSE_FAULT_NUMBERS];
    return copse_fail(COPSE_ERR_UNRELIABLE,
                      "%s: cross-check of step %llu: %s (driver %.64s) computes %s wrong: kernel %s returns %s. "
                      COPSE_CHECK_ADVICE "; without this check: %s", k->owner->name, (unsigned long long)k->step, info->id,
                      info->driver, copse__fault_name(k->owner, k->replica, f, name),
                      copse__command_name(&k->base.chain.probe.command), copse__fault_numbers(f, numbers), info->id,
                      k->owner->turn_off);
}

struct copse_cross_check copse__cross_check_of(const struct copse_check_owner *owner, uint32_t replica, uint64_t step)
{
    return (struct copse_cross_check){ .base = { .queue = owner->strategy->replicas[replica].queue }, .owner = owner,
                                       .replica = replica, .step = step };
}

/* ---- a program ---- */

static copse_status run_program(void *user)
{
    struct copse_cross_check *k = user;
    struct copse_segment *const *list = copse__program_list(k->program);
    const uint32_t count = copse__program_segments(k->program);
    k->base.chain.most = copse__chain_most(list, count, COPSE_CHECK_BUDGET);
    for (uint32_t i = 0; i < count && !k->base.chain.fault.is_found; i++)
        COPSE_TRY(copse__chain_run(&k->base.chain, list[i]));
    if (k->base.chain.fault.is_found)
        return fail_launch(k);
    return k->then ? k->then(k) : COPSE_OK;
}

copse_status copse__cross_check_program(struct copse_cross_check *k, const char *what)
{
    if (!copse__check_needs(k->base.queue))
        return COPSE_OK;
    for (uint32_t i = 0; i < copse__program_segments(k->program); i++)
        copse__check_hash(&k->base, copse__program_list(k->program)[i]);
    return copse__check_once(&k->base, what, run_program, k);
}

/* ---- an update ---- */

copse_status copse__visit_update(const struct copse_check_owner *owner, copse_replay_fn *visit, void *user)
{
    const struct copse_optimizer *o = owner->optimizer;
    for (size_t b = 0; b < o->buckets.count; b++)
        COPSE_TRY(copse__exchange_visit(owner->strategy->store->exchange, o->buckets.at[b].id, visit, user));
    return COPSE_OK;
}

static copse_status hash_segment(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct copse_cross_check *k = user;
    if (rank == k->replica)
        copse__check_hash(&k->base, segment);
    return COPSE_OK;
}

/* In the order of the buckets, until the budget is used. */
static copse_status run_segment(void *user, uint32_t rank, const struct copse_segment *segment)
{
    struct copse_cross_check *k = user;
    if (rank != k->replica || k->base.chain.fault.is_found)
        return COPSE_OK;
    COPSE_TRY(copse__check_update(&k->base, segment));
    return k->base.chain.fault.is_found ? fail_launch(k) : COPSE_OK;
}

static copse_status run_update(void *user)
{
    struct copse_cross_check *k = user;
    return copse__visit_update(k->owner, run_segment, k);
}

copse_status copse__cross_check_update(struct copse_cross_check *k, const char *what)
{
    if (!copse__check_needs(k->base.queue))
        return COPSE_OK;
    COPSE_TRY(copse__visit_update(k->owner, hash_segment, k));
    return copse__check_once(&k->base, what, run_update, k);
}
