/* SPDX-License-Identifier: MIT */
/* Parameter servers of this process: one copy of each variable, several replicas, every
   optimizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"

#include "tests/rig/train/train_model.h"
#include "tests/rig/value/replica_rig.h"

/* Replicas on the host, or on all devices found in turn; variables on the host or on the last
   device. */
static copse_strategy *served(uint32_t replicas, bool is_mixed)
{
    const char *ids[MAX_RANKS];
    copse_strategy *st;
    for (uint32_t r = 0; r < replicas; r++)
        ids[r] = is_mixed ? found[r % found_count] : "host:0";
    const struct copse_strategy_params params = { .parameter_device = is_mixed ? found[0] : NULL };
    OK(copse_parameter_server_create(ctx, NULL, ids, replicas, &params, &st));
    set_links(st);
    assert_int_equal(copse_strategy_kind_of(st), COPSE_STRATEGY_PARAMETER_SERVER);
    assert_string_equal(copse_strategy_name(st), "parameter server");
    assert_int_equal(copse_parameter_servers(st), 1);
    assert_string_equal(copse_parameter_device(st), is_mixed ? found[0] : "host:0");
    return st;
}

static copse_variable *number(copse_strategy *st, const char *name, float value,
                              copse_aggregation aggregation)
{
    copse_variable *v;
    OK(copse_variable_create(st,
                             &(struct copse_variable_params){ .name = name,
                                                              .shape = COPSE_SCALAR,
                                                              .values = &value,
                                                              .is_frozen = true,
                                                              .aggregation = aggregation },
                             &v));
    return v;
}

static float now(copse_variable *v)
{
    float x;
    copse_value *read;
    OK(copse_variable_read(v, 0, &x));
    OK(copse_read(v, &read));
    assert_true(scalar_of(read) == x);
    copse_value_release(&read);
    return x;
}

/* ---- PS-2 ---- */

static copse_status add_chain(copse_replica_context *rc, copse_value *const *args, size_t count,
                              void *user, copse_value **result)
{
    copse_variable *const *v = user;
    copse_value *x, *three = scalar(3.0f);
    (void)rc;
    (void)args;
    (void)count;
    (void)result;
    COPSE_TRY(copse_assign_add(v[0], three));
    for (int i = 1; i < 3; i++) {
        COPSE_TRY(copse_read(v[i - 1], &x));
        COPSE_TRY(copse_assign_add(v[i], x));
        copse_value_release(&x);
    }
    copse_value_release(&three);
    return COPSE_OK;
}

/* One replica writes alone, whatever the aggregation. */
static void ps_2(void **state)
{
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = served(1, mixed);
        copse_variable *v[] = { number(st, "x", 10.0f, COPSE_AGGREGATION_NONE),
                                number(st, "y", 20.0f, COPSE_AGGREGATION_NONE),
                                number(st, "z", 10.0f, COPSE_AGGREGATION_NONE) };
        OK(copse_strategy_run(st, add_chain, NULL, 0, v, NULL));
        assert_true(now(v[0]) == 13.0f);
        assert_true(now(v[1]) == 33.0f);
        assert_true(now(v[2]) == 43.0f);
        copse_strategy_release(&st);
    }
}

/* ---- PS-5: how many parts ---- */

static void ps_5(void **state)
{
    (void)state;
    const copse_shape six = COPSE_SHAPE(6, 1), ten = COPSE_SHAPE(10), wide = COPSE_SHAPE(10, 3);
    assert_int_equal(copse_partition_min_size(six, 4, 2), 2);
    assert_int_equal(copse_partition_min_size(six, 4, 10), 6);
    assert_int_equal(copse_partition_max_size(six, 4, 0), 6);
    assert_int_equal(copse_partition_max_size(six, 4, 2), 2);
    assert_int_equal(copse_partition_max_size(six, 1024, 0), 1);
    assert_int_equal(copse_partition_fixed_shards(ten, 2), 2);
    assert_int_equal(copse_partition_fixed_shards(COPSE_SHAPE(1), 2), 1);
    assert_int_equal(copse_partition_fixed_shards(COPSE_SCALAR, 5), 1);
    /* rows of 12 bytes */
    assert_int_equal(copse_partition_min_size(wide, 13, 0), 5); /* two rows each */
    assert_int_equal(copse_partition_min_size(wide, 37, 0), 2); /* four rows fit twice */
    assert_int_equal(copse_partition_min_size(wide, 1 << 20, 0), 1);
    assert_int_equal(copse_partition_max_size(wide, 37, 0), 4); /* three rows: 3, 3, 2, 2 */
    assert_int_equal(copse_partition_max_size(wide, 1, 0), 10);
    for (uint32_t rows = 1; rows <= 12; rows++)
        for (uint32_t n = 1; n <= rows; n++) {
            uint32_t next = 0, first;
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t have = copse_partition_rows(rows, n, i, &first);
                assert_int_equal(first, next);
                assert_int_equal(have, rows / n + (i < rows % n));
                next += have;
            }
            assert_int_equal(next, rows);
            assert_int_equal(copse_partition_rows(rows, n, n, &first), 0);
        }
}

