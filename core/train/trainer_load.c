/* SPDX-License-Identifier: MIT */
/* Weights from a file for the variables of a trainer. */
#include "core/optim/progress.h"
#include "core/train/trainer.h"

/* All checks, before anything is changed. */
static copse_status trainer_load_match(copse_trainer *t, const char *path,
                                       const copse_checkpoint *file,
                                       const struct copse_load_params *params)
{
    if (copse_trainer_accumulated(t) > 0)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "weights: micro-batches are accumulated since the last update (%u): finish it, or "
            "call copse_trainer_flush",
            copse_trainer_accumulated(t));
    return copse__weights_match(&t->uses.weights, t->strategy, NULL, 0, path, file, params);
}

static copse_status trainer_load_write(copse_trainer *t)
{
    t->is_failed = true; /* until all of it is written */
    COPSE_TRY(copse_note(copse__weights_write(&t->uses.weights),
                         "while loading %s; the trainer is not usable any more",
                         t->uses.weights.state.path));
    t->is_failed = false;
    return COPSE_OK;
}

static copse_status load_variables(copse_trainer *t, const char *path, const copse_checkpoint *file,
                                   const struct copse_load_params *params)
{
    COPSE_TRY(copse__state_settle(t->strategy, t->is_failed,
                                  trainer_load_match(t, path, file, params), "weights"));
    const copse_status s = trainer_load_write(t);
    COPSE_TRY(copse__state_settle(t->strategy, t->is_failed, s, "writing weights"));
    return copse__progress_open(t->optimizer);
}

copse_status copse_trainer_load(copse_trainer *t, const char *path,
                                const struct copse_load_params *params,
                                struct copse_load_report *report)
{
    struct copse_server_progress unused;
    copse_checkpoint *file = NULL;
    if (report)
        *report = (struct copse_load_report){ 0 };
    COPSE_TRY(copse_no_reserved(copse_load_params, params));
    COPSE_TRY(copse__require_no_replica("copse_trainer_load", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__average_refuse(t));
    path = path && *path ? path : NULL;
    if (copse__progress_is_non_chief(t->strategy))
        return copse__progress_await(t->optimizer, &unused);
    copse__weights_end(&t->uses.weights);
    copse_status s = copse__state_load(t->strategy, path, copse__weights_want, &file);
    if (s == COPSE_OK)
        s = load_variables(t, path, file, params);
    t->uses.weights.state.path = NULL; /* the caller's */
    t->uses.weights.state.file = NULL;
    copse_checkpoint_release(&file);
    copse__free(&t->strategy->ctx->base.mem, t->uses.weights.state.words);
    t->uses.weights.state.words = NULL;
    if (s == COPSE_OK && report)
        *report = t->uses.weights.report;
    return s;
}
