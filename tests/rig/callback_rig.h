/* SPDX-License-Identifier: MIT */
/* A stage that reaches every function of the application that the library calls, and a probe that
   such a function calls once. */
#ifndef COPSE_CALLBACK_RIG_H
#define COPSE_CALLBACK_RIG_H

#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/copse.h"
#include "copse/loop/monitor.h"
#include "tests/rig/value/replica_rig.h"

/* The functions of the application. */
enum place {
    LOSS,
    TRANSFORM,
    SCHEDULE, /* of a trainer */
    LOSSES,
    TOTAL_LOSS,
    HOOK, /* of a train step */
    TOWER_LOSS,
    TOWER_SCHEDULE,
    FACTORY,    /* of a tower optimizer */
    ACCUMULATE, /* of cross-device operations */
    REPLICA,
    MERGE,
    UPDATE,
    MODEL, /* of a strategy; MODEL of a replicated model */
    STEP_RUN,
    MONITOR_RUN,
    MONITOR_SAVE, /* of a step, called by itself or by a monitor */
    PLACES
};
#define BIT(place) (1u << (place))
/* Functions that may only build or compute. */
#define PASSIVE \
    (BIT(HOOK) - 1 + BIT(TOWER_LOSS) + BIT(TOWER_SCHEDULE) + BIT(FACTORY) + BIT(ACCUMULATE))
/* The functions of PASSIVE that build a graph, with the thread in a replica. */
#define BUILDING (BIT(LOSS) | BIT(TRANSFORM) | BIT(LOSSES) | BIT(TOTAL_LOSS) | BIT(TOWER_LOSS))

static const char *const place_names[PLACES] = {
    "the loss function of a trainer",
    "the gradient transform of a trainer",
    "the schedule of an optimizer",
    "the losses function of a train step",
    "the total loss function of a train step",
    "an update hook of a train step",
    "the loss function of a tower optimizer",
    "the schedule of an optimizer",
    "the factory of a tower optimizer",
    "the accumulate function of cross-device operations",
    "in replica",
    "in the cross-replica context",
    "in an update function",
    "in replica",
    "the run function of a step",
    "the run function of a step",
    "a function of the step that a monitor calls",
};

struct stage {
    enum place place;
    copse_strategy *st;
    copse_variable *w, *local; /* trained; replica-local */
    copse_trainer *t;          /* the train step's, if the place belongs to a train step */
    copse_train_step *ts;
    copse_tower_optimizer *tower;
    copse_cross_device *x;
    copse_step *step;
    copse_monitor *monitor;
    copse_graph *g; /* of the current loss function */
    copse_value *one, *row, *parts;
    char path[256];
    float room[4];
    void (*probe)(struct stage *s); /* called once, at the place */
};

static inline void reach(struct stage *s, enum place place)
{
    void (*probe)(struct stage *) = s->probe;
    if (s->place != place || !probe)
        return;
    s->probe = NULL;
    probe(s);
}

/* ---- the functions ---- */

static inline copse_tensor *half(copse_graph *g, const copse_batch *in, struct stage *s)
{
    copse_tensor *x, *y;
    s->g = g;
    x = copse_input(in, "x");
    y = copse_mul(g, x, copse_variable_tensor(s->w));
    return copse_mean(g, y, NULL, 0, false);
}

static inline copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *out = half(g, in, user);
    reach(user, LOSS);
    return out;
}

static inline void transform(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    (void)pairs, (void)count;
    ((struct stage *)user)->g = g;
    reach(user, TRANSFORM);
}

static inline float schedule(void *user, uint64_t step)
{
    (void)step;
    reach(user, SCHEDULE);
    return 0.1f;
}

static inline void losses(copse_graph *g, const copse_batch *in, void *user,
                          struct copse_losses *out)
{
    out->names[0] = "half";
    out->count = 1;
    out->at[0] = half(g, in, user);
    reach(user, LOSSES);
}

static inline copse_tensor *total_loss(copse_graph *g, const struct copse_losses *in, void *user)
{
    ((struct stage *)user)->g = g;
    copse_tensor *out = in->at[0];
    reach(user, TOTAL_LOSS);
    return out;
}

static inline copse_status hook(copse_strategy *st, void *user)
{
    (void)st;
    reach(user, HOOK);
    return COPSE_OK;
}

