/* SPDX-License-Identifier: MIT */
/* One step, or one run of an accelerator, and its time; the loss and the accuracy of an epoch. */
#include <math.h>

#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"

#include "tools/train/train_run.h"

double run_now(void)
{
    return system_now();
}

copse_status run_wait_for_batch(struct run *r, struct copse_host_batch *out)
{
    const double start = run_now();
    const copse_status s = copse_loader_next(r->batches, out);
    r->progress.waited += run_now() - start;
    return s;
}

bool run_is_accelerator(const struct run *r)
{
    return r->settings.strategy.at->value == STRATEGY_ACCELERATOR;
}

uint32_t run_steps_per_run(const struct run *r)
{
    return !run_is_accelerator(r) ? 1 : r->settings.steps_per_run ? r->settings.steps_per_run : 16;
}

/* A step on the batch. On an accelerator a run of that batch and as many more full ones as a run
   takes and the epoch has. The rest of an epoch is a smaller batch: a step by itself. */
static copse_status train_on(struct run *r, const struct copse_host_batch *first)
{
    const uint32_t most = run_steps_per_run(r), full = r->settings.batch;
    struct copse_host_batch batch = *first;
    struct copse_dataset_info info;
    size_t left;
    if (!run_is_accelerator(r) || batch.count < full) {
        if (signals_caught()) /* all workers skip the same step */
            copse_trainer_cancel(r->trainer);
        COPSE_TRY(copse_trainer_step(r->trainer, &batch));
        r->progress.samples += batch.count;
        return COPSE_OK;
    }
    r->progress.samples += batch.count;
    copse_dataset_describe(r->train, &info);
    left = info.rows / full - batch.index - 1;
    COPSE_TRY(copse_trainer_feed(r->trainer, &batch));
    for (; left > 0 && copse_trainer_fed(r->trainer) < most; left--) {
        COPSE_TRY(run_wait_for_batch(r, &batch));
        COPSE_TRY(copse_trainer_feed(r->trainer, &batch));
        r->progress.samples += batch.count;
    }
    return copse_trainer_run(r->trainer);
}

/* Speed is measured without the steps during which drivers compile kernels: they are part of the
   first run only. */
copse_status run_train(struct run *r, const struct copse_host_batch *first)
{
    struct progress *p = &r->progress;
    const uint64_t compiled = compiling_so_far().kernels, samples = p->samples;
    const double start = run_now(), waited = p->waited;
    copse_status s = hash_file_begin(&r->hashes, r->trainer);
    if (s == COPSE_OK)
        s = train_on(r, first);
    if (s == COPSE_OK)
        s = hash_file_step(&r->hashes, r->trainer);
    if (compiling_so_far().kernels == compiled)
        return s;
    p->waited = waited;
    p->seconds += start - r->clock;
    p->samples = samples;
    if (s == COPSE_OK)
        COPSE_TRY(run_results(r, 0)); /* of this step */
    r->clock = run_now();
    return s;
}

/* ---- the loss and the accuracy of an epoch ---- */

static bool begins_epoch(const struct history *h, uint64_t steps_before)
{
    size_t i = h->epoch_count;
    while (i > 0 && h->epochs[i - 1].step > steps_before)
        i--;
    return steps_before == 0 || (i > 0 && h->epochs[i - 1].step == steps_before);
}

copse_status run_add_result(struct run *r, double loss, double accuracy)
{
    struct progress *p = &r->progress;
    const bool is_first = begins_epoch(&r->history, r->history.step_count);
    if (!history_step(&r->history, loss, accuracy))
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
    if (is_first) {
        p->examples = p->epoch_steps = 0;
        p->loss_sum = p->accuracy_sum = 0.0;
    }
    const uint64_t examples = (uint64_t)run_examples(r, p->epoch_steps++) * r->model.positions;
    const double sum = accuracy * (double)examples;
    p->examples += examples;
    p->loss_sum += loss * (double)examples;
    /* so many are right; devices round the mean */
    p->accuracy_sum += p->is_regression ? sum : round(sum);
    p->loss = p->loss_sum / (double)p->examples;
    p->accuracy = p->accuracy_sum / (double)p->examples;
    return COPSE_OK;
}
