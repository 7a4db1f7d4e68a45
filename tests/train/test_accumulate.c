/* SPDX-License-Identifier: MIT */
/* Micro-batches: k of them train like the one large batch, on any number of replicas. */
#include <unistd.h>

#include "tests/rig/train/step_rig.h"
#include "tests/rig/train/train_model.h"

struct job {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
};

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

static struct copse_host_batch rows(size_t first, size_t count)
{
    return rig_kept(
        (struct copse_host_batch){ RIG_XY(MODEL_IN, data_x + first * MODEL_IN, data_y + first),
                                   .count = count, .first = first });
}

static copse_trainer *trainer(struct job *j, uint32_t accumulate, bool check)
{
    copse_trainer *t;
    OK(copse_trainer_create(j->st,
                            &(struct copse_trainer_params){
                                .loss = model_loss,
                                .user = &j->m,
                                .reduction = j->m.is_sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN,
                                .optimizer = { .kind = j->m.is_sum ? COPSE_SGD : COPSE_MOMENTUM,
                                               .learning_rate = 1e-3f },
                                .seed = 3,
                                .check_numerics = check,
                                .accumulate = accumulate },
                            &t));
    return t;
}

static void open_job(struct job *j, size_t replicas, uint32_t accumulate, bool is_sum)
{
    model_data(data_x, data_y);
    *j = (struct job){ .st = rig_strategy(
                           replicas, &(struct copse_strategy_params){ .bucket_bytes = 1024 }) };
    OK(model_create(&j->m, j->st));
    j->m.is_sum = is_sum;
    j->m.dropout = 0.2f;
    j->t = trainer(j, accumulate, false);
}

