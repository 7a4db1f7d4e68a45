/* SPDX-License-Identifier: MIT */
/* References and self-tests of the kernels of matrix products. */
#include <math.h>

#include "core/base/half.h"
#include "core/device/kernel/launch_split.h"
#include "core/device/kernel/sum_bound.h"
#include "core/ops/product/product_end.h"
#include "core/ops/self_tests.h"

/* ---- references ---- */

/* Blocked only so that a training step on the host device does not take minutes: the sums are
   plain, in double, in the order of k. */
enum { BLOCK_M = 16, BLOCK_N = 64, BLOCK_K = 64 };

struct blocks {
    double a[BLOCK_M][BLOCK_K], b[BLOCK_K][BLOCK_N], sum[BLOCK_M][BLOCK_N];
};

/* Operands: f32, or 16 bits in words, and the magnitudes of these, for bounds. */
struct elements {
    copse_type type;
    bool are_magnitudes;
};

static double matmul_kernels_element(const struct copse_host_arg *x, size_t i,
                                     const struct elements *of)
{
    if (of->type == COPSE_F32)
        return copse__load(x, i);
    const uint16_t h = (uint16_t)((uint32_t)copse__load_i(x, i / 2) >> (16 * (i % 2)));
    const double y =
        (double)(of->type == COPSE_BF16 ? copse__bf16_to_f32(h) : copse__f16_to_f32(h));
    return of->are_magnitudes ? fabs(y) : y;
}

/* A matrix of strides `row` and `col` from element `first` on. */
struct strided {
    const struct copse_host_arg *x;
    size_t first, row, col;
};

static void load_block(const struct strided *from, const struct elements *of, size_t rows,
                       size_t cols, double *to, size_t to_row)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; of->type == COPSE_F32 && j < cols; j++)
            to[i * to_row + j] = copse__load(from->x, from->first + i * from->row + j * from->col);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; of->type != COPSE_F32 && j < cols; j++)
            to[i * to_row + j] =
                matmul_kernels_element(from->x, from->first + i * from->row + j * from->col, of);
}

/* It touches nothing but the blocks, whose sizes are fixed. Checks of each element keep the loops from
   vectors, and would be a fifth of the time of all sanitized tests. */
#ifdef __GNUC__
__attribute__((noinline, no_sanitize("address", "undefined", "thread")))
#endif
static void
multiply_block(struct blocks *x, size_t rows, size_t depth)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < depth; k++) {
            const double a = x->a[i][k];
            for (size_t j = 0; j < BLOCK_N; j++)
                x->sum[i][j] += a * x->b[k][j];
        }
}

/* matmul_half has the parameters of matmul. */
_Static_assert(sizeof(struct copse_params_matmul) == sizeof(struct copse_params_matmul_half),
               "parameters");

static void matmul_kernels_product(const struct copse_params_matmul *p, const int32_t *spec,
                                   const struct copse_host_arg *args, const struct elements *of)
{
    const size_t m = p->m, n = p->n, k = p->k;
    const size_t a_row = spec[2] ? 1 : k, a_col = spec[2] ? m : 1;
    const size_t b_row = spec[3] ? 1 : n, b_col = spec[3] ? k : 1;
    struct blocks x;
    memset(x.b, 0, sizeof x.b);
    for (size_t item = 0; item < p->batch; item++)
        for (size_t i0 = 0; i0 < m; i0 += BLOCK_M)
            for (size_t j0 = 0; j0 < n; j0 += BLOCK_N) {
                const size_t rows = COPSE_MIN(BLOCK_M, m - i0), cols = COPSE_MIN(BLOCK_N, n - j0);
                memset(x.sum, 0, sizeof x.sum);
                for (size_t k0 = p->k_begin; k0 < p->k_end; k0 += BLOCK_K) {
                    const size_t depth = COPSE_MIN(BLOCK_K, p->k_end - k0);
                    const size_t a = item / p->a_each % p->a_count * m * k,
                                 b = item / p->b_each % p->b_count * k * n;
                    load_block(
                        &(struct strided){ &args[0], a + i0 * a_row + k0 * a_col, a_row, a_col },
                        of, rows, depth, x.a[0], BLOCK_K);
                    load_block(
                        &(struct strided){ &args[1], b + k0 * b_row + j0 * b_col, b_row, b_col },
                        of, depth, cols, x.b[0], BLOCK_N);
                    multiply_block(&x, rows, depth);
                }
                for (size_t i = 0; i < rows; i++)
                    for (size_t j = 0; j < cols; j++) {
                        const size_t at = (item * m + i0 + i) * n + j0 + j;
                        double v = x.sum[i][j];
                        if (p->k_begin > 0)
                            v += copse__load(&args[3], at);
                        if (p->k_end == p->k)
                            v = copse__activate(spec[1],
                                                spec[0] ? v + copse__load(&args[2], j0 + j) : v);
                        copse__store(&args[3], at, v);
                    }
            }
}