/* A variable in parts starts with the values of one in one part, joins and splits. */
static void test_parts_are_one_variable(void **state)
{
    (void)state;
    const struct copse_variable_params params = {
        .name = "p", .shape = COPSE_SHAPE(7, 5), .initializer = COPSE_INIT_GLOROT_UNIFORM, .seed = 4
    };
    float whole[35], parts[35];
    for (int mixed = 0; mixed < 2; mixed++)
        for (uint32_t shards = 1; shards <= 9; shards += 2) {
            copse_strategy *st = served(2, mixed), *other = served(1, false);
            copse_partitioned *p;
            copse_variable *v, *const *list;
            copse_value *read;
            size_t count;
            OK(copse_variable_create(other, &params, &v));
            OK(copse_variable_read(v, 0, whole));
            OK(copse_partitioned_create(st, &params, shards, &p));
            copse_partitioned_parts(p, &list, &count);
            assert_int_equal(count, COPSE_MIN(shards, 7));
            OK(copse_partitioned_read(p, &read));
            OK(copse_value_read(read, parts));
            assert_memory_equal(whole, parts, sizeof parts);
            OK(copse_partitioned_assign_sub(p, read));
            copse_value_release(&read);
            OK(copse_partitioned_read(p, &read));
            OK(copse_value_read(read, parts));
            for (int i = 0; i < 35; i++)
                assert_true(parts[i] == 0.0f);
            copse_value_release(&read);
            read = scalar(1.0f);
            FAILS(COPSE_ERR_SHAPE, copse_partitioned_assign(p, read), "[7, 5]");
            copse_value_release(&read);
            copse_partitioned_release(&p);
            copse_strategy_release(&st);
            copse_strategy_release(&other);
        }
    copse_strategy *st = served(1, false);
    copse_partitioned *p;
    FAILS(COPSE_ERR_ARGUMENT, copse_partitioned_create(st, &params, 0, &p), "0 parts");
    copse_strategy_release(&st);
}

/* ---- replicas of one worker ---- */

/* Each of several replicas adds 1: a sum takes all, ONLY_FIRST one of them. */
static void test_replicas_change_together(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 5; n++)
        for (int mixed = 0; mixed < 2; mixed++) {
            copse_strategy *st = served(n, mixed);
            copse_variable *v[] = { number(st, "x", 10.0f, COPSE_AGGREGATION_SUM),
                                    number(st, "y", 30.0f, COPSE_AGGREGATION_ONLY_FIRST_REPLICA) };
            OK(copse_strategy_run(st, add_one, NULL, 0, v, NULL));
            assert_true(now(v[0]) == 10.0f + (float)n);
            assert_true(now(v[1]) == 31.0f);
            copse_strategy_release(&st);
        }
}

static copse_status add_five(copse_strategy *st, copse_value *target, copse_value *const *args,
                             size_t count, void *user, copse_value **result)
{
    (void)st;
    (void)target;
    (void)count;
    (void)result;
    ++*((int **)user)[1];
    return copse_assign_add((copse_variable *)((void **)user)[0], args[0]);
}

/* An update runs once, however many replicas there are; ON_READ and NONE are one variable, too. */
static void test_update_runs_once(void **state)
{
    (void)state;
    for (int s = 0; s <= COPSE_SYNC_ON_READ; s++) {
        copse_strategy *st = served(3, true);
        copse_variable *v;
        int calls = 0;
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = "v",
                                             .shape = COPSE_SCALAR,
                                             .synchronization = (copse_synchronization)s,
                                             .is_frozen = true },
            &v));
        copse_value *five = scalar(5.0f);
        void *user[] = { v, &calls };
        OK(copse_strategy_update(st, v, add_five, &five, 1, user, NULL));
        assert_int_equal(calls, 1);
        assert_true(now(v) == 5.0f);
        copse_value_release(&five);
        copse_strategy_release(&st);
    }
}

/* ---- PS-7, without a cluster ---- */

