/* SPDX-License-Identifier: MIT */
/* Checkpoints of replicated models: the variables of a strategy and its named optimizers. In a job with parameter
   servers the chief writes and restores them, and the other workers wait until it has. */
#include "copse/compat/replicated.h"
#include "core/optim/progress.h"
#include "core/replica/context.h"
#include "core/state/state.h"

static copse_status no_path(void)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: the strategy is NULL, or the path is NULL or empty");
}

static copse_status check(copse_strategy *st, const char *path)
{
    if (!st)
        return no_path();
    if (!st->ctx)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "checkpoint: the default strategy has no variables");
    COPSE_TRY(copse__require_cross(st, "checkpoint"));
    /* one worker looks for the file, and notifies the others where it is missing */
    if (st->group.workers > 1 || copse__progress_non_chief_of(st))
        return COPSE_OK;
    return path && *path ? COPSE_OK : no_path();
}

/* The largest number of updates of an optimizer. */
static uint64_t steps_of(const copse_strategy *st)
{
    uint64_t most = 0;
    for (const struct copse_optimizer *o = NULL; (o = copse__optimizer_next(st, o));)
        if (o->name[0])
            most = COPSE_MAX(most, o->step);
    return most;
}

static void set_settings(struct copse_state *s)
{
    copse__state_set_kernels(s);
    copse__state_set_replicas(s);
}

/* ---- writing ---- */

static copse_status prepare(const char *path, const struct copse_state_params *p, struct copse_state *s)
{
    if (copse__state_is_writer(s->strategy) && (!path || !*path))
        return no_path();
    COPSE_TRY(copse__state_check_application(p));
    COPSE_TRY(copse__state_check_named(s->strategy));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_add_application(s, p));
    COPSE_TRY(copse__state_add_named(s));
    return copse__state_read(s);
}

static copse_status write_all(const char *path, const struct copse_state_params *p, struct copse_state *s)
{
    COPSE_TRY(copse__state_join(s));
    COPSE_TRY(copse__state_put_head(s));
    COPSE_TRY(copse__state_put_counters(s, 0, &p->position));
    set_settings(s);
    COPSE_TRY(copse__state_put_settings(s));
    COPSE_TRY(copse__state_put_named(s));
    COPSE_TRY(copse__state_put_application(s, p));
    return copse__state_save(s, path, true);
}

copse_status copse_replicated_checkpoint(copse_strategy *st, const char *path,
                                         const struct copse_state_params *params)
{
    COPSE_TRY(copse_no_reserved(copse_state_params, params));
    static const struct copse_state_params none;
    const struct copse_state_params *p = params ? params : &none;
    struct copse_state state;
    COPSE_TRY(check(st, path));
    if (copse__progress_non_chief_of(st))
        return COPSE_OK;
    copse__state_begin(&state, st, steps_of(st));
    copse_status s = copse__state_settle(st, false, prepare(path, p, &state), "before a checkpoint");
    if (s == COPSE_OK)
        s = copse__state_settle(st, false, write_all(path, p, &state), "checkpoint");
    s = copse_note(s, "while writing the checkpoint of step %llu", (unsigned long long)state.step);
    copse__state_end(&state);
    return s ? s : copse__progress_let(st, p->position.epoch, p->position.batch);
}

/* ---- restoring ---- */

static copse_status examine(const char *path, const copse_checkpoint *file, struct copse_state *s,
                            struct copse_state_counters *out)
{
    COPSE_TRY(copse__state_open(s, path, file, out));
    set_settings(s);
    COPSE_TRY(copse__state_check_settings(s, false));
    COPSE_TRY(copse__state_add_variables(s));
    return copse__state_match(s);
}

static copse_status restore(copse_strategy *st, const char *path, const copse_checkpoint *file,
                            struct copse_state_counters *out)
{
    struct copse_state state;
    copse__state_begin(&state, st, 0);
    copse_status s = copse__state_settle(st, false, examine(path, file, &state, out), "a checkpoint");
    if (s == COPSE_OK) {
        s = copse__state_write(&state);
        s = copse__state_settle(st, s != COPSE_OK, copse_note(s, "while restoring %s", state.path), "restoring");
    }
    if (s == COPSE_OK)
        s = copse__state_check_settings(&state, true);
    copse__state_end(&state);
    return s;
}

copse_status copse_replicated_restore(copse_strategy *st, const char *path, struct copse_position *position,
                                      copse_checkpoint **file)
{
    struct copse_state_counters read = { .step = 0 };
    copse_checkpoint *c = NULL;
    if (file)
        *file = NULL;
    COPSE_TRY(check(st, path));
    path = path && *path ? path : NULL;
    struct copse_position *at = &read.position;
    copse_status s;
    if (copse__progress_non_chief_of(st)) {
        s = copse__progress_await_chief(st, &at->epoch, &at->batch);
        if (s == COPSE_OK)
            copse__state_forget_named(st);
    } else {
        s = copse__state_load(st, path, &c);
        if (s == COPSE_OK)
            s = restore(st, path, c, &read);
        if (s == COPSE_OK)
            s = copse__progress_let(st, at->epoch, at->batch);
    }
    if (s == COPSE_OK && position)
        *position = *at;
    if (s == COPSE_OK && file)
        *file = c;
    else
        copse_checkpoint_release(&c);
    return s;
}