static void matmul_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    matmul_kernels_product(params, spec, args, &(struct elements){ COPSE_F32, false });
}

/* spec[5], which the kernels do not have: magnitudes of the operands. */
static struct elements matmul_kernels_halves(const int32_t *spec)
{
    return (struct elements){ spec[4] ? COPSE_BF16 : COPSE_F16, spec[5] != 0 };
}

static void matmul_half_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct elements of = matmul_kernels_halves(spec);
    matmul_kernels_product(params, spec, args, &of);
}

static double product_at(const struct copse_params_matmul *p, const int32_t *spec,
                         const struct copse_host_arg *args, const struct elements *of, size_t place)
{
    const size_t m = p->m, n = p->n, k = p->k, item = place / n / m, i = place / n % m,
                 j = place % n;
    const size_t a = item / p->a_each % p->a_count * m * k,
                 b = item / p->b_each % p->b_count * k * n;
    double sum = p->k_begin > 0 ? copse__load(&args[3], place) : 0;
    for (size_t l = p->k_begin; l < p->k_end; l++)
        sum += matmul_kernels_element(&args[0], a + (spec[2] ? l * m + i : i * k + l), of) *
               matmul_kernels_element(&args[1], b + (spec[3] ? j * k + l : l * n + j), of);
    return p->k_end == p->k
               ? copse__activate(spec[1], spec[0] ? sum + copse__load(&args[2], j) : sum)
               : sum;
}

static double matmul_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t place)
{
    return product_at(params, spec, args, &(struct elements){ COPSE_F32, false }, place);
}

static double matmul_half_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t place)
{
    const struct elements of = matmul_kernels_halves(spec);
    return product_at(params, spec, args, &of, place);
}

static double matmul_pad_at(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_matmul_pad *p = params;
    const size_t row = place / p->cols_to, item = row / p->rows_to, i = row % p->rows_to,
                 j = place % p->cols_to;
    (void)spec;
    return i < p->rows && j < p->cols ? copse__load(&args[0], (item * p->rows + i) * p->cols + j)
                                      : 0;
}

static void matmul_pad_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_matmul_pad *p = params;
    for (size_t i = 0; i < (size_t)p->batch * p->rows_to * p->cols_to; i++)
        copse__store(&args[1], i, matmul_pad_at(params, spec, args, i));
}

static void bias_activation_host(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_bias_activation *p = params;
    for (size_t i = 0; i < p->count; i++) {
        const double x = copse__load(&args[0], i);
        copse__store(&args[2], i,
                     copse__activate(spec[1], spec[0] ? x + copse__load(&args[1], i % p->n) : x));
    }
}

/* ---- self-tests: one product that is no multiple of any tile ---- */

#define M 9u
#define N 70u
#define K 12u

static uint32_t divide_up(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

void copse__matmul_soften(struct copse_self_test *t, uint32_t buffer, int32_t activation)
{
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
        copse__test_set(t, buffer, i, (float)((int)(7 * i + i / 9) % 9 - 4) / 16.0f);
    if (activation >= COPSE_SIGMOID)
        t->slack = COPSE_SELF_TEST_SLACK;
}

static void matmul_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    /* Two products, with one B if operands repeat. */
    const struct copse_params_matmul p = { .m = M,
                                           .n = N,
                                           .k = K,
                                           .k_end = K,
                                           .batch = 2,
                                           .a_each = 1,
                                           .a_count = 2,
                                           .b_each = k->spec[4] ? 2 : 1,
                                           .b_count = k->spec[4] ? 1 : 2 };
    COPSE_SELF_TEST(t, p, 2 * (uint64_t)divide_up(M, 4 * k->group_y) * divide_up(N, 4 * k->group_x),
                    2 * M * K, 2 * K * N, N, 2 * M * N);
    copse__matmul_soften(t, 0, k->spec[1]);
}

static double matmul_wide_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_matmul_wide *p = params;
    const size_t width = (size_t)16 << spec[2], row = place / p->n, j = place % p->n,
                 item = row / p->m, i = row % p->m;
    const size_t a = item / p->a_each % p->a_count * p->a_batch + i * p->a_row;
    const size_t b =
        item / p->b_each % p->b_count * p->b_batch + j / width * p->b_panel + j % width;
    double sum = spec[0] ? copse__load(&args[2], j) : 0;
    for (size_t l = 0; l < p->k; l++)
        sum += copse__load(&args[0], a + l * p->a_step) * copse__load(&args[1], b + l * p->b_step);
    return copse__activate(spec[1], sum);
}

