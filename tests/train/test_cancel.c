/* SPDX-License-Identifier: MIT */
/* A trainer that is cancelled while its step waits for devices that do not answer: the step ends,
   nothing has changed, and when the devices answer again training goes on with the bits of a run
   that was never cancelled. */
#include "copse/loop/feed.h"

#include "tests/rig/rig.h"

#include "copse/distribute/accelerator.h"
#include "copse/distribute/sync.h"
#include "core/base/platform.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/train/train_model.h"

enum { BATCH = 24, BEFORE = 2, AFTER = 3, UNDER_WAY = 8, VALUES = 2048 };

struct how {
    uint32_t devices;
    bool is_full; /* as many steps as may be under way */
    bool checks_loss, checks_gradients, has_crossing, is_accelerator;
};

struct job {
    copse_context *ctx;
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    bool has_crossing;
};

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

/* With a sum over replicas that is 0: it changes no value. */
static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    struct job *j = user;
    copse_tensor *loss = model_loss(g, in, &j->m);
    if (!j->has_crossing)
        return loss;
    copse_tensor *x = copse_sub(g, loss, loss);
    x = copse_all_reduce(g, x, COPSE_SUM);
    return copse_add(g, loss, x);
}

static void job_open(struct job *j, const struct how *how)
{
    static const char *const ids[] = { "fake:0", "fake:1" };
    const struct copse_strategy_params params = { .bucket_bytes = 1024 };
    *j = (struct job){ .has_crossing = how->has_crossing };
    model_data(data_x, data_y);
    fake_reset();
    copse_fake.device_count = how->devices;
    OK(copse__context_create_with(NULL, fake_backends, &j->ctx));
    if (how->is_accelerator)
        OK(copse_accelerator_create(
            j->ctx, ids, how->devices,
            &(struct copse_accelerator_params){ .strategy = params, .steps_per_run = 2 }, &j->st));
    else
        OK(copse_mirrored_create(j->ctx, ids, how->devices, &params, &j->st));
    OK(model_create(&j->m, j->st));
    OK(copse_trainer_create(
        j->st,
        &(struct copse_trainer_params){ .loss = loss_of,
                                        .user = j,
                                        .check_numerics = how->checks_loss,
                                        .check_gradients = how->checks_gradients },
        &j->t));
}

static void job_close(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
    copse_context_release(&j->ctx);
    assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
}

/* Its number says which. */
static copse_status step(struct job *j, const struct how *how)
{
    const size_t first = (size_t)copse_trainer_steps(j->t) * 13 % (MODEL_ROWS - BATCH);
    const struct copse_host_batch b = { RIG_XY(MODEL_IN, data_x + first * MODEL_IN, data_y + first),
                                        .count = BATCH };
    if (!how->is_accelerator)
        return copse_trainer_step(j->t, &b);
    COPSE_TRY(copse_trainer_feed(j->t, &b));
    const copse_status s = copse_trainer_run(j->t);
    copse_trainer_unfeed(j->t);
    return s;
}

static uint32_t waits(uint32_t devices)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < devices; d++)
        n += fake_calls(d, FAKE_WAIT);
    return n;
}

struct request {
    copse_trainer *t;
    uint32_t devices, after; /* so many waits */
    atomic_bool is_over;     /* the step has ended, whatever for */
};

/* The step waits, and has asked several times. */
static void cancel_later(void *user)
{
    struct request *r = user;
    while (waits(r->devices) < r->after && !atomic_load(&r->is_over))
        copse__sleep_ns(100000);
    copse_trainer_cancel(r->t);
}

static void cancel_while_waiting(struct job *j, const struct how *how)
{
    struct request r = { j->t, how->devices, waits(how->devices) + 40, false };
    char text[256];
    copse_thread thread;
    for (uint32_t d = 0; d < how->devices; d++)
        fake_fail(d, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, true);
    const uint64_t before = copse_trainer_steps(j->t);
    OK(copse__thread_start(&thread, cancel_later, &r));
    const copse_status s = step(j, how);
    snprintf(text, sizeof text, "%s", copse_last_error());
    atomic_store(&r.is_over, true);
    copse__thread_join(&thread);
    if (s != COPSE_ERR_CANCELLED || !strstr(text, "cancelled while fake:"))
        fail_msg("%s: %s", copse_status_name(s), text);
    for (uint32_t d = 0; d < how->devices; d++)
        memset(copse_fake.devices[d].faults, 0, sizeof copse_fake.devices[d].faults);
    assert_int_equal(copse_trainer_steps(j->t), before);
}

struct record {
    float values[VALUES];
    double losses[BEFORE + UNDER_WAY + AFTER];
    size_t count;
    uint32_t results;
};

static void take_all(struct job *j, struct record *out)
{
    struct copse_step_result got;
    copse_status s;
    while ((s = copse_trainer_result(j->t, true, &got)) == COPSE_OK)
        out->losses[out->results++] = got.loss;
    assert_int_equal(s, COPSE_ERR_END);
}

static void train(const struct how *how, bool is_cancelled, struct record *out)
{
    struct job j;
    memset(out, 0, sizeof *out);
    job_open(&j, how);
    for (int i = 0; i < BEFORE; i++)
        OK(step(&j, how));
    take_all(&j, out);
    for (int i = 0; how->is_full && i < UNDER_WAY; i++)
        OK(step(&j, how));
    if (is_cancelled)
        cancel_while_waiting(&j, how);
    if (how->is_full)
        take_all(&j, out);
    for (int i = 0; i < AFTER; i++)
        OK(step(&j, how));
    take_all(&j, out);
    for (uint32_t r = 0; r < how->devices; r++) {
        out->count = 0;
        for (int v = 0; v < MODEL_VARIABLES; v++) {
            const copse_shape s = copse_variable_shape(j.m.variables[v]);
            OK(copse_variable_read(j.m.variables[v], r, out->values + out->count));
            out->count += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
        }
    }
    job_close(&j);
}

