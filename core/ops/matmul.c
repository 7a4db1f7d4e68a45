/* SPDX-License-Identifier: MIT */
/* Matrix product: shape rule, derivative, and the double-precision references of its kernels. */
#include <math.h>

#include "core/ops/ops.h"
#include "core/ops/product.h"

struct matmul_attr {
    bool a_transposed, b_transposed;
};

static copse_status matmul_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct matmul_attr *t = y->attr;
    const copse_shape a = y->in[0]->shape, b = y->in[1]->shape;
    if (y->in[0]->type != COPSE_F32 || y->in[1]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32 operands");
    if (a.rank < 2 || a.rank != b.rank)
        return copse__shape_error(y, "expected equal ranks of at least 2");
    const uint32_t r = a.rank;
    for (uint32_t i = 0; i + 2 < r; i++)
        if (a.dims[i] != b.dims[i])
            return copse__shape_error(y, "expected equal leading axes");
    const uint32_t k = a.dims[r - 1 - t->a_transposed], b_k = b.dims[r - 2 + t->b_transposed];
    if (k != b_k)
        return copse__shape_error(y, "expected equal inner sizes; a%s has %u, b%s has %u",
                                  t->a_transposed ? " (transposed)" : "", (unsigned)k,
                                  t->b_transposed ? " (transposed)" : "", (unsigned)b_k);
    *shape = a;
    shape->dims[r - 2] = a.dims[r - 2 + t->a_transposed];
    shape->dims[r - 1] = b.dims[r - 1 - t->b_transposed];
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status matmul_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                    copse_tensor **dx)
{
    const struct matmul_attr *t = y->attr;
    copse_tensor *a = y->in[0], *b = y->in[1];
    const bool ta = t->a_transposed, tb = t->b_transposed;
    if (a->needs_gradient) /* dA = dY op(B)^T, or the transpose of that */
        COPSE_TRY(ta ? copse_matmul(g, b, dy, tb, true, &dx[0])
                     : copse_matmul(g, dy, b, false, !tb, &dx[0]));
    if (b->needs_gradient) /* dB = op(A)^T dY, or the transpose of that */
        COPSE_TRY(tb ? copse_matmul(g, dy, a, true, ta, &dx[1])
                     : copse_matmul(g, a, dy, !ta, false, &dx[1]));
    return COPSE_OK;
}

static copse_status matmul_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct matmul_attr *t = y->attr;
    const copse_shape s = y->shape;
    struct copse_product p = {
        .a = y->in[0],
        .b = y->in[1],
        .c = y,
        .batch = 1,
        .m = s.dims[s.rank - 2],
        .n = s.dims[s.rank - 1],
        .k = y->in[0]->shape.dims[s.rank - 1 - t->a_transposed],
        .a_transposed = t->a_transposed,
        .b_transposed = t->b_transposed,
    };
    for (uint32_t i = 0; i + 2 < s.rank; i++)
        p.batch *= s.dims[i];
    return copse__lower_product(l, &p);
}

static const struct copse_op op_matmul = {
    .name = "matmul",
    .attr_size = sizeof(struct matmul_attr),
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .lower = matmul_lower,
};

copse_status copse_matmul(copse_graph *g, copse_tensor *a, copse_tensor *b, bool transpose_a,
                          bool transpose_b, copse_tensor **y)
{
    const struct matmul_attr t = { transpose_a, transpose_b };
    COPSE_TRY(COPSE_CHECK_OPERANDS("matmul", g, y, a, b));
    return COPSE_NODE(g, &op_matmul, &t, y, a, b);
}

/* ---- references ---- */

double copse__activate(int32_t activation, double x)
{
    switch (activation) {
    case COPSE_RELU:
        return x <= 0 ? 0 : x;
    case COPSE_SIGMOID:
        return 1 / (1 + exp(-x));
    case COPSE_TANH:
        return tanh(x);
    default:
        return x;
    }
}

/* Blocks only so that a training step on the host device does not take minutes: the sums are plain,
   in double, in the order of k. */
enum { BLOCK_M = 16, BLOCK_N = 64, BLOCK_K = 64 };

struct blocks {
    double a[BLOCK_M][BLOCK_K], b[BLOCK_K][BLOCK_N], sum[BLOCK_M][BLOCK_N];
};

static void load_block(const struct copse_host_arg *x, size_t first, size_t row, size_t col,
                       size_t rows, size_t cols, double *to, size_t to_row)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            to[i * to_row + j] = copse__load(x, first + i * row + j * col);
}

static void multiply_block(struct blocks *x, size_t rows, size_t depth)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < depth; k++) {
            const double a = x->a[i][k];
            for (size_t j = 0; j < BLOCK_N; j++)
                x->sum[i][j] += a * x->b[k][j];
        }
}

void copse_host_matmul(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_matmul *p = params;
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
                    load_block(&args[0], item * m * k + i0 * a_row + k0 * a_col, a_row, a_col, rows,
                               depth, x.a[0], BLOCK_K);
                    load_block(&args[1], item * k * n + k0 * b_row + j0 * b_col, b_row, b_col,
                               depth, cols, x.b[0], BLOCK_N);
                    multiply_block(&x, rows, depth);
                }
                for (size_t i = 0; i < rows; i++)
                    for (size_t j = 0; j < cols; j++) {
                        const size_t at = (item * m + i0 + i) * n + j0 + j;
                        double v = x.sum[i][j];
                        if (p->k_begin > 0)
                            v += copse__load(&args[3], at);
                        if (p->k_end == p->k)
                            v = copse__activate(spec[1], spec[0] ? v + copse__load(&args[2], j0 + j) : v);
                        copse__store(&args[3], at, v);
                    }
            }
}

void copse_host_matmul_pad(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_matmul_pad *p = params;
    for (size_t item = 0; item < p->batch; item++)
        for (size_t i = 0; i < p->rows_to; i++)
            for (size_t j = 0; j < p->cols_to; j++)
                copse__store(&args[1], (item * p->rows_to + i) * p->cols_to + j,
                             i < p->rows && j < p->cols
                                 ? copse__load(&args[0], (item * p->rows + i) * p->cols + j)
                                 : 0);
}

void copse_host_bias_activation(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_bias_activation *p = params;
    for (size_t i = 0; i < p->count; i++) {
        const double x = copse__load(&args[0], i);
        copse__store(&args[2], i,
                     copse__activate(spec[1], spec[0] ? x + copse__load(&args[1], i % p->n) : x));
    }
}
