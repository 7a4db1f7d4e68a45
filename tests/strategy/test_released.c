/* SPDX-License-Identifier: MIT */
/* Handles of variables whose strategy was released: every function that takes one refuses it by its
   name. Under the address sanitizer nothing that was freed is read. */
#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/parameter_server.h"
#include "copse/ops.h"
#include "copse/train/slots.h"
#include "copse/train/update.h"
#include "tests/rig/graph_rig.h"
#include "tests/rig/value/replica_rig.h"

struct stage {
    copse_strategy *st; /* another one, which lives */
    copse_variable *v;  /* of the one that was released */
    copse_variable *w;  /* of `st` */
    copse_value *one, *slices;
    copse_graph *g;
    copse_trainer *t;
    copse_tower_optimizer *tower;
    float room[4];
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    return copse_dense(g, x, copse_variable_tensor(user), NULL, COPSE_LINEAR);
}

static struct copse_trainer_params params_of(copse_variable *v)
{
    return (struct copse_trainer_params){
        .loss = loss, .user = v, .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f }
    };
}

static copse_status made(copse_status s, copse_value **v)
{
    copse_value_release(v);
    return s;
}

/* ---- every function that takes a variable ---- */

static copse_status read_component(struct stage *s)
{
    return copse_variable_read(s->v, 0, s->room);
}
static copse_status assign_all(struct stage *s)
{
    return copse_variable_assign(s->v, s->room);
}
static copse_status assign(struct stage *s)
{
    return copse_assign(s->v, s->one);
}
static copse_status assign_add(struct stage *s)
{
    return copse_assign_add(s->v, s->one);
}
static copse_status assign_sub(struct stage *s)
{
    return copse_assign_sub(s->v, s->one);
}
static copse_status scatter_add(struct stage *s)
{
    return copse_scatter_add(s->v, s->slices);
}
static copse_status scatter_sub(struct stage *s)
{
    return copse_scatter_sub(s->v, s->slices);
}
static copse_status scatter_update(struct stage *s)
{
    return copse_scatter_update(s->v, s->slices);
}
static copse_status scatter_mul(struct stage *s)
{
    return copse_scatter_mul(s->v, s->slices);
}
static copse_status scatter_div(struct stage *s)
{
    return copse_scatter_div(s->v, s->slices);
}
static copse_status scatter_min(struct stage *s)
{
    return copse_scatter_min(s->v, s->slices);
}
static copse_status scatter_max(struct stage *s)
{
    return copse_scatter_max(s->v, s->slices);
}

static copse_status read_value(struct stage *s)
{
    copse_value *out;
    return made(copse_read(s->v, &out), &out);
}

static copse_status variable_value(struct stage *s)
{
    copse_value *out;
    return made(copse_variable_value(s->v, &out), &out);
}

static copse_status update_nothing(copse_strategy *st, copse_value *target,
                                   copse_value *const *args, size_t count, void *user,
                                   copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

static copse_status update(struct stage *s)
{
    return copse_strategy_update(s->st, s->v, update_nothing, NULL, 0, NULL, NULL);
}

static copse_status colocate(struct stage *s)
{
    copse_variable *out;
    const struct copse_variable_params p = { .name = fresh("beside"),
                                             .shape = COPSE_SCALAR,
                                             .colocate_with = s->v };
    return copse_variable_create(s->st, &p, &out);
}

static copse_status train_it(struct stage *s)
{
    copse_trainer *t;
    struct copse_trainer_params p = params_of(s->w);
    p.variables = &s->v;
    p.variable_count = 1;
    return copse_trainer_create(s->st, &p, &t);
}

static copse_status loss_with_it(struct stage *s)
{
    const float x[2] = { 1, 2 };
    copse_trainer *t;
    const struct copse_trainer_params p = params_of(s->v);
    OK(copse_trainer_create(s->st, &p, &t));
    const copse_status got = copse_trainer_step(
        t, &(struct copse_host_batch){ COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }),
                                       .count = 1 });
    copse_trainer_release(&t);
    return got;
}

static copse_status operand(struct stage *s)
{
    return rig_failure(s->g,
                       copse_add(s->g, copse_variable_tensor(s->v), copse_variable_tensor(s->w)));
}

static copse_status gradients(struct stage *s)
{
    copse_tensor *y, *x = copse_variable_tensor(s->v), *dx;
    y = copse_square(s->g, copse_variable_tensor(s->w));
    copse_gradients(s->g, y, y, &x, 1, &dx);
    return copse__graph_take_failure(s->g);
}

static copse_status graph_update(struct stage *s)
{
    copse_update(s->g, s->v, copse_variable_tensor(s->w));
    return copse__graph_take_failure(s->g);
}
static copse_status report(struct stage *s)
{
    copse_report(s->g, "w", copse_variable_tensor(s->v));
    return copse__graph_take_failure(s->g);
}

