/* SPDX-License-Identifier: MIT */
/* Early stopping: the lowest loss so far, and the values that the variables had then, as entries of
   a state (core/state/state.h) in host memory. */
#include "core/loop/early_stopping.h"

#include <math.h>
#include <stdio.h>

#include "core/state/state.h"
#include "core/train/trainer.h"

#define PREFIX   COPSE_APPLICATION_ARRAY "early_stopping/"
#define COUNTERS PREFIX "counters" /* f64: see counters_fill */
enum { COUNTERS_MAX = 4 };

/* The first worker's, which all take. */
struct progress {
    double best_loss;
    uint32_t epoch, best_epoch, waited; /* epoch: of the newest observation */
    uint32_t is_best;                   /* it is the newest one */
};

struct copse_early_stopping {
    copse_trainer *t;
    copse_strategy *strategy; /* retained */
    struct copse_early_stopping_params params;
    struct progress so_far;
    bool has_values;
    bool is_swapped;         /* the variables have the best values */
    bool has_names;          /* `arrays` lists `kept` */
    struct copse_state kept; /* the best values; empty without them */
    struct copse_state last; /* is_swapped: what the variables had; else empty */
    struct {
        copse_variable **at;
        size_t count, room;
    } variables;
    struct {
        struct copse_named_array *at;
        size_t count, room;
    } arrays;
    double counters[COUNTERS_MAX];
};

static struct copse_mem *mem_of(const copse_early_stopping *e)
{
    return &e->strategy->ctx->base.mem;
}

/* ---- life ---- */

static bool early_trains(const copse_trainer *t, const copse_variable *v)
{
    return copse__optimizer_bucket(t->optimizer, v) != COPSE_NO_BUCKET;
}

/* What the trainer trains, and what no gradient trains. */
static copse_status list_variables(copse_early_stopping *e)
{
    const copse_strategy *st = e->strategy;
    e->variables.count = 0;
    for (size_t i = 0; i < st->variables.count; i++) {
        copse_variable *v = st->variables.at[i];
        if (!v->is_of_file && (!v->is_trained || early_trains(e->t, v)) &&
            !COPSE_PUSH(mem_of(e), &e->variables, v))
            return copse_no_memory("early stopping");
    }
    return COPSE_OK;
}

