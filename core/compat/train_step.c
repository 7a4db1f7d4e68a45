/* SPDX-License-Identifier: MIT */
/* Train steps: losses by name and their total around a trainer, hooks and counters around its
   step. */
#include "copse/compat/train_step.h"
#include "core/replica/replica_context.h"
#include "core/train/trainer.h"

struct copse_train_step {
    copse_trainer *trainer;
    struct copse_train_step_params params; /* without what the caller may free */
    struct copse_update_hook hooks[];      /* [params.update_hook_count] */
};

/* ---- the loss function of the trainer ---- */

static copse_status check_losses(const struct copse_losses *l)
{
    if (l->count == 0 || l->count > COPSE_MAX_REPORTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "train step: %zu losses; 1 to %d are possible",
                          l->count, COPSE_MAX_REPORTS);
    for (size_t i = 0; i < l->count; i++) {
        if (!l->at[i] || !l->names[i] || !*l->names[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "train step: loss %zu has no name or no tensor",
                              i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(l->names[i], l->names[k]) == 0)
                return copse_fail(COPSE_ERR_ARGUMENT, "train step: two losses have the name '%s'",
                                  l->names[i]);
    }
    return COPSE_OK;
}

static copse_tensor *train_step_build(copse_graph *g, const copse_batch *in, void *user)
{
    const copse_train_step *ts = user;
    const struct copse_train_step_params *p = &ts->params;
    struct copse_losses losses = { .count = 0 };
    struct copse_callback here = { .name = "the losses function of a train step",
                                   .is_passive = true,
                                   .used = { ts } };
    copse__callback_enter(&here);
    p->losses(g, in, p->user, &losses);
    COPSE_LATCH(g, copse__callback_leave(&here, copse_graph_status(g)));
    COPSE_LATCH(g, check_losses(&losses));
    if (g->report_count > 0)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "train step: its losses are the reports; '%s' cannot be "
                             "another one",
                             g->reports[0].name);
    for (size_t i = 0; i < losses.count; i++) {
        copse_report(g, losses.names[i], losses.at[i]);
        COPSE_LATCH(g, copse_graph_status(g));
        g->reports[i].is_loss = true;
    }
    if (p->total_loss) {
        here.name = "the total loss function of a train step";
        copse__callback_enter(&here);
        copse_tensor *total = p->total_loss(g, &losses, p->total_user);
        COPSE_LATCH(g, copse_note(copse__callback_leave(&here, copse_graph_status(g)),
                                  "while making the total loss"));
        return total;
    }
    if (losses.count > 1)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "train step: %zu losses need a total_loss function, which "
                             "says what is minimised",
                             losses.count);
    return losses.at[0];
}

/* ---- life ---- */

static copse_status train_step_check(const struct copse_train_step_params *p)
{
    if (!p->losses)
        return copse_fail(COPSE_ERR_ARGUMENT, "train step: needs a function of losses");
    COPSE_TRY(copse_need_known("train step", "global step", p->global_step, COPSE_GLOBAL_STEP_OWN));
    if ((p->global_step == COPSE_GLOBAL_STEP_OWN) != (p->counter != NULL))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "train step: a counter belongs to COPSE_GLOBAL_STEP_OWN, which needs one");
    if (p->update_hook_count > 0 && !p->update_hooks)
        return copse_fail(COPSE_ERR_ARGUMENT, "train step: the list of update hooks is NULL");
    for (size_t i = 0; i < p->update_hook_count; i++)
        if (!p->update_hooks[i].fn)
            return copse_fail(COPSE_ERR_ARGUMENT, "train step: update hook %zu has no function", i);
    if (p->gradient_events && !p->summarize_gradients)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "train step: gradient_events needs summarize_gradients");
    return COPSE_OK;
}

/* Every setting of a trainer is here by the same name, or stated (test_train_step.c compares the
   lists). */
static struct copse_trainer_params trainer_params(copse_train_step *ts,
                                                  const struct copse_train_step_params *p)
{
    return (struct copse_trainer_params){
        .loss = train_step_build,
        .user = ts,
        .reduction = p->reduction,
        .optimizer = p->optimizer,
        .seed = p->seed,
        .variables = p->variables,
        .variable_count = p->variable_count,
        .accumulate = p->accumulate,
        .sharding = p->sharding,
        .batch_size = p->batch_size,
        .shard_weights = p->shard_weights,
        .gating = p->gating,
        .check_numerics = !p->skip_numerics,
        .check_gradients = p->check_gradients,
        .summarize_gradients = p->summarize_gradients,
        .transform = p->transform,
        .transform_user = p->transform_user,
        .prefetch = p->prefetch,
        .recordings = p->recordings,
        .precision = p->precision,
        .memory_budget = p->memory_budget,
    };
}

