/* SPDX-License-Identifier: MIT */
/* One trainer, looked at closely: atomic steps, no allocation in a step, results in order, several
   on a strategy, devices that fail. */
#include "tests/rig/train/step_rig.h"

#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/train/train_model.h"

struct fixture {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    float x[MODEL_ROWS * MODEL_IN];
    int32_t y[MODEL_ROWS];
};

static float count_calls(void *user, uint64_t step)
{
    (void)step;
    ++*(unsigned *)user;
    return 0.01f;
}

static struct fixture *fixture_with(copse_context *in, const char *const *devices, size_t count,
                                    const struct copse_strategy_params *strategy,
                                    const struct copse_optimizer_params *optimizer)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    model_data(f->x, f->y);
    OK(copse_mirrored_create(in, devices, count, strategy, &f->st));
    OK(model_create(&f->m, f->st));
    OK(copse_trainer_create(f->st,
                            &(struct copse_trainer_params){
                                .loss = model_loss, .user = &f->m, .optimizer = *optimizer },
                            &f->t));
    return f;
}

static struct fixture *fixture_open(copse_context *in, const char *const *devices, size_t count,
                                    float rate)
{
    const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = rate };
    return fixture_with(in, devices, count, NULL, &sgd);
}

static void fixture_close(struct fixture *f)
{
    copse_trainer_release(&f->t);
    copse_strategy_release(&f->st);
    free(f);
}

static struct copse_host_batch batch_of(const struct fixture *f, size_t count)
{
    return rig_kept((struct copse_host_batch){ RIG_XY(MODEL_IN, f->x, f->y), .count = count });
}

static void step_allocates_nothing_after_warm_up(void **state)
{
    (void)state;
    const char *const devices[3] = { rig_devices[1], rig_devices[2], "host:0" };
    struct fixture *f = fixture_open(ctx, devices, 3, 0.01f);
    const struct copse_host_batch batch = batch_of(f, 32), last = batch_of(f, 11);
    struct copse_step_result result;
    for (int i = 0; i < 20; i++) { /* both batch sizes, and the rings go round */
        OK(copse_trainer_step(f->t, i % 2 ? &batch : &last));
        OK(copse_trainer_result(f->t, true, &result));
    }
    struct copse_memory_stats before, after;
    copse_context_memory(ctx, &before);
    for (int i = 0; i < 50; i++) {
        OK(copse_trainer_step(f->t, i % 5 ? &batch : &last));
        OK(copse_trainer_result(f->t, true, &result));
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(after.device_allocations, before.device_allocations);
    fixture_close(f);
}

static void results_come_in_order_and_evaluation_agrees(void **state)
{
    (void)state;
    const char *const devices[2] = { rig_devices[1], rig_devices[2] };
    struct fixture *f = fixture_open(ctx, devices, 2, 0.05f);
    const struct copse_host_batch batch = batch_of(f, 50);
    struct copse_step_result before, result;
    OK(copse_trainer_evaluate(f->t, &batch, &before));
    assert_string_equal(before.report_names[0], "accuracy");
    for (int i = 0; i < 8; i++)
        OK(copse_trainer_step(f->t, &batch));
    double loss = before.loss;
    for (uint64_t i = 1; i <= 8; i++) {
        OK(copse_trainer_result(f->t, true, &result));
        assert_int_equal(result.step, i);
        if (i == 1)
            assert_true(fabs(result.loss - before.loss) <= 1e-6 * before.loss);
        else
            assert_true(result.loss < loss);
        loss = result.loss;
    }
    assert_int_equal(copse_trainer_result(f->t, true, &result), COPSE_ERR_END);
    fixture_close(f);
}

static void nonfinite_loss_names_its_step(void **state)
{
    (void)state;
    struct fixture *f = fixture_open(ctx, &rig_devices[1], 1, 1e30f);
    const struct copse_host_batch batch = batch_of(f, 50);
    struct copse_step_result result;
    copse_status s = COPSE_OK;
    for (int i = 0; i < 10 && s == COPSE_OK; i++) {
        OK(copse_trainer_step(f->t, &batch));
        s = copse_trainer_result(f->t, true, &result);
    }
    assert_int_equal(s, COPSE_ERR_NONFINITE);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "step %llu", (unsigned long long)result.step);
    assert_non_null(strstr(copse_last_error(), wanted));
    /* Nobody takes results: the step that would drop one that is not finite says so instead. */
    for (s = COPSE_OK; s == COPSE_OK;)
        s = copse_trainer_step(f->t, &batch);
    assert_int_equal(s, COPSE_ERR_NONFINITE);
    fixture_close(f);
}

