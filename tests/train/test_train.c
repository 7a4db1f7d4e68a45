/* SPDX-License-Identifier: MIT */
/* Training: one global batch over 1 to 5 replicas on any mixture of devices, equal bits on every
   replica, bits that depend on nothing but the job. */
#include "tests/rig/train/step_rig.h"

#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/train/train_model.h"

/* The lists of devices for 1 to 5 replicas. */
static void set_devices(struct run *r, size_t count)
{
    const char *const list[5] = { rig_devices[1], rig_devices[2], rig_devices[1], rig_devices[2],
                                  "host:0" };
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

/* 3 examples over 5 replicas: two have none. 7: shards 2, 2, 1, 1, 1. */
static void empty_and_unequal_shards_are_right(void **state)
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

/* C relu(B relu(A x)) with the weights on the left, so that a weight's gradient comes before the
   node that hands the derivative on and reads the weight once more. */
static copse_tensor *left_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *const *w = user;
    copse_tensor *h = copse_transpose(g, rig_x(in), (const uint32_t[]){ 1, 0 });
    for (int i = 0; i < 3; i++) {
        h = copse_matmul(g, w[i], h, false, false);
        if (i < 2)
            h = copse_relu(g, h);
    }
    h = copse_transpose(g, h, (const uint32_t[]){ 1, 0 });
    return copse_sparse_cross_entropy(g, h, rig_y(in), COPSE_MEAN);
}

/* Train with C made before B: B's bucket is then ready after C's, though it comes first. */
static void train_left(size_t replicas, size_t bucket_bytes, float *values)
{
    static const uint32_t sizes[4] = { MODEL_IN, 16, 16, MODEL_CLASSES };
    static const uint32_t order[3] = { 0, 2, 1 };
    static float x[MODEL_ROWS * MODEL_IN];
    static int32_t y[MODEL_ROWS];
    const char *const devices[2] = { rig_devices[1], rig_devices[2] };
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
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
        &t));
    for (int i = 0; i < 10; i++)
        OK(copse_trainer_step(t,
                              &(struct copse_host_batch){ RIG_XY(MODEL_IN, x, y), .count = 64 }));
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
    struct run whole = { .is_sum = true,
                         .optimizer = { .kind = COPSE_SGD, .learning_rate = 1e-3f } };
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
    size_t at = 0;
    for (size_t n = 2; n <= 5; n += 3) {
        struct run r = { .steps = 12 };
        set_devices(&r, n);
        float *base = must_run(&r);
        float *again = must_run(&r);
        check_same_bits(base, again);
        free(again);
        for (int algorithm = COPSE_REDUCE_SHARDED; algorithm <= COPSE_REDUCE_TO_ONE; algorithm++)
            for (int transfer = COPSE_TRANSFER_SHARED; transfer <= COPSE_TRANSFER_STAGED;
                 transfer++)
                for (size_t bucket = 256; bucket <= 1 << 16; bucket *= 16) { /* many, a few, one */
                    if (!rig_takes(at++, 4))
                        continue;
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
                         .is_unwatched = true, /* sgd and tree_sum promise bits */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_batch_trains_like_whole_one),
        cmocka_unit_test(empty_and_unequal_shards_are_right),
        cmocka_unit_test(no_weight_is_updated_before_its_last_reader),
        cmocka_unit_test(sum_loss_adds_up),
        cmocka_unit_test(replicas_hold_same_bits_after_every_step),
        cmocka_unit_test(bits_depend_on_nothing_but_the_job),
        cmocka_unit_test(replicas_stay_equal_when_a_device_rounds_otherwise),
        cmocka_unit_test(dropout_does_not_depend_on_the_split),
    };
    return cmocka_run_group_tests_name("train", tests, open_context, close_context);
}