static void close_job(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

static void values_of(struct job *j, float *values)
{
    for (int i = 0; i < MODEL_VARIABLES; i++) {
        const copse_shape s = copse_variable_shape(j->m.variables[i]);
        OK(copse_variable_read(j->m.variables[i], copse_strategy_replicas(j->st) - 1, values));
        values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
}

/* Two updates from the micro-batches of `sizes`; the results' losses. */
static void run(size_t replicas, const size_t *sizes, uint32_t count, bool is_sum, float *values,
                double *losses)
{
    struct job j;
    struct copse_step_result r;
    open_job(&j, replicas, count, is_sum);
    for (int i = 0; i < 2; i++) {
        size_t first = 0;
        for (uint32_t k = 0; k < count; k++) {
            const struct copse_host_batch batch = rows(first, sizes[k]);
            assert_int_equal(copse_trainer_accumulated(j.t), k);
            if (k > 0) /* not between updates */
                assert_int_equal(copse_trainer_checkpoint(j.t, "/nowhere", NULL),
                                 COPSE_ERR_ARGUMENT);
            OK(copse_trainer_step(j.t, &batch));
            first += sizes[k];
        }
        OK(copse_trainer_result(j.t, true, &r));
        assert_int_equal(r.step, i + 1);
        assert_int_equal(copse_trainer_result(j.t, true, &r), COPSE_ERR_END);
        losses[i] = r.loss;
    }
    values_of(&j, values);
    close_job(&j);
}

static void micro_batches_train_like_the_whole(void **state)
{
    (void)state;
    static const size_t whole[] = { 40 }, even[] = { 10, 10, 10, 10 }, uneven[] = { 19, 2, 7, 12 };
    static float base[2048], other[2048];
    assert_true(model_parameters() <= 2048);
    for (int is_sum = 0; is_sum < 2; is_sum++) {
        double expected[2], losses[2];
        run(1, whole, 1, is_sum, base, expected);
        for (size_t n = 1; n <= 5; n++) {
            run(n, even, 4, is_sum, other, losses);
            const double a = model_distance(base, other);
            rig_near(losses[1], expected[1], 1e-5 * expected[1]);
            run(n, uneven, 4, is_sum, other, losses); /* 2 over 5: three have none */
            const double b = model_distance(base, other);
            rig_near(losses[0], expected[0], 1e-5 * expected[0]);
            printf("  %s, %zu replicas: ||a-b||/||a|| = %.2e even, %.2e uneven\n",
                   is_sum ? "sum" : "mean", n, a, b);
            assert_true(a <= 1e-5 && b <= 1e-5);
        }
    }
}

static void flush_updates_with_what_there_is(void **state)
{
    (void)state;
    static float base[2048], other[2048];
    struct job j;
    struct copse_step_result r;
    open_job(&j, 3, 1, false);
    const struct copse_host_batch all = rows(0, 24), first = rows(0, 16), rest = rows(16, 8);
    OK(copse_trainer_step(j.t, &all));
    OK(copse_trainer_flush(j.t)); /* nothing is there */
    values_of(&j, base);
    close_job(&j);
    open_job(&j, 3, 4, false);
    OK(copse_trainer_step(j.t, &first));
    OK(copse_trainer_evaluate(j.t, &all, &r)); /* does not disturb what is accumulated */
    OK(copse_trainer_step(j.t, &rest));
    assert_int_equal(copse_trainer_result(j.t, true, &r), COPSE_ERR_END);
    OK(copse_trainer_flush(j.t));
    assert_int_equal(copse_trainer_accumulated(j.t), 0);
    OK(copse_trainer_result(j.t, true, &r));
    assert_int_equal(r.step, 1);
    values_of(&j, other);
    printf("  ||a-b||/||a|| = %.2e\n", model_distance(base, other));
    assert_true(model_distance(base, other) <= 1e-5);
    close_job(&j);
}

/* A micro-batch that fails takes those before it along, and nothing else. */
static void failed_micro_batch_drops_what_was_accumulated(void **state)
{
    (void)state;
    static float before[2048], after[2048];
    struct job j;
    struct copse_step_result r;
    open_job(&j, 2, 3, false);
    copse_trainer_release(&j.t);
    j.t = trainer(&j, 3, true);
    const struct copse_host_batch good = rows(0, 16), bad = rows(16, 8);
    for (int i = 0; i < 3; i++)
        OK(copse_trainer_step(j.t, &good));
    OK(copse_trainer_result(j.t, true, &r));
    values_of(&j, before);
    OK(copse_trainer_step(j.t, &good));
    data_x[20 * MODEL_IN] = NAN;
    FAILS(COPSE_ERR_NONFINITE, copse_trainer_step(j.t, &bad), "replica 1");
    data_x[20 * MODEL_IN] = 0.0f;
    assert_int_equal(copse_trainer_accumulated(j.t), 0);
    OK(copse_trainer_step(j.t, &good));
    copse_trainer_cancel(j.t);
    FAILS(COPSE_ERR_CANCELLED, copse_trainer_step(j.t, &good), "cancelled");
    assert_int_equal(copse_trainer_accumulated(j.t), 0);
    values_of(&j, after);
    assert_memory_equal(before, after, model_parameters() * sizeof *before);
    for (int i = 0; i < 3; i++)
        OK(copse_trainer_step(j.t, &good));
    OK(copse_trainer_result(j.t, true, &r));
    assert_int_equal(r.step, 2);
    close_job(&j);
}

/* What was accumulated after a checkpoint is no part of what comes after it. */
static void restored_trainer_has_gathered_nothing(void **state)
{
    (void)state;
    static float once[2048], again[2048];
    char path[64];
    struct job j;
    const struct copse_host_batch stray = rows(100, 24), first = rows(0, 16), rest = rows(16, 8);
    snprintf(path, sizeof path, "/tmp/copse_accumulate_%d.safetensors", (int)getpid());
    open_job(&j, 2, 2, false);
    OK(copse_trainer_checkpoint(j.t, path, NULL));
    OK(copse_trainer_step(j.t, &first));
    OK(copse_trainer_step(j.t, &rest));
    values_of(&j, once);
    OK(copse_trainer_step(j.t, &stray));
    OK(copse_trainer_restore(j.t, path, NULL, NULL));
    assert_int_equal(copse_trainer_accumulated(j.t), 0);
    OK(copse_trainer_step(j.t, &first));
    OK(copse_trainer_step(j.t, &rest));
    values_of(&j, again);
    assert_memory_equal(once, again, model_parameters() * sizeof *once);
    assert_int_equal(copse_trainer_steps(j.t), 1);
    close_job(&j);
    (void)remove(path);
}

static void other_trainers_leave_gathered_gradients_alone(void **state)
{
    (void)state;
    struct job j;
    open_job(&j, 2, 2, false);
    copse_trainer *other = trainer(&j, 1, false);
    const struct copse_host_batch batch = rows(0, 16);
    OK(copse_trainer_step(j.t, &batch));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(other, &batch), "gathers gradients of 'w0'");
    OK(copse_trainer_step(j.t, &batch));
    OK(copse_trainer_step(other, &batch));
    OK(copse_trainer_step(j.t, &batch));
    copse_trainer_release(&j.t); /* takes what it accumulated along */
    OK(copse_trainer_step(other, &batch));
    copse_trainer_release(&other);
    close_job(&j);
}

static void gathering_allocates_nothing(void **state)
{
    (void)state;
    struct copse_memory_stats before = { 0 }, after;
    struct copse_step_result r;
    struct job j;
    open_job(&j, 3, 2, false);
    const struct copse_host_batch batch = rows(0, 16), small = rows(16, 5);
    for (int i = 0; i < 40; i++) {
        if (i == 20)
            copse_context_memory(ctx, &before);
        OK(copse_trainer_step(j.t, &batch));
        OK(copse_trainer_step(j.t, &small));
        OK(copse_trainer_result(j.t, true, &r));
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(after.device_allocations, before.device_allocations);
    close_job(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_train_like_the_whole),
        cmocka_unit_test(flush_updates_with_what_there_is),
        cmocka_unit_test(failed_micro_batch_drops_what_was_accumulated),
        cmocka_unit_test(restored_trainer_has_gathered_nothing),
        cmocka_unit_test(other_trainers_leave_gathered_gradients_alone),
        cmocka_unit_test(gathering_allocates_nothing),
    };
    return cmocka_run_group_tests_name("accumulate", tests, open_context, close_context);
}
