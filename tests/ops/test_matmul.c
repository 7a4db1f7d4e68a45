/* SPDX-License-Identifier: MIT */
/* Matrix products: the double reference against the definition; variants that cannot be forced. */
#include <stdlib.h>

#include "copse/device/function.h"
#include "copse/matmul.h"
#include "tests/rig/conformance/op_harness.h"

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
        { 1, 1, 1, 1 },    { 3, 7, 5, 6 },   { 2, 17, 65, 31 },
        { 1, 16, 64, 64 }, { 1, 33, 3, 65 }, { 1, 3, 4, 0 },
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
            in[0] = copse_graph_input(g, "a", COPSE_F32,
                                      ta ? COPSE_SHAPE(batch, k, m) : COPSE_SHAPE(batch, m, k));
            in[1] = copse_graph_input(g, "b", COPSE_F32,
                                      tb ? COPSE_SHAPE(batch, n, k) : COPSE_SHAPE(batch, k, n));
            y = copse_matmul(g, in[0], in[1], ta, tb);
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

/* ---- leading axes ---- */

static copse_tensor *repeated(copse_graph *g, copse_tensor *x, copse_shape lead)
{
    const copse_shape s = copse_tensor_shape(x);
    lead.dims[lead.rank++] = s.dims[s.rank - 2];
    lead.dims[lead.rank++] = s.dims[s.rank - 1];
    x = copse_broadcast_to(g, x, lead);
    return x;
}

static copse_tensor *operand(copse_graph *g, copse_shape lead, uint32_t rows, uint32_t cols)
{
    lead.dims[lead.rank++] = rows;
    lead.dims[lead.rank++] = cols;
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, lead);
    return x;
}

/* The same as the product of the repeated matrices, with all its derivatives: whole numbers, so
   without an error. */
static void check_leads(copse_device *dev, copse_shape a, copse_shape b, copse_shape both, bool ta,
                        bool tb)
{
    enum { MOST = 4000, M = 3, N = 4, K = 2 };
    static double values[3][MOST], got[6][MOST];
    double *in[] = { values[0], values[1], values[2] };
    copse_graph *g;
    copse_tensor *x[3], *out[6];
    OK(copse_graph_create(harness_context(), &g));
    x[0] = operand(g, a, ta ? K : M, ta ? M : K);
    x[1] = operand(g, b, tb ? N : K, tb ? K : N);
    x[2] = operand(g, both, M, N);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < MOST; k++)
            values[i][k] = whole(k + 5 * i);
    out[0] = copse_matmul(g, x[0], x[1], ta, tb);
    out[3] = copse_matmul(g, repeated(g, x[0], both), repeated(g, x[1], both), ta, tb);
    copse_gradients(g, out[0], x[2], x, 2, &out[1]);
    copse_gradients(g, out[3], x[2], x, 2, &out[4]);
    harness_on_device(dev, g, x, in, 3, out, 6, NULL,
                      (double *[]){ got[0], got[1], got[2], got[3], got[4], got[5] });
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < copse__elements(out[i]->shape); k++)
            if (got[i][k] != got[i + 3][k])
                fail_msg("%s, output %zu, element %zu: %g, with repeated matrices %g",
                         ta ? "a transposed" : "a", i, k, got[i][k], got[i + 3][k]);
    copse_graph_release(&g);
}

static void leading_axes_repeat(void **state)
{
    static const struct {
        copse_shape a, b, both;
    } rows[] = {
        { { 1, { 3 } }, { 0, { 0 } }, { 1, { 3 } } },
        { { 0, { 0 } }, { 2, { 2, 3 } }, { 2, { 2, 3 } } },
        { { 2, { 2, 3 } }, { 1, { 3 } }, { 2, { 2, 3 } } },
        { { 2, { 2, 1 } }, { 2, { 1, 3 } }, { 2, { 2, 3 } } },
        { { 2, { 2, 3 } }, { 2, { 2, 1 } }, { 2, { 2, 3 } } },
        { { 3, { 2, 3, 4 } }, { 3, { 1, 3, 1 } }, { 3, { 2, 3, 4 } } },
        { { 3, { 2, 1, 4 } }, { 3, { 2, 3, 4 } }, { 3, { 2, 3, 4 } } },
        { { 1, { 1 } }, { 2, { 3, 1 } }, { 2, { 3, 1 } } },
    };
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t i = 0; i < COPSE_COUNT(rows); i++)
            for (int t = 0; t < 4; t++)
                check_leads(harness_device(d), rows[i].a, rows[i].b, rows[i].both, t & 1, t & 2);
}

static void variants_are_refused_by_name(void **state)
{
    (void)state;
    copse_device *host;
    copse_graph *g;
    copse_function *f;
    OK(copse_device_open(harness_context(), "host:0", NULL, &host));
    OK(copse_graph_create(harness_context(), &g));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(4, 4));
    copse_tensor *y = copse_matmul(g, a, a, false, false);
    harness_fails(copse_function_create(
                      host,
                      &(struct copse_function_params){
                          .graph = g, .outputs = &y, .output_count = 1, .kernels = "matmul=cubic" },
                      &f),
                  COPSE_ERR_ARGUMENT, "no variant 'cubic'");
    harness_fails(copse_function_create(
                      host,
                      &(struct copse_function_params){
                          .graph = g, .outputs = &y, .output_count = 1, .kernels = "matmul=wide" },
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
        cmocka_unit_test(leading_axes_repeat),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
