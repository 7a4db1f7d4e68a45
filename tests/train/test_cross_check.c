/* SPDX-License-Identifier: MIT */
/* The cross-check of the first step: each wrong kernel of a step and of an update is found before
   anything changes, what passed is remembered, and no bit of a result changes. Devices are fakes
   whose kernels are the host functions. */
#include <unistd.h>

#include "copse/distribute/accelerator.h"
#include "copse/distribute/sync.h"
#include "copse/loop/feed.h"
#include "copse/ops.h"
#include "core/check/bound.h"
#include "prover/conformance/launch/launch.h"
#include "tests/rig/train/watch_rig.h"

/* The first step is refused with a line that names the device and `what`; nothing has changed. */
static void refused(size_t replicas, copse_optimizer_kind kind, const char *device,
                    const char *what)
{
    static float before[2048], after[2048];
    char path[64];
    struct job j;
    snprintf(path, sizeof path, "/tmp/copse-cross-check-%ld.safetensors", (long)getpid());
    open_job(&j, replicas, kind, NULL);
    read_values(&j, before);
    const copse_status s = step(&j, 0);
    const char *text = copse_last_error();
    if (s != COPSE_ERR_UNRELIABLE || !strstr(text, what) || !strstr(text, device) ||
        !strstr(text, "step 1") || !strstr(text, "driver") || !strstr(text, "copse conformance") ||
        strchr(text, '\n'))
        fail_msg("%s on %s: %s: %s", what, device, copse_status_name(s), text);
    read_values(&j, after);
    assert_memory_equal(before, after, model_parameters() * sizeof *before);
    assert_int_equal(copse_trainer_steps(j.t), 0);
    assert_int_equal(step(&j, 1), COPSE_ERR_UNRELIABLE);
    assert_int_not_equal(copse_trainer_checkpoint(j.t, path, NULL), COPSE_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    close_job(&j);
}

/* Names of the kernels that a job has compiled. */
static size_t kernels_of(const struct job *j, const char *names[64])
{
    size_t count = 0;
    for (const struct copse_kernel *k = j->st->replicas[0].dev->kernels; k; k = k->next) {
        bool is_known = strcmp(k->row->name, "digest") == 0;
        for (size_t i = 0; i < count; i++)
            is_known |= strcmp(names[i], k->row->name) == 0;
        if (!is_known)
            names[count++] = k->row->name;
    }
    return count;
}

static void each_wrong_kernel_is_found(void **state)
{
    static const copse_optimizer_kind kinds[] = { COPSE_SGD, COPSE_MOMENTUM, COPSE_ADAM };
    (void)state;
    for (size_t n = 1; n <= 2; n++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const char *names[64];
            struct job j;
            open_job(&j, n, kinds[k], NULL);
            OK(step(&j, 0));
            const size_t count = kernels_of(&j, names);
            close_job(&j);
            assert_true(count >= 8);
            for (size_t i = 0; i < count; i++) {
                struct fake_device *d = &copse_fake.devices[n - 1];
                char what[64];
                end(NULL);
                begin(NULL);
                snprintf(what, sizeof what, "kernel %s ", names[i]);
                d->cut = names[i]; /* it writes nothing */
                refused(n, kinds[k], n == 1 ? "fake:0" : "fake:1", what);
            }
            end(NULL);
            begin(NULL);
        }
}

static void lost_parts_of_updates_are_found(void **state)
{
    static const struct {
        copse_optimizer_kind kind;
        const char *kernel;
    } rows[] = {
        { COPSE_SGD, "sgd" },
        { COPSE_MOMENTUM, "momentum" },
        { COPSE_ADAM, "adam" },
    };
    (void)state;
    for (size_t n = 1; n <= 2; n++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct fake_device *d = &copse_fake.devices[n - 1];
            d->cut = rows[i].kernel;
            d->cut_from = n == 1 ? 1400 : 300; /* elements from there on are not updated */
            refused(n, rows[i].kind, n == 1 ? "fake:0" : "fake:1", rows[i].kernel);
            refused(n, rows[i].kind, "fake", "the new values of '");
            end(NULL);
            begin(NULL);
        }
}

/* Results that are 2^-9 off. */
static void wrong_numbers_are_found(void **state)
{
    static const char *const kernels[] = { "matmul", "cross_entropy_grad", "dense_grad", "adam" };
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        copse_fake.devices[0].perturb = kernels[i];
        copse_fake.devices[0].perturb_bits = 0x4000;
        refused(1, COPSE_ADAM, "fake:0", kernels[i]);
        end(NULL);
        begin(NULL);
    }
}

/* The last bit of a kernel that rounds is no fault. */
static void rounding_is_accepted(void **state)
{
    static const char *const kernels[] = { "matmul", "cross_entropy_grad", "adam" };
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct job j;
        copse_fake.devices[0].perturb = kernels[i];
        open_job(&j, 1, COPSE_ADAM, NULL);
        OK(step(&j, 0));
        assert_true(copse_trainer_cross_checked(j.t) > 0);
        close_job(&j);
        end(NULL);
        begin(NULL);
    }
}

