/* SPDX-License-Identifier: MIT */
#include "core/train/verify/cross_check.h"

#include <stdio.h>

/* ---- texts ---- */

static bool is_in(const struct copse_binding *range, const struct copse_probe_fault *f,
                  size_t *byte)
{
    *byte = f->result.offset + f->element * COPSE_WORD_BYTES - range->offset;
    /* before it: a huge number */
    return range->buffer && range->buffer == f->result.buffer && *byte < range->size;
}

static bool is_variable(const struct copse_check_owner *owner, uint32_t replica,
                        const copse_variable *v, const struct copse_probe_fault *f,
                        char text[COPSE_FAULT_NAME])
{
    const uint32_t bucket = copse__optimizer_bucket(owner->optimizer, v);
    size_t byte;
    if (bucket == COPSE_NO_BUCKET)
        return false;
    const struct copse_binding gradient = copse__variable_gradient(v, replica),
                               values = copse__variable_values(v, replica);
    const copse_row_exchange *rows = owner->optimizer->buckets.at[bucket].rows;
    const bool is_gradient = is_in(&gradient, f, &byte);
    const bool is_rows = rows && copse__row_exchange_has(rows, f->result.buffer);
    if (is_rows)
        byte = f->element * COPSE_WORD_BYTES;
    else if (!is_gradient && !is_in(&values, f, &byte))
        return false;
    snprintf(text, COPSE_FAULT_NAME, "%s of '%.128s', element %zu",
             is_rows       ? "rows of an update"
             : is_gradient ? "the gradient"
                           : "the new values",
             v->name, byte / COPSE_WORD_BYTES);
    return true;
}

/* Where the newest step has gradients of rows. */
static bool is_row_gradient(const struct copse_check_owner *owner, uint32_t replica,
                            const struct copse_probe_fault *f, char text[COPSE_FAULT_NAME])
{
    const struct copse_audit *a = owner->audit;
    size_t byte;
    for (size_t i = 0; a && i < a->count; i++)
        if (is_in(&a->ranges[replica * a->count + i].gradient, f, &byte)) {
            snprintf(text, COPSE_FAULT_NAME, "the gradient of '%.128s', element %zu of its rows",
                     a->variables[i].name, byte / COPSE_WORD_BYTES);
            return true;
        }
    return false;
}

const char *copse__fault_name(const struct copse_check_owner *owner, uint32_t replica,
                              const struct copse_probe_fault *f, char text[COPSE_FAULT_NAME])
{
    const copse_strategy *st = owner->strategy;
    for (size_t i = 0; i < st->variables.count; i++)
        if (is_variable(owner, replica, st->variables.at[i], f, text))
            return text;
    if (is_row_gradient(owner, replica, f, text))
        return text;
    if (owner->reports && f->result.buffer == owner->reports[replica])
        snprintf(text, COPSE_FAULT_NAME, "%s",
                 f->result.offset + f->element * COPSE_WORD_BYTES < COPSE_REPORT_STRIDE
                     ? "the loss"
                     : "a report of the loss function");
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
                      "%s: cross-check of step %llu: %s (driver %.64s) computes %s wrong: kernel "
                      "%s returns %s. " COPSE_CHECK_ADVICE "; without this check: %s",
                      k->owner->name, (unsigned long long)k->step, info->id, info->driver,
                      copse__fault_name(k->owner, k->replica, f, name),
                      copse__command_name(&k->base.chain.probe.command),
                      copse__fault_numbers(f, numbers), info->id, k->owner->turn_off);
}

struct copse_cross_check copse__cross_check_of(const struct copse_check_owner *owner,
                                               uint32_t replica, uint64_t step)
{
    return (
        struct copse_cross_check){ .base = { .queue = owner->strategy->replicas[replica].queue },
                                   .owner = owner,
                                   .replica = replica,
                                   .step = step };
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

copse_status copse__visit_update(const struct copse_check_owner *owner, copse_replay_fn *visit,
                                 void *user)
{
    const struct copse_optimizer *o = owner->optimizer;
    for (uint32_t b = 0; b < o->buckets.count; b++)
        COPSE_TRY(copse__optimizer_visit(o, b, visit, user));
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

static copse_status visit_dense(const struct copse_check_owner *owner, copse_replay_fn *visit,
                                void *user)
{
    const struct copse_optimizer *o = owner->optimizer;
    for (uint32_t b = 0; b < o->buckets.count; b++)
        if (!o->buckets.at[b].rows)
            COPSE_TRY(copse__optimizer_visit(o, b, visit, user));
    return COPSE_OK;
}

static copse_status run_update(void *user)
{
    struct copse_cross_check *k = user;
    return visit_dense(k->owner, run_segment, k);
}

copse_status copse__cross_check_update(struct copse_cross_check *k, const char *what)
{
    if (!copse__check_needs(k->base.queue))
        return COPSE_OK;
    COPSE_TRY(visit_dense(k->owner, hash_segment, k));
    return copse__check_once(&k->base, what, run_update, k);
}

/* Made-up numbers are not row numbers, so the exchange makes up the lists. */
static copse_status run_rows(void *user)
{
    struct copse_cross_check *k = user;
    return copse__row_exchange_rehearse(k->rows, k->replica, run_segment, k);
}

copse_status copse__cross_check_rows(struct copse_cross_check *k, const char *what)
{
    if (!copse__check_needs(k->base.queue))
        return COPSE_OK;
    COPSE_TRY(copse__row_exchange_visit(k->rows, hash_segment, k));
    return k->base.hash == 0 ? COPSE_OK : copse__check_once(&k->base, what, run_rows, k);
}
