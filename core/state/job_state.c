/* SPDX-License-Identifier: MIT */
/* Saves and restores a training job: see job_state.h. */
#include "core/state/job_state.h"

#include "copse/compat/train_step.h"
#include "core/optim/progress.h"

#define SCALING_KEY "gradient_scaling" /* scale, updates in a row, updates that were skipped */

static bool has_progress(const struct copse_state_job *job)
{
    return job->optimizer && job->optimizer->table->progress;
}

/* Fails together with the other workers. */
static copse_status job_state_settle(const struct copse_state_job *job, copse_status mine,
                                     const char *what)
{
    return copse__state_settle(job->strategy, job->is_torn, mine, what);
}

static void set_settings(const struct copse_state_job *job, struct copse_state *s)
{
    if (job->optimizer)
        copse__state_set_rule(s, &job->optimizer->rule);
    if (job->reduction)
        copse__state_set_text(s, "reduction", job->reduction);
    copse__state_set_kernels(s);
    if (job->sharding)
        copse__state_set_text(s, "shares", job->sharding);
    copse__state_set_replicas(s);
}

/* The other workers may begin, or continue, from these variables. */
static copse_status job_state_open(const struct copse_state_job *job,
                                   const struct copse_position *at)
{
    return job->optimizer ? copse__progress_open(job->optimizer)
                          : copse__progress_let(job->strategy, at->epoch, at->batch);
}

/* ---- writing ---- */

static copse_status check_whole(const struct copse_state_job *job)
{
    return job->is_torn
               ? copse_fail(COPSE_ERR_DEVICE_LOST, "checkpoint: the last update was cut short; the "
                                                   "parameters are not a whole step's")
               : COPSE_OK;
}

static copse_status check_path(const struct copse_state_job *job, const char *path)
{
    return copse__state_is_writer(job->strategy) && (!path || !*path)
               ? copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: the path is NULL or empty")
               : COPSE_OK;
}

/* The progress of a job whose workers update independently. */
static copse_status put_progress(const struct copse_state_job *job, struct copse_state *s,
                                 const struct copse_position *mine)
{
    const struct copse_worker_progress here = { job->step, mine->batch, mine->epoch, 0 };
    struct copse_optimizer *o = job->optimizer;
    const uint64_t global = copse_global_step(job->strategy);
    char text[COPSE_PROGRESS_TEXT];
    if (!has_progress(job))
        return COPSE_OK;
    COPSE_TRY(copse__state_put_number(s, COPSE_UPDATES_KEY, o->table->next(o, 0) - 1));
    if (global > 0)
        COPSE_TRY(copse__state_put_number(s, COPSE_GLOBAL_KEY, global));
    copse__progress_text(o, &here, text);
    return text[0] ? copse__state_put(s, COPSE_PROGRESS_KEY, COPSE_STATE_TEXT(s, text)) : COPSE_OK;
}

static copse_status put_scaling(const struct copse_state_job *job, struct copse_state *s)
{
    const struct copse_optimizer *o = job->optimizer;
    char text[COPSE_SCALING_TEXT];
    if (!o || (o->scaling.scale == 0.0f && o->scaling.skipped == 0))
        return COPSE_OK;
    copse__scaling_write(o, text);
    return copse__state_put(s, SCALING_KEY, COPSE_STATE_TEXT(s, text));
}

static copse_status put_lines(const struct copse_state_job *job, struct copse_state *s,
                              const struct copse_state_params *p)
{
    COPSE_TRY(copse__state_put_head(s));
    COPSE_TRY(put_progress(job, s, &p->position));
    COPSE_TRY(copse__state_put_counters(s, job->seed, &p->position));
    set_settings(job, s);
    COPSE_TRY(copse__state_put_settings(s));
    if (job->put)
        COPSE_TRY(job->put(job->user, s));
    COPSE_TRY(put_scaling(job, s));
    COPSE_TRY(copse__state_put_named(s));
    return copse__state_put_application(s, p);
}