static void compare(const struct how how)
{
    static struct record want, got;
    train(&how, false, &want);
    train(&how, true, &got);
    assert_int_equal(want.results, BEFORE + AFTER + (how.is_full ? UNDER_WAY : 0));
    assert_int_equal(got.results, want.results);
    assert_memory_equal(got.values, want.values, want.count * sizeof *want.values);
    assert_memory_equal(got.losses, want.losses, sizeof want.losses);
}

static void wait_for_an_earlier_step_ends(void **state)
{
    (void)state;
    compare((struct how){ .devices = 1, .is_full = true });
}

static void wait_for_what_is_checked_ends(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++) {
        compare((struct how){ .devices = devices, .checks_loss = true });
        compare((struct how){ .devices = devices, .checks_gradients = true });
    }
}

static void wait_for_gradients_ends(void **state)
{
    (void)state;
    compare((struct how){ .devices = 2 });
}

static void wait_for_a_sum_over_replicas_ends(void **state)
{
    (void)state;
    compare((struct how){ .devices = 2, .has_crossing = true });
}

static void wait_within_a_run_ends(void **state)
{
    (void)state;
    compare((struct how){ .devices = 2, .is_accelerator = true });
}

/* loss = b * (sum over replicas of a * mean of x): b's gradient is exchanged, and b updated, before
   the sum that a's gradient needs. */
static copse_tensor *two_factors(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *v = user;
    copse_tensor *loss = copse_mean(g, rig_x(in), NULL, 0, false);
    loss = copse_mul(g, loss, copse_variable_tensor(v[0]));
    loss = copse_all_reduce(g, loss, COPSE_SUM);
    return copse_mul(g, loss, copse_variable_tensor(v[1]));
}

/* A device does not answer any more from a wait on, and then a request comes. Returns what the step
   did. */
static copse_status cancel_two_factors(uint32_t wait)
{
    static const char *const ids[] = { "fake:0", "fake:1" }, *const names[] = { "a", "b" };
    static const float one = 1.0f, x[] = { 1, 2, 3, 4 };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 4 };
    copse_context *ctx;
    copse_strategy *st;
    copse_trainer *t;
    copse_variable *v[2];
    copse_thread thread;
    float a, b;
    fake_reset();
    copse_fake.device_count = 2;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    OK(copse_mirrored_create(ctx, ids, 2, &(struct copse_strategy_params){ .bucket_bytes = 4 },
                             &st));
    for (int i = 0; i < 2; i++)
        OK(copse_variable_create(
            st, &(struct copse_variable_params){ .name = names[i], .values = &one }, &v[i]));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = two_factors,
                                .user = v,
                                .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                            &t));
    OK(copse_trainer_step(t, &batch));
    fake_fail(1, FAKE_WAIT, wait, COPSE_ERR_TIMEOUT, true);
    struct request r = { t, 2, waits(2) + wait + 40, false };
    OK(copse__thread_start(&thread, cancel_later, &r));
    const copse_status s = copse_trainer_step(t, &batch);
    atomic_store(&r.is_over, true);
    copse__thread_join(&thread);
    memset(copse_fake.devices[1].faults, 0, sizeof copse_fake.devices[1].faults);
    if (s == COPSE_ERR_CANCELLED) {
        OK(copse_trainer_step(t, &batch));
        OK(copse_variable_read(v[0], 0, &a));
        OK(copse_variable_read(v[1], 0, &b));
        assert_float_equal(a, b, 0.0f);
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s;
}

static void what_is_cancelled_has_changed_nothing(void **state)
{
    uint32_t cancelled = 0, wait = 1;
    copse_status s;
    (void)state;
    for (; (s = cancel_two_factors(wait)) != COPSE_OK; wait++) {
        if (s != COPSE_ERR_CANCELLED && s != COPSE_ERR_TIMEOUT)
            fail_msg("wait %u: %s", wait, copse_status_name(s));
        cancelled += s == COPSE_ERR_CANCELLED;
    }
    printf("  %u of %u waits are cancelled\n", cancelled, wait - 1);
    assert_true(cancelled > 0 && cancelled < wait - 1);
}

/* Nobody cancels: the device's silence is the error, as ever. */
static void silence_is_still_an_error(void **state)
{
    const struct how how = { .devices = 2 };
    struct job j;
    (void)state;
    job_open(&j, &how);
    OK(step(&j, &how));
    fake_fail(1, FAKE_WAIT, 1, COPSE_ERR_INTERNAL, true);
    FAILS(COPSE_ERR_INTERNAL, step(&j, &how), "computing its gradients");
    memset(copse_fake.devices[1].faults, 0, sizeof copse_fake.devices[1].faults);
    FAILS(COPSE_ERR_DEVICE_LOST, step(&j, &how), "cut short");
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_for_an_earlier_step_ends),
        cmocka_unit_test(wait_for_what_is_checked_ends),
        cmocka_unit_test(wait_for_gradients_ends),
        cmocka_unit_test(wait_for_a_sum_over_replicas_ends),
        cmocka_unit_test(wait_within_a_run_ends),
        cmocka_unit_test(what_is_cancelled_has_changed_nothing),
        cmocka_unit_test(silence_is_still_an_error),
    };
    return cmocka_run_group_tests_name("cancel", tests, NULL, NULL);
}