static inline copse_tensor *tower_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *out = half(g, in, user);
    reach(user, TOWER_LOSS);
    return out;
}

static inline float tower_schedule(void *user, uint64_t step)
{
    (void)step;
    reach(user, TOWER_SCHEDULE);
    return 0.1f;
}

static inline copse_status factory(void *user, struct copse_optimizer_params *out)
{
    *out = (struct copse_optimizer_params){ .kind = COPSE_SGD,
                                            .schedule = tower_schedule,
                                            .schedule_user = user };
    reach(user, FACTORY);
    return COPSE_OK;
}

static inline copse_status accumulate(void *user, copse_value *const *values, size_t count,
                                      copse_value **out)
{
    (void)count;
    *out = copse_value_retain(values[0]);
    reach(user, ACCUMULATE);
    return COPSE_OK;
}

static inline copse_status in_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                    void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)result;
    reach(user, MERGE);
    return COPSE_OK;
}

static inline copse_status in_replica(copse_replica_context *rc, copse_value *const *args,
                                      size_t count, void *user, copse_value **result)
{
    struct stage *s = user;
    (void)args, (void)count, (void)result;
    if (s->place == MERGE)
        return copse_merge_call(rc, in_merge, NULL, 0, s, NULL);
    if (s->place == REPLICA) {
        reach(s, REPLICA);
        return COPSE_OK;
    }
    const struct copse_tower_loss of = { .loss = tower_loss, .user = s, .x = s->row };
    copse_value *l;
    COPSE_TRY(copse_tower_minimize(s->tower, &of, &s->w, 1, true, &l));
    copse_value_release(&l);
    return COPSE_OK;
}

static inline copse_status in_update(copse_strategy *st, copse_value *target,
                                     copse_value *const *args, size_t count, void *user,
                                     copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)result;
    reach(user, UPDATE);
    return COPSE_OK;
}

static inline copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                                 struct copse_model_spec *spec)
{
    (void)rc;
    struct stage *s = call->user;
    reach(s, MODEL);
    spec->loss = copse_value_retain(s->one);
    spec->outputs = copse_value_retain(s->row);
    return COPSE_OK;
}

static inline copse_status step_run(void *user)
{
    reach(user, STEP_RUN);
    reach(user, MONITOR_RUN);
    return COPSE_OK;
}

static inline copse_status step_save(void *user, const char *path)
{
    (void)path;
    reach(user, MONITOR_SAVE);
    return COPSE_OK;
}

static inline copse_status step_restore(void *user, const char *path)
{
    (void)user, (void)path;
    return COPSE_OK;
}

static inline uint64_t step_progress(void *user)
{
    static uint64_t progress;
    (void)user;
    return ++progress;
}

/* ---- the stage ---- */

static inline struct copse_host_batch batch_of_two(void)
{
    static const float x[2] = { 1, 2 };
    static const struct copse_column columns[] = { { "x", COPSE_F32, { 1, { 1 } }, x } };
    return (struct copse_host_batch){ .columns = columns, .column_count = 1, .count = 2 };
}

static inline void make_trainers(struct stage *s)
{
    const struct copse_optimizer_params sgd = { .kind = COPSE_SGD,
                                                .schedule = schedule,
                                                .schedule_user = s };
    const struct copse_update_hook hooks[] = { { hook, s } };
    const struct copse_train_step_params ts = { .losses = losses,
                                                .user = s,
                                                .total_loss = total_loss,
                                                .total_user = s,
                                                .optimizer = sgd,
                                                .update_hooks = hooks,
                                                .update_hook_count = 1 };
    const struct copse_trainer_params t = { .loss = loss,
                                            .user = s,
                                            .optimizer = sgd,
                                            .transform = transform,
                                            .transform_user = s,
                                            .prefetch = 2 };
    if (s->place == LOSSES || s->place == TOTAL_LOSS || s->place == HOOK) {
        OK(copse_train_step_create(s->st, &ts, &s->ts));
        s->t = copse_train_step_trainer(s->ts);
    } else {
        OK(copse_trainer_create(s->st, &t, &s->t));
    }
}

