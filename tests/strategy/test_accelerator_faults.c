/* SPDX-License-Identifier: MIT */
/* Runs of several steps on devices that are slow, full or fail: nothing is waited for, every
   failure comes out, nothing is left half done in silence. */
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"
#include "copse/train/audit.h"
#include "tests/rig/fake/faulty_job.h"

enum { STEPS = 4 };

static void open_job(uint32_t devices, const char *const *ids, size_t count)
{
    job_begin(devices, NULL);
    OK(copse_accelerator_create(job.ctx, ids, count,
                                &(struct copse_accelerator_params){
                                    .strategy = { .bucket_bytes = 1024 }, .steps_per_run = STEPS },
                                &job.st));
    job_learn();
}

static copse_status feed(void)
{
    for (int i = 0; i < STEPS; i++)
        COPSE_TRY(copse_trainer_feed(
            job.t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, job.x, job.y), .count = BATCH }));
    return COPSE_OK;
}

static copse_status take(uint32_t count)
{
    struct copse_step_result r;
    while (count-- > 0)
        COPSE_TRY(copse_trainer_result(job.t, true, &r));
    return COPSE_OK;
}

static const char *const cores[3] = { "fake:0", "fake:0", "fake:0" };

/* A device that is not through with anything: two runs are begun all the same. */
static void run_on_one_queue_waits_for_nothing(void **state)
{
    (void)state;
    open_job(1, cores, 3);
    OK(feed());
    OK(copse_trainer_run(job.t));
    OK(take(STEPS));
    copse_fake.devices[0].delay_ns = 20000000;
    for (int turn = 0; turn < 2; turn++) {
        OK(feed());
        const uint32_t waits = fake_calls(0, FAKE_WAIT), submits = fake_calls(0, FAKE_SUBMIT);
        OK(copse_trainer_run(job.t));
        assert_int_equal(fake_calls(0, FAKE_WAIT), waits);
        assert_int_equal(fake_calls(0, FAKE_SUBMIT), submits + 1);
    }
    OK(take(2 * STEPS));
    job_end();
}

/* One call of each kind fails for good, early or late in the run. */
static void failed_run_is_reported_and_not_gone_on_with(void **state)
{
    static const enum fake_fn functions[] = { FAKE_WRITE, FAKE_ENCODE, FAKE_REPLAY,
                                              FAKE_READ,  FAKE_SUBMIT, FAKE_WAIT };
    static const char *const two[3] = { "fake:0", "fake:0", "fake:1" };
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++)
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            open_job(2, mixed ? two : cores, 3);
            OK(feed());
            OK(copse_trainer_run(job.t));
            OK(take(STEPS));
            OK(feed());
            const uint32_t device = (uint32_t)mixed;
            const uint32_t n = functions[i] == FAKE_ENCODE || functions[i] == FAKE_REPLAY ? 7 : 1;
            fake_fail(device, functions[i], n, COPSE_ERR_DEVICE_LOST, true);
            copse_status s = copse_trainer_run(job.t);
            if (s == COPSE_OK)
                s = take(STEPS);
            assert_int_equal(s, COPSE_ERR_DEVICE_LOST);
            if (copse_trainer_fed(job.t) == 0) /* else they are still there */
                s = feed();
            else
                s = copse_trainer_run(job.t);
            assert_int_equal(s, COPSE_ERR_DEVICE_LOST);
            job_end();
        }
}

