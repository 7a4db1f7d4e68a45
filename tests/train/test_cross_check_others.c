/* SPDX-License-Identifier: MIT */
/* Cross-checks of parameter servers and of tower optimizers: a wrong kernel of an update or of a
   loss function is found before a variable changes. Devices are fakes whose kernels are the host
   functions. */
#include "copse/compat/replicated.h"
#include "copse/distribute/parameter_server.h"
#include "copse/ops.h"
#include "tests/rig/train/watch_rig.h"

/* ---- parameter servers: the replica is fake:0, the variables are on fake:1 ---- */

static void open_served(struct job *j, copse_optimizer_kind kind,
                        const struct copse_audit_params *audit)
{
    static const char *const replicas[] = { "fake:0" };
    const struct copse_trainer_params p = {
        .loss = model_loss,
        .user = &j->m,
        .optimizer = { .kind = kind, .learning_rate = 1e-2f },
        .seed = 3,
    };
    *j = (struct job){ .st = NULL };
    OK(copse_parameter_server_create(
        ctx, NULL, replicas, 1, &(struct copse_strategy_params){ .parameter_device = "fake:1" },
        &j->st));
    OK(model_create(&j->m, j->st));
    OK(copse_trainer_create(j->st, &p, &j->t));
    OK(copse_trainer_audit(j->t, audit));
}

static void wrong_updates_of_servers_are_found(void **state)
{
    static const struct {
        copse_optimizer_kind kind;
        const char *kernel;
        uint32_t from;
    } rows[] = {
        { COPSE_SGD, "sgd", 0 },
        { COPSE_ADAM, "adam", 600 },
        { COPSE_MOMENTUM, "momentum", 639 },
    };
    static float before[2048], after[2048];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job j;
        copse_fake.devices[1].cut = rows[i].kernel;
        copse_fake.devices[1].cut_from = rows[i].from;
        open_served(&j, rows[i].kind, NULL);
        read_values(&j, before);
        const copse_status s = step(&j, 0);
        const char *text = copse_last_error();
        if (s != COPSE_ERR_UNRELIABLE || !strstr(text, rows[i].kernel) || !strstr(text, "fake:1") ||
            !strstr(text, "parameter server") || !strstr(text, "'w0'") || strchr(text, '\n'))
            fail_msg("%s: %s: %s", rows[i].kernel, copse_status_name(s), text);
        close_job(&j);
        copse_fake.devices[1].cut = NULL;
        open_served(&j, rows[i].kind, NULL); /* the same initial values */
        read_values(&j, after);
        assert_memory_equal(before, after, model_parameters() * sizeof *before);
        OK(step(&j, 0));
        close_job(&j);
        end(NULL);
        begin(NULL);
    }
}

static void values_of_servers_keep_their_bits(void **state)
{
    static float with[2048], without[2048];
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct job j;
        open_served(&j, COPSE_ADAM, &(struct copse_audit_params){ .is_cross_check_off = k });
        for (uint64_t i = 0; i < 3; i++)
            OK(step(&j, i));
        read_values(&j, k ? without : with);
        close_job(&j);
    }
    assert_memory_equal(with, without, model_parameters() * sizeof *with);
}

static void servers_are_not_checked_without_cross_checks(void **state)
{
    struct job j;
    (void)state;
    copse_fake.devices[1].cut = "adam";
    open_served(&j, COPSE_ADAM, &(struct copse_audit_params){ .is_cross_check_off = true });
    OK(step(&j, 0));
    close_job(&j);
}

/* ---- tower optimizers ---- */

#define COUNT 300u

struct towers {
    copse_strategy *st;
    copse_variable *v;
    copse_tower_optimizer *o;
};

static copse_tensor *product_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *t = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_mul(g, x, copse_variable_tensor(t->v));
    y = copse_tanh(g, y);
    return copse_sum(g, y, NULL, 0, false);
}

static copse_status train_towers(copse_replica_context *rc, const struct copse_model_call *call,
                                 struct copse_model_spec *spec)
{
    struct towers *t = call->user;
    const struct copse_tower_loss of = { .loss = product_loss, .user = t, .x = call->features };
    (void)rc;
    return copse_tower_minimize(t->o, &of, &t->v, 1, true, &spec->loss);
}

