/* SPDX-License-Identifier: MIT */
/* What the families of kernels of rows have in common: work, size classes, and jobs of the
   tuning. */
#include <stdio.h>

#include "core/ops/softmax/softmax.h"

static const uint32_t sizes[COPSE_ROW_JOBS] = { 10, 1000 };

struct copse_row_work copse__row_work(copse_shape shape)
{
    return (struct copse_row_work){ copse__row_count(shape), copse__row_cols(shape) };
}

bool copse__row_size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    const struct copse_row_work *w = work;
    snprintf(name, COPSE_SIZE_CLASS, "%u",
             (unsigned)copse__size_class(sizes, COPSE_ROW_JOBS, w->cols));
    return w->rows > 0 && w->cols > 0;
}

struct copse_row_work copse__row_job(size_t index, double operations, size_t inputs,
                                     struct copse_tune_job *j)
{
    const struct copse_row_work w = { 256, sizes[index] };
    snprintf(j->name, sizeof j->name, "%u x %u", (unsigned)w.rows, (unsigned)w.cols);
    j->operations = operations * w.rows * w.cols;
    j->in_count = inputs;
    for (size_t i = 0; i < inputs; i++)
        j->in[i] = COPSE_SHAPE(w.rows, w.cols);
    return w;
}