/* All checks that involve no other worker. */
static copse_status job_state_prepare(const struct copse_state_job *job, const char *path,
                                      const struct copse_state_params *p, struct copse_state *s)
{
    COPSE_TRY(check_path(job, path));
    COPSE_TRY(check_whole(job));
    if (job->check)
        COPSE_TRY(job->check(job->user));
    COPSE_TRY(copse__state_check_application(p));
    COPSE_TRY(copse__state_check_named(job->strategy));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_add_components(s));
    if (job->optimizer)
        COPSE_TRY(copse__state_add_optimizer(s, job->optimizer));
    COPSE_TRY(copse__state_add_application(s, p));
    COPSE_TRY(copse__state_add_named(s));
    return copse__state_read(s);
}

static copse_status write_file(const struct copse_state_job *job, const char *path,
                               const struct copse_state_params *p, struct copse_state *s)
{
    COPSE_TRY(copse__state_join(s));
    COPSE_TRY(put_lines(job, s, p));
    return copse__state_save(s, path, true);
}

copse_status copse__job_checkpoint(struct copse_state_job *job, const char *path,
                                   const struct copse_state_params *params)
{
    static const struct copse_state_params none;
    const struct copse_state_params *p = params ? params : &none;
    struct copse_state state;
    COPSE_TRY(copse_no_reserved(copse_state_params, params));
    if (copse__progress_is_non_chief(job->strategy))
        return check_whole(job);
    copse__state_begin(&state, job->strategy, job->step);
    copse_status s =
        job_state_settle(job, job_state_prepare(job, path, p, &state), "before a checkpoint");
    if (s == COPSE_OK)
        s = job_state_settle(job, write_file(job, path, p, &state), "checkpoint");
    if (s == COPSE_OK)
        s = job_state_open(job, &p->position);
    copse__state_end(&state);
    return copse_note(s, "while writing the checkpoint of step %llu",
                      (unsigned long long)job->step);
}

static copse_status job_state_export(const struct copse_state_job *job, const char *path,
                                     struct copse_state *s)
{
    COPSE_TRY(check_path(job, path));
    COPSE_TRY(check_whole(job));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_read(s));
    COPSE_TRY(copse__state_put(s, "producer", "copse"));
    COPSE_TRY(copse__state_put_number(s, "step", job->step));
    return copse__state_save(s, path, false);
}

copse_status copse__job_export(struct copse_state_job *job, const char *path)
{
    struct copse_state state;
    copse__state_begin(&state, job->strategy, job->step);
    const copse_status s = job_state_export(job, path, &state);
    copse__state_end(&state);
    return job_state_settle(job, s, "save");
}

/* ---- restoring ---- */

struct loaded {
    struct copse_scaling scaling;
    struct copse_state_counters counters;
    struct copse_server_progress progress; /* of all workers, where each has its own */
};

static copse_status read_progress(const struct copse_state_job *job, const struct copse_state *s,
                                  struct loaded *l)
{
    struct copse_position *at = &l->counters.position;
    struct copse_worker_progress mine = { l->counters.step, at->batch, at->epoch, 0 };
    if (!has_progress(job))
        return COPSE_OK;
    COPSE_TRY(copse__progress_read(job->optimizer, s->path,
                                   copse__state_line(s, COPSE_PROGRESS_KEY), &mine, &l->progress));
    *at = (struct copse_position){ mine.epoch, mine.batch };
    l->progress.seed = l->counters.seed;
    return COPSE_OK;
}

/* All checks of a file, before anything is changed. */
static copse_status job_state_examine(const struct copse_state_job *job, const char *path,
                                      const copse_checkpoint *file, struct copse_state *s,
                                      struct loaded *l)
{
    COPSE_TRY(copse__state_open(s, path, file, &l->counters));
    set_settings(job, s);
    COPSE_TRY(copse__state_check_settings(s, false));
    COPSE_TRY(read_progress(job, s, l));
    COPSE_TRY(copse__scaling_read(s->path, copse__state_line(s, SCALING_KEY), &l->scaling));
    if (job->match)
        COPSE_TRY(job->match(job->user, s));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_match_components(s));
    if (job->optimizer)
        COPSE_TRY(copse__state_add_optimizer(s, job->optimizer));
    return copse__state_match(s);
}

