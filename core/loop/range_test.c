/* SPDX-License-Identifier: MIT */
/* The learning-rate range test: see copse/loop/find_lr.h. */
#include "copse/loop/find_lr.h"

#include <math.h>
#include <stdio.h>

#include "copse/loop/early_stopping.h"
#include "core/train/trainer.h"

enum { STEPS = 100, STEPS_MIN = 10 };
#define START_LR  1e-7f
#define END_LR    10.0f
#define DECAY     0.9  /* of the average of losses */
#define DIVERGED  4.0  /* times the lowest loss */
#define PROGRESS  0.9  /* of the first loss: the lowest one must be below */
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

/* Whether the test ends with this loss. */
static bool add_point(struct copse_lr_range *r, float lr, double loss, double *average)
{
    struct copse_lr_point *p = &r->points[r->count];
    *average = DECAY * *average + (1.0 - DECAY) * loss;
    *p = (struct copse_lr_point){ lr, loss, *average / (1.0 - pow(DECAY, r->count + 1)) };
    r->has_diverged = !isfinite(loss);
    if (r->has_diverged)
        return true;
    const double lowest = r->points[r->best].smoothed;
    if (r->count > 0 && p->smoothed < lowest)
        r->best = r->count;
    r->count++;
    r->has_diverged = p->smoothed > r->points[0].smoothed && p->smoothed > DIVERGED * lowest;
    return r->has_diverged;
}

static void suggest_rate(struct copse_lr_range *r)
{
    const double first = r->points[0].smoothed, lowest = r->points[r->best].smoothed;
    const bool is_lower = r->count > 0 && lowest < first - (1.0 - PROGRESS) * fabs(first);
    r->suggestion = is_lower ? SUGGESTED * r->points[r->best].lr : 0.0f;
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

/* An update, of one batch or of several micro-batches. */
static copse_status take_step(copse_trainer *t, copse_loader *batches, uint32_t *epoch,
                              struct copse_step_result *result)
{
    struct copse_host_batch batch;
    do {
        COPSE_TRY(next_batch(batches, epoch, &batch));
        COPSE_TRY(copse_trainer_step(t, &batch));
    } while (copse_trainer_accumulated(t) > 0);
    const copse_status s = copse_trainer_result(t, true, result);
    return s == COPSE_ERR_NONFINITE ? COPSE_OK : s; /* it has the loss */
}

static copse_status find_lr_run(copse_trainer *t, copse_loader *batches,
                                const struct copse_find_lr_params *p, struct copse_lr_range *out)
{
    const double growth = lr_growth(p);
    double average = 0.0;
    uint32_t epoch = 0;
    bool is_over = false;
    COPSE_TRY(copse_loader_start(batches, 0, 0));
    for (uint32_t i = 0; i < p->steps && !is_over; i++) {
        struct copse_step_result result;
        COPSE_TRY(take_step(t, batches, &epoch, &result));
        is_over =
            add_point(out, (float)((double)p->start_lr * pow(growth, i)), result.loss, &average);
    }
    suggest_rate(out);
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
