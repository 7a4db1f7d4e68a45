/* SPDX-License-Identifier: MIT */
/* Batches ahead on devices that are slow, full or fail: nothing waits in the step that need not,
   every failure comes out and names itself, nothing is left half done in silence, no bit
   changes. */
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"

#include "tests/rig/fake/faulty_job.h"

enum { STEPS = 6, AHEAD = 2 };

static void open_strategy(uint32_t devices, uint32_t prefetch)
{
    job_begin(devices, NULL);
    job.prefetch = prefetch;
    job_mirror(devices);
}

static void open_job(uint32_t devices)
{
    open_strategy(devices, AHEAD);
    job_learn();
}

static struct copse_host_batch batch_at(uint64_t i)
{
    const size_t first = (size_t)i * 13 % (MODEL_ROWS - BATCH);
    return rig_kept((struct copse_host_batch){
        RIG_XY(MODEL_IN, job.x + first * MODEL_IN, job.y + first), .count = BATCH });
}

/* Batches are told by the steps that are done, so that what failed is fed again. */
static copse_status train(uint64_t until)
{
    struct copse_step_result r;
    copse_trainer_unfeed(job.t); /* a step that failed has taken its own */
    while (copse_trainer_steps(job.t) < until) {
        for (uint64_t next;
             (next = copse_trainer_steps(job.t) + copse_trainer_fed(job.t)) < until &&
             copse_trainer_fed(job.t) < AHEAD;) {
            const struct copse_host_batch b = batch_at(next);
            COPSE_TRY(copse_trainer_feed(job.t, &b));
        }
        COPSE_TRY(copse_trainer_step(job.t, NULL));
        if (copse_trainer_steps(job.t) % 3 == 0)
            COPSE_TRY(copse_trainer_result(job.t, true, &r));
    }
    for (uint32_t r2 = 0; r2 < copse_strategy_replicas(job.st); r2++) {
        float unused[VALUES];
        COPSE_TRY(copse_variable_read(job.m.variables[0], r2, unused));
    }
    return COPSE_OK;
}

static float want[VALUES];
static size_t want_count;

static void without_faults(uint32_t devices)
{
    open_job(devices);
    OK(train(STEPS));
    want_count = job_read(0, want);
    job_end();
}

static void check_values(void)
{
    float got[VALUES];
    for (uint32_t r = 0; r < copse_strategy_replicas(job.st); r++) {
        assert_int_equal(job_read(r, got), want_count);
        assert_memory_equal(got, want, want_count * sizeof *got);
    }
}

static const enum fake_fn functions[] = { FAKE_BUFFER_INIT, FAKE_WRITE,  FAKE_ENCODE, FAKE_REPLAY,
                                          FAKE_READ,        FAKE_SUBMIT, FAKE_WAIT };

/* One call fails, and memory is there again afterwards: the trainer goes on with the bits of a run
   without faults, or says that an update was cut short. */
static void shortage_changes_no_bit(void **state)
{
    uint32_t went_on = 0, cut = 0, named = 0;
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++) {
        without_faults(devices);
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            for (uint32_t n = 1; n <= 61; n += n < 12 ? 1 : 7) {
                open_job(devices);
                OK(copse_trainer_feed(job.t, &(struct copse_host_batch){
                                                 RIG_XY(MODEL_IN, job.x, job.y), .count = BATCH }));
                copse_trainer_unfeed(job.t); /* recordings are there, and one place */
                fake_fail(devices - 1, functions[i], n, COPSE_ERR_NO_MEMORY, false);
                const copse_status s = train(STEPS);
                no_more_faults();
                if (s == COPSE_OK) { /* fewer such calls, or one that may fail */
                    check_values();
                    job_end();
                    continue;
                }
                assert_int_equal(s, COPSE_ERR_NO_MEMORY);
                named += strstr(copse_last_error(), "while uploading replica") != NULL;
                const copse_status again = train(STEPS);
                if (again == COPSE_ERR_DEVICE_LOST) {
                    assert_non_null(strstr(copse_last_error(), "cut short"));
                    cut++;
                } else {
                    OK(again);
                    check_values();
                    went_on++;
                }
                job_end();
            }
    }
    printf("%u went on, %u were cut short, %u uploads named themselves\n", went_on, cut, named);
    assert_true(went_on > 20 && cut > 0 && named > 5);
}

/* A device that is gone stays gone, whoever asks. */
static void lost_device_is_reported(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++)
        for (size_t i = 1; i < sizeof functions / sizeof *functions; i++) {
            open_job(devices);
            OK(train(2));
            fake_fail(devices - 1, functions[i], 3, COPSE_ERR_DEVICE_LOST, true);
            assert_int_equal(train(20), COPSE_ERR_DEVICE_LOST);
            const struct copse_host_batch b = batch_at(0);
            copse_trainer_unfeed(job.t);
            assert_int_equal(copse_trainer_feed(job.t, &b) == COPSE_OK
                                 ? copse_trainer_step(job.t, NULL)
                                 : COPSE_ERR_DEVICE_LOST,
                             COPSE_ERR_DEVICE_LOST);
            job_end();
        }
}

