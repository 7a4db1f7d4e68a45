/* SPDX-License-Identifier: MIT */
/* Training: one global batch over 1 to 5 replicas on any mixture of devices, equal bits on every
   replica, bits that depend on nothing but the job, atomic steps, no allocation in a step. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake_backend.h"
#include "tests/train_model.h"

#define OK(expr)                                                                                   \
    do {                                                                                           \
        const copse_status ok_ = (expr);                                                           \
        if (ok_ != COPSE_OK)                                                                       \
            fail_msg("%s: %s", #expr, copse_last_error());                                         \
    } while (0)

static copse_context *ctx;
static const char *first = "host:0", *second = "host:0"; /* two devices, as different as can be */

static int open_context(void **state)
{
    (void)state;
    const struct copse_device_info *list;
    size_t count;
    if (copse_context_create(NULL, &ctx) != COPSE_OK)
        return -1;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].id, "opencl:0") == 0 && list[i].is_usable)
            first = list[i].id;
        if (strcmp(list[i].id, "vulkan:0") == 0 && list[i].is_usable)
            second = list[i].id;
    }
    printf("devices: %s and %s\n", first, second);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    struct copse_memory_stats stats;
    copse_context_memory(ctx, &stats);
    copse_context_release(&ctx);
    return 0;
}

/* The lists of devices for 1 to 5 replicas. */
static void set_devices(struct run *r, size_t count)
{
    const char *const list[5] = { first, second, first, second, "host:0" };
    memcpy(r->devices, list, count * sizeof *list);
    r->device_count = count;
}

static float *must_run(const struct run *r)
{
    size_t count;
    float *values = run_model(ctx, r, &count);
    assert_non_null(values);
    assert_int_equal(count, model_parameters());
    return values;
}

static void check_same_bits(const float *a, const float *b)
{
    assert_memory_equal(a, b, model_parameters() * sizeof *a);
}

/* Not the bits but the mathematics: a split batch trains like a whole one. */
static void split_batch_trains_like_whole_one(void **state)
{
    (void)state;
    static const copse_optimizer_kind kinds[] = { COPSE_SGD, COPSE_ADAM };
    for (size_t k = 0; k < 2; k++) {
        struct run whole = { .optimizer = { .kind = kinds[k] } };
        float *reference = must_run(&whole);
        for (size_t n = 1; n <= 5; n++) {
            struct run split = whole;
            set_devices(&split, n);
            float *values = must_run(&split);
            const double distance = model_distance(reference, values);
            printf("  %s, %zu replicas: ||a-b||/||a|| = %.2e\n",
                   kinds[k] == COPSE_SGD ? "sgd " : "adam", n, distance);
            assert_true(distance <= 1e-5);
            free(values);
        }
        free(reference);
    }
}

/* 3 examples over 5 replicas: two have none. 7: shares 2, 2, 1, 1, 1. */
static void empty_and_unequal_shares_are_right(void **state)
{
    (void)state;
    for (uint32_t batch = 1; batch <= 7; batch += 2) {
        struct run whole = { .batch = batch };
        float *reference = must_run(&whole);
        struct run split = whole;
        set_devices(&split, 5);
        float *values = must_run(&split);
        assert_true(model_distance(reference, values) <= 1e-5);
        free(values);
        free(reference);
    }
}

/* C relu(B relu(A x)) with the weights on the left, so that a weight's gradient comes before the node
   that hands the derivative on and reads the weight once more. */
static copse_status left_loss(copse_graph *g, const copse_batch *in, void *user, copse_tensor **loss)
{
    copse_tensor *const *w = user;
    copse_tensor *h;
    COPSE_TRY(copse_transpose(g, in->x, (const uint32_t[]){ 1, 0 }, &h));
    for (int i = 0; i < 3; i++) {
        COPSE_TRY(copse_matmul(g, w[i], h, false, false, &h));
        if (i < 2)
            COPSE_TRY(copse_relu(g, h, &h));
    }
    COPSE_TRY(copse_transpose(g, h, (const uint32_t[]){ 1, 0 }, &h));
    return copse_sparse_cross_entropy(g, h, in->y, COPSE_MEAN, loss);
}