static copse_status write_back(const struct copse_state_job *job, struct copse_state *s,
                               struct loaded *l)
{
    struct copse_optimizer *o = job->optimizer;
    COPSE_TRY(copse__state_write(s));
    if (!has_progress(job))
        return COPSE_OK;
    COPSE_TRY(o->table->counts(o, NULL, true, &l->counters.updates));
    return o->table->progress(o, COPSE_PROGRESS_SET, &l->progress);
}

static copse_status take_over(struct copse_state_job *job, struct copse_state *s, struct loaded *l)
{
    const bool was_torn = job->is_torn;
    job->is_torn = true; /* until everything is written */
    const copse_status status = write_back(job, s, l);
    if (status != COPSE_OK)
        return copse_note(status, "while restoring %s%s", s->path,
                          was_torn ? "" : job->consequence);
    job->is_torn = false;
    if (job->optimizer)
        copse__scaling_set(job->optimizer, &l->scaling);
    if (has_progress(job) && l->counters.global > 0)
        copse_global_step_set(job->strategy, l->counters.global);
    if (job->restored)
        job->restored(job->user, &l->counters);
    return job_state_open(job, &l->counters.position);
}

static copse_status job_state_restore(struct copse_state_job *job, const char *path,
                                      const copse_checkpoint *file, struct loaded *l)
{
    struct copse_state state;
    copse__state_begin(&state, job->strategy, job->step);
    copse_status s =
        job_state_settle(job, job_state_examine(job, path, file, &state, l), "a checkpoint");
    if (s == COPSE_OK) {
        s = take_over(job, &state, l);
        s = job_state_settle(job, s, "restoring");
    }
    if (s == COPSE_OK)
        s = copse__state_check_settings(&state, true);
    copse__state_end(&state);
    return s;
}

static copse_status await_chief(const struct copse_state_job *job, struct copse_state_counters *c)
{
    struct copse_optimizer *o = job->optimizer;
    struct copse_server_progress all;
    if (!o)
        return copse__progress_await_chief(job->strategy, &c->position.epoch, &c->position.batch);
    COPSE_TRY(copse__progress_await(o, &all));
    COPSE_TRY(o->table->counts(o, NULL, false, &c->updates));
    const struct copse_worker_progress *at = &all.at[copse_cluster_rank(job->strategy->group.job)];
    *c = (struct copse_state_counters){ .step = at->steps,
                                        .seed = all.seed ? all.seed : job->seed,
                                        .position = { at->epoch, at->batch } };
    return COPSE_OK;
}

/* A non-chief worker: the servers have the state. */
static copse_status follow_chief(struct copse_state_job *job, struct copse_state_counters *c)
{
    COPSE_TRY(await_chief(job, c));
    copse__state_forget_named(job->strategy);
    job->is_torn = false;
    if (job->restored)
        job->restored(job->user, c);
    return COPSE_OK;
}

copse_status copse__job_restore(struct copse_state_job *job, const char *path,
                                struct copse_position *position, copse_checkpoint **file)
{
    struct loaded l = { .counters.step = 0 };
    copse_checkpoint *read = NULL;
    copse_status s;
    if (file)
        *file = NULL;
    if (copse__progress_is_non_chief(job->strategy)) {
        s = follow_chief(job, &l.counters);
    } else {
        path = path && *path ? path : NULL;
        s = copse__state_load(job->strategy, path, NULL, &read);
        if (s == COPSE_OK)
            s = job_state_restore(job, path, read, &l);
    }
    if (s == COPSE_OK && position)
        *position = l.counters.position;
    if (s == COPSE_OK && file)
        *file = read;
    else
        copse_checkpoint_release(&read);
    return s;
}
