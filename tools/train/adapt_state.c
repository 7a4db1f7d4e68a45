/* SPDX-License-Identifier: MIT */
/* Checkpoints of `copse train --lora`: see adapt_state.h. */
#include "tools/train/adapt_state.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/checkpoint.h"

#define SETTINGS "application.adapter_settings"
#define PROGRESS "application/progress" /* f64 [NUMBERS] */
enum { STEP, BEST_STEP, JUDGED, COUNT, HELD_LOSS, LOSS, SECONDS, NUMBERS };
#define SETTINGS_ROOM 16384

/* Text that is added to another one. */
struct state_text {
    char *to;
    size_t used;
};

static void state_add(struct state_text *t, const char *form, ...)
{
    va_list values;
    va_start(values, form);
    const int n = vsnprintf(t->to + t->used, SETTINGS_ROOM - t->used, form, values);
    va_end(values);
    t->used =
        n < 0 || t->used + (size_t)n >= SETTINGS_ROOM ? SETTINGS_ROOM - 1 : t->used + (size_t)n;
}

static const char *state_yes(bool is)
{
    return is ? "yes" : "no";
}

/* The name of the model, without separators at the end. */
static void state_add_model(struct state_text *t, const struct adapt_run *r, uint64_t parameters)
{
    const char *path = r->settings->model;
    size_t end = strlen(path);
    while (end > 0 && (path[end - 1] == '/' || path[end - 1] == '\\'))
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/' && path[begin - 1] != '\\')
        begin--;
    state_add(t, "--model=%.*s, %llu parameters, sum %016llx\n", (int)(end - begin), path + begin,
              (unsigned long long)parameters, (unsigned long long)r->data->model_sum);
}

/* Portable bits are equal on all devices. */
static void state_add_devices(struct state_text *t, const struct adapt_run *r)
{
    const uint32_t count = copse_strategy_replicas(r->strategy);
    state_add(t, "--bits=%s\n", bits_text(&r->settings->bits));
    for (uint32_t i = 0; !bits_are_portable(&r->settings->bits) && i < count; i++) {
        const struct copse_device_info *device = copse_strategy_device(r->strategy, i);
        state_add(t, "%s%s (%s)%s", i == 0 ? "--devices=" : ", ", device->id, device->name,
                  i + 1 < count ? "" : "\n");
    }
}

/* "--name=value" lines, one of each option. The data come before what depends on them. */
static copse_status state_describe(const struct adapt_run *r, char text[SETTINGS_ROOM])
{
    const struct adapt_settings *s = r->settings;
    const struct adapt_data *d = r->data;
    struct copse_language_info model;
    struct copse_adapter_info a;
    struct state_text t = { text, 0 };
    COPSE_TRY(copse_language_describe(r->language, &model));
    COPSE_TRY(copse_language_describe_adapter(r->language, &a));
    state_add_model(&t, r, model.parameters);
    state_add(&t, "--weights=%s\n--lora=%u\n--lora-alpha=%.9g\n--lora-dropout=%.9g\n",
              s->weights.at->name, a.rank, (double)a.alpha, (double)a.dropout);
    state_add(&t, "--lora-rank-stabilised=%s\n--lora-dora=%s\n--lora-targets=%s, %u weights\n",
              state_yes(a.is_rank_stabilised), state_yes(a.is_dora),
              s->targets ? s->targets : "all", a.weights);
    state_add(&t, "--data=sum %016llx%s%s\n--context=%u\n", (unsigned long long)d->sum,
              s->date ? ", date " : "", s->date ? s->date : "", s->context);
    state_add(&t, "--held-out=%llu windows beside %llu, sum %016llx\n",
              (unsigned long long)d->held_windows, (unsigned long long)d->windows,
              (unsigned long long)d->held_sum);
    state_add(&t, "--batch=%u\n", s->batch);
    if (s->steps > 0)
        state_add(&t, "--steps=%llu\n", (unsigned long long)d->steps);
    else
        state_add(&t, "--epochs=%u\n", s->epochs > 0 ? s->epochs : 1);
    state_add(&t, "--lr=%.9g\n--schedule=%s\n--patience=%u\n--save-last=%s\n--seed=%llu\n",
              (double)s->lr, s->schedule, s->patience, state_yes(s->saves_last),
              (unsigned long long)s->seed);
    state_add_devices(&t, r);
    return t.used < SETTINGS_ROOM - 1
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT, "the settings are too long for a "
                                                       "checkpoint: make --lora-targets or "
                                                       "--schedule shorter");
}

/* ---- saving ---- */

