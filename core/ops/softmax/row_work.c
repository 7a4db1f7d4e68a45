/* SPDX-License-Identifier: MIT */
/* What the families of kernels of rows have in common: work, size classes, and jobs of the
   tuning. */
#include "core/ops/softmax/softmax.h"

struct copse_row_work copse__row_work(copse_shape shape)
{
    return (struct copse_row_work){ copse__row_count(shape), copse__row_cols(shape) };
}

bool copse__row_size(const void *work, struct copse_size *out)
{
    const struct copse_row_work *w = work;
    out->of[0] = w->cols;
    return w->rows > 0 && w->cols > 0;
}

void copse__row_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct copse_row_work w = { 256, at->of[0] };
    COPSE_JOB_WORK(j, w);
    j->in[0] = COPSE_SHAPE(w.rows, w.cols);
}
