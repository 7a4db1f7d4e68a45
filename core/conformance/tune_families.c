/* SPDX-License-Identifier: MIT */
/* What has variants to choose from: matrix products, and sums down the columns of a matrix. */
#include <stdio.h>

#include "copse/matmul.h"
#include "core/conformance/tune.h"
#include "core/device/exact_product.h"
#include "core/ops/column_sum.h"
#include "core/ops/product.h"

int copse__tune_whole(uint32_t seed, size_t i)
{
    uint32_t x = seed * 2654435761u + (uint32_t)i * 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    x ^= x >> 13;
    return (int)(x % (2 * COPSE_TUNE_LARGEST + 1)) - COPSE_TUNE_LARGEST;
}

/* ---- matrix products ---- */

static const uint32_t product_sizes[] = COPSE_PRODUCT_SIZES;

/* Small ones first, so that the end of the time box takes the fewest. Of each size: forward, gradient
   of the weights, gradient of the input, which is what a dense layer asks for. */
static void product_job(size_t index, struct copse_tune_job *j)
{
    static const bool transposes[][2] = { { false, false }, { true, false }, { false, true } };
    const size_t t = index % COPSE_COUNT(transposes), i = index / COPSE_COUNT(transposes);
    const size_t count = COPSE_COUNT(product_sizes);
    j->m = product_sizes[i / count % count];
    j->n = product_sizes[i % count];
    j->k = product_sizes[i / count / count];
    j->a_transposed = transposes[t][0];
    j->b_transposed = transposes[t][1];
    snprintf(j->name, sizeof j->name, "%u x %u x %u%s%s", (unsigned)j->m, (unsigned)j->n,
             (unsigned)j->k, j->a_transposed ? ", a transposed" : "",
             j->b_transposed ? ", b transposed" : "");
    copse__product_class(j->m, j->n, j->k, j->a_transposed, j->b_transposed, j->size_class);
    j->operations = 2.0 * j->m * j->n * j->k;
    j->in_count = 2;
    j->counts[0] = (size_t)j->m * j->k;
    j->counts[1] = (size_t)j->k * j->n;
    j->result = (size_t)j->m * j->n;
    j->scratch = 2 * (size_t)j->k;
}

static copse_status product_build(copse_graph *g, const struct copse_tune_job *j, copse_tensor **in,
                                  copse_tensor **out)
{
    COPSE_TRY(copse_graph_input(g, "a", COPSE_F32, j->a_transposed ? COPSE_SHAPE(j->k, j->m)
                                                             : COPSE_SHAPE(j->m, j->k),
                          &in[0]));
    COPSE_TRY(copse_graph_input(g, "b", COPSE_F32, j->b_transposed ? COPSE_SHAPE(j->n, j->k)
                                                             : COPSE_SHAPE(j->k, j->n),
                          &in[1]));
    return copse_matmul(g, in[0], in[1], j->a_transposed, j->b_transposed, out);
}

static bool product_is_right(const struct copse_tune_job *j, float *const *in, const float *c,
                             double *scratch)
{
    const struct copse_exact_product p = { j->m, j->n, j->k, j->a_transposed, j->b_transposed,
                                           in[0], in[1], c };
    double expected;
    return copse__exact_product_wrong(&p, scratch, &expected) == (size_t)j->m * j->n;
}

const struct copse_tune_family copse_tune_matmul = {
    "matmul",
    3 * COPSE_COUNT(product_sizes) * COPSE_COUNT(product_sizes) * COPSE_COUNT(product_sizes),
    product_job, product_build, product_is_right,
};

/* ---- sums down columns ---- */

static const uint32_t row_sizes[] = COPSE_COLUMN_SUM_ROWS, col_sizes[] = COPSE_COLUMN_SUM_COLS;

static void column_sum_job(size_t index, struct copse_tune_job *j)
{
    j->m = row_sizes[index / COPSE_COUNT(col_sizes)];
    j->n = col_sizes[index % COPSE_COUNT(col_sizes)];
    snprintf(j->name, sizeof j->name, "%u x %u", (unsigned)j->m, (unsigned)j->n);
    copse__column_sum_class(j->m, j->n, j->size_class);
    j->operations = (double)j->m * j->n;
    j->in_count = 1;
    j->counts[0] = (size_t)j->m * j->n;
    j->result = j->n;
    j->scratch = 1;
}

static copse_status column_sum_build(copse_graph *g, const struct copse_tune_job *j,
                                     copse_tensor **in, copse_tensor **out)
{
    COPSE_TRY(copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(j->m, j->n), &in[0]));
    return copse__column_sum(g, in[0], out);
}

static bool column_sum_is_right(const struct copse_tune_job *j, float *const *in, const float *out,
                                double *scratch)
{
    for (size_t o = 0; o < j->n; o++) {
        *scratch = 0.0;
        for (size_t i = 0; i < j->m; i++)
            *scratch += (double)in[0][i * j->n + o];
        if (!((double)out[o] == *scratch))
            return false;
    }
    return true;
}

const struct copse_tune_family copse_tune_column_sum = {
    "column_sum", COPSE_COUNT(row_sizes) * COPSE_COUNT(col_sizes),
    column_sum_job, column_sum_build, column_sum_is_right,
};
