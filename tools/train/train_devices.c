/* SPDX-License-Identifier: MIT */
/* The devices of a run: which devices of --devices are replicas, and the strategy on them. */
#include <stdio.h>
#include <string.h>

#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/parameter_server.h"

#include "tools/train/train_run.h"

/* The list of --devices, and the share of each. */
static copse_status choose_devices(struct run *r)
{
    const struct train_settings *s = &r->settings;
    struct mixture m = { .count = 0 };
    const bool is_one = s->strategy.at->value == STRATEGY_ONE_DEVICE || r->is_evaluator;
    COPSE_TRY(copse_select_devices(r->ctx, s->devices, m.ids, COPSE_MAX_REPLICAS, &m.count));
    if (is_one && m.count > 1) {
        if (!r->is_evaluator && strcmp(s->devices, "auto") != 0 && strcmp(s->devices, "all") != 0)
            return session_set_error(COPSE_ERR_ARGUMENT,
                                     "--strategy one_device takes one device, --devices %s names "
                                     "%zu",
                                     s->devices, m.count);
        m.count = 1;
    }
    COPSE_TRY(shares_settle(r, &m));
    r->mixture = m;
    return COPSE_OK;
}

uint32_t run_shards_each(const struct run *r)
{
    return bits_are_portable(&r->settings.bits)
               ? copse_strategy_replicas(r->strategy) / (uint32_t)r->mixture.count
               : 1;
}

copse_status run_open_strategy(struct run *r)
{
    const struct train_settings *s = &r->settings;
    const char *names[COPSE_MAX_REPLICAS];
    float weights[COPSE_MAX_REPLICAS];
    const size_t count = shares_replicas(&r->mixture, names, weights);
    const bool is_one = s->strategy.at->value == STRATEGY_ONE_DEVICE || r->is_evaluator;
    struct copse_strategy_params params = {
        .reduction = (copse_reduce_algorithm)s->reduction.at->value,
        .transfer = (copse_transfer)s->transfer.at->value,
        .bucket_bytes = (size_t)s->bucket_bytes,
        .kernels = s->kernels,
    };
    bits_fill(&s->bits, &params);
    const struct copse_accelerator_params accelerator = {
        .strategy = params,
        .steps_per_run = run_steps_per_run(r),
        .cores = s->cores,
    };
    COPSE_TRY(is_one             ? copse_one_device_create(r->ctx, names[0], &params, &r->strategy)
              : run_is_served(r) ? copse_parameter_server_create(r->ctx, r->cluster, names, count,
                                                                 &params, &r->strategy)
              : r->cluster || s->strategy.at->value == STRATEGY_COLLECTIVE
                  ? copse_collective_create(r->ctx, r->cluster, names, count, &params, &r->strategy)
              : run_is_accelerator(r)
                  ? copse_accelerator_create(r->ctx, names, count, &accelerator, &r->strategy)
                  : copse_mirrored_create(r->ctx, names, count, &params, &r->strategy));
    const uint32_t replicas = copse_strategy_replicas(r->strategy), each = run_shards_each(r);
    for (uint32_t i = 0; is_talking(r) && !r->is_recovering && i < replicas; i += each) {
        const struct copse_device_info *d = copse_strategy_device(r->strategy, i);
        printf("%s %-10s %s%s%s%s\n", i == 0 ? "devices " : "        ", d->id, d->name,
               d->driver[0] ? " (" : "", d->driver, d->driver[0] ? ")" : "");
    }
    return COPSE_OK;
}

copse_status run_open_devices(struct run *r)
{
    COPSE_TRY(choose_devices(r));
    COPSE_TRY(run_open_strategy(r));
    return shares_show(r, &r->mixture);
}

void run_drop_trainer(struct run *r)
{
    hash_file_forget(&r->hashes);
    copse_early_stopping_release(&r->stopping);
    copse_trainer_release(&r->trainer);
    copse_schedule_release(&r->schedule);
    copse_model_release(&r->model.model); /* keeps the strategy */
    copse_strategy_release(&r->strategy);
}
