/* SPDX-License-Identifier: MIT */
/* Checkpoints of a trainer: the entries that it adds to a state (core/state), and restores from one. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/compat/train_step.h"
#include "core/optim/progress.h"
#include "core/state/state.h"
#include "core/train/trainer.h"

#define SHARES_KEY  "share_weights" /* bits of an f32 for each replica, where not even */
#define SCALING_KEY "gradient_scaling" /* scale, updates in a row, updates that were skipped */
#define SHARES_TEXT (16 * COPSE_MAX_REPLICAS)

static copse_status no_path(void)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: the trainer is NULL, or the path is NULL or empty");
}

static void set_settings(const copse_trainer *t, struct copse_state *s)
{
    copse__state_set_rule(s, &t->optimizer->rule);
    copse__state_set_text(s, "reduction", t->params.reduction == COPSE_LOSS_SUM ? "sum" : "mean");
    copse__state_set_kernels(s);
    copse__state_set_text(s, "shares", copse_shard_rule_name(t->params.sharing));
    copse__state_set_replicas(s);
}

/* Fails together with the other workers. */
static copse_status settle(const copse_trainer *t, copse_status mine, const char *what)
{
    return copse__state_settle(t->strategy, t->is_failed, mine, what);
}

/* ---- writing ---- */

static copse_status check_whole(const copse_trainer *t, const char *path)
{
    if (!t || (copse__state_is_writer(t->strategy) && (!path || !*path)))
        return no_path();
    if (t->is_failed)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "checkpoint: the last update was cut short; the "
                                                 "parameters are not a whole step's");
    return COPSE_OK;
}

/* Measured shares are part of the job: a resumed run does not measure again. */
static copse_status put_shares(const copse_trainer *t, struct copse_state *s)
{
    char text[SHARES_TEXT];
    size_t at = 0;
    for (uint32_t r = 0; t->split.is_known && r < t->strategy->group.ranks; r++) {
        const float weight = (float)t->split.weights[r];
        uint32_t bits;
        memcpy(&bits, &weight, sizeof bits);
        at += (size_t)snprintf(text + at, SHARES_TEXT - at, r ? " %08x" : "%08x", bits);
    }
    return at > 0 ? copse__state_put(s, SHARES_KEY, COPSE_STATE_TEXT(s, text)) : COPSE_OK;
}

/* The progress of a job whose workers update independently. */
static copse_status put_progress(const copse_trainer *t, struct copse_state *s, const struct copse_position *mine)
{
    const struct copse_worker_progress here = { t->step, mine->batch, mine->epoch, 0 };
    const uint64_t global = copse_global_step(t->strategy);
    char text[COPSE_PROGRESS_TEXT];
    if (!t->optimizer->table->progress)
        return COPSE_OK;
    COPSE_TRY(copse__state_put_number(s, COPSE_UPDATES_KEY, t->optimizer->table->next(t->optimizer, 0) - 1));
    if (global > 0)
        COPSE_TRY(copse__state_put_number(s, COPSE_GLOBAL_KEY, global));
    copse__progress_text(t->optimizer, &here, text);
    return text[0] ? copse__state_put(s, COPSE_PROGRESS_KEY, COPSE_STATE_TEXT(s, text)) : COPSE_OK;
}

static copse_status put_scaling(const copse_trainer *t, struct copse_state *s)
{
    char text[COPSE_SCALING_TEXT];
    copse__scaling_write(t->optimizer, text);
    return t->optimizer->scaling.scale > 0.0f || t->optimizer->scaling.skipped > 0
               ? copse__state_put(s, SCALING_KEY, COPSE_STATE_TEXT(s, text))
               : COPSE_OK;
}

static copse_status put_lines(const copse_trainer *t, struct copse_state *s, const struct copse_state_params *p)
{
    COPSE_TRY(copse__state_put_head(s));
    COPSE_TRY(put_progress(t, s, &p->position));
    COPSE_TRY(copse__state_put_counters(s, t->params.seed, &p->position));
    set_settings(t, s);
    COPSE_TRY(copse__state_put_settings(s));
    COPSE_TRY(put_shares(t, s));
    COPSE_TRY(put_scaling(t, s));
    COPSE_TRY(copse__state_put_named(s));
    return copse__state_put_application(s, p);
}

/* All checks that involve no other worker. */
static copse_status prepare(copse_trainer *t, const char *path, const struct copse_state_params *p,
                            struct copse_state *s)
{
    COPSE_TRY(check_whole(t, path));
    if (copse_trainer_gathered(t) > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "checkpoint: %u micro-batches are gathered since the last update: finish "
                          "it, or call copse_trainer_flush", copse_trainer_gathered(t));
    COPSE_TRY(copse__state_check_application(p));
    COPSE_TRY(copse__state_check_named(t->strategy));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_add_optimizer(s, t->optimizer));
    COPSE_TRY(copse__state_add_application(s, p));
    COPSE_TRY(copse__state_add_named(s));
    return copse__state_read(s);
}

