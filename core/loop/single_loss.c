/* SPDX-License-Identifier: MIT */
/* The standard single-loss step: iterations of a trainer over a dataset, and the outputs of the
   last. */
#include "copse/loop/feed.h"
#include "core/loop/outputs.h"
#include "core/loop/step.h"
#include "core/train/trainer.h"

#define OUTPUTS_MAX (1 + COPSE_MAX_REPORTS)

struct single_loss {
    copse_step *step; /* not a reference: the step owns this */
    copse_trainer *trainer;
    copse_cluster *cluster; /* of the trainer's strategy; NULL: this process alone */
    copse_make_trainer_fn *make;
    void *make_user;
    uint32_t iterations;
    bool is_default;             /* iterations: as many as the strategy has to a run */
    struct copse_position begun; /* position of the first batch of the update under way */
    struct copse_output_params wanted[OUTPUTS_MAX]; /* their names in `names` */
    size_t wanted_count;
    struct copse_arena names;
    struct copse_step_result newest; /* taken, not yet in the outputs, when has_newest */
    bool has_newest;
};

/* Of several steps: the strategy is an accelerator's. */
static bool has_runs(const struct single_loss *u)
{
    return u->trainer->strategy->accelerator.steps_per_run > 0;
}

/* ---- outputs ---- */

static copse_status read_output(copse_trainer *t, size_t i, copse_outputs *to)
{
    const struct copse_loss_output *o = &t->recordings.outputs.at[i];
    /* Means are weighted already. */
    const copse_output_reduction how =
        o->reduction == COPSE_OUTPUT_NONE ? COPSE_OUTPUT_NONE : COPSE_OUTPUT_SUM;
    copse_value *own = NULL, *all;
    copse_status s = copse__loss_output_read(&t->recordings, i, &own);
    s = copse__output_combine(t->strategy, own, how, s, &all);
    copse_value_release(&own);
    COPSE_TRY(copse_note(s, "while reading output '%s'", o->name));
    s = copse__outputs_keep(to, o->name, all);
    copse_value_release(&all);
    return s;
}

static copse_status read_loss_outputs(copse_trainer *t, copse_outputs *to)
{
    for (size_t i = 0; i < t->recordings.outputs.count; i++)
        COPSE_TRY(t->recordings.outputs.is_newest
                      ? read_output(t, i, to)
                      : copse__outputs_keep(to, t->recordings.outputs.at[i].name, NULL));
    return COPSE_OK;
}

static copse_status set_initial(struct single_loss *u)
{
    double values[COPSE_MAX_REPLICAS];
    u->has_newest = false;
    for (size_t i = 0; i < u->wanted_count; i++) {
        const struct copse_output_params *w = &u->wanted[i];
        for (uint32_t r = 0; r < COPSE_MAX_REPLICAS; r++)
            values[r] = w->initial;
        COPSE_TRY(copse__outputs_put(u->step->outputs, w->name, values,
                                     w->reduction != COPSE_OUTPUT_NONE));
    }
    u->trainer->recordings.outputs.is_newest = false; /* no step has set an output */
    return read_loss_outputs(u->trainer, u->step->outputs);
}

/* The index of the value with this name: 0 = the loss, then the reports. */
static copse_status index_of(const struct single_loss *u, const char *name, uint32_t *out)
{
    const struct copse_step_result *r = &u->newest;
    *out = 0;
    if (strcmp(name, "loss") == 0)
        return COPSE_OK;
    for (uint32_t i = 0; i < r->report_count; i++)
        if (strcmp(r->report_names[i], name) == 0) {
            *out = 1 + i;
            return COPSE_OK;
        }
    return copse_fail(COPSE_ERR_ARGUMENT, "step: the loss function reports no '%s'", name);
}

/* Value `index` of all ranks of all workers, reduced or each for itself. A mean of values that are
   means over examples weights the ranks by their examples: it is the value of the global batch. */
static copse_status set_output(struct single_loss *u, const struct copse_output_params *w)
{
    const uint32_t ranks = u->trainer->strategy->group.ranks;
    double values[COPSE_MAX_REPLICAS], sum = 0;
    uint32_t index;
    COPSE_TRY(index_of(u, w->name, &index));
    if (w->reduction == COPSE_OUTPUT_MEAN &&
        !copse__report_is_sum(&u->trainer->recordings.reports, index))
        return copse__outputs_put(u->step->outputs, w->name,
                                  index == 0 ? &u->newest.loss : &u->newest.reports[index - 1],
                                  true);
    for (uint32_t r = 0; r < ranks; r++) {
        struct copse_replica_result result;
        COPSE_TRY(
            copse__rank_result(&u->trainer->ring, &u->trainer->recordings.reports, r, &result));
        values[r] = index == 0 ? result.loss : result.reports[index - 1];
        sum += values[r];
    }
    if (w->reduction == COPSE_OUTPUT_NONE)
        return copse__outputs_put(u->step->outputs, w->name, values, false);
    if (w->reduction == COPSE_OUTPUT_MEAN)
        sum /= (double)ranks;
    return copse__outputs_put(u->step->outputs, w->name, &sum, true);
}