/* A launch that is wrong only where it is queued with others. */
static void replays_are_compared(void **state)
{
    (void)state;
    copse_fake.devices[0].cut = "matmul";
    copse_fake.devices[0].cut_from = 4;
    copse_fake.devices[0].cuts_replays = true;
    refused(1, COPSE_ADAM, "fake:0", "queued together");
}

/* Gradients of a variable that the loss does not depend on are zeros, as the memory is before the
   launch. */
static void a_launch_that_changes_nothing_is_compared(void **state)
{
    (void)state;
    unused_elements = 7;
    copse_fake.devices[0].cut = "fill";
    refused(1, COPSE_ADAM, "fake:0", "kernel fill ");
    refused(1, COPSE_ADAM, "fake:0", "the gradient of 'unused'");
    unused_elements = 0;
}

/* A launch that is compared in part: rows are chosen, and the last ones are always among them. */
static void late_elements_of_large_launches_are_found(void **state)
{
    static const struct {
        copse_optimizer_kind kind;
        const char *kernel;
    } rows[] = {
        { COPSE_SGD, "sgd" },
        { COPSE_MOMENTUM, "momentum" },
    };
    (void)state;
    unused_elements = 5u << 20;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job j;
        open_job(&j, 1, rows[i].kind, NULL);
        OK(step(&j, 0));
        close_job(&j);
        end(NULL);
        begin(NULL); /* forgets what passed */
        copse_fake.devices[0].cut = rows[i].kernel;
        copse_fake.devices[0].cut_from = unused_elements - 3;
        refused(1, rows[i].kind, "fake:0", rows[i].kernel);
        end(NULL);
        begin(NULL);
    }
    unused_elements = 0;
}

/* With the mean of all inputs over the replicas, and its tanh. */
static copse_tensor *reducing_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *loss = model_loss(g, in, user);
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *s = copse_mean(g, x, NULL, 0, false);
    s = copse_reshape(g, s, COPSE_SHAPE(1));
    s = copse_all_reduce(g, s, COPSE_MEAN);
    s = copse_tanh(g, s);
    s = copse_reshape(g, s, (loss)->shape);
    return copse_add(g, loss, s);
}

static void launches_after_an_all_reduce_are_compared(void **state)
{
    (void)state;
    job_loss = reducing_loss;
    for (size_t n = 1; n <= 2; n++) {
        struct job j;
        open_job(&j, n, COPSE_SGD, NULL);
        OK(step(&j, 0));
        assert_true(copse_trainer_cross_checked(j.t) > 10);
        close_job(&j);
        end(NULL);
        begin(NULL);
        copse_fake.devices[n - 1].cut = "unary";
        refused(n, COPSE_SGD, n == 1 ? "fake:0" : "fake:1", "kernel unary ");
        end(NULL);
        begin(NULL);
    }
    job_loss = model_loss;
}

/* Two cores of a device that share a queue, runs of two steps. */
static void open_accelerator(struct job *j, const struct copse_audit_params *audit)
{
    static const char *const devices[] = { "fake:0", "fake:0" };
    *j = (struct job){ .m = { .dropout = 0.2f } };
    OK(copse_accelerator_create(ctx, devices, 2,
                                &(struct copse_accelerator_params){ .steps_per_run = 2 }, &j->st));
    assert_true(copse_accelerator_is_resident(j->st));
    OK(model_create(&j->m, j->st));
    OK(copse_trainer_create(
        j->st, &(struct copse_trainer_params){ .loss = model_loss, .user = &j->m, .seed = 3 },
        &j->t));
    OK(copse_trainer_audit(j->t, audit));
}

static copse_status run_two(struct job *j)
{
    for (size_t i = 0; i < 2; i++) {
        const struct copse_host_batch b = rig_kept((struct copse_host_batch){
            RIG_XY(MODEL_IN, data_x + i * 32 * MODEL_IN, data_y + i * 32), .count = 32,
            .first = i * 32 });
        OK(copse_trainer_feed(j->t, &b));
    }
    return copse_trainer_run(j->t);
}

static void runs_of_an_accelerator_are_compared(void **state)
{
    static const char *const kernels[] = { "matmul", "cross_entropy_grad", "dropout", "adam" };
    static float with[2048], without[2048];
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct job j;
        open_accelerator(&j, &(struct copse_audit_params){ .is_cross_check_off = k });
        OK(run_two(&j));
        assert_true((copse_trainer_cross_checked(j.t) > 10) == (k == 0));
        read_values(&j, k ? without : with);
        close_job(&j);
    }
    assert_memory_equal(with, without, model_parameters() * sizeof *with);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct job j;
        char what[64];
        end(NULL);
        begin(NULL);
        copse_fake.devices[0].cut = kernels[i];
        open_accelerator(&j, NULL);
        read_values(&j, without);
        snprintf(what, sizeof what, "kernel %s ", kernels[i]);
        const copse_status s = run_two(&j);
        if (s != COPSE_ERR_UNRELIABLE || !strstr(copse_last_error(), what) ||
            !strstr(copse_last_error(), "step 1"))
            fail_msg("%s: %s: %s", kernels[i], copse_status_name(s), copse_last_error());
        read_values(&j, with);
        assert_memory_equal(with, without, model_parameters() * sizeof *with);
        close_job(&j);
    }
}