static void cancelled_step_changes_nothing(void **state)
{
    (void)state;
    struct fixture *f = fixture_open(ctx, &rig_devices[1], 1, 0.1f);
    const struct copse_host_batch batch = batch_of(f, 50);
    struct copse_step_result before, after;
    OK(copse_trainer_evaluate(f->t, &batch, &before));
    copse_trainer_cancel(f->t);
    assert_int_equal(copse_trainer_step(f->t, &batch), COPSE_ERR_CANCELLED);
    OK(copse_trainer_evaluate(f->t, &batch, &after));
    assert_true(before.loss == after.loss);
    OK(copse_trainer_step(f->t, &batch)); /* a cancel stops one step, not the trainer */
    fixture_close(f);
}

static void second_trainer_goes_on_with_the_values(void **state)
{
    (void)state;
    struct fixture *f = fixture_open(ctx, &rig_devices[2], 1, 0.1f);
    const struct copse_host_batch batch = batch_of(f, 50);
    struct copse_step_result before, after;
    OK(copse_trainer_step(f->t, &batch));
    OK(copse_trainer_evaluate(f->t, &batch, &before));
    copse_trainer_release(&f->t);
    OK(copse_trainer_create(
        f->st, &(struct copse_trainer_params){ .loss = model_loss, .user = &f->m }, &f->t));
    OK(copse_trainer_evaluate(f->t, &batch, &after));
    assert_true(before.loss == after.loss);
    fixture_close(f);
}

/* Trainers share values, not slots; variables may be made at any time. */
static void a_strategy_has_several_trainers(void **state)
{
    (void)state;
    struct fixture *f = fixture_open(ctx, &rig_devices[1], 1, 0.1f);
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, f->x, f->y), .count = MODEL_ROWS };
    const struct copse_trainer_params params = { .loss = model_loss, .user = &f->m };
    struct copse_step_result before, after, other;
    copse_variable *v;
    copse_trainer *t;
    float late[3] = { 0 };
    OK(copse_trainer_step(f->t, &batch));
    OK(copse_variable_create(f->st,
                             &(struct copse_variable_params){ .name = "late",
                                                              .shape = COPSE_SHAPE(3),
                                                              .initializer = COPSE_INIT_ONES },
                             &v));
    OK(copse_trainer_create(f->st, &params, &t));
    OK(copse_trainer_evaluate(f->t, &batch, &before));
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_evaluate(f->t, &batch, &after));
    OK(copse_trainer_evaluate(t, &batch, &other));
    assert_true(after.loss < before.loss);
    assert_true(after.loss == other.loss);
    OK(copse_variable_read(v, 0, late)); /* no gradient reaches it */
    assert_true(late[0] == 1.0f && late[2] == 1.0f);
    copse_trainer_release(&t);
    OK(copse_trainer_step(f->t, &batch));
    OK(copse_trainer_evaluate(f->t, &batch, &other));
    assert_true(other.loss < after.loss);
    fixture_close(f);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    struct fixture *f = fixture_open(ctx, &rig_devices[1], 1, 0.1f);
    const struct copse_host_batch empty = { RIG_XY(MODEL_IN, f->x, f->y) };
    assert_int_equal(copse_trainer_step(f->t, &empty), COPSE_ERR_ARGUMENT);
    fixture_close(f);
    copse_strategy *st;
    assert_int_equal(copse_one_device_create(ctx, "opencl:99", NULL, &st), COPSE_ERR_NO_DEVICE);
}

/* One bucket per layer: when the host first waits for a rank, the next segment is queued
   already. */