copse_status adapt_save(const struct adapt_run *r, const struct adapt_progress *p)
{
    const double numbers[NUMBERS] = {
        [STEP] = (double)p->step, [BEST_STEP] = (double)p->best_step, [JUDGED] = p->judged,
        [COUNT] = p->count,       [HELD_LOSS] = p->held_loss,         [LOSS] = p->loss,
        [SECONDS] = p->seconds,
    };
    char text[SETTINGS_ROOM];
    const struct copse_metadata settings = { SETTINGS, text };
    const struct copse_named_array *kept = NULL;
    size_t count = 0;
    COPSE_TRY(state_describe(r, text));
    if (r->stopping)
        COPSE_TRY(copse_early_stopping_arrays(r->stopping, &kept, &count));
    struct copse_named_array *all = malloc((count + 1) * sizeof *all);
    if (!all)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a checkpoint");
    if (count > 0)
        memcpy(all, kept, count * sizeof *all);
    all[count] = (struct copse_named_array){ PROGRESS, { COPSE_F64, 1, { NUMBERS }, numbers } };
    const struct copse_state_params params = { .position = p->next,
                                               .arrays = all,
                                               .array_count = count + 1,
                                               .metadata = &settings,
                                               .metadata_count = 1 };
    const copse_status s = copse_trainer_checkpoint(r->trainer, r->settings->checkpoint, &params);
    free(all);
    return s;
}

/* ---- resuming ---- */

static const char *state_settings(const copse_checkpoint *file)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].key, SETTINGS) == 0)
            return list[i].value;
    return NULL;
}

/* The first line that differs. */
static copse_status state_compare(const char *path, const char *then, const char *now)
{
    for (; *then || *now; then += *then == '\n', now += *now == '\n') {
        const int old = (int)strcspn(then, "\n"), new = (int)strcspn(now, "\n");
        if (old != new || strncmp(then, now, (size_t) new) != 0)
            return session_set_error(COPSE_ERR_ARGUMENT,
                                     "'%s' was made with %.*s, now it is %.*s: give the same "
                                     "settings, or another --checkpoint",
                                     path, old, then, new, now);
        then += old;
        now += new;
    }
    return COPSE_OK;
}

static copse_status state_check(const struct adapt_run *r, const copse_checkpoint *file)
{
    char now[SETTINGS_ROOM];
    const char *path = r->settings->checkpoint, *then = state_settings(file);
    const struct copse_array_view *numbers = copse_checkpoint_find(file, PROGRESS);
    if (!then || !numbers || numbers->type != COPSE_F64 || numbers->rank != 1 ||
        numbers->shape[0] != NUMBERS)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' was not made by copse train --lora --checkpoint", path);
    COPSE_TRY(state_describe(r, now));
    return state_compare(path, then, now);
}

static bool state_is_count(double x, double most)
{
    return x >= 0 && x <= most && x == floor(x);
}

/* The counters fit each other, the run and the place in the data. */
static bool state_fits(const struct adapt_run *r, const double n[NUMBERS],
                       const struct copse_position *next)
{
    const double steps = (double)r->data->steps, batches = (double)r->data->batches,
                 at = (double)next->epoch * batches + (double)next->batch;
    if (!state_is_count(n[STEP], steps) || !state_is_count(n[BEST_STEP], n[STEP]) ||
        !state_is_count(n[JUDGED], (double)next->epoch + 1) || !state_is_count(n[COUNT], n[STEP]) ||
        !isfinite(n[HELD_LOSS]) || !isfinite(n[LOSS]) || !(n[SECONDS] >= 0) ||
        !isfinite(n[SECONDS]) || (double)next->batch > batches)
        return false;
    /* the last epoch of --steps may end before its batches do */
    return at == n[STEP] ||
           (n[STEP] == steps && next->batch == 0 && at - batches < steps && at >= steps);
}

/* A checkpoint that fits restores all. */
static copse_status state_restore(const struct adapt_run *r, struct adapt_progress *p)
{
    const char *path = r->settings->checkpoint;
    copse_checkpoint *file = NULL;
    COPSE_TRY(copse_checkpoint_open(r->ctx, path, &file));
    copse_status s = state_check(r, file);
    copse_checkpoint_release(&file);
    COPSE_TRY(s);
    COPSE_TRY(copse_trainer_restore(r->trainer, path, &p->next, &file));
    const double *numbers = copse_checkpoint_find(file, PROGRESS)->data;
    if (!state_fits(r, numbers, &p->next)) {
        copse_checkpoint_release(&file);
        return session_set_error(
            COPSE_ERR_FORMAT,
            "'%s' is damaged: the counters of its steps do not fit each other; "
            "begin anew with another --checkpoint",
            path);
    }
    p->step = (uint64_t)numbers[STEP];
    p->best_step = (uint64_t)numbers[BEST_STEP];
    p->judged = (uint32_t)numbers[JUDGED];
    p->count = (uint32_t)numbers[COUNT];
    p->held_loss = numbers[HELD_LOSS];
    p->loss = numbers[LOSS];
    p->seconds = numbers[SECONDS];
    if (r->stopping)
        s = copse_early_stopping_resume(r->stopping, file);
    copse_checkpoint_release(&file);
    return s;
}

copse_status adapt_resume(const struct adapt_run *r, struct adapt_progress *p, bool *found)
{
    struct system_file file;
    const char *path = r->settings->checkpoint;
    *found = path && system_look(path, &file);
    if (*found && !r->settings->is_resume)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--checkpoint: '%s' exists; add --resume to go on from it, or "
                                 "name another file",
                                 path);
    return *found ? state_restore(r, p) : COPSE_OK;
}
