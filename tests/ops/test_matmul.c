/* SPDX-License-Identifier: MIT */
/* Matrix products: the double reference against the definition; variants that cannot be forced. */
#include <stdlib.h>

#include "copse/device/function.h"
#include "copse/matmul.h"
#include "tests/rig/op_harness.h"

static double whole(size_t i)
{
    return (double)(i * 7919 % 13) - 6;
}

/* [batch, m, n] by the definition, independent of the library's reference. */
static void multiply(const double *a, const double *b, const uint32_t *size, bool ta, bool tb,
                     double *y)
{
    const size_t batch = size[0], m = size[1], n = size[2], k = size[3];
    for (size_t t = 0; t < batch; t++)
        for (size_t r = 0; r < m; r++)
            for (size_t c = 0; c < n; c++) {
                double sum = 0;
                for (size_t i = 0; i < k; i++)
                    sum += a[t * m * k + (ta ? i * m + r : r * k + i)] *
                           b[t * k * n + (tb ? c * k + i : i * n + c)];
                y[(t * m + r) * n + c] = sum;
            }
}

static void the_reference_is_the_definition(void **state)
{
    (void)state;
    enum { MOST = 70 * 70 };
    static const uint32_t sizes[][4] = {
        { 1, 1, 1, 1 }, { 3, 7, 5, 6 }, { 2, 17, 65, 31 }, { 1, 16, 64, 64 }, { 1, 33, 3, 65 },
        { 1, 3, 4, 0 },
    };
    double *a = calloc(MOST, sizeof *a), *b = calloc(MOST, sizeof *b);
    double *want = calloc(MOST, sizeof *want), *got = calloc(MOST, sizeof *got);
    for (size_t i = 0; i < MOST; i++) {
        a[i] = whole(i);
        b[i] = whole(i + 5);
    }
    for (size_t s = 0; s < COPSE_COUNT(sizes); s++)
        for (int t = 0; t < 4; t++) {
            const uint32_t batch = sizes[s][0], m = sizes[s][1], n = sizes[s][2], k = sizes[s][3];
            const bool ta = t & 1, tb = t & 2;
            copse_graph *g;
            copse_tensor *in[2], *y;
            OK(copse_graph_create(harness_context(), &g));
            OK(copse_graph_input(g, "a", COPSE_F32,
                           ta ? COPSE_SHAPE(batch, k, m) : COPSE_SHAPE(batch, m, k), &in[0]));
            OK(copse_graph_input(g, "b", COPSE_F32,
                           tb ? COPSE_SHAPE(batch, n, k) : COPSE_SHAPE(batch, k, n), &in[1]));
            OK(copse_matmul(g, in[0], in[1], ta, tb, &y));
            harness_in_double(g, in, (double *[]){ a, b }, 2, &y, 1, NULL, &got);
            multiply(a, b, sizes[s], ta, tb, want);
            for (size_t i = 0; i < (size_t)batch * m * n; i++)
                if (got[i] != want[i])
                    fail_msg("%u x %u x %u: element %zu is %g, expected %g", (unsigned)m,
                             (unsigned)n, (unsigned)k, i, got[i], want[i]);
            copse_graph_release(&g);
        }
    free(a);
    free(b);
    free(want);
    free(got);
}

static void variants_are_refused_by_name(void **state)
{
    (void)state;
    copse_device *host;
    copse_graph *g;
    copse_tensor *a, *y;
    copse_function *f;
    OK(copse_device_open(harness_context(), "host:0", NULL, &host));
    OK(copse_graph_create(harness_context(), &g));
    OK(copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(4, 4), &a));
    OK(copse_matmul(g, a, a, false, false, &y));
    harness_fails(copse_function_create(host, &(struct copse_function_params){ .graph = g, .outputs = &y,
                .output_count = 1,
                                                                              .kernels = "matmul=cubic" },
                                        &f),
                  COPSE_ERR_ARGUMENT, "no variant 'cubic'");
    harness_fails(copse_function_create(host, &(struct copse_function_params){ .graph = g, .outputs = &y,
                .output_count = 1,
                                                                              .kernels = "matmul=wide" },
                                        &f),
                  COPSE_ERR_UNSUPPORTED, "matmul_wide");
    copse_graph_release(&g);
    copse_device_release(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_are_refused_by_name),
        cmocka_unit_test(the_reference_is_the_definition),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
