/* SPDX-License-Identifier: MIT */
/* The accelerator strategy: the cores that it takes, in the order of their ids. Runs of several
   steps are in core/train. */
#include "copse/distribute/accelerator.h"
#include "core/strategy/create.h"

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_ACCELERATOR,
    .name = "accelerator",
    .shares_devices = true,
    .count = copse__strategy_count,
    .dispose = copse__strategy_dispose,
};

/* Stable: equal ids keep their order. */
static void sort_ids(const char **ids, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const char *id = ids[i];
        size_t at = i;
        for (; at > 0 && copse__device_id_compare(ids[at - 1], id) > 0; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

/* ---- making one ---- */

static copse_status accelerator_check(const struct copse_accelerator_params *p, size_t count)
{
    bool is_taken[COPSE_MAX_REPLICAS] = { false };
    if (p->steps_per_run > COPSE_MAX_STEPS_PER_RUN)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "accelerator: %u steps to a run, at most %d are possible",
                          p->steps_per_run, COPSE_MAX_STEPS_PER_RUN);
    if (p->cores > count)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "accelerator: %u cores are asked for, the list of devices has "
                          "%zu; name a device several times for logical cores",
                          p->cores, count);
    if (p->assignment && p->cores == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "accelerator: an assignment needs the number of cores");
    for (uint32_t r = 0; p->assignment && r < p->cores; r++) {
        const uint32_t core = p->assignment[r];
        if (core >= count || is_taken[core])
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "accelerator: replica %u is assigned to core %u, %s", r, core,
                              core >= count ? "which there is not" : "which another one has");
        is_taken[core] = true;
    }
    return COPSE_OK;
}

copse_status copse_accelerator_create(copse_context *ctx, const char *const *devices, size_t count,
                                      const struct copse_accelerator_params *params,
                                      copse_strategy **out)
{
    static const struct copse_accelerator_params defaults;
    const struct copse_accelerator_params *p = params ? params : &defaults;
    const char *order[COPSE_MAX_REPLICAS], *ids[COPSE_MAX_REPLICAS];
    uint32_t cores[COPSE_MAX_REPLICAS];
    COPSE_TRY(copse_note(copse__strategy_check(ctx, devices, count, out), "for an accelerator"));
    COPSE_TRY(copse_no_reserved(copse_accelerator_params, params));
    COPSE_TRY(accelerator_check(p, count));
    memcpy(order, devices, count * sizeof *order);
    sort_ids(order, count);
    const uint32_t replicas = p->cores ? p->cores : (uint32_t)count;
    for (uint32_t r = 0; r < replicas; r++) {
        cores[r] = p->assignment ? p->assignment[r] : r;
        ids[r] = order[cores[r]];
    }
    copse_strategy *st;
    COPSE_TRY(copse__strategy_create(ctx, &table, ids, replicas, &p->strategy, &st));
    st->accelerator.steps_per_run = COPSE_MAX(p->steps_per_run, 1);
    memcpy(st->accelerator.cores, cores, replicas * sizeof *cores);
    *out = st;
    return COPSE_OK;
}

/* ---- what it is ---- */

COPSE_PROPERTY(uint32_t, copse_accelerator_steps_per_run, copse_strategy,
               COPSE_MAX(x->accelerator.steps_per_run, 1), 0)

uint32_t copse_accelerator_core(const copse_strategy *st, uint32_t replica)
{
    return st && st->table == &table && replica < st->replica_count ? st->accelerator.cores[replica]
                                                                    : UINT32_MAX;
}

bool copse_accelerator_is_resident(const copse_strategy *st)
{
    return st && st->table == &table && copse__strategy_has_one_queue(st);
}
