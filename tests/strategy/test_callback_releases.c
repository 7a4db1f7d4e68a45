/* SPDX-License-Identifier: MIT */
/* Calls without a status inside functions of the application: releasing what the call in progress
   uses is refused, the object stays alive, and the call in progress says so. Releasing a reference
   of the application is legal everywhere. */
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"

#include "tests/rig/callback_rig.h"

static unsigned logged;
static char line[1024];

static void keep_line(void *user, copse_log_level level, const char *text)
{
    (void)user;
    logged += level == COPSE_LOG_ERROR;
    snprintf(line, sizeof line, "%s", text);
}

static int open_logged(void **state)
{
    const struct copse_context_params p = { .log = keep_line };
    if (open_stages(state))
        return -1;
    copse_context_release(&ctx);
    return copse_context_create(&p, &ctx) != COPSE_OK;
}

/* ---- what is refused ---- */

static void release_trainer(struct stage *s)
{
    copse_trainer_release(&s->t);
}
static void release_train_step(struct stage *s)
{
    copse_train_step_release(&s->ts);
}
static void release_graph(struct stage *s)
{
    copse_graph_release(&s->g);
}
static void release_tower(struct stage *s)
{
    copse_tower_release(&s->tower);
}
static void release_monitor(struct stage *s)
{
    copse_monitor_release(&s->monitor);
}
static void unfeed(struct stage *s)
{
    copse_trainer_unfeed(s->t);
}
static void set_global_step(struct stage *s)
{
    copse_global_step_set(s->st, 7);
}

#define OF_TRAINER    (BIT(LOSS) | BIT(TRANSFORM) | BIT(SCHEDULE))
#define OF_TRAIN_STEP (BIT(LOSSES) | BIT(TOTAL_LOSS) | BIT(HOOK))
#define OF_TOWER      (BIT(TOWER_LOSS) | BIT(TOWER_SCHEDULE) | BIT(FACTORY))

static const struct {
    const char *name;
    void (*call)(struct stage *s);
    unsigned refused;
} rows[] = {
    { "copse_trainer_release", release_trainer, OF_TRAINER | OF_TRAIN_STEP },
    { "copse_train_step_release", release_train_step, OF_TRAIN_STEP },
    { "copse_graph_release", release_graph, BUILDING },
    { "copse_tower_release", release_tower, OF_TOWER },
    { "copse_monitor_release", release_monitor, BIT(MONITOR_RUN) | BIT(MONITOR_SAVE) },
    { "copse_trainer_unfeed", unfeed, PASSIVE | BIT(HOOK) },
    { "copse_global_step_set", set_global_step, PASSIVE },
};

static void refused_here(size_t i, enum place place)
{
    struct stage s;
    set_stage(&s, place, rows[i].call);
    logged = 0;
    const copse_status outer = call_place(&s);
    if (outer != COPSE_ERR_CONTEXT || !strstr(copse_last_error(), rows[i].name) ||
        !strstr(copse_last_error(), place_names[place]))
        fail_msg("%s in %s: %s: %s", rows[i].name, place_names[place], copse_status_name(outer),
                 copse_last_error());
    if (logged != 1 || !strstr(line, rows[i].name) || !strstr(line, place_names[place]))
        fail_msg("%s in %s: %u lines: %s", rows[i].name, place_names[place], logged, line);
    assert_non_null(s.tower);
    assert_non_null(s.monitor);
    assert_non_null(s.t);
    assert_int_equal(copse_global_step(s.st), 0);
    OK(call_place(&s)); /* as if nothing had been */
    clear_stage(&s);
}

static void releases_of_what_is_in_use_are_refused(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        for (enum place place = 0; place < PLACES; place++)
            if (rows[i].refused & BIT(place))
                refused_here(i, place);
}

/* A train step's trainer calls its schedule and its transform, too. */
static void release_all_of_it(struct stage *s)
{
    copse_train_step_release(&s->ts);
    copse_trainer_release(&s->t);
}

static float releases(void *user, uint64_t step)
{
    (void)step;
    reach(user, LOSSES);
    return 0.1f;
}

static void plain_losses(copse_graph *g, const copse_batch *in, void *user,
                         struct copse_losses *out)
{
    out->names[0] = "half";
    out->count = 1;
    out->at[0] = half(g, in, user);
}

