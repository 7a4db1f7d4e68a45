/* SPDX-License-Identifier: MIT */
/* Dense layers: the double reference against the definition. */
#include <math.h>

#include "copse/matmul.h"
#include "tests/rig/conformance/op_harness.h"

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
        in[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(1, K));
        in[1] = copse_graph_input(g, "w", COPSE_F32, COPSE_SHAPE(K, N));
        in[2] = copse_graph_input(g, "bias", COPSE_F32, COPSE_SHAPE(N));
        y = copse_dense(g, in[0], in[1], in[2], f);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_match_their_definition),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
