/* SPDX-License-Identifier: MIT */
/* What functions of the application may call: every public function that takes a trainer, a
   strategy, or what is made of them, in every function that the library calls. The rule is the one
   of strategy.h. */
#include "copse/distribute/accelerator.h"
#include "copse/distribute/partition.h"
#include "copse/distribute/shards.h"
#include "copse/loop/feed.h"
#include "copse/predict.h"
#include "copse/train/advance.h"
#include "copse/train/audit.h"
#include "copse/train/average.h"
#include "copse/train/memory.h"
#include "copse/train/slots.h"
#include "copse/train/update.h"
#include "copse/train/weights.h"

#include "tests/rig/callback_rig.h"

static copse_status made(copse_status s, copse_value **v)
{
    copse_value_release(v);
    return s;
}

static copse_status nothing(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

static copse_status merge_nothing(copse_strategy *st, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

/* ---- calls on a trainer ---- */

static copse_status t_step(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    return copse_trainer_step(s->t, &b);
}

static copse_status t_feed(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    return copse_trainer_feed(s->t, &b);
}

static copse_status t_evaluate(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    struct copse_step_result out;
    return copse_trainer_evaluate(s->t, &b, &out);
}

static copse_status t_result(struct stage *s)
{
    struct copse_step_result out;
    return copse_trainer_result(s->t, false, &out);
}

static copse_status t_run(struct stage *s)
{
    return copse_trainer_run(s->t);
}
static copse_status t_flush(struct stage *s)
{
    return copse_trainer_flush(s->t);
}
static copse_status t_set_weights(struct stage *s)
{
    return copse_trainer_set_shard_weights(s->t, s->room);
}
static copse_status t_save(struct stage *s)
{
    return copse_trainer_save(s->t, s->path);
}
static copse_status t_prepare(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    return copse_trainer_prepare(s->t, &b, NULL);
}

static copse_status t_advance(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    return copse_trainer_advance(s->t, &b, UINT64_MAX, NULL);
}

static copse_status t_checkpoint(struct stage *s)
{
    return copse_trainer_checkpoint(s->t, s->path, NULL);
}
static copse_status t_restore(struct stage *s)
{
    return copse_trainer_restore(s->t, s->path, NULL, NULL);
}

static copse_status t_slot(struct stage *s)
{
    return copse_trainer_slot(s->t, s->w, "m", s->room);
}

static copse_status t_load(struct stage *s)
{
    return copse_trainer_load(s->t, s->path, NULL, NULL);
}

static copse_tensor *doubled(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    copse_tensor *x = copse_input(in, "x");
    return copse_add(g, x, x);
}

static copse_status t_predict(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    return copse_trainer_predict(s->t, doubled, NULL, &b, s->room, 2 * sizeof *s->room);
}

static copse_status t_memory(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    struct copse_step_memory out;
    return copse_trainer_memory(s->t, 0, &b, 0, &out);
}

static copse_status t_audit(struct stage *s)
{
    return copse_trainer_audit(s->t, NULL);
}
static copse_status t_average(struct stage *s)
{
    return copse_trainer_average_begin(s->t);
}
static copse_status t_average_end(struct stage *s)
{
    return copse_trainer_average_end(s->t);
}

static copse_status tower_slot(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_tower_slot(s->tower, s->w, "m", &out), &out);
}

static copse_status t_create(struct stage *s)
{
    copse_trainer *t = NULL;
    const struct copse_trainer_params p = {
        .loss = loss, .user = s, .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 }
    };
    const copse_status got = copse_trainer_create(s->st, &p, &t);
    copse_trainer_release(&t);
    return got;
}

static copse_status t_asks(struct stage *s)
{
    float weights[2];
    bool is_known;
    (void)copse_trainer_steps(s->t);
    (void)copse_trainer_fed(s->t);
    (void)copse_trainer_accumulated(s->t);
    return copse_trainer_strategy(s->t) == s->st
               ? copse_trainer_shard_weights(s->t, weights, &is_known)
               : COPSE_ERR_INTERNAL;
}