static copse_status check_params(const copse_trainer *t,
                                 const struct copse_early_stopping_params *p)
{
    if (p && !(p->min_delta >= 0.0f && isfinite(p->min_delta)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "early stopping: min_delta is %g; it must be 0 or more, and finite",
                          (double)p->min_delta);
    return t->optimizer->table->is_sharing
               ? copse_fail(COPSE_ERR_UNSUPPORTED,
                            "early stopping: parameter servers have the variables, and other "
                            "workers train them: stop by the number of epochs")
               : COPSE_OK;
}

copse_status copse_early_stopping_create(copse_trainer *t,
                                         const struct copse_early_stopping_params *params,
                                         copse_early_stopping **out)
{
    COPSE_TRY(copse_need("early stopping", t, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_early_stopping_params, params));
    COPSE_TRY(check_params(t, params));
    copse_early_stopping *e = copse__alloc(&t->strategy->ctx->base.mem, 1, sizeof *e);
    COPSE_TRY(copse_need_memory(e, "early stopping"));
    *e = (copse_early_stopping){ .t = t,
                                 .strategy = copse_strategy_retain(t->strategy),
                                 .so_far.best_loss = INFINITY };
    if (params)
        e->params = *params;
    *out = e;
    return COPSE_OK;
}

void copse_early_stopping_release(copse_early_stopping **at)
{
    if (!at || !*at)
        return;
    copse_early_stopping *e = *at;
    copse_strategy *st = e->strategy;
    *at = NULL;
    copse__state_end(&e->kept);
    copse__state_end(&e->last);
    copse__free(mem_of(e), e->variables.at);
    copse__free(mem_of(e), e->arrays.at);
    copse__free(mem_of(e), e);
    copse_strategy_release(&st);
}

void copse_early_stopping_describe(const copse_early_stopping *e,
                                   struct copse_early_stopping_info *out)
{
    if (!out)
        return;
    *out = (struct copse_early_stopping_info){ .best_epoch = 0 };
    if (!e)
        return;
    out->best_epoch = e->so_far.best_epoch;
    out->waited = e->so_far.waited;
    out->best_loss = e->so_far.best_loss;
    out->is_over = e->params.patience > 0 && e->so_far.waited >= e->params.patience;
    out->has_values = e->has_values;
}

/* ---- values ---- */

/* Read the present values. `has_components`: also of each replica, where they differ. */
static copse_status early_read(copse_early_stopping *e, bool has_components, struct copse_state *s)
{
    copse__state_begin(s, e->strategy, e->t->step);
    COPSE_TRY(list_variables(e));
    COPSE_TRY(copse__state_add_list(s, e->variables.at, e->variables.count));
    if (has_components)
        COPSE_TRY(copse__state_add_components(s));
    return copse__state_read(s);
}

/* The variables have changed: a swap is over. */
static void drop_last(copse_early_stopping *e)
{
    copse__state_end(&e->last);
    e->is_swapped = false;
}

static void drop_values(copse_early_stopping *e)
{
    copse__state_end(&e->kept);
    e->has_values = e->has_names = false;
}

/* All workers take the values, or none does. */
static copse_status take_values(copse_early_stopping *e, struct copse_state *s, copse_status mine)
{
    const copse_status status =
        copse__state_settle(e->strategy, e->t->is_failed, mine, "early stopping");
    if (status != COPSE_OK) {
        copse__state_end(s);
        return status;
    }
    drop_values(e);
    e->kept = *s;
    e->has_values = true;
    return COPSE_OK;
}

static copse_status keep_values(copse_early_stopping *e)
{
    struct copse_state s;
    return take_values(e, &s, early_read(e, true, &s));
}

static copse_status write_values(copse_early_stopping *e, struct copse_state *values)
{
    e->t->is_failed = true; /* until all are written */
    const copse_status s = copse__state_write(values);
    e->t->is_failed = s != COPSE_OK;
    return copse__state_settle(e->strategy, e->t->is_failed, s, "early stopping");
}

static copse_status give_best(copse_early_stopping *e)
{
    struct copse_state present = { .strategy = NULL };
    copse_status s =
        copse__state_settle(e->strategy, false, early_read(e, true, &present), "early stopping");
    if (s == COPSE_OK)
        s = write_values(e, &e->kept);
    if (s != COPSE_OK) {
        copse__state_end(&present);
        return s;
    }
    e->last = present;
    e->is_swapped = true;
    return COPSE_OK;
}

static copse_status give_last(copse_early_stopping *e)
{
    COPSE_TRY(write_values(e, &e->last));
    drop_last(e);
    return COPSE_OK;
}

copse_status copse_early_stopping_swap(copse_early_stopping *e)
{
    COPSE_TRY(copse_need("early stopping", e));
    COPSE_TRY(copse__require_no_replica("copse_early_stopping_swap", e));
    COPSE_TRY(copse__trainer_check(e->t));
    COPSE_TRY(copse__average_refuse(e->t));
    if (!e->has_values)
        return copse_fail(COPSE_ERR_ARGUMENT, "early stopping: no values are kept: no loss was "
                                              "finite, or `keep_last` is set");
    COPSE_TRY(copse__audit_settle(e->t));
    return e->is_swapped ? give_last(e) : give_best(e);
}

copse_status copse__early_stopping_check(const copse_early_stopping *e, const copse_trainer *t)
{
    return e->t == t ? COPSE_OK
                     : copse_fail(COPSE_ERR_ARGUMENT,
                                  "trainer: `stopping` belongs to another trainer: create one for "
                                  "this trainer");
}

copse_status copse__early_stopping_restore(copse_early_stopping *e, uint32_t done)
{
    return e && e->has_values && !e->is_swapped && e->so_far.best_epoch != done
               ? copse_early_stopping_swap(e)
               : COPSE_OK;
}

/* ---- observing ---- */

/* A loss that is not finite is never lower. */
static void early_decide(copse_early_stopping *e, uint32_t epoch, double loss)
{
    struct progress *p = &e->so_far;
    const bool is_finite = isfinite(loss);
    p->epoch = epoch;
    /* the first finite loss is lower than infinity by infinity */
    p->waited = is_finite && loss < p->best_loss - (double)e->params.min_delta ? 0 : p->waited + 1;
    p->is_best = is_finite && loss < p->best_loss;
    if (!p->is_best)
        return;
    p->best_loss = loss;
    p->best_epoch = epoch;
}

copse_status copse_early_stopping_observe(copse_early_stopping *e, uint32_t epoch, double loss,
                                          bool *stop)
{
    struct copse_early_stopping_info now;
    COPSE_TRY(copse_need("early stopping", e, stop));
    COPSE_TRY(copse__require_no_replica("copse_early_stopping_observe", e));
    COPSE_TRY(copse__trainer_check(e->t));
    COPSE_TRY(copse__audit_settle(e->t));
    const copse_status mine =
        epoch > e->so_far.epoch
            ? COPSE_OK
            : copse_fail(COPSE_ERR_ARGUMENT, "early stopping: epoch %u; the last one was %u", epoch,
                         e->so_far.epoch);
    const struct progress before = e->so_far;
    if (mine == COPSE_OK)
        early_decide(e, epoch, loss);
    struct progress all = e->so_far;
    const copse_status s =
        copse__group_broadcast(&e->strategy->group, "early stopping", &all, sizeof all, mine);
    e->so_far = s == COPSE_OK ? all : before;
    COPSE_TRY(s);
    drop_last(e); /* the variables were trained on */
    if (all.is_best && !e->params.keep_last)
        COPSE_TRY(keep_values(e));
    copse_early_stopping_describe(e, &now);
    *stop = now.is_over;
    return COPSE_OK;
}

/* ---- checkpoints ---- */

static copse_status add_array(copse_early_stopping *e, const char *name,
                              const struct copse_array_view *view)
{
    return name && COPSE_PUSH(mem_of(e), &e->arrays,
                              ((struct copse_named_array){ .name = name, .array = *view }))
               ? COPSE_OK
               : copse_no_memory("early stopping");
}

/* Once for the kept values, whose arena has the names. */
static copse_status list_arrays(copse_early_stopping *e)
{
    struct copse_array_view view = {
        .type = COPSE_F64, .rank = 1, .shape = { COUNTERS_MAX }, .data = e->counters
    };
    e->arrays.count = 0;
    COPSE_TRY(add_array(e, COUNTERS, &view));
    for (size_t i = 0, n; i < e->kept.entries.count; i += n) {
        n = copse__state_whole(&e->kept, i, &view);
        COPSE_TRY(
            add_array(e, COPSE_STATE_TEXT(&e->kept, PREFIX, e->kept.entries.at[i].name), &view));
    }
    e->has_names = true;
    return COPSE_OK;
}

copse_status copse_early_stopping_arrays(copse_early_stopping *e,
                                         const struct copse_named_array **arrays, size_t *count)
{
    COPSE_TRY(copse_need("early stopping", e, arrays, count));
    e->counters[0] = e->so_far.epoch;
    e->counters[1] = e->so_far.best_epoch;
    e->counters[2] = e->so_far.waited;
    e->counters[3] = e->so_far.best_loss;
    if (!e->has_names)
        COPSE_TRY(list_arrays(e));
    *arrays = e->arrays.at;
    *count = e->arrays.count;
    return COPSE_OK;
}

static bool is_count(double x)
{
    return x >= 0 && x <= UINT32_MAX && x == floor(x);
}

static copse_status read_counters(const copse_checkpoint *file, struct progress *out)
{
    const struct copse_array_view *a = copse_checkpoint_find(file, COUNTERS);
    const double *x = a->data;
    if (a->type != COPSE_F64 || a->rank != 1 || a->shape[0] != COUNTERS_MAX || !is_count(x[0]) ||
        !is_count(x[1]) || !is_count(x[2]) || isnan(x[3]) || x[1] > x[0])
        return copse_fail(COPSE_ERR_FORMAT,
                          "early stopping: the array '" COUNTERS "' of the checkpoint is damaged");
    *out = (struct progress){ .epoch = (uint32_t)x[0],
                              .best_epoch = (uint32_t)x[1],
                              .waited = (uint32_t)x[2],
                              .best_loss = x[3] };
    return COPSE_OK;
}

/* Whether the file has values of as many replicas, where they differ. */
static bool has_components(const copse_early_stopping *e, const copse_checkpoint *file)
{
    const copse_strategy *st = e->strategy;
    char name[COPSE_VARIABLE_NAME + sizeof PREFIX + 32];
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (!copse__variable_is_local(v))
            continue;
        for (uint32_t k = 0; k < 2; k++) { /* the last one, and none after it */
            snprintf(name, sizeof name, PREFIX "%s" COPSE_STATE_COMPONENT "%u", v->name,
                     st->group.ranks - 1 + k);
            if ((copse_checkpoint_find(file, name) != NULL) == (k == 1))
                return false;
        }
    }
    return true;
}