copse_status copse_train_step_create(copse_strategy *st,
                                     const struct copse_train_step_params *params,
                                     copse_train_step **out)
{
    COPSE_TRY(copse_need("train step", st, params, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_train_step_params, params));
    COPSE_TRY(copse_no_reserved(copse_optimizer_params, &params->optimizer));
    COPSE_TRY(train_step_check(params));
    COPSE_TRY(copse__require_device(st, "train step"));
    const size_t hooks = params->update_hook_count * sizeof(struct copse_update_hook);
    copse_train_step *ts = copse__alloc(&st->ctx->base.mem, 1, sizeof *ts + hooks);
    COPSE_TRY(copse_need_memory(ts, "train step"));
    ts->params = *params;
    ts->params.variables = NULL;
    ts->params.shard_weights = NULL;
    if (hooks > 0)
        memcpy(ts->hooks, params->update_hooks, hooks);
    const struct copse_trainer_params p = trainer_params(ts, params);
    const copse_status s = copse_trainer_create(st, &p, &ts->trainer);
    if (s != COPSE_OK) {
        copse__free(&st->ctx->base.mem, ts);
        return copse_note(s, "while making a train step");
    }
    ts->trainer->trained.is_listed = true; /* the loss must depend on one of the variables */
    *out = ts;
    return COPSE_OK;
}

void copse_train_step_release(copse_train_step **at)
{
    if (!at || !*at)
        return;
    copse_train_step *ts = *at;
    const struct copse_logger *log = &ts->trainer->strategy->ctx->base.log;
    if (!copse__callback_may_release(log, "copse_train_step_release", ts) ||
        !copse__callback_may_release(log, "copse_train_step_release", ts->trainer))
        return;
    copse_context *ctx = copse_context_retain(ts->trainer->strategy->ctx); /* its memory */
    copse_trainer_release(&ts->trainer);
    copse__context_free(ctx, ts);
    *at = NULL;
}

copse_trainer *copse_train_step_trainer(copse_train_step *ts)
{
    return ts ? ts->trainer : NULL;
}

/* ---- a run ---- */

/* With servers each worker's step counts once: W workers come to W S. */
static uint64_t count_step(copse_train_step *ts)
{
    copse_strategy *st = ts->trainer->strategy;
    uint64_t step = 1;
    if (ts->params.global_step == COPSE_GLOBAL_STEP_NONE)
        return 0;
    if (ts->params.global_step == COPSE_GLOBAL_STEP_OWN)
        return ++*ts->params.counter;
    return st->table->count(st, false, &step) == COPSE_OK ? step : ++st->global_step;
}

static void train_step_fill(copse_train_step *ts, const struct copse_step_result *r,
                            struct copse_train_step_result *out)
{
    out->is_updated = true;
    out->step = r->step;
    out->total = r->loss;
    out->loss_count = r->report_count;
    for (uint32_t i = 0; i < r->report_count; i++) {
        out->names[i] = r->report_names[i];
        out->losses[i] = r->reports[i];
    }
    out->global_step = count_step(ts);
}

static copse_status call_hooks(copse_train_step *ts)
{
    for (size_t i = 0; i < ts->params.update_hook_count; i++) {
        const uint64_t failures = copse__failures();
        struct copse_callback here = { .name = "an update hook of a train step",
                                       .used = { ts, ts->trainer } };
        const copse_status s =
            copse_callback_call(&here, ts->hooks[i].fn(ts->trainer->strategy, ts->hooks[i].user));
        COPSE_TRY(copse_note(copse__returned(s, failures), "in update hook %zu", i));
    }
    return COPSE_OK;
}

/* Where a hook has failed on one worker, no worker takes the step: those whose hooks are done wait
   for all, and learn it there. */
static copse_status agree_on_hooks(copse_train_step *ts)
{
    copse_trainer *t = ts->trainer;
    copse_status s = call_hooks(ts);
    if (!s)
        s = copse__group_barrier(&t->strategy->group, "the update hooks of a train step", 0, s);
    if (s)
        copse__accumulation_drop(&t->accumulation);
    return copse__workers_report(&t->workers, s);
}

static copse_status train_step_here(copse_train_step *ts, const struct copse_host_batch *batch,
                                    struct copse_train_step_result *out)
{
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__require_no_replica("copse_train_step_run", ts));
    if (ts->params.update_hook_count > 0)
        COPSE_TRY(agree_on_hooks(ts));
    COPSE_TRY(copse_trainer_step(ts->trainer, batch));
    if (copse_trainer_accumulated(ts->trainer) > 0)
        return COPSE_OK;
    struct copse_step_result result = { .step = 0 };
    const copse_status s = copse_trainer_result(ts->trainer, true, &result);
    if (s != COPSE_OK && !(s == COPSE_ERR_NONFINITE && ts->params.skip_numerics))
        return s;
    train_step_fill(ts, &result, out);
    return ts->params.gradient_events
               ? copse_event_file_gradients(ts->params.gradient_events, ts->trainer,
                                            out->global_step ? out->global_step : out->step)
               : COPSE_OK;
}

/* What hooks do across workers is a part of the run: a worker that fails before it does not count
   less. */
copse_status copse_train_step_run(copse_train_step *ts, const struct copse_host_batch *batch,
                                  struct copse_train_step_result *out)
{
    COPSE_TRY(copse_need("train step", ts, out));
    *out = (struct copse_train_step_result){ .is_updated = false };
    if (ts->params.update_hook_count == 0)
        return train_step_here(ts, batch, out);
    struct copse_group *group = &ts->trainer->strategy->group;
    copse__group_begin(group, "train step");
    return copse__group_end(group, train_step_here(ts, batch, out));
}