static copse_train_step *beside; /* of the strategy whose replicas run a model */

static copse_status ts_run(struct stage *s)
{
    const struct copse_host_batch b = batch_of_two();
    struct copse_train_step_result out;
    copse_train_step *ts = s->ts ? s->ts : beside;
    return ts ? copse_train_step_run(ts, &b, &out) : COPSE_OK;
}

static copse_status make_train_step(struct stage *s, copse_train_step **out)
{
    const struct copse_train_step_params p = {
        .losses = losses, .user = s, .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 }
    };
    return copse_train_step_create(s->st, &p, out);
}

static copse_status ts_create(struct stage *s)
{
    copse_train_step *ts = NULL;
    const copse_status got = make_train_step(s, &ts);
    copse_train_step_release(&ts);
    return got;
}

/* ---- calls on a strategy ---- */

static copse_status run(struct stage *s)
{
    return copse_strategy_run(s->st, nothing, NULL, 0, NULL, NULL);
}

static copse_status replicated(struct stage *s)
{
    struct copse_replicated_result out = { 0 };
    const struct copse_replicated_params p = { .model = model, .user = s };
    return made(copse_replicated_run(s->st, &p, COPSE_MODEL_PREDICT, NULL, NULL, &out),
                &out.outputs);
}

static copse_status reduce(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_strategy_reduce(s->st, COPSE_REDUCE_SUM, s->parts, NULL, &out), &out);
}

static copse_status reduce_to(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_strategy_reduce_to(s->st, COPSE_REDUCE_SUM, s->parts, NULL, &out), &out);
}

static copse_status batch_reduce(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_strategy_batch_reduce_to(s->st, COPSE_REDUCE_SUM, &s->parts, NULL, 1, &out),
                &out);
}

static copse_status broadcast(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_strategy_broadcast(s->st, s->one, NULL, &out), &out);
}

static copse_status cross_reduce(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_cross_reduce(NULL, s->st, COPSE_REDUCE_SUM, s->parts, NULL, &out), &out);
}

static copse_status cross_broadcast(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_cross_broadcast(NULL, s->st, s->one, NULL, &out), &out);
}

static copse_status set_operations(struct stage *s)
{
    return copse_strategy_set_cross_device(s->st, NULL);
}

static copse_status set_links_of(struct stage *s)
{
    const struct copse_link links[3] = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };
    return copse_strategy_set_links(s->st, links);
}

static copse_status links(struct stage *s)
{
    struct copse_link out[3];
    return copse_strategy_links(s->st, out);
}

static copse_status update(struct stage *s)
{
    return copse_strategy_update(s->st, s->w, in_update, NULL, 0, s, NULL);
}

static copse_status non_slot(struct stage *s)
{
    const uint32_t first = 0;
    return copse_strategy_update_non_slot(s->st, &first, 1, in_update, NULL, 0, s, NULL);
}

static copse_status metrics(struct stage *s)
{
    return copse_metrics_reduce(s->st, &s->local, 1);
}
static copse_status save_all(struct stage *s)
{
    return copse_replicated_checkpoint(s->st, s->path, NULL);
}
static copse_status restore_all(struct stage *s)
{
    return copse_replicated_restore(s->st, s->path, NULL, NULL);
}
static copse_status finish(struct stage *s)
{
    return copse_tower_finish(s->tower);
}

static copse_status apply(struct stage *s)
{
    const struct copse_tower_gradient pair = { NULL, s->w };
    return copse_tower_apply(s->tower, &pair, 1, true);
}

static copse_status forward(struct stage *s)
{
    copse_value *out = NULL;
    const struct copse_tower_loss of = { .loss = tower_loss, .user = s, .x = s->row };
    return made(copse_tower_forward(s->tower, &of, &out), &out);
}

static copse_status tower_create(struct stage *s)
{
    copse_tower_optimizer *t = NULL;
    const struct copse_tower_params p = { .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 } };
    const copse_status got = copse_tower_create(s->st, &p, &t);
    copse_tower_release(&t);
    return got;
}

