/* SPDX-License-Identifier: MIT */
/* copse_trainer_fit: epochs of steps, the means of their results, an evaluation after each epoch,
   and early stopping. */
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"
#include "core/base/callback.h"
#include "core/loop/early_stopping.h"
#include "core/train/trainer.h"

/* Most results that wait to be taken: a trainer keeps the results of COPSE_STEPS_IN_PROGRESS steps, or
   of two runs. */
#define PENDING (2 * COPSE_MAX_STEPS_PER_RUN + COPSE_STEPS_IN_PROGRESS)

/* Means over examples. */
struct means {
    struct copse_step_result *to; /* sums until means_close */
    double examples;
};

struct fit {
    copse_trainer *t;
    copse_loader *batches;
    const struct copse_fit_params *params;
    copse_early_stopping *stopping; /* the caller's, or owned; NULL: none */
    struct means means;
    uint64_t pending[PENDING]; /* examples of results that are not taken, a ring */
    uint32_t first, count;
    uint64_t accumulated; /* examples of micro-batches without an update */
    uint32_t in_run;      /* steps of a run; 0: no accelerator */
    size_t size_of_run;   /* examples of its batches */
    uint64_t trained;     /* batches of training that were taken */
    bool is_stopped;      /* by the batch function, or by the epoch function */
};

/* ---- means ---- */

static void means_add(struct means *m, const struct copse_step_result *r, double examples)
{
    struct copse_step_result *to = m->to;
    double sums[COPSE_COUNT(to->reports)];
    const double loss = to->loss + r->loss * examples;
    for (uint32_t i = 0; i < r->report_count; i++)
        sums[i] = (m->examples > 0 ? to->reports[i] : 0) + r->reports[i] * examples;
    *to = *r;
    to->loss = loss;
    memcpy(to->reports, sums, r->report_count * sizeof *sums);
    m->examples += examples;
}

static void means_close(struct means *m)
{
    if (!(m->examples > 0))
        return;
    m->to->loss /= m->examples;
    for (uint32_t i = 0; i < m->to->report_count; i++)
        m->to->reports[i] /= m->examples;
}

/* ---- results ---- */

static copse_status take_result(struct fit *f, bool wait)
{
    struct copse_step_result r;
    COPSE_TRY(copse_trainer_result(f->t, wait, &r));
    means_add(&f->means, &r, (double)f->pending[f->first]);
    f->first = (f->first + 1) % PENDING;
    f->count--;
    return COPSE_OK;
}

/* Take what is complete, and wait until at most `most` are left. */
static copse_status take_results(struct fit *f, uint32_t most)
{
    copse_status s = COPSE_OK;
    while (s == COPSE_OK)
        s = take_result(f, f->count > most);
    return s == COPSE_ERR_END || s == COPSE_ERR_TIMEOUT ? COPSE_OK : s;
}

