/* SPDX-License-Identifier: MIT */
/* Trainers and tower optimizers sum gradients by the library's exchange. On a strategy with
   cross-device operations of the application they are refused, and such operations are refused on a
   strategy that has trainers. */
#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/parameter_server.h"
#include "tests/rig/value/replica_rig.h"

static copse_tensor *half(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_mul(g, x, copse_variable_tensor(user));
    return copse_mean(g, y, NULL, 0, false);
}

static void losses(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *out)
{
    out->names[0] = "half";
    out->count = 1;
    out->at[0] = half(g, in, user);
}

static copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                          struct copse_model_spec *spec)
{
    (void)rc;
    spec->outputs = copse_value_retain(call->user);
    return COPSE_OK;
}

struct made {
    copse_strategy *st;
    copse_variable *w;
    copse_value *one;
};

static const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = 1 };

static copse_status make_trainer(const struct made *m)
{
    copse_trainer *t;
    COPSE_TRY(copse_trainer_create(
        m->st, &(struct copse_trainer_params){ .loss = half, .user = m->w, .optimizer = sgd }, &t));
    copse_trainer_release(&t);
    return COPSE_OK;
}

static copse_status make_train_step(const struct made *m)
{
    copse_train_step *ts;
    const struct copse_train_step_params p = { .losses = losses, .user = m->w, .optimizer = sgd };
    COPSE_TRY(copse_train_step_create(m->st, &p, &ts));
    copse_train_step_release(&ts);
    return COPSE_OK;
}

static copse_status make_tower(const struct made *m)
{
    copse_tower_optimizer *t;
    COPSE_TRY(copse_tower_create(m->st, &(struct copse_tower_params){ .optimizer = sgd }, &t));
    copse_tower_release(&t);
    return COPSE_OK;
}

static copse_status run_model(const struct made *m)
{
    struct copse_replicated_result out = { .loss = 0 };
    const struct copse_replicated_params p = { .model = model, .user = m->one };
    COPSE_TRY(copse_replicated_run(m->st, &p, COPSE_MODEL_PREDICT, NULL, NULL, &out));
    copse_value_release(&out.outputs);
    return COPSE_OK;
}

static const struct {
    const char *name;
    copse_status (*make)(const struct made *m);
} users[] = { { "trainer", make_trainer },
              { "trainer", make_train_step },
              { "tower optimizer", make_tower },
              { "replicated model", run_model } };

static void strategy_at(int k, struct made *m)
{
    const char *ids[] = { "host:0", "host:0" };
    *m = (struct made){ .st = NULL };
    OK(k == 0   ? copse_one_device_create(ctx, ids[0], NULL, &m->st)
       : k == 1 ? copse_mirrored_create(ctx, ids, 2, NULL, &m->st)
                : copse_parameter_server_create(ctx, NULL, ids, 2, NULL, &m->st));
    OK(copse_variable_create(
        m->st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SCALAR }, &m->w));
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1), (const float[]){ 1 }, &m->one));
}

static void clear(struct made *m)
{
    copse_value_release(&m->one);
    copse_strategy_release(&m->st);
}

static copse_status first(void *user, copse_value *const *values, size_t count, copse_value **out)
{
    (void)user, (void)count;
    *out = copse_value_retain(values[0]);
    return COPSE_OK;
}

static const struct copse_cross_device_params kinds[] = {
    { .kind = COPSE_CROSS_TO_ONE, .accumulate = first },
    { .kind = COPSE_CROSS_HIERARCHICAL },
};

static void strategies_with_operations_train_nothing(void **unused)
{
    (void)unused;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            struct made m;
            copse_cross_device *x;
            strategy_at(k, &m);
            OK(copse_cross_device_create(ctx, &kinds[i], &x));
            OK(copse_strategy_set_cross_device(m.st, x));
            for (size_t u = 0; u < sizeof users / sizeof *users; u++) {
                FAILS(COPSE_ERR_UNSUPPORTED, users[u].make(&m),
                      "does not use the cross-device operations");
                assert_non_null(strstr(copse_last_error(), users[u].name));
            }
            OK(copse_strategy_set_cross_device(m.st, NULL));
            for (size_t u = 0; u < sizeof users / sizeof *users; u++)
                OK(users[u].make(&m));
            copse_cross_device_release(&x);
            clear(&m);
        }
}

static void strategies_that_train_take_no_operations(void **unused)
{
    (void)unused;
    for (int k = 0; k < 3; k++)
        for (int has_tower = 0; has_tower < 2; has_tower++) {
            const struct copse_tower_params tower = { .optimizer = sgd };
            struct made m;
            copse_trainer *t = NULL;
            copse_tower_optimizer *o = NULL;
            copse_cross_device *x;
            strategy_at(k, &m);
            const struct copse_trainer_params p = { .loss = half, .user = m.w, .optimizer = sgd };
            OK(has_tower ? copse_tower_create(m.st, &tower, &o)
                         : copse_trainer_create(m.st, &p, &t));
            OK(copse_cross_device_create(ctx, &kinds[0], &x));
            FAILS(COPSE_ERR_UNSUPPORTED, copse_strategy_set_cross_device(m.st, x),
                  "copse_cross_reduce");
            OK(copse_strategy_set_cross_device(m.st, NULL));
            OK(make_trainer(&m));
            copse_trainer_release(&t);
            copse_tower_release(&o);
            OK(copse_strategy_set_cross_device(m.st, x));
            copse_cross_device_release(&x);
            clear(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strategies_with_operations_train_nothing),
        cmocka_unit_test(strategies_that_train_take_no_operations),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