static copse_status make_strategy(struct stage *s)
{
    copse_strategy *st = NULL;
    (void)s;
    const copse_status got = copse_one_device_create(ctx, "host:0", NULL, &st);
    copse_strategy_release(&st);
    return got;
}

static copse_status st_asks(struct stage *s)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(s->st, &list, &count);
    (void)copse_strategy_submissions(s->st);
    (void)copse_global_step(s->st);
    return copse_strategy_replicas(s->st) == 2 && count > 0 && copse_strategy_device(s->st, 1)
               ? COPSE_OK
               : COPSE_ERR_INTERNAL;
}

/* ---- calls on a variable ---- */

static copse_status create(struct stage *s)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("made"),
                                             .shape = COPSE_SCALAR,
                                             .is_frozen = true };
    return copse_variable_create(s->st, &p, &v);
}

static copse_status make_parts(struct stage *s)
{
    copse_partitioned *p = NULL;
    const struct copse_variable_params params = { .name = fresh("parts"),
                                                  .shape = COPSE_SHAPE(4),
                                                  .is_frozen = true };
    const copse_status got = copse_partitioned_create(s->st, &params, 2, &p);
    copse_partitioned_release(&p);
    return got;
}

static copse_status assign_all(struct stage *s)
{
    return copse_variable_assign(s->w, s->room);
}
static copse_status assign(struct stage *s)
{
    return copse_assign(s->local, s->one);
}

/* Of a graph, where one is built. */
static copse_status graph_update(struct stage *s)
{
    if (!(BUILDING & BIT(s->place)))
        return COPSE_OK;
    copse_update(s->g, s->local, copse_variable_tensor(s->local));
    return copse__graph_take_failure(s->g);
}

static copse_status read_component(struct stage *s)
{
    return copse_variable_read(s->w, 1, s->room);
}

static copse_status read_value(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_read(s->w, &out), &out);
}

static copse_status value(struct stage *s)
{
    copse_value *out = NULL;
    return made(copse_variable_value(s->w, &out), &out);
}

static copse_status merge(struct stage *s)
{
    if (s->place == REPLICA || s->place == MODEL) /* all replicas make it: MERGE is such a call */
        return COPSE_OK;
    return copse_merge_call(copse_current_replica(), merge_nothing, NULL, 0, NULL, NULL);
}

/* ---- calls on a step ---- */

static copse_status step(struct stage *s)
{
    return copse_step_run(s->step);
}
static copse_status monitor_run(struct stage *s)
{
    return copse_monitor_run(s->monitor, 1, NULL);
}

static copse_status monitor_checkpoint(struct stage *s)
{
    const copse_status got = copse_monitor_checkpoint(s->monitor);
    return got == COPSE_ERR_ARGUMENT ? COPSE_OK : got; /* it has no place for them */
}

static copse_status monitor_create(struct stage *s)
{
    copse_monitor *m = NULL;
    const copse_status got = copse_monitor_create(s->step, NULL, &m);
    copse_monitor_release(&m);
    return got;
}

/* ---- the table ---- */

#define REPLICAS   (BIT(REPLICA) | BIT(MODEL))
#define ALL        (BIT(PLACES) - 1)
#define OF_TRAINER (PASSIVE | BIT(HOOK) | REPLICAS)
#define OF_STEP    (BIT(STEP_RUN) | BIT(MONITOR_RUN)) /* the step runs */
#define OF_MONITOR (BIT(MONITOR_RUN) | BIT(MONITOR_SAVE))

/* Where it is refused because of the function that the thread is in. */
#define NAMED (PASSIVE | BIT(HOOK) | BIT(STEP_RUN) | BIT(MONITOR_SAVE))