/* The entries of the present values give names and places. */
static copse_status fill_values(struct copse_state *s)
{
    struct copse_array_view like;
    const void *data;
    for (size_t i = 0, n; i < s->entries.count; i += n) {
        n = copse__state_whole(s, i, &like);
        const struct copse_state_entry *at = &s->entries.at[i];
        const char *name = COPSE_STATE_TEXT(s, PREFIX, at->name);
        uint64_t words = 0;
        if (!name)
            return copse_no_memory("early stopping");
        COPSE_TRY(copse__state_find(s, name, &like, &data));
        for (size_t k = 0; k < n; k++)
            words += copse__state_words(&at[k]);
        memcpy((void *)(uintptr_t)at->view.data, data, COPSE_WORD_BYTES * (size_t)words);
    }
    return COPSE_OK;
}

static copse_status resume_values(copse_early_stopping *e, const copse_checkpoint *file)
{
    struct copse_state s;
    copse_status mine = early_read(e, has_components(e, file), &s);
    s.path = "the checkpoint";
    s.file = file;
    if (mine == COPSE_OK)
        mine = fill_values(&s);
    s.path = NULL;
    s.file = NULL;
    return take_values(e, &s, mine);
}

/* A variable that has values beside the counters. */
static bool has_array(const copse_checkpoint *file)
{
    size_t count;
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strncmp(list[i].name, PREFIX, strlen(PREFIX)) == 0 &&
            strcmp(list[i].name, COUNTERS) != 0)
            return true;
    return false;
}

copse_status copse_early_stopping_resume(copse_early_stopping *e, const copse_checkpoint *file)
{
    struct progress found;
    COPSE_TRY(copse_need("early stopping", e, file));
    COPSE_TRY(copse__require_no_replica("copse_early_stopping_resume", e));
    COPSE_TRY(copse__trainer_check(e->t));
    drop_last(e); /* the variables have the values of the checkpoint */
    if (!copse_checkpoint_find(file, COUNTERS))
        return COPSE_OK;
    COPSE_TRY(read_counters(file, &found));
    if (has_array(file) && !e->params.keep_last) {
        COPSE_TRY(resume_values(e, file));
    } else if (!e->params.keep_last) { /* of a run that kept none: the best epoch is yet to come */
        drop_values(e);
        found.best_epoch = 0;
        found.best_loss = INFINITY;
    }
    e->so_far = found;
    return COPSE_OK;
}
