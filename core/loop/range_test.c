/* SPDX-License-Identifier: MIT */
/* The learning-rate range test: see copse/loop/find_lr.h. */
#include "copse/loop/find_lr.h"

#include <math.h>
#include <stdio.h>

#include "copse/loop/early_stopping.h"
#include "core/train/trainer.h"

enum { STEPS = 100, STEPS_MIN = 10, FIRST_MIN = 5 };
#define START_LR  1e-7f
#define END_LR    10.0f
#define DECAY     0.9  /* of the average of losses */
#define DIVERGED  4.0  /* times the lowest loss */
#define PROGRESS  0.9  /* of the baseline: the lowest loss must be below */
#define SUGGESTED 0.1f /* of the rate with the lowest loss */

/* Defaults in place of zeros. */
static copse_status find_lr_settle(const struct copse_find_lr_params *params,
                                   struct copse_find_lr_params *p)
{
    COPSE_TRY(copse_no_reserved(copse_find_lr_params, params));
    *p = params ? *params : (struct copse_find_lr_params){ .steps = 0 };
    p->start_lr = p->start_lr != 0.0f ? p->start_lr : START_LR;
    p->end_lr = p->end_lr != 0.0f ? p->end_lr : END_LR;
    p->steps = p->steps > 0 ? p->steps : STEPS;
    if (!(p->start_lr > 0.0f && p->end_lr > p->start_lr && isfinite(p->end_lr)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "find_lr: rates from %g to %g: they must be above 0 and grow",
                          (double)p->start_lr, (double)p->end_lr);
    return p->steps < STEPS_MIN || p->steps > COPSE_FIND_LR_MAX
               ? copse_fail(COPSE_ERR_ARGUMENT, "find_lr: %u steps; %d to %d are possible",
                            p->steps, STEPS_MIN, COPSE_FIND_LR_MAX)
               : COPSE_OK;
}

static double lr_growth(const struct copse_find_lr_params *p)
{
    return pow((double)p->end_lr / (double)p->start_lr, 1.0 / (p->steps - 1));
}

copse_status copse_find_lr_schedule(copse_context *ctx, const struct copse_find_lr_params *params,
                                    copse_schedule **out)
{
    struct copse_find_lr_params p;
    char text[64];
    COPSE_TRY(copse_need("find_lr", ctx, out));
    *out = NULL;
    COPSE_TRY(find_lr_settle(params, &p));
    snprintf(text, sizeof text, "exponential %.17g", lr_growth(&p));
    return copse_schedule_create(
        ctx, &(struct copse_schedule_params){ .text = text, .rate = p.start_lr }, out);
}

/* A test that runs. The baseline is the mean loss of the first steps: one batch is noise. */
struct range_run {
    const struct copse_find_lr_params *p;
    uint32_t first; /* steps of the baseline */
    double baseline, average, lowest;
};

/* Whether the test ends with this loss. */
static bool add_point(struct range_run *run, struct copse_lr_range *r, double loss)
{
    const uint32_t i = r->count;
    struct copse_lr_point *p = &r->points[i];
    run->average = DECAY * run->average + (1.0 - DECAY) * loss;
    p->lr = (float)((double)run->p->start_lr * pow(lr_growth(run->p), i));
    p->loss = loss;
    p->smoothed = run->average / (1.0 - pow(DECAY, i + 1));
    r->has_diverged = !isfinite(loss);
    if (r->has_diverged)
        return true;
    if (i < run->first)
        run->baseline += (loss - run->baseline) / (i + 1);
    else if (i == run->first || p->smoothed < r->points[r->best].smoothed)
        r->best = i;
    if (i == 0 || p->smoothed < run->lowest)
        run->lowest = p->smoothed;
    r->count++;
    r->has_diverged = p->smoothed > run->baseline && p->smoothed > DIVERGED * run->lowest;
    return r->has_diverged;
}

static void suggest_rate(const struct range_run *run, struct copse_lr_range *r)
{
    const double most = run->baseline - (1.0 - PROGRESS) * fabs(run->baseline);
    if (r->count > run->first && r->points[r->best].smoothed < most)
        r->suggestion = COPSE_MAX(SUGGESTED * r->points[r->best].lr, run->p->start_lr);
}

/* The next batch; after the last one the first of the next epoch. */
static copse_status next_batch(copse_loader *batches, uint32_t *epoch, struct copse_host_batch *out)
{
    const copse_status s = copse_loader_next(batches, out);
    if (s != COPSE_ERR_END)
        return s;
    COPSE_TRY(copse_loader_start(batches, ++*epoch, 0));
    return copse_loader_next(batches, out);
}

/* An update, of one batch or of several micro-batches. What is not finite ends the test. */
static copse_status take_step(copse_trainer *t, copse_loader *batches, uint32_t *epoch,
                              struct copse_step_result *result)
{
    struct copse_host_batch batch;
    do {
        COPSE_TRY(next_batch(batches, epoch, &batch));
        const copse_status s = copse_trainer_step(t, &batch);
        result->loss = NAN;
        if (s != COPSE_OK)
            return s == COPSE_ERR_NONFINITE ? COPSE_OK : s;
    } while (copse_trainer_accumulated(t) > 0);
    const copse_status s = copse_trainer_result(t, true, result);
    return s == COPSE_ERR_NONFINITE ? COPSE_OK : s; /* it has the loss */
}

static copse_status find_lr_run(copse_trainer *t, copse_loader *batches,
                                const struct copse_find_lr_params *p, struct copse_lr_range *out)
{
    struct range_run run = { .p = p, .first = COPSE_MAX(p->steps / 10, (uint32_t)FIRST_MIN) };
    uint32_t epoch = 0;
    bool is_over = false;
    COPSE_TRY(copse_loader_start(batches, 0, 0));
    for (uint32_t i = 0; i < p->steps && !is_over; i++) {
        struct copse_step_result result;
        COPSE_TRY(take_step(t, batches, &epoch, &result));
        is_over = add_point(&run, out, result.loss);
    }
    suggest_rate(&run, out);
    return COPSE_OK;
}

copse_status copse_trainer_find_lr(copse_trainer *t, copse_loader *batches,
                                   const struct copse_find_lr_params *params,
                                   struct copse_lr_range *out)
{
    struct copse_find_lr_params p;
    copse_early_stopping *values = NULL; /* it keeps the first ones */
    bool stop;
    COPSE_TRY(copse_need("find_lr", t, batches, out));
    *out = (struct copse_lr_range){ .count = 0 };
    COPSE_TRY(find_lr_settle(params, &p));
    if (copse_trainer_steps(t) > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "find_lr: the trainer has made %llu steps: make another one for the test",
                          (unsigned long long)copse_trainer_steps(t));
    if (t->optimizer->table->is_sharing)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "find_lr: parameter servers have the variables, and other workers train "
                          "them: make the test with another strategy");
    COPSE_TRY(copse_early_stopping_create(t, NULL, &values));
    copse_status s = copse_early_stopping_observe(values, 1, 0.0, &stop);
    if (s == COPSE_OK) {
        s = find_lr_run(t, batches, &p, out);
        const copse_status restored = copse_early_stopping_swap(values);
        s = s == COPSE_OK ? restored : s;
    }
    copse_early_stopping_release(&values);
    return s;
}
