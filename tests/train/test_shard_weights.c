/* SPDX-License-Identifier: MIT */
/* Shards in proportion to weights, given or measured: the same training, other examples. */
#include <unistd.h>

#include "copse/distribute/shards.h"

#include "tests/rig/train/step_rig.h"
#include "tests/rig/train/train_model.h"

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

/* Which examples a replica was given is seen by its own loss function. */
struct job {
    struct model m; /* first: it is the loss function's */
    size_t seen[5]; /* by replica: examples of the newest recording */
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct job *j = user;
    j->seen[in->replica] = copse_tensor_shape(rig_x(in)).dims[0];
    return model_loss(g, in, &j->m);
}

static copse_strategy *open_job(struct job *j, size_t replicas, copse_shard_rule sharding,
                                const float *weights, copse_trainer **t)
{
    model_data(data_x, data_y);
    memset(j, 0, sizeof *j);
    copse_strategy *st = rig_strategy(replicas, NULL);
    OK(model_create(&j->m, st));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = loss,
                                                            .user = j,
                                                            .optimizer = { .kind = COPSE_SGD },
                                                            .sharding = sharding,
                                                            .batch_size = 40,
                                                            .shard_weights = weights },
                            t));
    return st;
}

static void steps(struct job *j, copse_trainer *t, size_t count, size_t times, float *values)
{
    for (size_t i = 0; i < times; i++)
        OK(copse_trainer_step(
            t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, data_x, data_y), .count = count }));
    for (int i = 0; i < MODEL_VARIABLES; i++) {
        const copse_shape s = copse_variable_shape(j->m.variables[i]);
        OK(copse_variable_read(j->m.variables[i], 0, values));
        values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
}

static void weighted_shards_train_like_the_whole(void **state)
{
    (void)state;
    static const float weights[5] = { 1.0f, 3.0f, 0.5f, 0.0f, 2.0f };
    static float base[2048], other[2048];
    struct job j;
    copse_trainer *t;
    copse_strategy *st = open_job(&j, 1, COPSE_SHARD_BALANCED, NULL, &t);
    steps(&j, t, 40, 3, base);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    for (size_t n = 1; n <= 5; n++) {
        float got[5];
        bool is_known;
        st = open_job(&j, n, COPSE_SHARD_WEIGHTED, weights, &t);
        steps(&j, t, 40, 3, other);
        printf("  %zu replicas: ||a-b||/||a|| = %.2e\n", n, model_distance(base, other));
        assert_true(model_distance(base, other) <= 1e-5);
        if (n == 2) { /* 10 and 30; the smaller last batch follows: 2 and 7 of 9 */
            assert_true(j.seen[0] == 10 && j.seen[1] == 30);
            steps(&j, t, 9, 1, other);
            assert_true(j.seen[0] == 2 && j.seen[1] == 7);
        }
        OK(copse_trainer_shard_weights(t, got, &is_known));
        assert_true(is_known);
        assert_memory_equal(got, weights, n * sizeof *got);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

static void original_rules_train_like_the_whole(void **state)
{
    (void)state;
    static float base[2048], other[2048];
    struct job j;
    copse_trainer *t;
    copse_strategy *st = open_job(&j, 1, COPSE_SHARD_BALANCED, NULL, &t);
    steps(&j, t, 27, 2, base);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    static const size_t expected[3][4] = { { 7, 7, 7, 6 }, { 7, 7, 7, 6 }, { 10, 10, 7, 0 } };
    for (int split = COPSE_SHARD_BALANCED; split <= COPSE_SHARD_FIXED; split++) {
        st = open_job(&j, 4, (copse_shard_rule)split, NULL, &t);
        steps(&j, t, 27, 2, other);
        assert_true(model_distance(base, other) <= 1e-5);
        assert_memory_equal(j.seen, expected[split], 4 * sizeof *j.seen);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

static void measured_weights_are_frozen_and_can_be_given_back(void **state)
{
    (void)state;
    static float base[2048], other[2048];
    float weights[5], later[5];
    bool is_known;
    struct job j;
    copse_trainer *t;
    struct copse_step_result r;
    copse_strategy *st = open_job(&j, 3, COPSE_SHARD_MEASURED, NULL, &t);
    OK(copse_trainer_shard_weights(t, weights, &is_known));
    assert_false(is_known);
    OK(copse_trainer_evaluate(
        t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, data_x, data_y), .count = 40 },
        &r)); /* measures nothing */
    OK(copse_trainer_shard_weights(t, weights, &is_known));
    assert_false(is_known);
    steps(&j, t, 40, 1, base);
    OK(copse_trainer_shard_weights(t, weights, &is_known));
    assert_true(is_known);
    printf("  weights %g, %g, %g\n", (double)weights[0], (double)weights[1], (double)weights[2]);
    float largest = 0.0f;
    for (int i = 0; i < 3; i++) {
        assert_true(weights[i] > 0.0f);
        largest = fmaxf(largest, weights[i]);
    }
    assert_true(largest == 1.0f);
    steps(&j, t, 40, 2, base);
    OK(copse_trainer_shard_weights(t, later, &is_known));
    assert_memory_equal(weights, later, 3 * sizeof *weights);

    /* They are part of the job: a checkpoint brings them to a trainer that has not measured. */
    char path[64];
    snprintf(path, sizeof path, "/tmp/copse-weights-%ld.safetensors", (long)getpid());
    OK(copse_trainer_checkpoint(t, path, NULL));
    OK(copse_trainer_set_shard_weights(t, (const float[]){ 1.0f, 0.125f, 0.5f }));
    OK(copse_trainer_restore(t, path, NULL, NULL));
    OK(copse_trainer_shard_weights(t, later, &is_known));
    assert_memory_equal(weights, later, 3 * sizeof *weights);
    remove(path);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    for (int i = 0; i < 2; i++) { /* the same bits */
        st = open_job(&j, 3, i ? COPSE_SHARD_MEASURED : COPSE_SHARD_WEIGHTED, i ? NULL : weights,
                      &t);
        if (i)
            OK(copse_trainer_set_shard_weights(t, weights));
        steps(&j, t, 40, 3, other);
        assert_memory_equal(base, other, model_parameters() * sizeof *base);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

static void wrong_weights_are_refused(void **state)
{
    (void)state;
    struct job j;
    copse_trainer *t, *none;
    const float bad[2] = { 1.0f, -1.0f };
    copse_strategy *st = open_job(&j, 2, COPSE_SHARD_BALANCED, NULL, &t);
    struct copse_trainer_params p = { .loss = loss, .user = &j, .sharding = COPSE_SHARD_WEIGHTED };
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &p, &none), "needs them");
    p.shard_weights = bad;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &p, &none), "replica 1 is -1");
    p.sharding = COPSE_SHARD_MEASURED;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &p, &none), "belong to a weighted");
    p.shard_weights = NULL;
    p.sharding = COPSE_SHARD_FIXED;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &p, &none), "batch_size");
    p.sharding = (copse_shard_rule)9;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &p, &none), "split 9");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_set_shard_weights(t, bad), "not weighted");
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighted_shards_train_like_the_whole),
        cmocka_unit_test(original_rules_train_like_the_whole),
        cmocka_unit_test(measured_weights_are_frozen_and_can_be_given_back),
        cmocka_unit_test(wrong_weights_are_refused),
    };
    return cmocka_run_group_tests_name("shard_weights", tests, open_context, close_context);
}