/* Train with C made before B: B's bucket is then ready after C's, though it comes first. */
static void train_left(size_t replicas, size_t bucket_bytes, float *values)
{
    static const uint32_t sizes[4] = { MODEL_IN, 16, 16, MODEL_CLASSES };
    static const uint32_t order[3] = { 0, 2, 1 };
    static float x[MODEL_ROWS * MODEL_IN];
    static int32_t y[MODEL_ROWS];
    const char *const devices[2] = { first, second };
    copse_strategy *st;
    copse_trainer *t;
    copse_variable *v[3];
    copse_tensor *w[3];
    model_data(x, y);
    OK(copse_mirrored_create(ctx, devices, replicas,
                             &(struct copse_strategy_params){ .bucket_bytes = bucket_bytes }, &st));
    for (int i = 0; i < 3; i++) {
        const uint32_t k = order[i];
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = (const char *[]){ "a", "b", "c" }[k],
                                             .shape = COPSE_SHAPE(sizes[k + 1], sizes[k]),
                                             .initializer = COPSE_INIT_GLOROT_UNIFORM },
            &v[k]));
        w[k] = copse_variable_tensor(v[k]);
    }
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = left_loss,
                                        .user = w,
                                        .example = COPSE_SHAPE(MODEL_IN),
                                        .target_type = COPSE_I32,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
        &t));
    for (int i = 0; i < 10; i++)
        OK(copse_trainer_step(t, &(struct copse_host_batch){ .x = x, .y = y, .count = 64 }));
    for (int i = 0; i < 3; i++) {
        OK(copse_variable_read(v[i], 0, values));
        values += sizes[i] * sizes[i + 1];
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void no_weight_is_updated_before_its_last_reader(void **state)
{
    (void)state;
    enum { N = MODEL_IN * 16 + 16 * 16 + 16 * MODEL_CLASSES };
    static float whole[N], split[N];
    double difference = 0.0, norm = 0.0;
    train_left(1, 0, whole);
    train_left(2, 4, split); /* one bucket per variable */
    for (int i = 0; i < N; i++) {
        difference += pow((double)whole[i] - (double)split[i], 2.0);
        norm += pow((double)whole[i], 2.0);
    }
    printf("  ||a-b||/||a|| = %.2e\n", sqrt(difference / norm));
    assert_true(sqrt(difference / norm) <= 1e-5);
}

static void sum_loss_adds_up(void **state)
{
    (void)state;
    struct run whole = { .is_sum = true, .optimizer = { .kind = COPSE_SGD, .learning_rate = 1e-3f } };
    float *reference = must_run(&whole);
    struct run split = whole;
    set_devices(&split, 3);
    float *values = must_run(&split);
    assert_true(model_distance(reference, values) <= 1e-5);
    free(values);
    free(reference);
}

static void check_replicas(copse_strategy *st, struct model *m, uint64_t step)
{
    static float a[4096], b[4096];
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        const copse_shape s = copse_variable_shape(m->variables[v]);
        const size_t n = s.rank == 2 ? (size_t)s.dims[0] * s.dims[1] : s.dims[0];
        OK(copse_variable_read(m->variables[v], 0, a));
        for (uint32_t r = 1; r < copse_strategy_replicas(st); r++) {
            OK(copse_variable_read(m->variables[v], r, b));
            if (memcmp(a, b, n * sizeof *a) != 0)
                fail_msg("step %llu: replica %u differs in %s", (unsigned long long)step, r,
                         copse_variable_name(m->variables[v]));
        }
    }
}

static void replicas_hold_same_bits_after_every_step(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 5; n++) {
        struct run r = { .after_step = check_replicas, .steps = 10 };
        set_devices(&r, n);
        free(must_run(&r));
    }
}

