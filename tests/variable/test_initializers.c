/* SPDX-License-Identifier: MIT */
/* Initial values of variables: their bits, which are the same on every machine, and what each
   initializer promises. */
#include <math.h>
#include <stdlib.h>

#include "copse/copse.h"
#include "core/base/base.h"
#include "tests/rig/rig.h"

static copse_context *ctx;
static copse_strategy *st;
static unsigned made;

static int open_host(void **state)
{
    (void)state;
    return copse_context_create(NULL, &ctx) || copse_one_device_create(ctx, "host:0", NULL, &st)
               ? -1
               : 0;
}

static int close_host(void **state)
{
    (void)state;
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return 0;
}

/* The name is mixed with the seed, so the seed is chosen such that only `seed` counts. */
static float *values_of(copse_initializer initializer, copse_shape shape, float scale,
                        uint64_t seed)
{
    char name[16];
    copse_variable *v;
    snprintf(name, sizeof name, "v%u", made++);
    const struct copse_variable_params p = { .name = name,
                                             .shape = shape,
                                             .initializer = initializer,
                                             .scale = scale,
                                             .seed = seed ^ copse__hash(COPSE_HASH_START, name,
                                                                        strlen(name)) };
    OK(copse_variable_create(st, &p, &v));
    uint64_t count = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    OK(copse_variable_read(v, 0, values));
    return values;
}

static uint64_t bits_of(copse_initializer initializer, copse_shape shape, float scale)
{
    size_t count = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    float *values = values_of(initializer, shape, scale, 11);
    const uint64_t hash = copse__hash(COPSE_HASH_START, values, count * sizeof *values);
    free(values);
    return hash;
}

static void bits_are_the_same_on_every_machine(void **state)
{
    (void)state;
    static const struct {
        copse_initializer initializer;
        float scale;
        uint64_t hash;
    } rows[] = {
        { COPSE_INIT_ZEROS, 0.0f, 0x77a833688e050a65ull },
        { COPSE_INIT_ONES, -2.5f, 0xb997ba9757eb7265ull },
        { COPSE_INIT_GLOROT_UNIFORM, 0.0f, 0xf02b78499e531b6bull },
        { COPSE_INIT_HE_NORMAL, 0.5f, 0x633a847465386964ull },
        { COPSE_INIT_NORMAL, 0.02f, 0x2c16c433507a4990ull },
        { COPSE_INIT_ORTHOGONAL, 1.5f, 0x9876bb026fc10851ull },
        { COPSE_INIT_TRUNCATED_NORMAL, 0.02f, 0xd8496544cb660b74ull },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const uint64_t got = bits_of(rows[i].initializer, COPSE_SHAPE(37, 20), rows[i].scale);
        if (got != rows[i].hash)
            fail_msg("initializer %d has the bits 0x%016llx", (int)rows[i].initializer,
                     (unsigned long long)got);
    }
}

/* The vectors are rows `step` apart, elements `next` apart. */
static void check_orthonormal(const float *x, size_t vectors, size_t step, size_t length,
                              size_t next, double scale)
{
    for (size_t i = 0; i < vectors; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k < length; k++)
                sum += (double)x[i * step + k * next] * (double)x[j * step + k * next];
            if (!(fabs(sum - (i == j) * scale * scale) <= 1e-6 * scale * scale))
                fail_msg("vectors %zu and %zu of %zu: product %g", i, j, length, sum);
        }
}

static void orthogonal_vectors_are(void **state)
{
    (void)state;
    static const struct {
        copse_shape shape;
        size_t rows, cols;
    } sizes[] = {
        { { 2, { 40, 40 } }, 40, 40 },
        { { 2, { 100, 7 } }, 100, 7 },
        { { 2, { 7, 100 } }, 7, 100 },
        { { 3, { 3, 5, 30 } }, 15, 30 },
        { { 1, { 9 } }, 1, 9 },
        { { 0, { 0 } }, 1, 1 },
        { { 2, { 300, 200 } }, 300, 200 },
    };
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
        const size_t rows = sizes[i].rows, cols = sizes[i].cols;
        float *x = values_of(COPSE_INIT_ORTHOGONAL, sizes[i].shape, 1.5f, i);
        if (rows >= cols)
            check_orthonormal(x, cols, 1, rows, cols, 1.5);
        if (rows <= cols)
            check_orthonormal(x, rows, cols, cols, 1, 1.5);
        free(x);
    }
}

/* The variance of N(0, 1) within +-2 is 0.7737; 4 standard errors of 100,000 numbers. */
static void truncated_normal_has_no_tails(void **state)
{
    enum { COUNT = 100000 };
    double sum = 0, squares = 0;
    (void)state;
    float *x = values_of(COPSE_INIT_TRUNCATED_NORMAL, COPSE_SHAPE(COUNT), 0.5f, 3);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabsf(x[i]) <= 1.0f);
        sum += 2 * (double)x[i];
        squares += 4 * (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / COUNT) < 0.0112);
    assert_true(fabs(squares / COUNT - 0.7737) < 0.0105);
    free(x);
}

static void ones_with_a_scale_are_a_constant(void **state)
{
    (void)state;
    float *x = values_of(COPSE_INIT_ONES, COPSE_SHAPE(5), -0.25f, 0);
    for (size_t i = 0; i < 5; i++)
        assert_true(x[i] == -0.25f);
    free(x);
}

