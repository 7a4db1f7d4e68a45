/* SPDX-License-Identifier: MIT */
/* Dense layers and the sums down columns in their gradients: the tables of conformance cases; the reference against
   the definition; misfits. */
#include <math.h>

#include "copse/matmul.h"
#include "tests/op_harness.h"

static void table(void **state)
{
    (void)state;
    harness_run_named("dense");
}

static void sums_down_columns(void **state)
{
    (void)state;
    harness_run_named("column_sum");
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
        cmocka_unit_test(table),
        cmocka_unit_test(sums_down_columns),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