static void matmul_wide_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_matmul_wide *p = params;
    for (size_t i = 0; i < (size_t)p->batch * p->m * p->n; i++)
        copse__store(&args[3], i, matmul_wide_at(params, spec, args, i));
}

static void matmul_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = 16u << k->spec[2], panels = divide_up(N, width);
    const struct copse_params_matmul_wide p = {
        .m = M,
        .n = N,
        .k = K,
        .a_row = 1,
        .a_step = M,
        .b_panel = K * width,
        .b_step = width,
        .batch = 1,
        .a_each = 1,
        .a_count = 1,
        .b_each = 1,
        .b_count = 1,
    };
    COPSE_SELF_TEST(t, p, (uint64_t)divide_up(M, 6) * panels, M * K, panels * K * width, N, M * N);
    copse__matmul_soften(t, 0, k->spec[1]);
}

/* Place i of `x` is element i % cols of row i / cols, where rows are padded to a multiple of the
   width. */
static size_t matmul_wide_pack_place(const void *params, const int32_t *spec, size_t i)
{
    const struct copse_params_matmul_wide_pack *p = params;
    const size_t cols = divide_up(p->n, p->width) * (size_t)p->width, row = i / cols, j = i % cols;
    (void)spec;
    return row / p->k * p->k * cols + (j / p->width * p->k + row % p->k) * p->width + j % p->width;
}

static double matmul_wide_pack_at(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_matmul_wide_pack *p = params;
    const size_t cols = divide_up(p->n, p->width) * (size_t)p->width, row = i / cols, j = i % cols;
    (void)spec;
    return j < p->n ? copse__load(&args[0], row * p->n + j) : 0;
}

static void matmul_wide_pack_host(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args)
{
    const struct copse_params_matmul_wide_pack *p = params;
    for (size_t i = 0; i < (size_t)p->batch * p->k * divide_up(p->n, p->width) * p->width; i++)
        copse__store(&args[1], matmul_wide_pack_place(params, spec, i),
                     matmul_wide_pack_at(params, spec, args, i));
}

static void matmul_wide_pack_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_wide_pack p = { .k = 5, .n = 40, .width = 32, .batch = 1 };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, 5 * 40, 5 * 64);
}

/* Place i of `x` is element i % cols of row i / cols, where there are `padded` rows. */
static size_t matmul_wide_turn_place(const void *params, const int32_t *spec, size_t i)
{
    const struct copse_params_matmul_wide_turn *p = params;
    const size_t row = i / p->cols, j = i % p->cols, item = row / p->padded, at = row % p->padded;
    (void)spec;
    return item * p->to_batch + at / p->width * p->panel + j * p->step + at % p->width;
}

static double matmul_wide_turn_at(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_matmul_wide_turn *p = params;
    const size_t row = i / p->cols, j = i % p->cols, item = row / p->padded, at = row % p->padded;
    (void)spec;
    return at < p->rows ? copse__load(&args[0], (item * p->rows + at) * p->cols + j) : 0;
}

static void matmul_wide_turn_host(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args)
{
    const struct copse_params_matmul_wide_turn *p = params;
    for (size_t i = 0; i < (size_t)p->batch * p->padded * p->cols; i++)
        copse__store(&args[1], matmul_wide_turn_place(params, spec, i),
                     matmul_wide_turn_at(params, spec, args, i));
}

static void matmul_wide_turn_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_wide_turn p = {
        .rows = 20,
        .cols = 18,
        .width = 16,
        .panel = 18 * 16,
        .step = 16,
        .padded = 32,
        .to_batch = 32 * 18,
        .batch = 1,
    };
    (void)k;
    COPSE_SELF_TEST(t, p, 2, 20 * 18, 32 * 18);
}

static void matmul_pad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_pad p = { 5, 7, 8, 8, 2 };
    COPSE_SELF_TEST(t, p, 2 * (uint64_t)divide_up(8, k->group_y), 2 * 5 * 7, 2 * 8 * 8);
}