static copse_status take_results(struct single_loss *u, bool wait)
{
    copse_status s;
    while ((s = copse_trainer_result(u->trainer, wait, &u->newest)) == COPSE_OK)
        u->has_newest = true;
    return s == COPSE_ERR_END || (s == COPSE_ERR_TIMEOUT && !wait) ? COPSE_OK : s;
}

/* ---- the step's functions ---- */

static copse_status check_trainer(const struct single_loss *u)
{
    return u->trainer
               ? COPSE_OK
               : copse_fail(COPSE_ERR_DEVICE_LOST, "step: it has no trainer since a device failed");
}

/* A step on a batch from `at`; NULL = the oldest that is fed. */
static copse_status single_loss_train(struct single_loss *u, const struct copse_host_batch *batch,
                                      struct copse_position at)
{
    if (copse_trainer_accumulated(u->trainer) == 0)
        u->begun = at;
    const copse_status s = copse_trainer_step(u->trainer, batch);
    if (s == COPSE_OK)
        return COPSE_OK;
    const struct copse_position *again =
        copse_trainer_accumulated(u->trainer) == 0 ? &u->begun : &at;
    copse_trainer_unfeed(u->trainer);
    return copse_note(s, "at batch %llu of epoch %u%s", (unsigned long long)at.batch, at.epoch,
                      copse_step_seek(u->step, again) == COPSE_OK ? "" : ", which is lost");
}

/* If the application has moved the position since, the fed batches are not those that the input
   holds: drop them. */
static copse_status single_loss_settle(struct single_loss *u)
{
    struct copse_position at;
    if (copse_trainer_fed(u->trainer) == u->step->input.held.count)
        return COPSE_OK;
    copse_trainer_unfeed(u->trainer);
    COPSE_TRY(copse_step_position(u->step, &at));
    return copse_step_seek(u->step, &at);
}

