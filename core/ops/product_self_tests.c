/* SPDX-License-Identifier: MIT */
/* Self-tests of the kernels of matrix products: one product that is no multiple of any tile. */
#include "core/ops/product.h"
#include "core/ops/self_tests.h"

#define M 9u
#define N 70u
#define K 12u

static uint32_t divide_up(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

/* Sixteenths, so that sums are where activations are not flat, and still exact. */
static void soften(struct copse_self_test *t, uint32_t buffer, int32_t activation)
{
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
        copse__test_set(t, buffer, i, (float)((int)(7 * i + i / 9) % 9 - 4) / 16.0f);
    if (activation >= COPSE_SIGMOID)
        t->slack = COPSE_SELF_TEST_SLACK;
}

void copse_self_test_matmul(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul p = { .m = M, .n = N, .k = K, .k_end = K, .batch = 1 };
    COPSE_SELF_TEST(t, p, (uint64_t)divide_up(M, 4 * k->group_y) * divide_up(N, 4 * k->group_x),
                    M * K, K * N, N, M * N);
    soften(t, 0, k->spec[1]);
}

static void wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_matmul_wide *p = params;
    const size_t width = (size_t)16 << spec[2];
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++) {
            double sum = spec[0] ? copse__load(&args[2], j) : 0;
            for (size_t l = 0; l < p->k; l++)
                sum += copse__load(&args[0], i * p->a_row + l * p->a_step) *
                       copse__load(&args[1], j / width * p->b_panel + l * p->b_step + j % width);
            copse__store(&args[3], i * p->n + j, copse__activate(spec[1], sum));
        }
}

void copse_self_test_matmul_wide(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = 16u << k->spec[2], panels = divide_up(N, width);
    const struct copse_params_matmul_wide p = {
        .m = M, .n = N, .k = K, .a_row = 1, .a_step = M, .b_panel = K * width, .b_step = width,
        .batch = 1,
    };
    COPSE_SELF_TEST(t, p, (uint64_t)divide_up(M, 6) * panels, M * K, panels * K * width, N, M * N);
    soften(t, 0, k->spec[1]);
    t->truth = wide;
}

static void pack(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_matmul_wide_pack *p = params;
    const size_t cols = divide_up(p->n, p->width) * (size_t)p->width;
    (void)spec;
    for (size_t i = 0; i < p->k; i++)
        for (size_t j = 0; j < cols; j++)
            copse__store(&args[1], (j / p->width * p->k + i) * p->width + j % p->width,
                         j < p->n ? copse__load(&args[0], i * p->n + j) : 0);
}

void copse_self_test_matmul_wide_pack(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_wide_pack p = { .k = 5, .n = 40, .width = 32, .batch = 1 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, 5 * 40, 5 * 64);
    t->truth = pack;
}

static void turn(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_matmul_wide_turn *p = params;
    (void)spec;
    for (size_t i = 0; i < p->padded; i++)
        for (size_t j = 0; j < p->cols; j++)
            copse__store(&args[1], i / p->width * p->panel + j * p->step + i % p->width,
                         i < p->rows ? copse__load(&args[0], i * p->cols + j) : 0);
}

void copse_self_test_matmul_wide_turn(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_wide_turn p = {
        .rows = 20, .cols = 18, .width = 16, .panel = 18 * 16, .step = 16, .padded = 32,
        .to_batch = 32 * 18, .batch = 1,
    };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, 20 * 18, 32 * 18);
    t->truth = turn;
}

void copse_self_test_matmul_pad(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_pad p = { 5, 7, 8, 8, 2 };
    COPSE_SELF_TEST(t, p, 2 * (uint64_t)divide_up(8, k->group_y), 2 * 5 * 7, 2 * 8 * 8);
}

static void texel(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_matmul_texel *p = params;
    const size_t a_row = 4 * (size_t)p->a_row, b_row = 4 * (size_t)p->b_row;
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++) {
            double sum = spec[0] ? copse__load(&args[2], j) : 0;
            for (size_t l = 0; l < p->k; l++)
                sum += copse__load(&args[0], spec[2] ? l * a_row + i : i * a_row + l) *
                       copse__load(&args[1], spec[3] ? j * b_row + l : l * b_row + j);
            copse__store(&args[3], i * p->n + j, copse__activate(spec[1], sum));
        }
}

void copse_self_test_matmul_texel(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool a_transposed = k->spec[2] != 0, b_transposed = k->spec[3] != 0;
    const uint32_t a_row = divide_up(a_transposed ? M : K, 4), a_rows = a_transposed ? K : M;
    const uint32_t b_row = divide_up(b_transposed ? K : N, 4), b_rows = b_transposed ? N : K;
    const struct copse_params_matmul_texel p = {
        .m = M, .n = N, .k = K, .k_end = K, .a_row = a_row, .b_row = b_row, .batch = 1,
    };
    COPSE_SELF_TEST(t, p, (uint64_t)divide_up(M, 8) * divide_up(N, 64), 4 * a_row * a_rows,
                    4 * b_row * b_rows, N, M * N);
    soften(t, 0, k->spec[1]);
    t->truth = texel;
}

void copse_self_test_bias_activation(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_bias_activation p = { 91, 7 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 91, 7, 91);
    soften(t, 0, k->spec[1]);
    soften(t, 1, k->spec[1]);
}