static double matmul_texel_sum_at(const struct copse_params_matmul_texel *p, const int32_t *spec,
                                  const struct copse_host_arg *args, size_t place)
{
    const size_t a_row = 4 * (size_t)p->a_row, b_row = 4 * (size_t)p->b_row;
    const size_t row = place / p->n, j = place % p->n, item = row / p->m, i = row % p->m;
    const size_t a = item / p->a_each % p->a_count * 4 * p->a_batch,
                 b = item / p->b_each % p->b_count * 4 * p->b_batch;
    double sum = p->k_begin > 0 ? copse__load(&args[4], place) : 0;
    for (size_t l = p->k_begin; l < p->k_end; l++)
        sum += copse__load(&args[0], a + (spec[2] ? l * a_row + i : i * a_row + l)) *
               copse__load(&args[1], b + (spec[3] ? j * b_row + l : l * b_row + j));
    return p->k_end == p->k && spec[0] ? sum + copse__load(&args[2], j) : sum;
}

static double matmul_texel_at(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_matmul_texel *p = params;
    const size_t count = (size_t)p->batch * p->m * p->n;
    const double sum = matmul_texel_sum_at(p, spec, args, i % count);
    return p->k_end == p->k ? copse__end_at(spec, sum, &args[2], count, i) : sum;
}

static void matmul_texel_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_matmul_texel *p = params;
    const size_t count = (size_t)p->batch * p->m * p->n;
    for (size_t i = 0; i < count; i++) {
        const double sum = matmul_texel_sum_at(p, spec, args, i);
        if (p->k_end == p->k)
            copse__end_store(spec, sum, &args[2], i);
        else
            copse__store(&args[4], i, sum);
    }
}

static void matmul_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool a_transposed = k->spec[2] != 0, b_transposed = k->spec[3] != 0;
    const uint32_t a_row = divide_up(a_transposed ? M : K, 4), a_rows = a_transposed ? K : M;
    const uint32_t b_row = divide_up(b_transposed ? K : N, 4), b_rows = b_transposed ? N : K;
    /* Two products, with one B if operands repeat. */
    const struct copse_params_matmul_texel p = {
        .m = M,
        .n = N,
        .k = K,
        .k_end = K,
        .a_row = a_row,
        .b_row = b_row,
        .a_batch = a_row * a_rows,
        .b_batch = b_row * b_rows,
        .batch = 2,
        .a_each = 1,
        .a_count = 2,
        .b_each = k->spec[4] ? 2 : 1,
        .b_count = k->spec[4] ? 1 : 2,
    };
    COPSE_SELF_TEST(t, p, 2 * (uint64_t)divide_up(M, 8) * divide_up(N, 64), 8 * a_row * a_rows,
                    8 * b_row * b_rows, copse__end_has_z(k->spec) ? 2 * M * N : N,
                    copse__end_keeps(k->spec) ? 2 * M * N : 1, 2 * M * N);
    copse__matmul_soften(t, 0, k->spec[1]);
}

void copse__matmul_halves(struct copse_self_test *t, uint32_t buffer, float by, bool is_bfloat)
{
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++) {
        t->words[buffer][i] = 0;
        for (uint32_t h = 0; h < 2; h++) {
            const float x = (float)((int)(14 * i + 7 * h + 3 * buffer + i / 9) % 9 - 4) / by;
            t->words[buffer][i] |=
                (uint32_t)(is_bfloat ? copse__f32_to_bf16(x) : copse__f32_to_f16(x)) << (16 * h);
        }
    }
}

static void matmul_half_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { TERMS = 20 }; /* more than a strip */
    /* Two products with one B. */
    const struct copse_params_matmul_half p = { .m = M,
                                                .n = N,
                                                .k = TERMS,
                                                .k_end = TERMS,
                                                .batch = 2,
                                                .a_each = 1,
                                                .a_count = 2,
                                                .b_each = 2,
                                                .b_count = 1 };
    COPSE_SELF_TEST(t, p, 2 * (uint64_t)divide_up(M, 4 * k->group_y) * divide_up(N, 4 * k->group_x),
                    M * TERMS, TERMS * N / 2, N, 2 * M * N);
    copse__matmul_soften(t, 2, k->spec[1]);
    copse__matmul_halves(t, 0, 16, k->spec[4] != 0);
    copse__matmul_halves(t, 1, 1, k->spec[4] != 0);
}

static void bias_activation_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_bias_activation p = { 91, 7 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 91, 7, 91);
    copse__matmul_soften(t, 0, k->spec[1]);
    copse__matmul_soften(t, 1, k->spec[1]);
}

/* ---- laws ---- */

static struct copse_elements matmul_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin };
}

static struct copse_elements matmul_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_wide *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->m * p->n, p->k };
}

static struct copse_elements matmul_texel_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_texel *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin };
}

static struct copse_elements matmul_half_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_half *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin };
}

static struct copse_elements matmul_pad_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_pad *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->rows_to * p->cols_to, 1 };
}

static struct copse_elements matmul_wide_pack_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_wide_pack *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->k * copse__round_up(p->n, p->width),
                                    1 };
}

