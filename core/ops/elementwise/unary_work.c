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

static const uint32_t sizes[COPSE_UNARY_JOBS] = { 4096, 1u << 18 };
enum { GELU = 12 }; /* the function that is measured; all others use its result */

bool copse__unary_size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    const struct copse_unary_work *w = work;
    snprintf(name, COPSE_SIZE_CLASS, "%u",
             (unsigned)copse__size_class(sizes, COPSE_UNARY_JOBS, w->n));
    return w->n > 0;
}

void copse__unary_job(size_t index, const char *what, size_t inputs, struct copse_tune_job *j)
{
    const struct copse_unary_work w = { .of = { .id = GELU }, .n = sizes[index] };
    _Static_assert(sizeof w <= COPSE_TUNE_WORK, "work of a job");
    memcpy(j->work, &w, sizeof w);
    snprintf(j->name, sizeof j->name, "%s of %u", what, (unsigned)w.n);
    j->operations = 50.0 * w.n;
    j->in_count = inputs;
    for (size_t i = 0; i < inputs; i++)
        j->in[i] = COPSE_SHAPE(w.n);
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