static void a_schedule_does_not_release_its_train_step(void **unused)
{
    const struct copse_host_batch b = batch_of_two();
    struct copse_train_step_result out;
    struct stage s;
    (void)unused;
    set_stage(&s, LOSSES, NULL);
    const struct copse_train_step_params p = {
        .losses = plain_losses,
        .user = &s,
        .optimizer = { .kind = COPSE_SGD, .schedule = releases, .schedule_user = &s },
    };
    copse_train_step_release(&s.ts);
    OK(copse_train_step_create(s.st, &p, &s.ts));
    s.t = copse_train_step_trainer(s.ts);
    for (int direct = 0; direct < 2; direct++) {
        s.probe = release_all_of_it;
        FAILS(COPSE_ERR_CONTEXT,
              direct ? copse_trainer_step(s.t, &b) : copse_train_step_run(s.ts, &b, &out),
              "the schedule of an optimizer");
        assert_non_null(s.ts);
    }
    OK(copse_train_step_run(s.ts, &b, &out));
    clear_stage(&s);
}

/* ---- what is legal: a reference of the application's own ---- */

static copse_strategy *held;

static copse_status drop_in_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)user, (void)result;
    copse_strategy_release(&held);
    return COPSE_OK;
}

static copse_status drop_in_replica(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    (void)args, (void)count, (void)result;
    if (user)
        return copse_merge_call(rc, drop_in_merge, NULL, 0, NULL, NULL);
    copse_strategy_release(&held);
    return COPSE_OK;
}

static copse_status drop_in_update(copse_strategy *st, copse_value *target,
                                   copse_value *const *args, size_t count, void *user,
                                   copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)user, (void)result;
    copse_strategy_release(&held);
    return COPSE_OK;
}

static copse_status drop_in_model(copse_replica_context *rc, const struct copse_model_call *call,
                                  struct copse_model_spec *spec)
{
    (void)rc, (void)call;
    copse_strategy_release(&held);
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1, 1), (const float[]){ 2 }, &spec->outputs));
    return COPSE_OK;
}

static void the_last_reference_of_a_strategy_goes_in_its_functions(void **unused)
{
    const struct copse_replicated_params model_params = { .model = drop_in_model };
    const uint32_t ranks[] = { 0, 1 };
    struct copse_replicated_result out;
    int merges;
    (void)unused;
    for (int kind = 0; kind < 5; kind++) {
        copse_strategy *st;
        copse_variable *v;
        OK(copse_mirrored_create(ctx, (const char *[]){ "host:0", "host:0" }, 2, NULL, &st));
        OK(copse_variable_create(
            st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SCALAR }, &v));
        held = st;
        switch (kind) {
        case 0:
            OK(copse_strategy_run(st, drop_in_replica, NULL, 0, NULL, NULL));
            break;
        case 1:
            OK(copse_strategy_run(st, drop_in_replica, NULL, 0, &merges, NULL));
            break;
        case 2:
            OK(copse_strategy_update(st, v, drop_in_update, NULL, 0, NULL, NULL));
            break;
        case 3:
            OK(copse_strategy_update_non_slot(st, ranks, 2, drop_in_update, NULL, 0, NULL, NULL));
            break;
        default:
            OK(copse_replicated_run(st, &model_params, COPSE_MODEL_PREDICT, NULL, NULL, &out));
            copse_value_release(&out.outputs);
        }
        assert_null(held);
        FAILS(COPSE_ERR_ARGUMENT, copse_variable_assign(v, &(float){ 1 }), "'v' was released");
    }
}

/* Of a trainer the strategy is the trainer's; of a step and of operations the call in progress
   holds a reference. */
static void drop_strategy(struct stage *s)
{
    copse_strategy_release(&s->st);
}
static void drop_step(struct stage *s)
{
    copse_step_release(&s->step);
}
static void drop_operations(struct stage *s)
{
    copse_cross_device_release(&s->x);
}
static void drop_trainer(struct stage *s)
{
    copse_trainer_release(&s->t);
}

static void other_references_go_everywhere(void **unused)
{
    static const struct {
        void (*drop)(struct stage *s);
        unsigned where;
    } legal[] = {
        { drop_strategy, BIT(PLACES) - 1 },
        { drop_step, BIT(PLACES) - 1 },
        { drop_operations, BIT(PLACES) - 1 },
        { drop_trainer, (BIT(PLACES) - 1) & ~OF_TRAINER & ~OF_TRAIN_STEP },
    };
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(legal); i++)
        for (enum place place = 0; place < PLACES; place++) {
            struct stage s;
            if (!(legal[i].where & BIT(place)))
                continue;
            set_stage(&s, place, legal[i].drop);
            if (place == STEP_RUN)
                copse_monitor_release(&s.monitor);
            OK(call_place(&s));
            assert_null(s.probe);
            clear_stage(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releases_of_what_is_in_use_are_refused),
        cmocka_unit_test(a_schedule_does_not_release_its_train_step),
        cmocka_unit_test(the_last_reference_of_a_strategy_goes_in_its_functions),
        cmocka_unit_test(other_references_go_everywhere),
    };
    return cmocka_run_group_tests(tests, open_logged, close_stages);
}