static copse_status write_alone(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    copse_value *one = scalar(1.0f);
    (void)args;
    (void)count;
    (void)result;
    REFUSED(COPSE_ERR_ARGUMENT, copse_assign_add(user, one), "without an aggregation");
    copse_value_release(&one);
    CHECK(copse_require_replica(rc) == COPSE_OK);
    return COPSE_OK;
}

static void ps_7(void **state)
{
    (void)state;
    const char *ids[] = { "host:0", "host:0" };
    copse_strategy *st, *other = strategy_of(2, false);
    copse_variable *v, *w;
    FAILS(COPSE_ERR_ARGUMENT, copse_parameter_server_create(ctx, NULL, ids, 0, NULL, &st),
          "0 replicas");
    FAILS(COPSE_ERR_NO_DEVICE,
          copse_parameter_server_create(
              ctx, NULL, ids, 2, &(struct copse_strategy_params){ .parameter_device = "host:9" },
              &st),
          "host:9");
    st = served(2, false);
    v = number(st, "v", 1.0f, COPSE_AGGREGATION_NONE);
    OK(copse_strategy_run(st, write_alone, NULL, 0, v, NULL));
    assert_true(now(v) == 1.0f);

    /* a device of another worker */
    copse_value *parts[] = { scalar_on(st, 0, 1.0f), scalar_on(st, 1, 2.0f) };
    copse_value *each = per_replica(st, parts), *sum = NULL, *both = NULL;
    const uint32_t far = 2;
    FAILS(COPSE_ERR_ARGUMENT,
          copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, each,
                                   &(struct copse_destinations){ .ranks = &far, .count = 1 }, &sum),
          "no replica 2 of 2");

    /* updates of several components, of nothing, and of another strategy's variable */
    int calls = 0;
    void *user[] = { v, &calls };
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update(st, v, add_five, &each, 1, user, NULL),
          "runs once");
    OK(copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, each, NULL, &both));
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update(st, v, add_five, &both, 1, user, NULL),
          "runs once");
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update(st, NULL, add_five, NULL, 0, user, NULL),
          "no variable, it is NULL");
    w = number(other, fresh("w"), 1.0f, COPSE_AGGREGATION_NONE);
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_update(st, w, add_five, NULL, 0, user, NULL),
          "another strategy");
    assert_int_equal(calls, 0);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_variable_create(st,
                                &(struct copse_variable_params){
                                    .name = "u", .shape = COPSE_SCALAR, .colocate_with = w },
                                &v),
          "another strategy");
    assert_int_equal(copse_variable_server(w), COPSE_NO_SERVER);
    assert_int_equal(copse_parameter_servers(other), 0);
    assert_null(copse_parameter_device(other));
    copse_value_release(&each);
    copse_value_release(&both);
    copse_strategy_release(&st);
}

/* ---- training ---- */

static struct run mixture(uint32_t replicas, copse_optimizer_kind kind)
{
    struct run r = { .device_count = replicas,
                     .steps = 50,
                     .batch = 32,
                     .optimizer = { .kind = kind },
                     .is_served = true };
    for (uint32_t i = 0; i < replicas; i++)
        r.devices[i] = found[i % found_count];
    return r;
}

/* 50 steps with replicas on different devices against one device. */
static void test_training(void **state)
{
    static const copse_optimizer_kind kinds[] = { COPSE_ADAM, COPSE_SGD, COPSE_NESTEROV };
    size_t n;
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(kinds); k++) {
        const struct run alone = { .steps = 50, .batch = 32, .optimizer = { .kind = kinds[k] } };
        float *one = run_model(ctx, &alone, &n);
        assert_non_null(one);
        for (uint32_t replicas = 1; replicas <= 3; replicas++)
            for (uint32_t where = replicas == 2 ? 0 : found_count; where <= found_count; where++) {
                struct run r = mixture(replicas, kinds[k]);
                r.strategy.parameter_device = where < found_count ? found[where] : NULL;
                r.strategy.bucket_bytes = replicas == 3 ? 1024 : 0;
                float *many = run_model(ctx, &r, &n);
                assert_non_null(many);
                const double far = model_distance(one, many);
                if (!(far <= 1e-5))
                    fail_msg("%u replicas, variables on %s: %g", replicas,
                             r.strategy.parameter_device ? r.strategy.parameter_device : "host:0",
                             far);
                free(many);
            }
        free(one);
    }
}