/* Drop the results of steps before the call, and of steps that the epoch function made. */
static copse_status drop_results(copse_trainer *t)
{
    struct copse_step_result r;
    copse_status s;
    do
        s = copse_trainer_result(t, true, &r);
    while (s == COPSE_OK || s == COPSE_ERR_NONFINITE);
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

/* A step on so many examples was begun. Only an update has a result. */
static void note_step(struct fit *f, uint64_t examples)
{
    f->accumulated += examples;
    if (copse_trainer_accumulated(f->t) > 0)
        return;
    f->pending[(f->first + f->count++) % PENDING] = f->accumulated;
    f->accumulated = 0;
}

/* ---- steps ---- */

static copse_status run_fed(struct fit *f)
{
    const uint32_t fed = copse_trainer_fed(f->t);
    if (fed == 0)
        return COPSE_OK;
    COPSE_TRY(take_results(f, f->in_run)); /* the results of two runs are kept */
    COPSE_TRY(copse_trainer_run(f->t));
    for (uint32_t i = 0; i < fed; i++)
        note_step(f, f->size_of_run);
    return COPSE_OK;
}

/* Batches of a run have one size. */
static copse_status feed_run(struct fit *f, const struct copse_host_batch *batch)
{
    const uint32_t fed = copse_trainer_fed(f->t);
    if (fed == f->in_run || (fed > 0 && batch->count != f->size_of_run))
        COPSE_TRY(run_fed(f));
    f->size_of_run = batch->count;
    return copse_trainer_feed(f->t, batch);
}

static copse_status fit_step(struct fit *f, const struct copse_host_batch *batch, uint64_t examples)
{
    COPSE_TRY(take_results(f, COPSE_STEPS_IN_PROGRESS - 1)); /* one more would drop a result */
    COPSE_TRY(copse_trainer_step(f->t, batch));
    note_step(f, examples);
    return COPSE_OK;
}

/* The oldest fed batch. */
static copse_status step_fed(struct fit *f)
{
    return fit_step(f, NULL, copse__batch_slot(&f->t->feed.slots, 0)->batch.count);
}

static copse_status feed_ahead(struct fit *f, const struct copse_host_batch *batch)
{
    if (copse_trainer_fed(f->t) == f->t->feed.slots.depth)
        COPSE_TRY(step_fed(f));
    return copse_trainer_feed(f->t, batch);
}

static copse_status take_batch(struct fit *f, const struct copse_host_batch *batch)
{
    if (f->in_run > 0)
        return feed_run(f, batch);
    return f->t->feed.slots.depth > 0 ? feed_ahead(f, batch) : fit_step(f, batch, batch->count);
}

/* The batches that are fed, and the micro-batches that have no update. */
static copse_status finish_epoch(struct fit *f)
{
    if (f->in_run > 0)
        COPSE_TRY(run_fed(f));
    while (copse_trainer_fed(f->t) > 0)
        COPSE_TRY(step_fed(f));
    if (copse_trainer_accumulated(f->t) > 0) {
        COPSE_TRY(take_results(f, COPSE_STEPS_IN_PROGRESS - 1));
        COPSE_TRY(copse_trainer_flush(f->t));
        note_step(f, 0);
    }
    return take_results(f, 0);
}

static copse_status call_on_batch(struct fit *f)
{
    const struct copse_fit_params *p = f->params;
    if (!p->on_batch)
        return COPSE_OK;
    struct copse_callback here = { .name = "the batch function of copse_trainer_fit",
                                   .used = { f->t, f->batches, p->held_out } };
    return copse_callback_call(&here, p->on_batch(p->user, f->trained, &f->is_stopped));
}

static copse_status train_epoch(struct fit *f, uint32_t epoch, struct copse_step_result *out)
{
    struct copse_host_batch batch;
    copse_status s = COPSE_OK;
    f->means = (struct means){ .to = out };
    COPSE_TRY(drop_results(f->t));
    COPSE_TRY(copse_loader_start(f->batches, epoch, 0));
    while (!f->is_stopped && (s = copse_loader_next(f->batches, &batch)) == COPSE_OK) {
        COPSE_TRY(take_batch(f, &batch));
        f->trained++;
        COPSE_TRY(call_on_batch(f));
    }
    if (!f->is_stopped && s != COPSE_ERR_END)
        return s;
    COPSE_TRY(finish_epoch(f));
    means_close(&f->means);
    return COPSE_OK;
}

static copse_status evaluate_batches(struct fit *f, struct copse_step_result *out)
{
    struct means m = { .to = out };
    struct copse_host_batch batch;
    struct copse_step_result r;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse_loader_start(f->params->held_out, 0, 0));
    while (!f->is_stopped && (s = copse_loader_next(f->params->held_out, &batch)) == COPSE_OK) {
        COPSE_TRY(copse_trainer_evaluate(f->t, &batch, &r));
        means_add(&m, &r, (double)batch.count);
        COPSE_TRY(call_on_batch(f));
    }
    means_close(&m);
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

/* ---- epochs ---- */

/* With `patience`, or to keep the best values; values of parameter servers are not kept. */
static copse_status begin_stopping(struct fit *f)
{
    const struct copse_fit_params *p = f->params;
    const struct copse_early_stopping_params how = { .patience = p->patience,
                                                     .min_delta = p->min_delta,
                                                     .keep_last = p->keep_last };
    if (!p->held_out)
        return p->patience == 0 && !p->stopping
                   ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT,
                                "trainer: `patience` and `stopping` are about the loss on "
                                "`held_out`, which is NULL");
    f->stopping = p->stopping;
    if (f->stopping && (p->patience > 0 || p->min_delta != 0 || p->keep_last))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "trainer: `stopping` has its own patience, min_delta and keep_last; leave "
            "these out of the parameters of fit");
    if (f->stopping)
        return copse__early_stopping_check(f->stopping, f->t);
    if (p->patience == 0 && (p->keep_last || f->t->optimizer->table->is_sharing))
        return COPSE_OK;
    return copse_early_stopping_create(f->t, &how, &f->stopping);
}