static copse_status summary(struct stage *s)
{
    struct copse_gradient_summary out;
    return copse_trainer_gradient(s->t, s->v, 0, &out);
}

static copse_status multiply(struct stage *s)
{
    const struct copse_multiplier factor = { s->v, 2 };
    struct copse_gradient pair = { copse_variable_tensor(s->w), s->w };
    copse_gradients_multiply(s->g, &pair, 1, &factor, 1);
    return copse__graph_take_failure(s->g);
}

static copse_status trainer_slot(struct stage *s)
{
    return copse_trainer_slot(s->t, s->v, "m", s->room);
}

static copse_status metrics(struct stage *s)
{
    return copse_metrics_reduce(s->st, &s->v, 1);
}

static copse_status tower_slot(struct stage *s)
{
    copse_value *out;
    return made(copse_tower_slot(s->tower, s->v, "m", &out), &out);
}

static copse_status apply_in_replica(copse_replica_context *rc, copse_value *const *args,
                                     size_t count, void *user, copse_value **result)
{
    struct stage *s = user;
    const struct copse_tower_gradient pair = { s->one, s->v };
    (void)rc, (void)args, (void)count, (void)result;
    return copse_tower_apply(s->tower, &pair, 1, true);
}

static copse_status minimize_in_replica(copse_replica_context *rc, copse_value *const *args,
                                        size_t count, void *user, copse_value **result)
{
    struct stage *s = user;
    copse_value *out;
    const struct copse_tower_loss of = { .loss = loss, .user = s->w, .x = s->one };
    (void)rc, (void)args, (void)count, (void)result;
    return made(copse_tower_minimize(s->tower, &of, &s->v, 1, true, &out), &out);
}

static copse_status tower_apply(struct stage *s)
{
    return copse_strategy_run(s->st, apply_in_replica, NULL, 0, s, NULL);
}

static copse_status tower_minimize(struct stage *s)
{
    return copse_strategy_run(s->st, minimize_in_replica, NULL, 0, s, NULL);
}

static const struct {
    const char *name;
    copse_status (*call)(struct stage *s);
} calls[] = {
    { "copse_variable_read", read_component },
    { "copse_variable_assign", assign_all },
    { "copse_assign", assign },
    { "copse_assign_add", assign_add },
    { "copse_assign_sub", assign_sub },
    { "copse_scatter_add", scatter_add },
    { "copse_scatter_sub", scatter_sub },
    { "copse_scatter_update", scatter_update },
    { "copse_scatter_mul", scatter_mul },
    { "copse_scatter_div", scatter_div },
    { "copse_scatter_min", scatter_min },
    { "copse_scatter_max", scatter_max },
    { "copse_read", read_value },
    { "copse_variable_value", variable_value },
    { "copse_strategy_update", update },
    { "colocate_with", colocate },
    { "a trainer of it", train_it },
    { "a loss function that uses it", loss_with_it },
    { "an operand", operand },
    { "copse_gradients", gradients },
    { "copse_report", report },
    { "copse_update", graph_update },
    { "copse_trainer_gradient", summary },
    { "copse_trainer_slot", trainer_slot },
    { "copse_gradients_multiply", multiply },
    { "copse_metrics_reduce", metrics },
    { "copse_tower_slot", tower_slot },
    { "copse_tower_apply", tower_apply },
    { "copse_tower_minimize", tower_minimize },
};

/* ---- stages ---- */

static copse_variable *variable(copse_strategy *st, const char *name)
{
    const float values[2] = { 1, 2 };
    copse_variable *v;
    const struct copse_variable_params p = { .name = name,
                                             .shape = COPSE_SHAPE(2, 1),
                                             .values = values };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static copse_strategy *two_replicas(void)
{
    copse_strategy *st;
    OK(copse_mirrored_create(ctx, (const char *[]){ "host:0", "host:0" }, 2, NULL, &st));
    return st;
}

static void set(struct stage *s, copse_strategy *st)
{
    const int32_t row = 0;
    const float values[2] = { 1, 1 };
    const struct copse_sparse_params slices = { COPSE_SHAPE(2, 1), 1, &row, values };
    const struct copse_tower_params tower = { .optimizer = { .kind = COPSE_ADAM,
                                                             .learning_rate = 0.1f } };
    struct copse_trainer_params p;
    *s = (struct stage){ .st = st, .w = variable(st, "w") };
    p = params_of(s->w);
    p.summarize_gradients = true;
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2, 1), values, &s->one));
    OK(copse_value_sparse(ctx, &slices, &s->slices));
    OK(copse_graph_create(ctx, &s->g));
    OK(copse_trainer_create(st, &p, &s->t));
    OK(copse_tower_create(st, &tower, &s->tower));
}