/* Feed batches until `most` are fed. A batch that cannot be fed goes back to the input. */
static copse_status feed_ahead(struct single_loss *u, uint32_t most)
{
    struct copse_host_batch batch;
    while (copse_trainer_fed(u->trainer) < most) {
        COPSE_TRY(copse__step_hold(u->step, &batch));
        const copse_status s = copse_trainer_feed(u->trainer, &batch);
        if (s != COPSE_OK)
            COPSE_TRY(copse__step_put_back(u->step));
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* One iteration. With prefetch its batch was uploaded ahead of it, and those of the next ones
   are. */
static copse_status single_loss_iterate(struct single_loss *u)
{
    struct copse_host_batch batch;
    COPSE_TRY(single_loss_settle(u));
    /* if a step needs the batch, it fails with the reason */
    (void)!feed_ahead(u, u->trainer->params.prefetch);
    if (copse_trainer_fed(u->trainer) == 0) {
        COPSE_TRY(copse_step_next(u->step, &batch));
        COPSE_TRY(
            single_loss_train(u, &batch, (struct copse_position){ batch.epoch, batch.index }));
    } else {
        COPSE_TRY(single_loss_train(u, NULL, u->step->input.held.at[0].at));
        copse__step_let_go(u->step, 1);
    }
    return take_results(u, false);
}

/* A run of an accelerator has failed after `done` of its batches, with `accumulated` micro-batches
   before it. The batches of an update that is dropped are read again. */
static copse_status resume_behind(struct single_loss *u, uint32_t done, uint32_t accumulated)
{
    const struct copse_held *held = u->step->input.held.at;
    const size_t fed = u->step->input.held.count;
    const uint32_t part = (accumulated + done) % u->trainer->params.accumulate;
    struct copse_position at = held[COPSE_MIN(done, fed - 1)].at; /* all are done: the last one */
    if (part != copse_trainer_accumulated(u->trainer) && part != 0)
        at = part > done ? u->begun : held[done - part].at;
    return copse_step_seek(u->step, &at);
}

/* One run of an accelerator, of up to `most` batches; *done of them. COPSE_ERR_END: there were
   fewer. */
static copse_status run_loop(struct single_loss *u, uint32_t most, uint32_t *done)
{
    const uint32_t accumulated = copse_trainer_accumulated(u->trainer);
    *done = 0;
    COPSE_TRY(single_loss_settle(u));
    const copse_status next = feed_ahead(u, most);
    const struct copse_held *held = u->step->input.held.at;
    const uint32_t fed = copse_trainer_fed(u->trainer);
    copse_status s = next == COPSE_ERR_END ? COPSE_OK : next;
    if (s == COPSE_OK)
        s = copse__trainer_run(u->trainer, done);
    if (s == COPSE_OK) {
        const uint32_t part = copse_trainer_accumulated(u->trainer);
        if (part > 0 && part <= fed)
            u->begun = held[fed - part].at;
        copse__step_let_go(u->step, fed);
        return next;
    }
    copse_trainer_unfeed(u->trainer);
    if (fed == 0)
        return s;
    const struct copse_position at = held[COPSE_MIN(*done, fed - 1)].at;
    const copse_status back = resume_behind(u, *done, accumulated);
    return copse_note(s, "in a run of %u batches, at batch %llu of epoch %u%s", fed,
                      (unsigned long long)at.batch, at.epoch,
                      back == COPSE_OK ? "" : ", which is lost");
}

static copse_status run_loops(struct single_loss *u, uint32_t batches)
{
    const uint32_t most = COPSE_MAX(u->trainer->strategy->accelerator.steps_per_run, 1);
    for (uint32_t done; batches > 0; batches -= done) {
        const copse_status s = run_loop(u, COPSE_MIN(batches, most), &done);
        if (s != COPSE_OK)
            return s;
        COPSE_TRY(take_results(u, false));
    }
    return COPSE_OK;
}

static copse_status single_loss_run(void *user)
{
    struct single_loss *u = user;
    COPSE_TRY(check_trainer(u));
    /* An iteration is one update, so that a checkpoint never falls between its micro-batches. */
    const uint32_t batches = u->iterations * u->trainer->params.accumulate;
    copse_status s = has_runs(u) ? run_loops(u, batches) : COPSE_OK;
    for (uint32_t i = 0; !has_runs(u) && i < batches && s == COPSE_OK; i++)
        s = single_loss_iterate(u);
    if (s == COPSE_ERR_END && copse_trainer_accumulated(u->trainer) > 0) {
        COPSE_TRY(copse_trainer_flush(u->trainer));
        COPSE_TRY(take_results(u, false));
    }
    return s;
}

static copse_status single_loss_save(void *user, const char *path)
{
    struct single_loss *u = user;
    struct copse_state_params p = { 0 };
    COPSE_TRY(check_trainer(u));
    COPSE_TRY(take_results(u, true));
    COPSE_TRY(copse_step_position(u->step, &p.position));
    return copse_trainer_checkpoint(u->trainer, path, &p);
}

static copse_status single_loss_restore(void *user, const char *path)
{
    struct single_loss *u = user;
    struct copse_position position;
    COPSE_TRY(check_trainer(u));
    COPSE_TRY(copse_trainer_restore(u->trainer, path, &position, NULL));
    COPSE_TRY(copse_step_seek(u->step, &position));
    return set_initial(u);
}

static uint64_t single_loss_progress(void *user)
{
    const struct single_loss *u = user;
    return u->trainer ? u->trainer->step : 0;
}

static copse_status single_loss_make(struct single_loss *u)
{
    COPSE_TRY(copse_note(u->make(u->make_user, &u->trainer), "while making the trainer of a step"));
    if (!u->trainer)
        return copse_fail(COPSE_ERR_ARGUMENT, "step: the function gave no trainer");
    copse_strategy *st = u->trainer->strategy;
    COPSE_TRY(copse__step_set_strategy(u->step, st));
    if (st->group.cluster && !u->cluster)
        u->cluster = copse_cluster_retain(st->group.cluster);
    if (u->is_default)
        u->iterations = COPSE_MAX(st->accelerator.steps_per_run, 1);
    return set_initial(u);
}

static copse_status single_loss_recover(void *user)
{
    struct single_loss *u = user;
    copse_trainer_release(&u->trainer);
    COPSE_TRY(copse__step_set_strategy(u->step, NULL));
    if (u->cluster && copse_cluster_lost(u->cluster) > 0)
        COPSE_TRY(copse_cluster_regroup(u->cluster));
    return single_loss_make(u);
}

static void single_loss_release(void *user)
{
    struct single_loss *u = user;
    struct copse_mem *mem = &u->step->ctx->base.mem;
    copse_trainer_release(&u->trainer);
    copse_cluster_release(&u->cluster);
    copse__arena_fini(&u->names);
    copse__free(mem, u);
}

/* ---- making one ---- */

static copse_status single_loss_check(const struct copse_single_loss_params *p)
{
    if (!p->make)
        return copse_fail(COPSE_ERR_ARGUMENT, "step: needs a function that makes the trainer");
    if (!p->input.dataset)
        return copse_fail(COPSE_ERR_ARGUMENT, "step: needs a dataset function");
    if (p->output_count > OUTPUTS_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "step: %zu outputs, at most %d are possible",
                          p->output_count, OUTPUTS_MAX);
    for (size_t i = 0; i < p->output_count; i++)
        if (!p->outputs[i].name || (int)p->outputs[i].reduction < 0 ||
            p->outputs[i].reduction > COPSE_OUTPUT_MEAN)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "step: output %zu has no name, or its reduction is unknown", i);
    return COPSE_OK;
}

static copse_status copy_wanted(struct single_loss *u, const struct copse_single_loss_params *p)
{
    u->names.mem = &u->step->ctx->base.mem;
    for (; u->wanted_count < p->output_count; u->wanted_count++) {
        struct copse_output_params *w = &u->wanted[u->wanted_count];
        *w = p->outputs[u->wanted_count];
        COPSE_TRY(copse_need_memory(w->name = copse__arena_strdup(&u->names, w->name), "step"));
    }
    return COPSE_OK;
}

static const struct copse_step_functions functions = {
    .run = single_loss_run,
    .save = single_loss_save,
    .restore = single_loss_restore,
    .progress = single_loss_progress,
    .recover = single_loss_recover,
    .release = single_loss_release,
};

/* The trainer comes first: the dataset function gets its strategy. */
static copse_status single_loss_fill(copse_step *step, const struct copse_single_loss_params *p)
{
    struct single_loss *u = step->user;
    u->make = p->make;
    u->make_user = p->make_user;
    u->is_default = p->iterations_per_step == 0;
    u->iterations = p->iterations_per_step == COPSE_NO_ITERATIONS ? 0 : p->iterations_per_step;
    COPSE_TRY(copy_wanted(u, p));
    COPSE_TRY(single_loss_make(u));
    COPSE_TRY(copse__step_open_input(step, &p->input));
    if (has_runs(u) && step->input.is_uneven)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "step: the last batch of an epoch would have fewer than %zu "
                          "examples; an accelerator needs static shapes: set drop_last",
                          p->input.batches.batch);
    return COPSE_OK;
}