static copse_status observe_epoch(struct fit *f, struct copse_epoch *e, bool *stop)
{
    struct copse_early_stopping_info now;
    if (!f->stopping)
        return COPSE_OK;
    COPSE_TRY(copse_early_stopping_observe(f->stopping, e->epoch, e->held_out.loss, stop));
    copse_early_stopping_describe(f->stopping, &now);
    e->best_epoch = now.best_epoch;
    return COPSE_OK;
}

/* An epoch that is stopped within is not judged, and the epoch function is not called. */
static copse_status fit_epoch(struct fit *f, uint32_t epoch)
{
    const struct copse_fit_params *p = f->params;
    struct copse_epoch e = { .epoch = epoch + 1 };
    bool is_over = false;
    COPSE_TRY(train_epoch(f, epoch, &e.training));
    if (p->held_out && !f->is_stopped)
        COPSE_TRY(evaluate_batches(f, &e.held_out));
    if (f->is_stopped)
        return COPSE_OK;
    if (p->held_out)
        COPSE_TRY(observe_epoch(f, &e, &is_over));
    if (p->on_epoch) {
        struct copse_callback here = { .name = "the epoch function of copse_trainer_fit",
                                       .held = { f->t, f->batches, p->held_out } };
        COPSE_TRY(copse_callback_call(&here, p->on_epoch(p->user, &e, &f->is_stopped)));
    }
    f->is_stopped |= is_over;
    return COPSE_OK;
}

static copse_status fit_epochs(struct fit *f)
{
    struct copse_early_stopping_info before;
    uint32_t epoch = f->params->first;
    copse_early_stopping_describe(f->stopping, &before);
    f->is_stopped = before.is_over;
    for (; epoch < f->params->epochs && !f->is_stopped; epoch++)
        COPSE_TRY(fit_epoch(f, epoch));
    return copse__early_stopping_restore(f->stopping, epoch);
}

copse_status copse_trainer_fit(copse_trainer *t, copse_loader *batches,
                               const struct copse_fit_params *params)
{
    COPSE_TRY(copse_need("trainer", t, batches, params));
    COPSE_TRY(copse_no_reserved(copse_fit_params, params));
    COPSE_TRY(copse__require_no_replica("copse_trainer_fit", t));
    if (params->epochs == 0 || params->first > params->epochs)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: epochs is %u; at least 1, and at least `first` (%u)",
                          params->epochs, params->first);
    struct fit f = { .t = t,
                     .batches = batches,
                     .params = params,
                     .in_run = t->strategy->accelerator.steps_per_run };
    COPSE_TRY(begin_stopping(&f));
    const copse_status s = fit_epochs(&f);
    if (!params->stopping)
        copse_early_stopping_release(&f.stopping);
    return s;
}
