/* SPDX-License-Identifier: MIT */
/* When the host waits for a device in a training step: never with one replica, unless a setting
   needs a number of the step. README.md, "What it guarantees", and copse/optimizer.h name these
   settings. */
#include "tests/rig/fake/faulty_job.h"

/* Train a step, then begin another one on a device that is slow. Returns how often the host waited
   in the latter. */
static uint32_t waits_of_a_step(struct copse_trainer_params params)
{
    struct copse_step_result result;
    job_begin(1, NULL);
    OK(copse_one_device_create(job.ctx, "fake:0", NULL, &job.st));
    OK(model_create(&job.m, job.st));
    params.loss = model_loss;
    params.user = &job.m;
    OK(copse_trainer_create(job.st, &params, &job.t));
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, job.x, job.y), .count = BATCH };
    OK(copse_trainer_step(job.t, &batch));
    OK(copse_trainer_result(job.t, true, &result));
    copse_fake.devices[0].delay_ns = 20000000;
    const uint32_t before = fake_calls(0, FAKE_WAIT);
    OK(copse_trainer_step(job.t, &batch));
    const uint32_t waits = fake_calls(0, FAKE_WAIT) - before;
    OK(copse_trainer_result(job.t, true, &result));
    job_end();
    return waits;
}

static void one_replica_waits_for_nothing(void **state)
{
    (void)state;
    assert_int_equal(waits_of_a_step((struct copse_trainer_params){ 0 }), 0);
    assert_int_equal(
        waits_of_a_step((struct copse_trainer_params){ .optimizer = { .kind = COPSE_ADAM } }), 0);
}

static void norms_scales_and_checks_make_the_host_wait(void **state)
{
    (void)state;
    assert_true(waits_of_a_step((struct copse_trainer_params){ .optimizer.clip_global_norm = 1 }) >
                0);
    assert_true(waits_of_a_step((struct copse_trainer_params){ .optimizer.loss_scale = 8 }) > 0);
    assert_true(waits_of_a_step((struct copse_trainer_params){ .precision = COPSE_F16 }) > 0);
    assert_true(waits_of_a_step((struct copse_trainer_params){ .optimizer.kind = COPSE_LAMB }) > 0);
    assert_true(waits_of_a_step((struct copse_trainer_params){ .check_gradients = true }) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_replica_waits_for_nothing),
        cmocka_unit_test(norms_scales_and_checks_make_the_host_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