static void open_towers(struct towers *t, size_t replicas, bool no_cross_check)
{
    static const char *const devices[] = { "fake:0", "fake:1" };
    const struct copse_tower_params p = { .optimizer = { .kind = COPSE_MOMENTUM,
                                                         .learning_rate = 0.1f },
                                          .no_cross_check = no_cross_check };
    *t = (struct towers){ .st = NULL };
    OK(copse_mirrored_create(ctx, devices, replicas, NULL, &t->st));
    OK(copse_variable_create(t->st,
                             &(struct copse_variable_params){ .name = "v",
                                                              .shape = COPSE_SHAPE(COUNT),
                                                              .initializer = COPSE_INIT_HE_NORMAL,
                                                              .seed = 5 },
                             &t->v));
    OK(copse_tower_create(t->st, &p, &t->o));
}

static copse_status run_towers(struct towers *t)
{
    static float x[2 * COUNT];
    const struct copse_replicated_params p = { train_towers, t, COPSE_LOSS_MEAN };
    struct copse_replicated_result result = { 0 };
    copse_value *features;
    for (size_t i = 0; i < 2 * COUNT; i++)
        x[i] = (float)(i % 17) / 8.0f - 1.0f;
    OK(copse_value_create(ctx, COPSE_F32,
                          COPSE_SHAPE((uint32_t)copse_strategy_replicas(t->st) * COUNT), x,
                          &features));
    const copse_status s =
        copse_replicated_run(t->st, &p, COPSE_MODEL_TRAIN, features, NULL, &result);
    copse_value_release(&features);
    return s;
}

static void close_towers(struct towers *t)
{
    copse_tower_release(&t->o);
    copse_strategy_release(&t->st);
}

static void wrong_launches_of_towers_are_found(void **state)
{
    static const struct {
        const char *kernel, *what;
    } rows[] = {
        { "binary", "kernel binary " },          { "unary", "kernel unary " },
        { "unary_grad", "kernel unary_grad " },  { "reduce", "kernel reduce " },
        { "momentum", "the new values of 'v'" },
    };
    static float before[COUNT], after[COUNT];
    (void)state;
    for (size_t n = 1; n <= 2; n++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct towers t;
            /* the first replica owns all of v */
            const size_t at = strcmp(rows[i].kernel, "momentum") == 0 ? 0 : n - 1;
            copse_fake.devices[at].cut = rows[i].kernel;
            open_towers(&t, n, false);
            OK(copse_variable_read(t.v, 0, before));
            const copse_status s = run_towers(&t);
            const char *text = copse_last_error();
            if (s != COPSE_ERR_UNRELIABLE || !strstr(text, rows[i].what) ||
                !strstr(text, at == 0 ? "fake:0" : "fake:1") || !strstr(text, "step 1"))
                fail_msg("%s, %zu replicas: %s: %s", rows[i].kernel, n, copse_status_name(s), text);
            OK(copse_variable_read(t.v, 0, after));
            assert_memory_equal(before, after, sizeof before);
            close_towers(&t);
            end(NULL);
            begin(NULL);
        }
}

static void values_of_towers_keep_their_bits(void **state)
{
    static float values[2][COUNT];
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct towers t;
        open_towers(&t, 2, k);
        for (int i = 0; i < 3; i++)
            OK(run_towers(&t));
        OK(copse_variable_read(t.v, 1, values[k]));
        close_towers(&t);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
}

static void towers_are_not_checked_where_that_is_off(void **state)
{
    struct towers t;
    (void)state;
    copse_fake.devices[0].cut = "unary";
    open_towers(&t, 1, true);
    OK(run_towers(&t));
    close_towers(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_updates_of_servers_are_found, begin, end),
        cmocka_unit_test_setup_teardown(values_of_servers_keep_their_bits, begin, end),
        cmocka_unit_test_setup_teardown(servers_are_not_checked_without_cross_checks, begin, end),
        cmocka_unit_test_setup_teardown(wrong_launches_of_towers_are_found, begin, end),
        cmocka_unit_test_setup_teardown(values_of_towers_keep_their_bits, begin, end),
        cmocka_unit_test_setup_teardown(towers_are_not_checked_where_that_is_off, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