static uint64_t checked_in_first_step(size_t replicas, size_t rows)
{
    struct copse_step_result r;
    struct job j;
    open_job(&j, replicas, COPSE_ADAM, NULL);
    OK(copse_trainer_step(
        j.t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, data_x, data_y), .count = rows }));
    OK(copse_trainer_result(j.t, true, &r));
    const uint64_t count = copse_trainer_cross_checked(j.t);
    close_job(&j);
    return count;
}

static void what_passed_is_remembered(void **state)
{
    (void)state;
    const uint64_t launches = checked_in_first_step(1, 32);
    assert_true(launches > 10);
    assert_int_equal(checked_in_first_step(1, 32), 0);
    copse_context_release(&ctx);
    open_context(); /* as another process with the same kernel cache */
    assert_int_equal(checked_in_first_step(1, 32), 0);
    assert_true(checked_in_first_step(1, 16) > 0); /* other launches */
    assert_int_equal(checked_in_first_step(1, 16), 0);
    copse_context_release(&ctx);
    drop_kept();
    open_context();
    assert_int_equal(checked_in_first_step(1, 32), launches);
}

static void other_driver(struct copse_device_info *info)
{
    snprintf(info->driver, sizeof info->driver, "fake driver 2");
}

/* Each device and driver has its own list; a program that fails clears it. */
static void another_driver_is_checked_again(void **state)
{
    (void)state;
    assert_true(checked_in_first_step(1, 32) > 0);
    copse_context_release(&ctx);
    copse_fake.devices[0].describe = other_driver;
    open_context();
    assert_true(checked_in_first_step(1, 32) > 0);
    copse_fake.devices[0].cut = "momentum"; /* a rule that was not checked yet */
    refused(1, COPSE_MOMENTUM, "fake:0", "momentum");
    copse_fake.devices[0].cut = NULL;
    assert_true(checked_in_first_step(1, 32) > 0);
}

static void no_bit_changes(void **state)
{
    static const struct copse_audit_params off = { .is_off = true, .is_cross_check_off = true };
    static float with[2048], without[2048];
    (void)state;
    for (size_t n = 1; n <= 2; n++)
        for (int k = 0; k < 2; k++) {
            struct job j;
            open_job(&j, n, COPSE_ADAM, k ? &off : NULL);
            for (uint64_t i = 0; i < 5; i++)
                OK(step(&j, i));
            assert_true((copse_trainer_cross_checked(j.t) > 0) == (k == 0));
            read_values(&j, k ? without : with);
            close_job(&j);
            if (k)
                assert_memory_equal(with, without, model_parameters() * sizeof *with);
        }
}

static void it_can_be_switched_off(void **state)
{
    struct job j;
    (void)state;
    copse_fake.devices[0].cut = "adam";
    open_job(&j, 1, COPSE_ADAM, &(struct copse_audit_params){ .is_cross_check_off = true });
    OK(step(&j, 0));
    assert_int_equal(copse_trainer_cross_checked(j.t), 0);
    close_job(&j);
}

/* The kernel of abs has other functions that round. */
static void functions_that_do_not_round_are_compared_as_words(void **state)
{
    static const int32_t spec[COPSE_MAX_SPECS] = { 1 }; /* abs in unary.def */
    struct copse_limit limit;
    (void)state;
    copse__law_limit(&copse_law_unary, NULL, spec, &limit);
    assert_true(copse__limit_is_exact(&limit) && limit.is_single);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_wrong_kernel_is_found, begin, end),
        cmocka_unit_test_setup_teardown(lost_parts_of_updates_are_found, begin, end),
        cmocka_unit_test_setup_teardown(wrong_numbers_are_found, begin, end),
        cmocka_unit_test_setup_teardown(rounding_is_accepted, begin, end),
        cmocka_unit_test_setup_teardown(replays_are_compared, begin, end),
        cmocka_unit_test_setup_teardown(a_launch_that_changes_nothing_is_compared, begin, end),
        cmocka_unit_test_setup_teardown(late_elements_of_large_launches_are_found, begin, end),
        cmocka_unit_test_setup_teardown(launches_after_an_all_reduce_are_compared, begin, end),
        cmocka_unit_test_setup_teardown(runs_of_an_accelerator_are_compared, begin, end),
        cmocka_unit_test_setup_teardown(what_passed_is_remembered, begin, end),
        cmocka_unit_test_setup_teardown(another_driver_is_checked_again, begin, end),
        cmocka_unit_test_setup_teardown(no_bit_changes, begin, end),
        cmocka_unit_test(functions_that_do_not_round_are_compared_as_words),
        cmocka_unit_test_setup_teardown(it_can_be_switched_off, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