/* Memory that is missing once: the trainer says so and can be used, or says that it cannot. */
static void shortage_is_no_half_update(void **state)
{
    static const enum fake_fn functions[] = { FAKE_WRITE, FAKE_ENCODE, FAKE_REPLAY, FAKE_READ,
                                              FAKE_SUBMIT };
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        uint32_t cut = 0;
        for (uint32_t n = 1; n <= 40; n += 3) {
            open_job(1, cores, 3);
            OK(copse_trainer_audit(job.t,
                                   &(struct copse_audit_params){ .is_cross_check_off = true }));
            OK(feed());
            fake_fail(0, functions[i], n, COPSE_ERR_NO_MEMORY, false);
            const copse_status s = copse_trainer_run(job.t);
            const uint64_t done = copse_trainer_steps(job.t);
            if (s == COPSE_OK) { /* the run makes fewer such calls */
                assert_int_equal(done, STEPS);
                job_end();
                break;
            }
            assert_int_equal(s, COPSE_ERR_NO_MEMORY);
            assert_true(done <= STEPS);
            const copse_status again = copse_trainer_feed(
                job.t,
                &(struct copse_host_batch){ RIG_XY(MODEL_IN, job.x, job.y), .count = BATCH });
            if (again == COPSE_ERR_DEVICE_LOST) { /* in the middle of an update */
                assert_non_null(strstr(copse_last_error(), "cut short"));
                cut++;
            } else if (copse_trainer_fed(job.t) < STEPS) {
                OK(again);
                OK(copse_trainer_run(job.t));
                OK(take((uint32_t)copse_trainer_steps(job.t)));
                float values[2][1024];
                OK(copse_variable_read(job.m.variables[0], 0, values[0]));
                OK(copse_variable_read(job.m.variables[0], 2, values[1]));
                assert_memory_equal(values[0], values[1], sizeof(float) * MODEL_IN * 32);
            }
            job_end();
        }
        /* Queued work that cannot be started; an update that is queued in part. */
        if (functions[i] == FAKE_SUBMIT || functions[i] == FAKE_REPLAY)
            assert_true(cut > 0);
    }
}

/* No memory for the batches of a run: nothing is taken, and single steps go on. */
static void infeed_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    open_job(1, cores, 3);
    OK(copse_trainer_step(
        job.t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, job.x, job.y), .count = BATCH }));
    fake_fail(0, FAKE_BUFFER_INIT, 2, COPSE_ERR_NO_DEVICE_MEMORY, true);
    FAILS(COPSE_ERR_NO_DEVICE_MEMORY, feed(), "steps_per_run");
    assert_int_equal(copse_trainer_fed(job.t), 0);
    OK(copse_trainer_run(job.t));
    no_more_faults();
    OK(feed());
    OK(copse_trainer_run(job.t));
    assert_int_equal(copse_trainer_steps(job.t), 1 + STEPS);
    job_end();
}

/* ---- as a step ---- */

/* All of a run is queued and none of it starts: the last batch is named, not one behind the run. */
static void run_that_does_not_start_names_its_last_batch(void **state)
{
    copse_step *step;
    (void)state;
    open_job(1, cores, 3);
    job_step(STEPS * BATCH, STEPS, &step);
    OK(copse_step_run(step));
    fake_fail(0, FAKE_SUBMIT, 1, COPSE_ERR_DEVICE_LOST, true);
    FAILS(COPSE_ERR_DEVICE_LOST, copse_step_run(step), "at batch 3 of epoch 1");
    copse_step_release(&step);
    job_end();
}

/* The order of ids decides, not that of the list; a core that is not chosen is not opened. */
static void three_of_four_devices(void **state)
{
    static const char *const ids[4] = { "fake:3", "fake:1", "fake:2", "fake:0" };
    copse_strategy *st;
    (void)state;
    open_job(4, cores, 1);
    OK(copse_accelerator_create(job.ctx, ids, 4, &(struct copse_accelerator_params){ .cores = 3 },
                                &st));
    assert_int_equal(copse_strategy_replicas(st), 3);
    for (uint32_t r = 0; r < 3; r++) {
        char id[8];
        snprintf(id, sizeof id, "fake:%u", r);
        assert_string_equal(copse_strategy_device(st, r)->id, id);
    }
    assert_int_equal(fake_calls(3, FAKE_OPEN), 0);
    assert_false(copse_accelerator_is_resident(st));
    copse_strategy_release(&st);
    job_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_on_one_queue_waits_for_nothing),
        cmocka_unit_test(failed_run_is_reported_and_not_gone_on_with),
        cmocka_unit_test(shortage_is_no_half_update),
        cmocka_unit_test(infeed_that_does_not_fit_is_refused),
        cmocka_unit_test(run_that_does_not_start_names_its_last_batch),
        cmocka_unit_test(three_of_four_devices),
    };
    return cmocka_run_group_tests_name("accelerator_faults", tests, NULL, NULL);
}
