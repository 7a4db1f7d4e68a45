/* SPDX-License-Identifier: MIT */
/* A step that is refused, because its loss is not finite, leaves an audit unfinished: its digests may
   still be on their way from a slower device. They are compared with nothing. The audit of the step
   before it is compared. */
#include <math.h>

#include "copse/train/audit.h"
#include "core/train/trainer.h"
#include "tests/rig/fake/faulty_job.h"

enum { LATE_POLLS = 400 };

static void open_job(void)
{
    job_begin(2, NULL);
    OK(copse_mirrored_create(job.ctx, (const char *const[]){ "fake:0", "fake:1" }, 2, NULL,
                             &job.st)); /* one bucket: all is queued when the loss is known */
    OK(model_create(&job.m, job.st));
    OK(copse_trainer_create(job.st,
                            &(struct copse_trainer_params){
                                .loss = model_loss, .user = &job.m, .check_numerics = true },
                            &job.t));
}

static copse_status step(void)
{
    const struct copse_host_batch b = { RIG_XY(MODEL_IN, job.x, job.y), .count = BATCH };
    return copse_trainer_step(job.t, &b);
}

static void refused_step_is_no_fault_of_a_slow_device(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < 2; slow++) {
        open_job();
        OK(step());
        const float kept = job.x[0];
        const size_t last = (BATCH - 1) * MODEL_IN; /* an example of the second replica */
        job.x[slow == 0 ? last : 0] = INFINITY;
        copse_fake.devices[slow].delay_polls = LATE_POLLS;
        FAILS(COPSE_ERR_NONFINITE, step(), "nothing was changed");
        OK(copse_trainer_audit(job.t, NULL)); /* compares what is audited */
        copse_fake.devices[slow].delay_polls = 0;
        model_data(job.x, job.y);
        assert_true(kept == job.x[0]);
        const uint64_t before = copse_trainer_audits(job.t);
        for (int i = 0; i < 3; i++) { /* the same step again, and more: audited */
            struct copse_step_result result;
            OK(step());
            OK(copse_trainer_result(job.t, true, &result));
        }
        assert_true(copse_trainer_audits(job.t) > before);
        job_end();
    }
}

/* A word of the first variable changes on replica 1. */
static void disturb(void)
{
    const struct copse_binding at = copse__variable_values(job.m.variables[0], 1);
    copse_queue *q = job.st->replicas[1].queue;
    const float wrong = 1e-6f;
    OK(copse_queue_write(q, at.buffer, at.offset, &wrong, sizeof wrong));
    OK(copse_queue_finish(q));
}

static void refused_step_leaves_the_audit_of_the_step_before(void **state)
{
    (void)state;
    struct copse_step_result result;
    open_job();
    OK(step());
    OK(copse_trainer_result(job.t, true, &result));
    disturb();
    OK(step()); /* audited; the result is not taken yet */
    job.x[0] = INFINITY;
    FAILS(COPSE_ERR_NONFINITE, step(), "nothing was changed");
    FAILS(COPSE_ERR_UNRELIABLE, copse_trainer_result(job.t, true, &result), "audit of step 2");
    model_data(job.x, job.y);
    job_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_step_is_no_fault_of_a_slow_device),
        cmocka_unit_test(refused_step_leaves_the_audit_of_the_step_before),
    };
    return cmocka_run_group_tests_name("audit_refused", tests, NULL, NULL);
}