/* The queue for uploads cannot be had: the trainer is not made. */
static void queue_that_cannot_be_made_is_named(void **state)
{
    copse_trainer *t = NULL;
    (void)state;
    open_strategy(2, 0);
    job_learn(); /* self-tests have queues, too */
    copse_trainer_release(&job.t);
    job.prefetch = AHEAD;
    fake_fail(1, FAKE_QUEUE_INIT, 1, COPSE_ERR_NO_MEMORY, false);
    FAILS(COPSE_ERR_NO_MEMORY, job_make_trainer(NULL, &t), "to upload batches ahead");
    assert_null(t);
    OK(job_make_trainer(NULL, &job.t));
    OK(train(1));
    job_end();
}

/* Queues are fewer than trainers may be: they share the replica's. */
static void trainers_share_the_queue(void **state)
{
    copse_trainer *more[12];
    (void)state;
    open_job(1);
    const uint32_t queues = fake_calls(0, FAKE_QUEUE_INIT);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        OK(job_make_trainer(NULL, &more[i]));
    assert_int_equal(fake_calls(0, FAKE_QUEUE_INIT), queues);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const struct copse_host_batch b = batch_at(i);
        OK(copse_trainer_feed(more[i], &b));
        OK(copse_trainer_step(more[i], NULL));
        copse_trainer_release(&more[i]);
    }
    job_end();
}

/* A slow device: batches are fed and steps begun while no earlier one is done, as long as there are
   places; a place is written again when its reader is done, and not before. */
static void feeding_waits_for_places_only(void **state)
{
    (void)state;
    open_job(1);
    OK(train(3));
    copse_fake.devices[0].delay_ns = 20000000;
    const struct copse_host_batch b = batch_at(0);
    OK(copse_trainer_feed(job.t, &b));
    OK(copse_trainer_feed(job.t, &b));
    const uint32_t waits = fake_calls(0, FAKE_WAIT);
    copse_trainer_unfeed(job.t); /* nobody has read them: they may be written again at once */
    OK(copse_trainer_feed(job.t, &b));
    OK(copse_trainer_feed(job.t, &b));
    assert_int_equal(fake_calls(0, FAKE_WAIT), waits);
    /* this backend's queues meet on the host: for the upload ... */
    OK(copse_trainer_step(job.t, NULL));
    const uint32_t after = fake_calls(0, FAKE_WAIT);
    assert_true(after > waits);
    OK(copse_trainer_feed(job.t, &b)); /* ... and for the step that reads the place */
    assert_true(fake_calls(0, FAKE_WAIT) > after);
    job_end();
}

/* ---- as a step ---- */

/* An upload that fails once is made by its step; one that fails for good is named there, at its own
   batch, when the steps before are done. */
static void step_names_the_batch_that_fails(void **state)
{
    (void)state;
    for (int is_for_good = 0; is_for_good < 2; is_for_good++) {
        copse_step *step;
        copse_status s = COPSE_OK;
        open_job(1);
        job_step(STEPS * BATCH, 1, &step);
        OK(copse_step_run(step)); /* batch 1 is fed, 2 is next */
        fake_fail(0, FAKE_WRITE, 1, COPSE_ERR_NO_MEMORY, false);
        OK(copse_step_run(step)); /* batch 1; the fault is used up */
        OK(copse_step_run(step));
        if (is_for_good) {
            fake_fail(0, FAKE_WRITE, 1, COPSE_ERR_NO_MEMORY, true);
            while (s == COPSE_OK)
                s = copse_step_run(step);
            assert_int_equal(s, COPSE_ERR_NO_MEMORY);
            if (!strstr(copse_last_error(), "at batch 3 of epoch 0"))
                fail_msg("%s", copse_last_error());
            no_more_faults();
        }
        for (s = COPSE_OK; s == COPSE_OK;)
            s = copse_step_run(step);
        assert_int_equal(s, COPSE_ERR_END);
        assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 2 * STEPS);
        copse_step_release(&step);
        job_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortage_changes_no_bit),
        cmocka_unit_test(lost_device_is_reported),
        cmocka_unit_test(queue_that_cannot_be_made_is_named),
        cmocka_unit_test(trainers_share_the_queue),
        cmocka_unit_test(feeding_waits_for_places_only),
        cmocka_unit_test(step_names_the_batch_that_fails),
    };
    return cmocka_run_group_tests_name("prefetch_faults", tests, NULL, NULL);
}
