/* SPDX-License-Identifier: MIT */
/* What the kernels of functions of one tensor and of their derivatives share: work, size classes,
   and jobs of the tuning. */
#include <stdio.h>

#include "core/ops/elementwise/unary.h"

struct copse_unary_work copse__unary_work(const copse_tensor *y)
{
    return (struct copse_unary_work){ *(const struct copse_unary_attr *)y->attr,
                                      (uint32_t)copse__elements(y->shape), y->in[0],
                                      y->in_count > 1 ? y->in[1] : NULL, y };
}

enum { GELU = 12 }; /* the function that is measured; all others use its result */

bool copse__unary_size(const void *work, struct copse_size *out)
{
    const struct copse_unary_work *w = work;
    out->of[0] = w->n;
    return w->n > 0;
}

void copse__unary_job(const struct copse_size *at, const char *what, struct copse_tune_job *j)
{
    const struct copse_unary_work w = { .of = { .id = GELU }, .n = at->of[0] };
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "%s of %u", what, (unsigned)w.n);
    j->in[0] = COPSE_SHAPE(w.n);
}

copse_status copse__unary_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    for (uint32_t i = 0; i < y->in_count; i++)
        if (y->in[i]->type != COPSE_F32)
            return copse__shape_error(y, "expected f32");
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}