static copse_status write_all(copse_trainer *t, const char *path, const struct copse_state_params *p,
                              struct copse_state *s)
{
    COPSE_TRY(copse__state_join(s));
    COPSE_TRY(put_lines(t, s, p));
    return copse__state_save(s, path, true);
}

copse_status copse_trainer_checkpoint(copse_trainer *t, const char *path,
                                      const struct copse_state_params *params)
{
    COPSE_TRY(copse_no_reserved(copse_state_params, params));
    static const struct copse_state_params none;
    struct copse_state state;
    const struct copse_state_params *p = params ? params : &none;
    COPSE_TRY(copse__callback_check("copse_trainer_checkpoint", t));
    if (!t || copse__progress_is_non_chief(t->optimizer))
        return check_whole(t, path);
    copse__state_begin(&state, t->strategy, t->step);
    copse_status s = settle(t, prepare(t, path, p, &state), "before a checkpoint");
    if (s == COPSE_OK)
        s = settle(t, write_all(t, path, p, &state), "checkpoint");
    if (s == COPSE_OK)
        s = copse__progress_open(t->optimizer);
    copse__state_end(&state);
    return copse_note(s, "while writing the checkpoint of step %llu", (unsigned long long)t->step);
}

static copse_status save(copse_trainer *t, const char *path, struct copse_state *s)
{
    COPSE_TRY(check_whole(t, path));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_read(s));
    COPSE_TRY(copse__state_put(s, "producer", "copse"));
    COPSE_TRY(copse__state_put_number(s, "step", t->step));
    return copse__state_save(s, path, false);
}

copse_status copse_trainer_save(copse_trainer *t, const char *path)
{
    struct copse_state state;
    COPSE_TRY(copse__callback_check("copse_trainer_save", t));
    if (!t)
        return no_path();
    copse__state_begin(&state, t->strategy, t->step);
    const copse_status s = save(t, path, &state);
    copse__state_end(&state);
    return settle(t, s, "save");
}

/* ---- slots ---- */

static copse_status read_slot(copse_trainer *t, const copse_variable *v, uint32_t slot, float *values)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    float *words = copse__alloc(mem, (size_t)v->count, sizeof *words);
    copse_status s = words ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    s = settle(t, s, "room for a slot");
    if (s == COPSE_OK)
        s = copse__slot_read(t->optimizer, v, slot, words);
    if (s == COPSE_OK)
        memcpy(values, words, (size_t)v->count * sizeof *words);
    if (s != COPSE_ERR_TIMEOUT) /* else the device may still write there */
        copse__free(mem, words);
    return s;
}

copse_status copse_trainer_slot(copse_trainer *t, const copse_variable *v, const char *name, float *values)
{
    COPSE_TRY(copse_need("trainer", t, v, name, values));
    COPSE_TRY(copse__callback_check("copse_trainer_slot", t));
    COPSE_TRY(copse__variable_check(v, "copse_trainer_slot"));
    if (v->strategy != t->strategy || copse__optimizer_bucket(t->optimizer, v) == COPSE_NO_BUCKET)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: it does not train variable '%s'", v->name);
    for (uint32_t k = 0; k < t->optimizer->rule.slots; k++)
        if (strcmp(t->optimizer->rule.slot_names[k], name) == 0)
            return copse_note(read_slot(t, v, k, values), "while reading slot '%s' of '%s'", name, v->name);
    return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the rule '%s' has no slot '%s'",
                      copse__rule_name(&t->optimizer->rule), name);
}

/* ---- restoring ---- */

struct loaded {
    struct copse_scaling scaling;
    struct copse_state_counters counters;
    struct copse_server_progress progress; /* of all workers, where each has its own */
};

/* Restore measured shares, if the job has as many replicas as before. */
static copse_status take_shares(copse_trainer *t, const struct copse_state *s)
{
    const char *text = copse__state_line(s, SHARES_KEY);
    float weights[COPSE_MAX_REPLICAS];
    uint32_t count = 0;
    char *end;
    if (!text || t->params.sharing != COPSE_SHARD_MEASURED)
        return COPSE_OK;
    for (const char *c = text; *c && count < COPSE_MAX_REPLICAS; c = end) {
        const uint32_t bits = (uint32_t)strtoul(c, &end, 16);
        memcpy(&weights[count++], &bits, sizeof bits);
        if (end == c)
            return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s: \"" SHARES_KEY "\" is no list of weights", s->path);
    }
    if (count != t->strategy->group.ranks)
        return COPSE_OK; /* measured anew */
    return copse_note(copse_trainer_set_shares(t, weights), "while restoring %s", s->path);
}

/* Drop the results, accumulated gradients and fed batches from before the restore. */
static void forget(copse_trainer *t)
{
    t->feed.count = 0;
    copse__accumulation_drop(t);
    for (size_t i = 0; i < t->ring.count; i++)
        t->ring.at[i].step = 0;
}