/* A trained variable of two or more dimensions starts as COPSE_INIT_GLOROT_UNIFORM, another one as
   COPSE_INIT_ZEROS. */
static void default_of(struct copse_variable_params like, bool is_glorot)
{
    float got[24], glorot[24] = { 0 };
    char names[2][16];
    for (int i = 0; i < 2; i++) {
        copse_variable *v;
        struct copse_variable_params p = like;
        snprintf(names[i], sizeof names[i], "v%u", made++);
        p.name = names[i];
        p.seed = 3 ^ copse__hash(COPSE_HASH_START, p.name, strlen(p.name));
        p.initializer = i ? COPSE_INIT_GLOROT_UNIFORM : COPSE_INIT_DEFAULT;
        if (i && like.type == COPSE_I32)
            break;
        OK(copse_variable_create(st, &p, &v));
        OK(copse_variable_read(v, 0, i ? glorot : got));
    }
    for (int i = 0; i < 24; i++)
        assert_true(is_glorot ? got[i] == glorot[i] && got[i] != 0.0f : got[i] == 0.0f);
}

static void default_depends_on_the_use(void **state)
{
    const copse_shape table = COPSE_SHAPE(6, 4), taps = COPSE_SHAPE(3, 2, 4),
                      line = COPSE_SHAPE(24);
    (void)state;
    default_of((struct copse_variable_params){ .shape = table }, true);
    default_of((struct copse_variable_params){ .shape = taps, .scale = 0.5f }, true);
    default_of((struct copse_variable_params){ .shape = table, .is_sparse = true }, true);
    default_of((struct copse_variable_params){ .shape = line }, false);
    default_of((struct copse_variable_params){ .shape = table, .is_frozen = true }, false);
    default_of((struct copse_variable_params){ .shape = table, .type = COPSE_I32 }, false);
    default_of(
        (struct copse_variable_params){ .shape = table, .synchronization = COPSE_SYNC_ON_READ },
        false);
}

static copse_variable *layers[4]; /* weights and biases, made with the default */

static copse_tensor *two_layers(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    (void)user;
    for (int i = 0; i < 4; i += 2)
        x = copse_dense(g, x, copse_variable_tensor(layers[i]),
                        copse_variable_tensor(layers[i + 1]), i ? COPSE_LINEAR : COPSE_TANH);
    return copse_mean(g, copse_square(g, x), NULL, 0, false);
}

static void two_units_of_a_layer_learn_differently(void **state)
{
    static const copse_shape shapes[] = {
        { 2, { 3, 2 } }, { 1, { 2 } }, { 2, { 2, 1 } }, { 1, { 1 } }
    };
    static const float x[] = { 1, -2, 3, 0.5f, 1, -1 };
    const struct copse_column column = { "x", COPSE_F32, COPSE_SHAPE(3), x };
    const struct copse_host_batch batch = { .columns = &column, .column_count = 1, .count = 2 };
    const struct copse_trainer_params params = { .loss = two_layers,
                                                 .optimizer = { .kind = COPSE_SGD,
                                                                .learning_rate = 0.1f },
                                                 .variables = layers,
                                                 .variable_count = 4 };
    float before[6], after[6];
    copse_trainer *t;
    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = { "w1", "b1", "w2", "b2" };
        const struct copse_variable_params p = { .name = names[i], .shape = shapes[i] };
        OK(copse_variable_create(st, &p, &layers[i]));
    }
    OK(copse_variable_read(layers[0], 0, before));
    OK(copse_trainer_create(st, &params, &t));
    OK(copse_trainer_step(t, &batch));
    OK(copse_variable_read(layers[0], 0, after));
    for (int i = 0; i < 6; i += 2) {
        assert_true(after[i] != before[i] && after[i + 1] != before[i + 1]);
        assert_true(after[i] != after[i + 1]);
    }
    copse_trainer_release(&t);
}

static void unknown_ones_are_refused(void **state)
{
    static const int unknown[] = { -1, COPSE_INIT_TRUNCATED_NORMAL + 1 };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(unknown); i++) {
        copse_variable *v = NULL;
        const struct copse_variable_params p = { .name = "unknown",
                                                 .shape = COPSE_SHAPE(3),
                                                 .initializer = (copse_initializer)unknown[i] };
        assert_int_equal(copse_variable_create(st, &p, &v), COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(copse_last_error(), "unknown initializer"));
        assert_null(v);
    }
    copse_variable *v = NULL;
    const struct copse_variable_params ints = { .name = "ints",
                                                .shape = COPSE_SHAPE(3),
                                                .type = COPSE_I32,
                                                .initializer = COPSE_INIT_ORTHOGONAL };
    assert_int_equal(copse_variable_create(st, &ints, &v), COPSE_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same_on_every_machine),
        cmocka_unit_test(orthogonal_vectors_are),
        cmocka_unit_test(truncated_normal_has_no_tails),
        cmocka_unit_test(ones_with_a_scale_are_a_constant),
        cmocka_unit_test(default_depends_on_the_use),
        cmocka_unit_test(two_units_of_a_layer_learn_differently),
        cmocka_unit_test(unknown_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