static inline void set_stage(struct stage *s, enum place place, void (*probe)(struct stage *))
{
    const struct copse_tower_params tower = { .factory = factory, .factory_user = s };
    const struct copse_cross_device_params x = { .kind = COPSE_CROSS_TO_ONE,
                                                 .accumulate = accumulate,
                                                 .user = s };
    const struct copse_step_functions f = {
        .run = step_run, .save = step_save, .restore = step_restore, .progress = step_progress
    };
    const struct copse_variable_params w = { .name = "w",
                                             .shape = COPSE_SCALAR,
                                             .aggregation = COPSE_AGGREGATION_MEAN };
    const struct copse_variable_params local = { .name = "local",
                                                 .shape = COPSE_SCALAR,
                                                 .synchronization = COPSE_SYNC_ON_READ,
                                                 .aggregation = COPSE_AGGREGATION_SUM };
    copse_value *parts[2];
    *s = (struct stage){ .place = place, .one = scalar(1) };
    OK(copse_mirrored_create(ctx, (const char *[]){ "host:0", "host:0" }, 2, NULL, &s->st));
    OK(copse_variable_create(s->st, &w, &s->w));
    OK(copse_variable_create(s->st, &local, &s->local));
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1, 1), (const float[]){ 2 }, &s->row));
    for (uint32_t r = 0; r < 2; r++)
        parts[r] = scalar_on(s->st, r, 1);
    s->parts = per_replica(s->st, parts);
    make_trainers(s);
    OK(copse_tower_create(s->st, &tower, &s->tower));
    OK(copse_cross_device_create(ctx, &x, &s->x));
    OK(copse_step_create(ctx, s->st, &f, s, &s->step));
    snprintf(s->path, sizeof s->path, "%s/checkpoint", temp_folder);
    OK(copse_monitor_create(
        s->step, place == MONITOR_SAVE ? &(struct copse_monitor_params){ .file = s->path } : NULL,
        &s->monitor));
    s->probe = probe;
}

static inline void clear_stage(struct stage *s)
{
    copse_monitor_release(&s->monitor);
    copse_step_release(&s->step);
    copse_cross_device_release(&s->x);
    copse_tower_release(&s->tower);
    if (s->ts)
        copse_train_step_release(&s->ts);
    else
        copse_trainer_release(&s->t);
    copse_value_release(&s->one);
    copse_value_release(&s->row);
    copse_value_release(&s->parts);
    copse_strategy_release(&s->st);
    (void)remove(s->path); /* if a row wrote one */
}

static inline int open_stages(void **state)
{
    temp_begin();
    return open_rig(state);
}

static inline int close_stages(void **state)
{
    temp_end();
    return close_rig(state);
}

/* Make the library call the function of the place. */
static inline copse_status call_place(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    const struct copse_replicated_params params = { .model = model, .user = s };
    struct copse_train_step_result done;
    struct copse_replicated_result out;
    const uint32_t first = 0;
    copse_value *sums[2] = { 0 };
    copse_status got;
    switch (s->place) {
    case LOSS:
    case TRANSFORM:
    case SCHEDULE:
        return copse_trainer_step(s->t, &b);
    case LOSSES:
    case TOTAL_LOSS:
    case HOOK:
        return copse_train_step_run(s->ts, &b, &done);
    case ACCUMULATE:
        got = copse_cross_batch_reduce(
            s->x, s->st, COPSE_REDUCE_SUM, (copse_value *[]){ s->parts, s->parts },
            &(struct copse_destinations){ .ranks = &first, .count = 1 }, 2, sums);
        copse_value_release(&sums[0]);
        copse_value_release(&sums[1]);
        return got;
    case UPDATE:
        return copse_strategy_update(s->st, s->w, in_update, NULL, 0, s, NULL);
    case MODEL:
        got = copse_replicated_run(s->st, &params, COPSE_MODEL_PREDICT, NULL, NULL, &out);
        copse_value_release(&out.outputs);
        return got;
    case STEP_RUN:
        return copse_step_run(s->step);
    case MONITOR_RUN:
        return copse_monitor_run(s->monitor, 1, NULL);
    case MONITOR_SAVE:
        return copse_monitor_checkpoint(s->monitor);
    default:
        return copse_strategy_run(s->st, in_replica, NULL, 0, s, NULL);
    }
}

#endif
