/* SPDX-License-Identifier: MIT */
/* Dense layers and the derivatives of matrix products, on every device found. */
#include <math.h>
#include <stdlib.h>

#include "copse/matmul.h"
#include "tests/op_harness.h"

static const char *const variants[] = { NULL, "matmul" }; /* what fits, and the shared body */

static copse_status dense(copse_graph *g, copse_tensor *const *in, const void *user,
                          copse_tensor **y)
{
    return copse_dense(g, in[0], in[1], in[2], *(const copse_activation *)user, y);
}

static copse_status dense_without_bias(copse_graph *g, copse_tensor *const *in, const void *user,
                                       copse_tensor **y)
{
    return copse_dense(g, in[0], in[1], NULL, *(const copse_activation *)user, y);
}

static copse_status product(copse_graph *g, copse_tensor *const *in, const void *user,
                            copse_tensor **y)
{
    const int transposed = *(const int *)user;
    return copse_matmul(g, in[0], in[1], transposed & 1, transposed & 2, y);
}

static struct harness_input random_input(copse_shape shape)
{
    return (struct harness_input){ COPSE_F32, shape, -1, 1, NULL, false };
}

static void derivatives_of_products(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++)
        for (size_t v = 0; v < COPSE_COUNT(variants); v++) {
            const bool ta = t & 1, tb = t & 2;
            struct harness_case c = {
                .name = "matmul",
                .build = product,
                .user = &t,
                .in = { random_input(ta ? COPSE_SHAPE(5, 9) : COPSE_SHAPE(9, 5)),
                        random_input(tb ? COPSE_SHAPE(18, 5) : COPSE_SHAPE(5, 18)) },
                .in_count = 2,
                .forward = { .ratio = 16 },
                .backward = { .ratio = 16 },
                .matmul = variants[v],
            };
            harness_run(&c);
            c.in[0] = random_input(ta ? COPSE_SHAPE(2, 3, 4, 3) : COPSE_SHAPE(2, 3, 3, 4));
            c.in[1] = random_input(tb ? COPSE_SHAPE(2, 3, 6, 4) : COPSE_SHAPE(2, 3, 4, 6));
            harness_run(&c);
        }
}

static void layers_of_every_kind(void **state)
{
    (void)state;
    static const copse_shape shapes[] = {
        { 1, { 6 } }, { 2, { 7, 6 } }, { 3, { 2, 3, 6 } }, { 2, { 0, 6 } }, { 2, { 65, 6 } },
    };
    for (copse_activation f = COPSE_LINEAR; f <= COPSE_SILU; f++)
        for (size_t s = 0; s < COPSE_COUNT(shapes); s++)
            for (size_t v = 0; v < COPSE_COUNT(variants); v++) {
                struct harness_case c = {
                    .name = "dense",
                    .build = dense,
                    .user = &f,
                    .in = { random_input(shapes[s]), random_input(COPSE_SHAPE(6, 17)),
                            random_input(COPSE_SHAPE(17)) },
                    .in_count = 3,
                    .forward = { .ulp = 4, .of_max = 2e-6 },
                    .backward = { .ulp = 4, .of_max = 2e-6 },
                    .seed = 1 + s,
                    .matmul = variants[v],
                };
                harness_run(&c);
                c.build = dense_without_bias;
                c.in_count = 2;
                harness_run(&c);
            }
}

static void layers_match_their_definition(void **state)
{
    (void)state;
    enum { K = 5, N = 3 };
    double x[K], w[K * N], bias[N], got[N], *values[] = { x, w, bias }, *results[] = { got };
    for (size_t i = 0; i < K * N; i++)
        w[i] = sin((double)i + 1);
    for (size_t i = 0; i < K; i++)
        x[i] = cos((double)i);
    for (size_t i = 0; i < N; i++)
        bias[i] = 0.25 - 0.5 * (double)i;
    for (copse_activation f = COPSE_LINEAR; f <= COPSE_SILU; f++) {
        copse_graph *g;
        copse_tensor *in[3], *y;
        OK(copse_graph_create(harness_context(), &g));
        OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(1, K), &in[0]));
        OK(copse_input(g, "w", COPSE_F32, COPSE_SHAPE(K, N), &in[1]));
        OK(copse_input(g, "bias", COPSE_F32, COPSE_SHAPE(N), &in[2]));
        OK(copse_dense(g, in[0], in[1], in[2], f, &y));
        harness_in_double(g, in, values, 3, &y, 1, NULL, results);
        for (size_t j = 0; j < N; j++) {
            double z = bias[j];
            for (size_t k = 0; k < K; k++)
                z += x[k] * w[k * N + j];
            const double s = 1 / (1 + exp(-z));
            const double expected[] = {
                z, z > 0 ? z : 0, s, tanh(z), 0.5 * z * erfc(-z / sqrt(2)), z * s,
            };
            assert_true(fabs(got[j] - expected[f]) < 1e-14);
        }
        copse_graph_release(&g);
    }
}