static struct copse_elements matmul_wide_turn_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_wide_turn *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->batch * p->padded * p->cols, 1 };
}

static bool bias_activation_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    struct copse_params_bias_activation *p = COPSE_SPLIT_PARAMS(bias_activation, o);
    return copse__split_matrix(o, 3, 1, &p->count, &p->n);
}

/* Without activation. */
static void matmul_magnitudes(int32_t *spec)
{
    spec[1] = COPSE_LINEAR;
}

/* Operands are 16 bits in words: with the last constant the host function takes their
   magnitudes. */
static void matmul_half_magnitudes(int32_t *spec)
{
    spec[1] = COPSE_LINEAR;
    spec[5] = 1;
}

/* ---- roundings ---- */

/* Chains, parts of 32 of them, launches of 8,192 terms. */
static uint64_t matmul_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, 32, 8192);
}

static uint64_t matmul_texel_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, 256, 65536);
}

/* One launch; parts of 64 chains. */
static uint64_t matmul_wide_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, 64, (uint64_t)64 * COPSE_SUM_CHAIN);
}

#define SUM_OF_PARTS(kernel_)                                                                   \
    static struct copse_sum kernel_##_sum(const void *params, const int32_t *spec)              \
    {                                                                                           \
        const struct copse_params_##kernel_ *p = params;                                        \
        return copse__sum_of(kernel_##_roundings(p->k_end - p->k_begin), p->k_begin > 0, spec); \
    }
#define matmul_half_roundings matmul_roundings
SUM_OF_PARTS(matmul)
SUM_OF_PARTS(matmul_half)
SUM_OF_PARTS(matmul_texel)

static struct copse_sum matmul_wide_sum(const void *params, const int32_t *spec)
{
    return copse__sum_of(
        matmul_wide_roundings(((const struct copse_params_matmul_wide *)params)->k), false, spec);
}

const struct copse_law copse_law_matmul = {
    .host = matmul_host,
    .at = matmul_at,
    .elements = matmul_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .magnitudes = matmul_magnitudes,
    .roundings = matmul_roundings,
    .sum = matmul_sum,
    .self_test = matmul_test,
};
const struct copse_law copse_law_matmul_half = {
    .host = matmul_half_host,
    .at = matmul_half_at,
    .elements = matmul_half_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .magnitudes = matmul_half_magnitudes,
    .roundings = matmul_half_roundings,
    .sum = matmul_half_sum,
    .self_test = matmul_half_test,
};
const struct copse_law copse_law_matmul_pad = {
    .host = matmul_pad_host,
    .at = matmul_pad_at,
    .elements = matmul_pad_elements,
    .self_test = matmul_pad_test,
};
/* Without sigmoid and tanh only the sum with a bias is rounded. */
static void bias_activation_limit(const void *params, const int32_t *spec,
                                  struct copse_limit *limit)
{
    (void)params;
    if (spec[1] == COPSE_LINEAR || spec[1] == COPSE_RELU)
        limit->ulp = spec[0] ? 1 : 0;
}

const struct copse_law copse_law_bias_activation = {
    .host = bias_activation_host,
    .split = bias_activation_split,
    .limit = { .ulp = 5 },
    .limit_of = bias_activation_limit,
    .self_test = bias_activation_test,
};
const struct copse_law copse_law_matmul_wide = {
    .host = matmul_wide_host,
    .at = matmul_wide_at,
    .elements = matmul_wide_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .magnitudes = matmul_magnitudes,
    .roundings = matmul_wide_roundings,
    .sum = matmul_wide_sum,
    .self_test = matmul_wide_test,
};
const struct copse_law copse_law_matmul_wide_pack = {
    .host = matmul_wide_pack_host,
    .at = matmul_wide_pack_at,
    .place = matmul_wide_pack_place,
    .elements = matmul_wide_pack_elements,
    .self_test = matmul_wide_pack_test,
};
const struct copse_law copse_law_matmul_wide_turn = {
    .host = matmul_wide_turn_host,
    .at = matmul_wide_turn_at,
    .place = matmul_wide_turn_place,
    .elements = matmul_wide_turn_elements,
    .self_test = matmul_wide_turn_test,
};
const struct copse_law copse_law_matmul_texel = {
    .host = matmul_texel_host,
    .at = matmul_texel_at,
    .results = copse__end_results,
    .elements = matmul_texel_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .limit_of = copse__end_limit,
    .magnitudes = copse__end_magnitudes,
    .roundings = matmul_texel_roundings,
    .sum = matmul_texel_sum,
    .self_test = matmul_texel_test,
};