static void clear(struct stage *s)
{
    copse_value_release(&s->one);
    copse_value_release(&s->slices);
    copse_graph_release(&s->g);
    copse_trainer_release(&s->t);
    copse_tower_release(&s->tower);
    copse_strategy_release(&s->st);
}

/* A trained variable, in the store or not yet; or one that is not trained. */
static copse_variable *outlive(bool is_placed, bool is_frozen)
{
    const float x[2] = { 1, 2 };
    copse_strategy *st = two_replicas();
    const struct copse_variable_params p = { .name = "outlives its strategy",
                                             .shape = COPSE_SHAPE(2, 1),
                                             .is_frozen = is_frozen };
    copse_variable *v;
    OK(copse_variable_create(st, &p, &v));
    if (is_placed) {
        struct copse_trainer_params tp = params_of(variable(st, "beside"));
        copse_trainer *t;
        OK(copse_trainer_create(st, &tp, &t));
        OK(copse_trainer_step(
            t, &(struct copse_host_batch){ COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }),
                                           .count = 1 }));
        copse_trainer_release(&t);
    }
    copse_strategy_release(&st);
    assert_null(st);
    return v;
}

static void variables_of_released_strategies_are_refused(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < 3; kind++) {
        struct stage s;
        copse_strategy *st = two_replicas();
        set(&s, st);
        s.v = outlive(kind == 1, kind == 2);
        for (size_t i = 0; i < COPSE_COUNT(calls); i++) {
            const copse_status got = calls[i].call(&s);
            if (got != COPSE_ERR_ARGUMENT ||
                !strstr(copse_last_error(), "'outlives its strategy'") ||
                (!strstr(copse_last_error(), "was released") && calls[i].call != multiply))
                fail_msg("%s: %s, %s", calls[i].name, copse_status_name(got), copse_last_error());
        }
        clear(&s);
    }
}

/* What a variable tells about itself is of no strategy. */
static void they_still_tell_what_they_were(void **unused)
{
    copse_variable *v = outlive(true, false);
    char name[64];
    (void)unused;
    assert_string_equal(copse_variable_name(v), "outlives its strategy");
    assert_int_equal(copse_variable_shape(v).rank, 2);
    assert_int_equal(copse_variable_type(v), COPSE_F32);
    assert_int_equal(copse_variable_synchronization(v), COPSE_SYNC_ON_WRITE);
    assert_int_equal(copse_variable_aggregation(v), COPSE_AGGREGATION_NONE);
    assert_true(copse_variable_is_trained(v));
    assert_int_equal(copse_tensor_shape(copse_variable_tensor(v)).rank, 2);
    assert_int_equal(copse_variable_server(v), COPSE_NO_SERVER);
    copse_variable_component_name(v, 1, name, sizeof name);
    assert_string_equal(name, "outlives its strategy/replica_1");
}

/* A handle that is refused becomes a younger variable's only after 63 others, and memory does not
   grow. */
static void new_variables_have_new_handles(void **unused)
{
    copse_variable *old[64];
    struct copse_memory_stats before, after;
    (void)unused;
    copse_context_memory(ctx, &before);
    for (size_t i = 0; i < 5 * COPSE_COUNT(old); i++) {
        copse_variable *v = outlive(false, false);
        for (size_t k = 0; k < COPSE_MIN(i, COPSE_COUNT(old) - 1); k++)
            assert_ptr_not_equal(old[(i - 1 - k) % COPSE_COUNT(old)], v);
        old[i % COPSE_COUNT(old)] = v;
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.live_blocks, before.live_blocks);
}

/* A graph keeps what it needs of a variable to name it. */
static void a_graph_outlives_its_variables(void **unused)
{
    copse_strategy *st = two_replicas();
    copse_variable *v = variable(st, "short-lived");
    copse_graph *g;
    copse_function *f;
    copse_device *dev;
    (void)unused;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *y = copse_square(g, copse_variable_tensor(v));
    copse_strategy_release(&st);
    OK(copse_device_open(ctx, "host:0", NULL, &dev));
    FAILS(COPSE_ERR_ARGUMENT,
          copse_function_create(
              dev, &(struct copse_function_params){ .graph = g, .outputs = &y, .output_count = 1 },
              &f),
          "short-lived");
    copse_graph_release(&g);
    copse_device_release(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_released_strategies_are_refused),
        cmocka_unit_test(they_still_tell_what_they_were),
        cmocka_unit_test(new_variables_have_new_handles),
        cmocka_unit_test(a_graph_outlives_its_variables),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