static void layers_of_nothing_are_the_bias(void **state)
{
    (void)state;
    const copse_activation f = COPSE_RELU;
    const struct harness_case c = {
        .name = "dense",
        .build = dense,
        .user = &f,
        .in = { random_input(COPSE_SHAPE(3, 0)), random_input(COPSE_SHAPE(0, 5)),
                random_input(COPSE_SHAPE(5)) },
        .in_count = 3,
        .backward = { .ratio = 4 },
    };
    harness_run(&c);
}

/* Sums down tall and narrow, short and wide matrices, in one pass and in several. */
static void derivatives_of_biases_come_out_exactly(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = { { 1, 1 },    { 63, 31 },   { 64, 32 }, { 65, 33 },
                                         { 4096, 5 }, { 4097, 65 }, { 9001, 2 } };
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
        const uint32_t rows = sizes[i][0], cols = sizes[i][1];
        const size_t n = (size_t)rows * cols;
        double *x = calloc(rows, sizeof *x), *w = calloc(cols, sizeof *w);
        double *dy = malloc(n * sizeof *dy), *sums = calloc(cols, sizeof *sums);
        double *got = calloc(cols, sizeof *got);
        for (size_t e = 0; e < n; e++) {
            dy[e] = (double)(e * 7919 % 13) - 6;
            sums[e % cols] += dy[e];
        }
        copse_graph *g;
        copse_tensor *in[4], *y, *db;
        OK(copse_graph_create(harness_context(), &g));
        OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(rows, 1), &in[0]));
        OK(copse_input(g, "w", COPSE_F32, COPSE_SHAPE(1, cols), &in[1]));
        OK(copse_input(g, "bias", COPSE_F32, COPSE_SHAPE(cols), &in[2]));
        OK(copse_input(g, "dy", COPSE_F32, COPSE_SHAPE(rows, cols), &in[3]));
        OK(copse_dense(g, in[0], in[1], in[2], COPSE_LINEAR, &y));
        OK(copse_gradients(g, y, in[3], &in[2], 1, &db));
        for (size_t d = 0; d < harness_device_count(); d++) {
            harness_on_device(harness_device(d), g, in, (double *[]){ x, w, w, dy }, 4, &db, 1,
                              NULL, NULL, &got);
            for (size_t j = 0; j < cols; j++)
                if (got[j] != sums[j])
                    fail_msg("%s: %u x %u: sum %zu is %g, expected %g",
                             copse_device_describe(harness_device(d))->id, (unsigned)rows,
                             (unsigned)cols, j, got[j], sums[j]);
        }
        copse_graph_release(&g);
        free(x);
        free(w);
        free(dy);
        free(sums);
        free(got);
    }
}

static void misfits_are_named(void **state)
{
    (void)state;
    copse_graph *g;
    copse_tensor *y, *a, *b, *v, *w;
    OK(copse_graph_create(harness_context(), &g));
    OK(copse_input(g, "a", COPSE_F32, COPSE_SHAPE(4, 5), &a));
    OK(copse_input(g, "b", COPSE_F32, COPSE_SHAPE(6, 3), &b));
    OK(copse_input(g, "v", COPSE_F32, COPSE_SHAPE(5), &v));
    OK(copse_input(g, "w", COPSE_F32, COPSE_SHAPE(5, 4), &w));
    harness_fails(copse_dense(g, a, b, NULL, COPSE_RELU, &y), COPSE_ERR_SHAPE,
                  "dense: operands f32[4, 5] and f32[6, 3]: expected w to have 5 rows");
    assert_null(y);
    harness_fails(copse_dense(g, a, w, v, COPSE_RELU, &y), COPSE_ERR_SHAPE,
                  "expected a bias of 4 elements");
    harness_fails(copse_dense(g, a, v, NULL, COPSE_RELU, &y), COPSE_ERR_SHAPE, "w of rank 2");
    harness_fails(copse_dense(g, a, NULL, NULL, COPSE_RELU, &y), COPSE_ERR_ARGUMENT, "operand 1");
    harness_fails(copse_dense(g, a, w, NULL, (copse_activation)9, &y), COPSE_ERR_ARGUMENT,
                  "no activation");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_named),
        cmocka_unit_test(layers_match_their_definition),
        cmocka_unit_test(layers_of_nothing_are_the_bias),
        cmocka_unit_test(layers_of_every_kind),
        cmocka_unit_test(derivatives_of_products),
        cmocka_unit_test(derivatives_of_biases_come_out_exactly),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