static const struct row {
    const char *name; /* in the text of a refusal */
    copse_status (*call)(struct stage *s);
    unsigned refused; /* where it is COPSE_ERR_CONTEXT */
    unsigned other;   /* where a graph is built: COPSE_ERR_UNSUPPORTED */
} rows[] = {
    { "copse_trainer_step", t_step, OF_TRAINER, 0 },
    { "copse_trainer_feed", t_feed, OF_TRAINER, 0 },
    { "copse_trainer_prepare", t_prepare, OF_TRAINER, 0 },
    { "copse_trainer_advance", t_advance, OF_TRAINER, 0 },
    { "copse_trainer_run", t_run, OF_TRAINER, 0 },
    { "copse_trainer_evaluate", t_evaluate, OF_TRAINER, 0 },
    { "copse_trainer_result", t_result, OF_TRAINER, 0 },
    { "copse_trainer_flush", t_flush, OF_TRAINER, 0 },
    { "copse_trainer_set_shard_weights", t_set_weights, OF_TRAINER, 0 },
    { "copse_trainer_save", t_save, OF_TRAINER, 0 },
    { "copse_trainer_checkpoint", t_checkpoint, OF_TRAINER, 0 },
    { "copse_trainer_restore", t_restore, OF_TRAINER, 0 },
    { "copse_trainer_slot", t_slot, OF_TRAINER, 0 },
    { "copse_trainer_load", t_load, OF_TRAINER, 0 },
    { "copse_trainer_predict", t_predict, OF_TRAINER, 0 },
    { "copse_trainer_memory", t_memory, OF_TRAINER, 0 },
    { "copse_trainer_audit", t_audit, OF_TRAINER, 0 },
    { "copse_trainer_average_begin", t_average, OF_TRAINER, 0 },
    { "copse_trainer_average_end", t_average_end, OF_TRAINER, 0 },
    { "copse_tower_slot", tower_slot, PASSIVE, 0 },
    { "copse_trainer_create", t_create, PASSIVE | REPLICAS, 0 },
    { "copse_trainer_create", ts_create, PASSIVE | REPLICAS, 0 },
    { "copse_train_step_run", ts_run, BIT(LOSSES) | BIT(TOTAL_LOSS) | BIT(HOOK) | BIT(MODEL), 0 },
    { "questions to a trainer", t_asks, 0, 0 },
    { "run", run, PASSIVE | REPLICAS, 0 },
    { "replicated model", replicated, PASSIVE | REPLICAS, 0 },
    { "reduce", reduce, PASSIVE | REPLICAS, 0 },
    { "reduce_to", reduce_to, PASSIVE | REPLICAS, 0 },
    { "batch reduce", batch_reduce, PASSIVE | REPLICAS, 0 },
    { "broadcast", broadcast, PASSIVE | REPLICAS, 0 },
    { "copse_cross_batch_reduce", cross_reduce, PASSIVE, 0 },
    { "copse_cross_broadcast", cross_broadcast, PASSIVE, 0 },
    { "set cross-device operations", set_operations, PASSIVE | REPLICAS, 0 },
    { "copse_strategy_set_links", set_links_of, PASSIVE, 0 },
    { "copse_strategy_links", links, PASSIVE, 0 },
    { "update", update, PASSIVE | REPLICAS, 0 },
    { "update", non_slot, PASSIVE | REPLICAS, 0 },
    { "metrics", metrics, PASSIVE | REPLICAS, 0 },
    { "checkpoint", save_all, PASSIVE | REPLICAS, 0 },
    { "checkpoint", restore_all, PASSIVE | REPLICAS, 0 },
    { "tower optimizer", finish, PASSIVE | REPLICAS, 0 },
    { "tower optimizer", apply, PASSIVE, 0 },
    { "tower optimizer", forward, ALL & ~REPLICAS, 0 },
    { "copse_tower_create", tower_create, PASSIVE, 0 },
    { "creation of a strategy", make_strategy, PASSIVE, 0 },
    { "questions to a strategy", st_asks, 0, 0 },
    { "copse_variable_create", create, PASSIVE, 0 },
    { "copse_variable_create", make_parts, PASSIVE, 0 },
    { "copse_variable_assign", assign_all, PASSIVE, 0 },
    { "copse_assign", assign, PASSIVE & ~BUILDING, BUILDING },
    { "update", graph_update, 0, 0 },
    { "copse_variable_read", read_component, 0, 0 },
    { "copse_read", read_value, 0, 0 },
    { "copse_variable_value", value, 0, 0 },
    { "merge call", merge, (PASSIVE & ~BUILDING) | BIT(MERGE) | BIT(UPDATE), BUILDING },
    { "copse_step_run", step, PASSIVE | REPLICAS | OF_STEP, 0 },
    { "copse_monitor_run", monitor_run, PASSIVE | REPLICAS | OF_STEP | OF_MONITOR, 0 },
    { "copse_monitor_checkpoint", monitor_checkpoint, PASSIVE | REPLICAS | OF_MONITOR, 0 },
    { "copse_monitor_create", monitor_create, PASSIVE | REPLICAS, 0 },
};

