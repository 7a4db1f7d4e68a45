/* SPDX-License-Identifier: MIT */
/* Functions of one tensor: the kernel variants with their launches. */
#include <stdio.h>

#include "core/graph/variant.h"
#include "core/ops/unary.h"

struct unary {
    struct copse_unary_attr of;
    uint32_t n;
    const copse_tensor *x, *y;
};

/* ---- launches ---- */

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct unary *w = work;
    const struct copse_params_unary p = { w->n, w->of.alpha, w->of.beta };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary, spec, p, copse__groups_for(l, COPSE_KERNEL_unary, p.n), copse__of(w->x),
                        copse__of(w->y));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct unary *w = work;
    const struct copse_params_unary_wide p = { w->n, w->of.alpha, w->of.beta, COPSE_UNARY_EACH };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary_wide, spec, p, (p.n + p.each - 1) / p.each, copse__of(w->x), copse__of(w->y));
}

/* ---- the family ---- */

/* Priors of plain devices, of those with wide vectors, and of those with fast texels. */
static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_unary, { 0, 1, 0 }, NULL, lower_plain, NULL, 0 },
    { "wide", COPSE_KERNEL_unary_wide, { 1, 0, 1 }, NULL, lower_wide, NULL, 0 },
};

static const uint32_t sizes[] = { 4096, 1u << 18 };
enum { GELU = 12 }; /* the function that is measured; all others use its result */

static bool size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    const struct unary *w = work;
    snprintf(name, COPSE_SIZE_CLASS, "%u", (unsigned)copse__size_class(sizes, COPSE_COUNT(sizes), w->n));
    return w->n > 0;
}

static void job(size_t index, struct copse_tune_job *j)
{
    const struct unary w = { .of = { .id = GELU }, .n = sizes[index] };
    _Static_assert(sizeof w <= COPSE_TUNE_WORK, "work of a job");
    memcpy(j->work, &w, sizeof w);
    snprintf(j->name, sizeof j->name, "gelu of %u", (unsigned)w.n);
    j->operations = 50.0 * w.n;
    j->in_count = 1;
    j->in[0] = COPSE_SHAPE(w.n);
}

static const struct copse_op op_job;

static copse_status build(copse_graph *g, const struct copse_tune_job *j, copse_tensor *const *in, copse_tensor **out)
{
    return COPSE_NODE(g, &op_job, &((const struct unary *)j->work)->of, out, in[0]);
}

const struct copse_family copse_family_unary = {
    .name = "unary",
    .variants = variants,
    .count = COPSE_COUNT(variants),
    .slack = 1e-5f,
    .size_class = size_class,
    .job_count = COPSE_COUNT(sizes),
    .job = job,
    .build = build,
};

/* ---- the op ---- */

copse_status copse__unary_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    for (uint32_t i = 0; i < y->in_count; i++)
        if (y->in[i]->type != COPSE_F32)
            return copse__shape_error(y, "expected f32");
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

copse_status copse__unary_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct unary w = { *(const struct copse_unary_attr *)y->attr, (uint32_t)copse__elements(y->shape), y->in[0],
                             y };
    return copse__lower_variant(l, &copse_family_unary, &w);
}

static const struct copse_op op_job = {
    .name = "unary",
    .attr_size = sizeof(struct copse_unary_attr),
    .infer = copse__unary_infer,
    .lower = copse__unary_lower,
};