/* On the host alone nothing differs from one device but where things stand: the same bits. */
static void test_same_bits_on_the_host(void **state)
{
    size_t n, m;
    (void)state;
    struct run r = { .steps = 20, .batch = 32 };
    float *one = run_model(ctx, &r, &n);
    r.is_served = true;
    float *served_one = run_model(ctx, &r, &m);
    assert_non_null(one);
    assert_non_null(served_one);
    assert_int_equal(n, m);
    assert_memory_equal(one, served_one, n * sizeof *one);
    free(one);
    free(served_one);
}

/* ---- checkpoints, and what training reads ---- */

struct trained {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
};

static void begin(struct trained *x, bool is_served, uint32_t replicas)
{
    *x = (struct trained){ .st = NULL };
    const char *ids[MAX_RANKS];
    for (uint32_t r = 0; r < replicas; r++)
        ids[r] = "host:0";
    if (is_served)
        OK(copse_parameter_server_create(ctx, NULL, ids, replicas, NULL, &x->st));
    else
        OK(copse_mirrored_create(ctx, ids, replicas, NULL, &x->st));
    OK(model_create(&x->m, x->st));
    OK(copse_trainer_create(
        x->st, &(struct copse_trainer_params){ .loss = model_loss, .user = &x->m, .seed = 3 },
        &x->t));
}

static void end(struct trained *x)
{
    copse_trainer_release(&x->t);
    copse_strategy_release(&x->st);
}

static float examples[MODEL_ROWS * MODEL_IN];
static int32_t classes[MODEL_ROWS];

static double steps(struct trained *x, uint32_t first, uint32_t count)
{
    struct copse_step_result result = { 0 };
    model_data(examples, classes);
    for (uint32_t i = first; i < first + count; i++) {
        const size_t row = (size_t)i * 32 % (MODEL_ROWS - 32);
        OK(copse_trainer_step(
            x->t, &(struct copse_host_batch){
                      RIG_XY(MODEL_IN, examples + row * MODEL_IN, classes + row), .count = 32 }));
        OK(copse_trainer_result(x->t, true, &result));
    }
    return result.loss;
}

static void assert_same(struct trained *a, struct trained *b)
{
    static float x[4096], y[4096];
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        const copse_shape s = copse_variable_shape(a->m.variables[v]);
        size_t n = s.dims[0];
        for (uint32_t d = 1; d < s.rank; d++)
            n *= s.dims[d];
        assert_true(n <= COPSE_COUNT(x));
        OK(copse_variable_read(a->m.variables[v], 0, x));
        OK(copse_variable_read(b->m.variables[v], 0, y));
        assert_memory_equal(x, y, n * sizeof *x);
    }
}

/* A checkpoint is the same file whatever the strategy: a run goes on from either with the same
   bits. */
static void test_checkpoints(void **state)
{
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "/tmp/copse_ps_%d.safetensors", (int)getpid());
    for (int from = 0; from < 2; from++) {
        struct trained whole, first, then;
        begin(&whole, true, 2);
        begin(&first, from == 0, 2);
        begin(&then, true, 2);
        steps(&whole, 0, 12);
        steps(&first, 0, 7);
        OK(copse_trainer_checkpoint(first.t, path, NULL));
        steps(&then, 0, 3); /* slots and counts that must go */
        OK(copse_trainer_restore(then.t, path, NULL, NULL));
        assert_int_equal(copse_trainer_steps(then.t), 7);
        steps(&then, 7, 5);
        assert_same(&whole, &then);
        end(&whole);
        end(&first);
        end(&then);
    }
    unlink(path);
}

/* What changes a variable between steps is seen by the next one, and evaluation reads the
   newest. */
static void test_changes_reach_the_replicas(void **state)
{
    (void)state;
    struct trained a, b;
    begin(&a, true, 2);
    begin(&b, false, 2);
    static float bias[MODEL_CLASSES] = { 3.0f, -1.0f };
    steps(&a, 0, 3);
    steps(&b, 0, 3);
    OK(copse_variable_assign(a.m.variables[5], bias));
    OK(copse_variable_assign(b.m.variables[5], bias));
    struct copse_step_result one, two;
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, examples, classes), .count = 32 };
    OK(copse_trainer_evaluate(a.t, &batch, &one));
    OK(copse_trainer_evaluate(b.t, &batch, &two));
    assert_true(one.loss == two.loss);
    assert_true(steps(&a, 3, 4) == steps(&b, 3, 4));
    assert_same(&a, &b);
    end(&a);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ps_2),
        cmocka_unit_test(test_replicas_change_together),
        cmocka_unit_test(test_update_runs_once),
        cmocka_unit_test(ps_5),
        cmocka_unit_test(test_parts_are_one_variable),
        cmocka_unit_test(ps_7),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_same_bits_on_the_host),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_changes_reach_the_replicas),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