static void backward_goes_on_while_gradients_travel(void **state)
{
    (void)state;
    static const char *const devices[2] = { "fake:0", "fake:1" };
    const struct copse_optimizer_params sgd = { .kind = COPSE_SGD };
    for (int transfer = COPSE_TRANSFER_SHARED; transfer <= COPSE_TRANSFER_STAGED; transfer++) {
        const struct copse_strategy_params params = { .bucket_bytes = 1024,
                                                      .transfer = (copse_transfer)transfer };
        copse_context *faked;
        fake_reset();
        copse_fake.device_count = 2;
        OK(copse__context_create_with(NULL, fake_backends, &faked));
        struct fixture *f = fixture_with(faked, devices, 2, &params, &sgd);
        const struct copse_host_batch batch = batch_of(f, 50);
        struct copse_step_result result;
        OK(copse_trainer_step(f->t, &batch));
        OK(copse_trainer_result(f->t, true, &result));
        const uint32_t before = fake_calls(0, FAKE_REPLAY);
        fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
        fake_fail(1, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
        assert_int_equal(copse_trainer_step(f->t, &batch), COPSE_ERR_TIMEOUT);
        assert_true(fake_calls(0, FAKE_REPLAY) - before >= 2);
        fake_reset();
        fixture_close(f);
        copse_context_release(&faked);
    }
}

static void schedule_is_asked_once_a_step(void **state)
{
    (void)state;
    unsigned calls = 0;
    const char *const devices[3] = { rig_devices[1], rig_devices[2], "host:0" };
    const struct copse_optimizer_params optimizer = { .schedule = count_calls,
                                                      .schedule_user = &calls };
    struct fixture *f = fixture_with(ctx, devices, 3, NULL, &optimizer);
    const struct copse_host_batch batch = batch_of(f, 50);
    struct copse_step_result result;
    for (int i = 0; i < 5; i++) {
        OK(copse_trainer_step(f->t, &batch));
        OK(copse_trainer_evaluate(f->t, &batch, &result));
    }
    assert_int_equal(calls, 5);
    fixture_close(f);
}

/* A failure at any call of a step ends in an error, not in a hang or a half-applied update. */
static void failed_step_is_reported_and_not_gone_on_with(void **state)
{
    (void)state;
    static const char *const devices[2] = { "fake:0", "fake:1" };
    static const enum fake_fn functions[] = { FAKE_WRITE, FAKE_REPLAY, FAKE_SUBMIT, FAKE_WAIT,
                                              FAKE_READ };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        copse_context *faked;
        struct copse_step_result result;
        fake_reset();
        copse_fake.device_count = 2;
        OK(copse__context_create_with(NULL, fake_backends, &faked));
        struct fixture *f = fixture_open(faked, devices, 2, 0.1f);
        const struct copse_host_batch batch = batch_of(f, 50);
        OK(copse_trainer_step(f->t, &batch));
        OK(copse_trainer_result(f->t, true, &result));
        fake_fail(1, functions[i], 1, COPSE_ERR_DEVICE_LOST, true);
        copse_status s = copse_trainer_step(f->t, &batch);
        if (s == COPSE_OK)
            s = copse_trainer_result(f->t, true, &result);
        assert_int_equal(s, COPSE_ERR_DEVICE_LOST);
        assert_int_equal(copse_trainer_step(f->t, &batch), COPSE_ERR_DEVICE_LOST);
        fake_reset();
        fixture_close(f);
        copse_context_release(&faked);
    }
}

/* Three variables of 48 MiB: more than the 128 MiB that a device binds at once. */
static copse_tensor *large_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *const *w = user, *sum = NULL, *part;
    for (int i = 0; i < 3; i++) {
        part = copse_square(g, w[i]);
        part = copse_sum(g, part, NULL, 0, false);
        if (sum)
            part = copse_add(g, sum, part);
        sum = part;
    }
    part = copse_mean(g, rig_x(in), NULL, 0, false);
    return copse_mul(g, sum, part);
}

static void store_larger_than_a_binding_works(void **state)
{
    (void)state;
    enum { N = 12 << 20 };
    copse_strategy *st;
    copse_trainer *t;
    copse_tensor *w[3];
    copse_variable *v[3];
    struct copse_step_result result;
    const float x = 1.0f;
    float *values = malloc((size_t)N * sizeof *values);
    assert_non_null(values);
    OK(copse_one_device_create(ctx, rig_devices[2], NULL, &st));
    for (int i = 0; i < 3; i++) {
        char name[4] = { 'w', (char)('0' + i), 0 };
        OK(copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = name,
                                                                  .shape = COPSE_SHAPE(N),
                                                                  .initializer = COPSE_INIT_ONES,
                                                                  .scale = 1.0f + (float)i },
                                 &v[i]));
        w[i] = copse_variable_tensor(v[i]);
    }
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = large_loss,
                                .user = w,
                                .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.25f } },
                            &t));
    OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, &x), .count = 1 }));
    OK(copse_trainer_result(t, true, &result));
    assert_true(fabs(result.loss / ((1.0 + 4.0 + 9.0) * N) - 1.0) < 1e-5);
    for (int i = 0; i < 3; i++) { /* w - 0.25 * 2 w = w / 2 */
        OK(copse_variable_read(v[i], 0, values));
        for (int k = 0; k < N; k++)
            if (values[k] != 0.5f * (1.0f + (float)i))
                fail_msg("w%d[%d] = %g", i, k, (double)values[k]);
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_allocates_nothing_after_warm_up),
        cmocka_unit_test(results_come_in_order_and_evaluation_agrees),
        cmocka_unit_test(nonfinite_loss_names_its_step),
        cmocka_unit_test(cancelled_step_changes_nothing),
        cmocka_unit_test(second_trainer_goes_on_with_the_values),
        cmocka_unit_test(a_strategy_has_several_trainers),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(backward_goes_on_while_gradients_travel),
        cmocka_unit_test(schedule_is_asked_once_a_step),
        cmocka_unit_test(failed_step_is_reported_and_not_gone_on_with),
        cmocka_unit_test(store_larger_than_a_binding_works),
    };
    return cmocka_run_group_tests_name("train", tests, open_context, close_context);
}