static const struct row *tried;
static copse_status got;
static char text[1024];

static void try_row(struct stage *s)
{
    const struct standing before = standing();
    got = tried->call(s);
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (!stands(before))
        got = COPSE_ERR_INTERNAL;
}

static void every_call_in_every_function(void **unused)
{
    unsigned refusals = 0, permissions = 0;
    (void)unused;
    for (enum place place = 0; place < PLACES; place++)
        for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
            struct stage s;
            tried = &rows[i];
            const bool is_refused = tried->refused & BIT(place),
                       is_other = tried->other & BIT(place);
            set_stage(&s, place, try_row);
            if (place == MODEL && tried->call == ts_run)
                OK(make_train_step(&s, &beside));
            const copse_status outer = call_place(&s);
            if (s.probe)
                fail_msg("%s was not called: %s", place_names[place], copse_last_error());
            if (is_refused && got != COPSE_ERR_CONTEXT)
                fail_msg("row %zu, %s, in %s: %s, not refused: %s", i, tried->name,
                         place_names[place], copse_status_name(got), text);
            /* other refusals are those of contexts, with their own texts (test_misuse.c) */
            const bool is_named = (NAMED & BIT(place)) ||
                                  ((REPLICAS & BIT(place)) && !strncmp(tried->name, "copse_", 6));
            if (is_refused && is_named && tried->call != apply && tried->call != forward &&
                (!strstr(text, tried->name) || !strstr(text, place_names[place])))
                fail_msg("row %zu, %s, in %s: %s", i, tried->name, place_names[place], text);
            if (is_other && got != COPSE_ERR_UNSUPPORTED)
                fail_msg("row %zu, %s, in %s: %s: %s", i, tried->name, place_names[place],
                         copse_status_name(got), text);
            if (!is_refused && !is_other && (got == COPSE_ERR_CONTEXT || got == COPSE_ERR_INTERNAL))
                fail_msg("row %zu, %s, in %s: refused: %s", i, tried->name, place_names[place],
                         text);
            if ((is_refused || is_other) && outer != COPSE_OK)
                fail_msg("row %zu, %s, in %s: its caller fails, too: %s", i, tried->name,
                         place_names[place], copse_last_error());
            refusals += is_refused || is_other;
            permissions += !is_refused && !is_other;
            assert_true(stands_outside());
            copse_train_step_release(&beside);
            clear_stage(&s);
        }
    printf("%u refusals, %u permissions\n", refusals, permissions);
}

/* ---- on the threads that a hook starts ---- */

static copse_status step_in_replica(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)result;
    REFUSED(COPSE_ERR_CONTEXT, t_step(user), "an update hook of a train step");
    return COPSE_OK;
}

static void run_in_hook(struct stage *s)
{
    got = copse_strategy_run(s->st, step_in_replica, NULL, 0, s, NULL);
}

static void replicas_are_in_what_their_caller_is_in(void **unused)
{
    struct stage s;
    (void)unused;
    set_stage(&s, HOOK, run_in_hook);
    OK(call_place(&s));
    OK(got);
    clear_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_in_what_their_caller_is_in),
        cmocka_unit_test(every_call_in_every_function),
    };
    return cmocka_run_group_tests(tests, open_stages, close_stages);
}
