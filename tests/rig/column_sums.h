/* SPDX-License-Identifier: MIT */
/* Sums down the columns of a matrix of small whole numbers, with the kernel that the library
   chooses. */
#ifndef COPSE_COLUMN_SUMS_H
#define COPSE_COLUMN_SUMS_H

#include "core/ops/reduce/column_sum.h"
#include "tests/rig/rig.h"

/* The sums of [rows, columns] are right on this device. */
static inline void check_column_sums(copse_context *ctx, copse_device *dev, uint32_t rows,
                                     uint32_t columns)
{
    const size_t n = (size_t)rows * columns;
    float *x = malloc(n * sizeof *x), *sums = malloc(columns * sizeof *sums);
    copse_tensor *in, *y;
    copse_graph *g;
    copse_function *f;
    assert_true(x && sums);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 11);
    OK(copse_graph_create(ctx, &g));
    in = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(rows, columns));
    y = copse__column_sum(g, in);
    OK(copse_function_create(dev,
                             &(struct copse_function_params){
                                 .graph = g, .outputs = &y, .output_count = 1, .kernels = NULL },
                             &f));
    OK(copse_function_write(f, in, x));
    OK(copse_function_run(f));
    OK(copse_function_wait(f));
    OK(copse_function_read(f, 0, sums));
    for (size_t j = 0; j < columns; j++) {
        float expected = 0.0f;
        for (size_t i = 0; i < rows; i++)
            expected += x[i * columns + j];
        assert_float_equal(sums[j], expected, 0.0f);
    }
    copse_function_release(&f);
    copse_graph_release(&g);
    free(x);
    free(sums);
}

#endif