copse_status copse_single_loss_step_create(copse_context *ctx,
                                           const struct copse_single_loss_params *params,
                                           copse_step **out)
{
    COPSE_TRY(copse_need("step", ctx, params, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_single_loss_params, params));
    COPSE_TRY(copse_no_reserved(copse_input_params, &params->input));
    COPSE_TRY(copse_no_reserved(copse_loader_params, &params->input.batches));
    COPSE_TRY(single_loss_check(params));
    struct single_loss *u = copse__alloc(&ctx->base.mem, 1, sizeof *u);
    COPSE_TRY(copse_need_memory(u, "step"));
    copse_status s = copse_step_create(ctx, NULL, &functions, u, &u->step);
    if (s != COPSE_OK) {
        copse__free(&ctx->base.mem, u);
        return s;
    }
    copse_step *step = u->step;
    step->is_single_loss = true;
    s = single_loss_fill(step, params);
    if (s != COPSE_OK)
        copse_step_release(&step);
    *out = step;
    return s;
}

copse_trainer *copse_step_trainer(const copse_step *step)
{
    return step && step->is_single_loss ? ((const struct single_loss *)step->user)->trainer : NULL;
}

static copse_status set_outputs(struct single_loss *u)
{
    COPSE_TRY(check_trainer(u));
    COPSE_TRY(take_results(u, true));
    for (size_t i = 0; u->has_newest && i < u->wanted_count; i++)
        COPSE_TRY(set_output(u, &u->wanted[i]));
    if (u->has_newest)
        COPSE_TRY(read_loss_outputs(u->trainer, u->step->outputs));
    u->has_newest = false;
    return COPSE_OK;
}

copse_status copse_step_outputs(copse_step *step, copse_outputs **out)
{
    COPSE_TRY(copse_need("step", step, out));
    if (step->is_single_loss)
        COPSE_TRY(set_outputs(step->user));
    *out = step->outputs;
    return COPSE_OK;
}