static void bits_depend_on_nothing_but_the_job(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 5; n += 3) {
        struct run r = { .steps = 12 };
        set_devices(&r, n);
        float *base = must_run(&r);
        float *again = must_run(&r);
        check_same_bits(base, again);
        free(again);
        for (int algorithm = COPSE_REDUCE_SHARDED; algorithm <= COPSE_REDUCE_TO_ONE; algorithm++)
            for (int transfer = COPSE_TRANSFER_SHARED; transfer <= COPSE_TRANSFER_STAGED; transfer++)
                for (size_t bucket = 256; bucket <= 1 << 20; bucket *= 16) {
                    struct run other = r;
                    other.strategy.reduction = (copse_reduce_algorithm)algorithm;
                    other.strategy.transfer = (copse_transfer)transfer;
                    other.strategy.bucket_bytes = bucket;
                    other.strategy.message_bytes = bucket;
                    float *values = must_run(&other);
                    check_same_bits(base, values);
                    free(values);
                }
        free(base);
    }
}

static void dropout_does_not_depend_on_the_split(void **state)
{
    (void)state;
    struct run whole = { .dropout = 0.3f, .optimizer = { .kind = COPSE_SGD } };
    float *reference = must_run(&whole);
    struct run none = whole;
    none.dropout = 0.0f;
    float *without = must_run(&none);
    assert_true(model_distance(reference, without) > 1e-3); /* it does something */
    struct run split = whole;
    set_devices(&split, 3);
    float *values = must_run(&split);
    assert_true(model_distance(reference, values) <= 1e-5);
    free(values);
    free(without);
    free(reference);
}

