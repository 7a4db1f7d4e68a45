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

/* ---- softmax ---- */

/* |y| (|dy| + sum of |y dy|); of the logarithm |dy| + exp(y) sum of |dy|. The kernel for wide vectors has the same first
   parameters. */
void copse__size_softmax_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_softmax_grad *p = params;
    for (size_t first = 0; first < (size_t)p->rows * p->cols; first += p->cols) {
        double sum = LEAST * p->cols;
        for (size_t i = first; i < first + p->cols; i++)
            sum += fabs(copse__load(&args[1], i)) * (spec[0] ? 1 : fabs(copse__load(&args[0], i)));
        for (size_t i = first; i < first + p->cols; i++) {
            const double y = copse__load(&args[0], i), dy = fabs(copse__load(&args[1], i));
            copse__store(&args[2], i, (spec[0] ? dy + exp(y) * sum : fabs(y) * (dy + sum)) + LEAST);
        }
    }
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

static void put_slope(size_t n, double divisor, const struct copse_host_arg *args)
{
    for (size_t i = 0; i < n; i++)
        copse__store(&args[4], i, fabs(copse__load(&args[3], 0) / divisor));
}

void copse__size_cross_entropy_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_cross_entropy_grad *p = params;
    (void)spec;
    put_slope(p->n, (double)p->divisor, args);
}

void copse__size_cross_entropy_grad_wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_cross_entropy_grad_wide *p = params;
    (void)spec;
    put_slope((size_t)p->rows * p->cols, (double)p->divisor, args);
}

void copse__size_logits_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_logits_grad *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[4], i, fabs(copse__load(&args[3], i / p->cols)));
}

/* ---- losses: the sum of the magnitudes of the terms ---- */

void copse__size_class_loss(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_class_loss *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = spec[0] ? i / p->cols : i;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const size_t col = spec[0] ? i % p->cols : COPSE_MIN(label, p->cols - 1);
        const double q = fabs(copse__load(&args[3], col) * (double)(col == label ? p->at_label : p->share));
        const double size = fabs(copse__load(&args[0], row * p->cols + col)) + fabs(copse__load(&args[2], 2 * row)) +
                            fabs(log1p(fabs(copse__load(&args[2], 2 * row + 1))));
        copse__store(&args[4], i, q == 0 ? 0 : q * size);
    }
}

void copse__size_class_loss_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_class_loss_grad *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->cols, col = i % p->cols;
        const uint32_t label = (uint32_t)copse__load_i(&args[1], row);
        const double share = exp(copse__load(&args[0], i) - copse__load(&args[2], 2 * row)) /
                             (1 + copse__load(&args[2], 2 * row + 1));
        const double all = fabs(copse__load(&args[3], COPSE_MIN(label, p->cols - 1)) * (double)p->keep) +
                           fabs(copse__load(&args[4], 0) * (double)p->smoothing);
        const double q = fabs(copse__load(&args[3], col) * (double)(col == label ? p->at_label : p->share));
        copse__store(&args[6], i, (all * (1 + share) + q) * fabs(copse__load(&args[5], row)));
    }
}

enum { BINARY }; /* of kernels/elementwise/pair_loss.cl; the other one is the divergence */

void copse__size_pair_loss(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_pair_loss *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double x = fabs(copse__load(&args[0], i)), y = copse__load(&args[1], i);
        const double factor = spec[0] == BINARY ? fabs(1 - y) + fabs(copse__load(&args[2], i % p->d) * y) : fabs(y);
        const double size = x + (spec[0] == BINARY ? log1p(exp(-x)) : fabs(log(fabs(y))));
        copse__store(&args[3], i, factor == 0 ? 0 : factor * size);
    }
}

void copse__size_pair_loss_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_pair_loss_grad *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double y = copse__load(&args[1], i);
        const double factor = spec[0] == BINARY ? fabs(1 - y) + fabs(copse__load(&args[2], i % p->d) * y) : fabs(y);
        copse__store(&args[4], i, factor * fabs(copse__load(&args[3], i)));
    }
}
