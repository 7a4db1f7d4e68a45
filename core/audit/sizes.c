/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of kernels whose results are no sums of products: see bound.h. */
#include <math.h>

#include "core/audit/bound.h"
#include "core/graph/op.h"

/* ---- norms of rows ---- */

enum { FORWARD, GRADIENT }; /* of kernels/row/layer_norm.cl; the other one is the gradient of the scale */

struct norm {
    uint32_t rows, cols;
    double epsilon;
};

static double mean_of(const struct copse_host_arg *x, size_t base, size_t cols, bool is_size)
{
    double sum = 0;
    for (size_t k = 0; k < cols; k++)
        sum += is_size ? fabs(copse__load(x, base + k)) : copse__load(x, base + k);
    return sum / (double)cols;
}

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

/* The basis of the limits in docs/conformance.md: |scale| (|x| + |mean|) / sigma + |offset|, and likewise for the
   derivatives. */
static void size_row(const struct norm *p, const int32_t *spec, const struct copse_host_arg *args, size_t base)
{
    const struct copse_host_arg *x = &args[0], *a = &args[1], *b = &args[2];
    const double mean = spec[1] ? mean_of(x, base, p->cols, false) : 0.0;
    double squares = 0, slopes = 0, along = 0;
    for (size_t k = 0; k < p->cols; k++)
        squares += pow(copse__load(x, base + k) - mean, 2);
    const double inverse = 1 / sqrt(squares / p->cols + p->epsilon);
    for (size_t k = 0; spec[0] == GRADIENT && k < p->cols; k++) {
        const double slope = fabs(copse__load(b, base + k) * copse__load(a, k));
        slopes += slope / p->cols;
        along += slope * (fabs(copse__load(x, base + k)) + fabs(mean)) * inverse / p->cols;
    }
    for (size_t k = 0; k < p->cols; k++) {
        const double u = (fabs(copse__load(x, base + k)) + fabs(mean)) * inverse + LEAST;
        copse__store(&args[3], base + k,
                     spec[0] == FORWARD    ? u * fabs(copse__load(a, k)) + (spec[1] ? fabs(copse__load(b, k)) : 0)
                     : spec[0] == GRADIENT ? (fabs(copse__load(b, base + k) * copse__load(a, k)) + slopes + u * along) *
                                                 inverse
                                           : u * fabs(copse__load(b, base + k)));
    }
}

void copse__size_norm(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm *k = params;
    const struct norm p = { k->rows, k->cols, (double)k->epsilon };
    for (size_t row = 0; row < p.rows; row++)
        size_row(&p, spec, args, row * p.cols);
}

void copse__size_norm_wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm_wide *k = params;
    const struct copse_params_layer_norm p = { k->rows, k->cols, k->epsilon };
    copse__size_norm(&p, spec, args);
}

/* ---- derivatives: the slope ---- */

static void put_slopes(const struct copse_host_arg *slope, const struct copse_host_arg *to)
{
    for (size_t i = 0; i < COPSE_MIN(slope->count, to->count); i++)
        copse__store(to, i, fabs(copse__load(slope, i)));
}

void copse__size_unary_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)params;
    (void)spec;
    put_slopes(&args[1], &args[2]);
}

void copse__size_cross_entropy_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_cross_entropy_grad *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[4], i, fabs(copse__load(&args[3], 0) / (double)p->divisor));
}