/* ---- one trainer, looked at closely ---- */

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
    OK(copse_trainer_create(
        f->st,
        &(struct copse_trainer_params){ .loss = model_loss,
                                        .user = &f->m,
                                        .example = COPSE_SHAPE(MODEL_IN),
                                        .target_type = COPSE_I32,
                                        .optimizer = *optimizer },
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
    return (struct copse_host_batch){ .x = f->x, .y = f->y, .count = count };
}

static void step_allocates_nothing_after_warm_up(void **state)
{
    (void)state;
    const char *const devices[3] = { first, second, "host:0" };
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
    const char *const devices[2] = { first, second };
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
    struct fixture *f = fixture_open(ctx, &first, 1, 1e30f);
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
    struct fixture *f = fixture_open(ctx, &first, 1, 0.1f);
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
    struct fixture *f = fixture_open(ctx, &second, 1, 0.1f);
    const struct copse_host_batch batch = batch_of(f, 50);
    struct copse_step_result before, after;
    OK(copse_trainer_step(f->t, &batch));
    OK(copse_trainer_evaluate(f->t, &batch, &before));
    copse_trainer_release(&f->t);
    OK(copse_trainer_create(f->st,
                            &(struct copse_trainer_params){ .loss = model_loss,
                                                            .user = &f->m,
                                                            .example = COPSE_SHAPE(MODEL_IN),
                                                            .target_type = COPSE_I32 },
                            &f->t));
    OK(copse_trainer_evaluate(f->t, &batch, &after));
    assert_true(before.loss == after.loss);
    fixture_close(f);
}

/* Trainers share values, not slots; variables may be made at any time. */
static void a_strategy_has_several_trainers(void **state)
{
    (void)state;
    struct fixture *f = fixture_open(ctx, &first, 1, 0.1f);
    const struct copse_host_batch batch = { .x = f->x, .y = f->y, .count = MODEL_ROWS };
    const struct copse_trainer_params params = { .loss = model_loss, .user = &f->m,
                                                 .example = COPSE_SHAPE(MODEL_IN),
                                                 .target_type = COPSE_I32 };
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
    struct fixture *f = fixture_open(ctx, &first, 1, 0.1f);
    const struct copse_host_batch empty = { .x = f->x, .y = f->y };
    assert_int_equal(copse_trainer_step(f->t, &empty), COPSE_ERR_ARGUMENT);
    fixture_close(f);
    copse_strategy *st;
    assert_int_equal(copse_one_device_create(ctx, "opencl:99", NULL, &st), COPSE_ERR_NO_DEVICE);
}

/* A device whose updates are one bit off: every element is computed once and copied, so the
   replicas stay equal all the same. */
static void replicas_stay_equal_when_a_device_rounds_otherwise(void **state)
{
    (void)state;
    static const char *const devices[4] = { "fake:0", "host:0", "fake:1", "host:0" };
    static const char *const kernels[] = { "adam", "sgd", "tree_sum" };
    copse_context *faked;
    fake_reset();
    copse_fake.device_count = 2;
    OK(copse__context_create_with(&(struct copse_context_params){ .no_self_test = true },
                                  fake_backends, &faked));
    for (size_t k = 0; k < 3; k++) {
        copse_fake.devices[0].perturb = kernels[k];
        struct run r = { .after_step = check_replicas,
                         .steps = 5,
                         .device_count = 4,
                         .optimizer = { .kind = k == 1 ? COPSE_SGD : COPSE_ADAM } };
        memcpy(r.devices, devices, sizeof devices);
        size_t count;
        float *values = run_model(faked, &r, &count);
        assert_non_null(values);
        free(values);
    }
    copse_fake.devices[0].perturb = NULL;
    copse_context_release(&faked);
}

/* One bucket per layer: when the host first waits for a rank, the next segment is queued already. */
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
    const char *const devices[3] = { first, second, "host:0" };
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
static copse_status large_loss(copse_graph *g, const copse_batch *in, void *user,
                               copse_tensor **loss)
{
    copse_tensor *const *w = user, *sum = NULL, *part;
    for (int i = 0; i < 3; i++) {
        COPSE_TRY(copse_square(g, w[i], &part));
        COPSE_TRY(copse_sum(g, part, NULL, 0, false, &part));
        if (sum)
            COPSE_TRY(copse_add(g, sum, part, &part));
        sum = part;
    }
    COPSE_TRY(copse_mean(g, in->x, NULL, 0, false, &part));
    return copse_mul(g, sum, part, loss);
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
    OK(copse_one_device_create(ctx, second, NULL, &st));
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
                                .example = COPSE_SHAPE(1),
                                .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.25f } },
                            &t));
    OK(copse_trainer_step(t, &(struct copse_host_batch){ .x = &x, .count = 1 }));
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
        cmocka_unit_test(split_batch_trains_like_whole_one),
        cmocka_unit_test(empty_and_unequal_shares_are_right),
        cmocka_unit_test(no_weight_is_updated_before_its_last_reader),
        cmocka_unit_test(sum_loss_adds_up),
        cmocka_unit_test(replicas_hold_same_bits_after_every_step),
        cmocka_unit_test(bits_depend_on_nothing_but_the_job),
        cmocka_unit_test(dropout_does_not_depend_on_the_split),
        cmocka_unit_test(step_allocates_nothing_after_warm_up),
        cmocka_unit_test(results_come_in_order_and_evaluation_agrees),
        cmocka_unit_test(nonfinite_loss_names_its_step),
        cmocka_unit_test(cancelled_step_changes_nothing),
        cmocka_unit_test(second_trainer_goes_on_with_the_values),
        cmocka_unit_test(a_strategy_has_several_trainers),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(replicas_stay_equal_when_a_device_rounds_otherwise),
        cmocka_unit_test(backward_goes_on_while_gradients_travel),
        cmocka_unit_test(schedule_is_asked_once_a_step),
        cmocka_unit_test(failed_step_is_reported_and_not_gone_on_with),
        cmocka_unit_test(store_larger_than_a_binding_works),
    };
    return cmocka_run_group_tests_name("train", tests, open_context, close_context);
}