static copse_status write_back(copse_trainer *t, struct copse_state *s, struct loaded *l)
{
    struct copse_optimizer *o = t->optimizer;
    COPSE_TRY(copse__state_write(s));
    if (!o->table->progress)
        return COPSE_OK;
    COPSE_TRY(o->table->counts(o, NULL, true, &l->counters.updates));
    return o->table->progress(o, COPSE_PROGRESS_SET, &l->progress);
}

static copse_status take_over(copse_trainer *t, struct copse_state *s, struct loaded *l)
{
    const bool was_failed = t->is_failed;
    COPSE_TRY(take_shares(t, s));
    t->is_failed = true; /* until all is there */
    const copse_status status = write_back(t, s, l);
    if (status != COPSE_OK)
        return copse_note(status, "while restoring %s%s", s->path,
                          was_failed ? "" : "; the trainer is not usable any more");
    forget(t);
    t->step = t->ring.taken = l->counters.step;
    t->params.seed = l->counters.seed;
    copse__scaling_set(t->optimizer, &l->scaling);
    t->is_failed = false;
    if (t->optimizer->table->progress && l->counters.global > 0)
        copse_global_step_set(t->strategy, l->counters.global);
    return copse__progress_open(t->optimizer);
}

static copse_status read_progress(const copse_trainer *t, const struct copse_state *s, struct loaded *l)
{
    struct copse_position *at = &l->counters.position;
    struct copse_worker_progress mine = { l->counters.step, at->batch, at->epoch, 0 };
    if (!t->optimizer->table->progress)
        return COPSE_OK;
    COPSE_TRY(copse__progress_read(t->optimizer, s->path, copse__state_line(s, COPSE_PROGRESS_KEY), &mine,
                                   &l->progress));
    *at = (struct copse_position){ mine.epoch, mine.batch };
    l->progress.seed = l->counters.seed;
    return COPSE_OK;
}

/* All checks of a file, before anything is changed. */
static copse_status examine(copse_trainer *t, const char *path, const copse_checkpoint *file,
                            struct copse_state *s, struct loaded *l)
{
    COPSE_TRY(copse__state_open(s, path, file, &l->counters));
    set_settings(t, s);
    COPSE_TRY(copse__state_check_settings(s, false));
    COPSE_TRY(read_progress(t, s, l));
    COPSE_TRY(copse__scaling_read(path, copse__state_line(s, SCALING_KEY), &l->scaling));
    COPSE_TRY(copse__state_add_variables(s));
    COPSE_TRY(copse__state_add_optimizer(s, t->optimizer));
    return copse__state_match(s);
}

static copse_status restore(copse_trainer *t, const char *path, const copse_checkpoint *file, struct loaded *l)
{
    struct copse_state state;
    copse__state_begin(&state, t->strategy, t->step);
    copse_status s = settle(t, examine(t, path, file, &state, l), "a checkpoint");
    if (s == COPSE_OK)
        s = settle(t, take_over(t, &state, l), "restoring");
    if (s == COPSE_OK)
        s = copse__state_check_settings(&state, true);
    copse__state_end(&state);
    return s;
}

/* A non-chief worker of a job with parameter servers: the servers have the state. */
static copse_status restore_non_chief(copse_trainer *t, struct copse_position *position)
{
    struct copse_server_progress all;
    uint64_t updates = 0;
    COPSE_TRY(copse__progress_await(t->optimizer, &all));
    COPSE_TRY(t->optimizer->table->counts(t->optimizer, NULL, false, &updates));
    const struct copse_worker_progress *at = &all.at[copse_cluster_rank(t->strategy->group.job)];
    t->step = t->ring.taken = at->steps;
    if (all.seed)
        t->params.seed = all.seed;
    forget(t);
    copse__state_forget_named(t->strategy);
    t->is_failed = false;
    if (position)
        *position = (struct copse_position){ at->epoch, at->batch };
    return COPSE_OK;
}

copse_status copse_trainer_restore(copse_trainer *t, const char *path,
                                   struct copse_position *position, copse_checkpoint **file)
{
    struct loaded l = { .counters.step = 0 };
    copse_checkpoint *read = NULL;
    path = path && *path ? path : NULL;
    if (file)
        *file = NULL;
    COPSE_TRY(copse__callback_check("copse_trainer_restore", t));
    if (!t)
        return no_path();
    if (copse__progress_is_non_chief(t->optimizer))
        return restore_non_chief(t, position);
    copse_status s = copse__state_load(t->strategy, path, &read);
    if (s == COPSE_OK)
        s = restore(t, path, read, &l);
    if (s == COPSE_OK && position)
        *position = l.counters.position;
    if (s == COPSE_OK && file)
        *file = read;
    else
        copse_checkpoint_release(&read);
    return s;
}
