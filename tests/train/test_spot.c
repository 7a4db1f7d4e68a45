/* SPDX-License-Identifier: MIT */
/* Spot recomputation: kernels that become wrong after the first step, for good or now and then, are
   found. */
#include "tests/rig/train/watch_rig.h"

#define STEPS 64u /* spots are in the steps 2 to 8 and 16 */

static const struct copse_audit_params no_cross_check = { .is_cross_check_off = true };

/* Train until a step is refused; the text names device, kernel and step. Returns the step, 0 if
   none is refused. */
static uint64_t refused(size_t replicas, copse_optimizer_kind kind, const char *device,
                        const char *kernel, bool is_cut)
{
    struct job j;
    uint64_t found = 0;
    open_job(&j, replicas, kind, NULL);
    OK(step(&j, 0));
    struct fake_device *d = &copse_fake.devices[device[5] - '0'];
    if (is_cut)
        d->cut = kernel;
    else
        d->perturb = kernel;
    d->cut_from = 4;          /* words from there on stay as they were */
    d->perturb_bits = 0x4000; /* results are 2^-9 off */
    for (uint64_t i = 1; i < STEPS && found == 0; i++) {
        char what[64], when[32];
        const copse_status s = step(&j, i);
        const char *text = copse_last_error();
        snprintf(what, sizeof what, "kernel %s returned", kernel);
        snprintf(when, sizeof when, "audit of step %u:", (unsigned)i + 1);
        if (s == COPSE_OK)
            continue;
        if (s != COPSE_ERR_UNRELIABLE || !strstr(text, what) || !strstr(text, when) ||
            !strstr(text, device))
            fail_msg("%s on %s: %s: %s", kernel, device, copse_status_name(s), text);
        found = i + 1;
        assert_int_equal(step(&j, i), COPSE_ERR_UNRELIABLE);
    }
    d->cut = d->perturb = NULL;
    close_job(&j);
    return found;
}

/* The seed decides which launches are chosen. */
static void find(size_t replicas, copse_optimizer_kind kind, const char *device, const char *kernel,
                 bool is_cut)
{
    for (job_seed = 1; job_seed < 16; job_seed++)
        if (refused(replicas, kind, device, kernel, is_cut) > 0)
            return;
    fail_msg("%s on %s is never found", kernel, device);
}

static void wrong_kernels_are_found(void **state)
{
    static const char *const kernels[] = { "matmul", "dense_grad", "cross_entropy_grad" };
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        find(1, COPSE_ADAM, "fake:0", kernels[i], false);
}

static void lost_parts_of_updates_are_found(void **state)
{
    (void)state;
    find(1, COPSE_SGD, "fake:0", "sgd", true);
    find(1, COPSE_MOMENTUM, "fake:0", "momentum", true);
    find(1, COPSE_ADAM, "fake:0", "adam", true);
    find(2, COPSE_ADAM, "fake:0", "adam", true);
    find(2, COPSE_ADAM, "fake:1", "adam", true);
}

/* Values, and the launches that were compared. */
static uint64_t train(size_t replicas, const struct copse_audit_params *audit, float *values)
{
    struct job j;
    open_job(&j, replicas, COPSE_ADAM, audit);
    for (uint64_t i = 0; i < STEPS; i++)
        OK(step(&j, i));
    read_values(&j, values);
    const uint64_t compared = j.t->verifier.spot.compared;
    close_job(&j);
    return compared;
}

static void no_bit_changes(void **state)
{
    static const struct copse_audit_params off = { .is_off = true };
    static float with[2048], without[2048];
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        assert_int_equal(train(n, NULL, with), 8); /* steps 2 to 8, 16 */
        assert_int_equal(train(n, &off, without), 0);
        assert_memory_equal(with, without, model_parameters() * sizeof *with);
    }
}

/* Later audits have a spot rarely. */
static void spots_are_few(void **state)
{
    static float values[2048];
    (void)state;
    /* steps 1 to 16, 64 */
    assert_int_equal(train(1, &(struct copse_audit_params){ .every = 1 }, values), 17);
    /* steps 2, 3, 4, 8, 12, 16 */
    assert_int_equal(train(1, &(struct copse_audit_params){ .every = 4 }, values), 6);
}

/* The probe is queued behind the results: a poll does not wait for it, and a release waits. */
static void probes_may_be_late(void **state)
{
    struct copse_step_result r;
    struct job j;
    (void)state;
    open_job(&j, 1, COPSE_ADAM, &no_cross_check);
    copse_fake.devices[0].delay_polls = 3;
    const struct copse_host_batch b =
        rig_kept((struct copse_host_batch){ RIG_XY(MODEL_IN, data_x, data_y), .count = 32 });
    for (uint64_t i = 0; i < 8; i++) {
        copse_status s;
        OK(copse_trainer_step(j.t, &b));
        while ((s = copse_trainer_result(j.t, false, &r)) == COPSE_ERR_TIMEOUT) {
        }
        OK(s);
    }
    for (uint64_t i = 8; i < 16; i++)
        OK(copse_trainer_step(j.t, &b));
    close_job(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_kernels_are_found, begin, end),
        cmocka_unit_test_setup_teardown(lost_parts_of_updates_are_found, begin, end),
        cmocka_unit_test_setup_teardown(no_bit_changes, begin, end),
        cmocka_unit_test_setup_teardown(spots_are_few, begin, end),
        cmocka_unit_test_setup_teardown(probes_may_be_late, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
