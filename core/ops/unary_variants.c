/* SPDX-License-Identifier: MIT */
/* Functions of one tensor and their derivatives: the two families of kernel variants with their launches, and the op of
   the derivative. */
#include <stdio.h>

#include "core/graph/variant.h"
#include "core/ops/unary.h"

struct unary {
    struct copse_unary_attr of;
    uint32_t n;
    const copse_tensor *x, *dy, *y; /* dy: NULL for the function; y: its result, or dx */
};

static struct unary unary_of(const copse_tensor *y)
{
    return (struct unary){ *(const struct copse_unary_attr *)y->attr, (uint32_t)copse__elements(y->shape), y->in[0],
                           y->in_count > 1 ? y->in[1] : NULL, y };
}

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

static copse_status lower_plain_grad(struct copse_lowering *l, const void *work)
{
    const struct unary *w = work;
    const struct copse_params_unary_grad p = { w->n, w->of.alpha, w->of.beta };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary_grad, spec, p, copse__groups_for(l, COPSE_KERNEL_unary_grad, p.n), copse__of(w->x),
                        copse__of(w->dy), copse__of(w->y));
}

static copse_status lower_wide_grad(struct copse_lowering *l, const void *work)
{
    const struct unary *w = work;
    const struct copse_params_unary_grad_wide p = { w->n, w->of.alpha, w->of.beta, COPSE_UNARY_EACH };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary_grad_wide, spec, p, (p.n + p.each - 1) / p.each, copse__of(w->x),
                        copse__of(w->dy), copse__of(w->y));
}

/* ---- what both families share ---- */

static const uint32_t sizes[] = { 4096, 1u << 18 };
enum { GELU = 12 }; /* the function that is measured; all others use its result */

static bool size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    const struct unary *w = work;
    snprintf(name, COPSE_SIZE_CLASS, "%u", (unsigned)copse__size_class(sizes, COPSE_COUNT(sizes), w->n));
    return w->n > 0;
}

static void job_of(size_t index, const char *what, size_t inputs, struct copse_tune_job *j)
{
    const struct unary w = { .of = { .id = GELU }, .n = sizes[index] };
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

/* ---- the function ---- */

/* Priors of plain devices, of those with wide vectors, and of those with fast texels. */
static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_unary, { 0, 1, 0 }, NULL, lower_plain, NULL, 0 },
    { "wide", COPSE_KERNEL_unary_wide, { 1, 0, 1 }, NULL, lower_wide, NULL, 0 },
};

static const struct copse_op op_job;

static void job(size_t index, struct copse_tune_job *j)
{
    job_of(index, "gelu", 1, j);
}

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

copse_status copse__unary_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct unary w = unary_of(y);
    return copse__lower_variant(l, &copse_family_unary, &w);
}

static const struct copse_op op_job = {
    .name = "unary",
    .attr_size = sizeof(struct copse_unary_attr),
    .infer = copse__unary_infer,
    .lower = copse__unary_lower,
};

/* ---- its derivative ---- */

static const struct copse_variant variants_grad[] = {
    { "plain", COPSE_KERNEL_unary_grad, { 0, 1, 0 }, NULL, lower_plain_grad, NULL, 0 },
    { "wide", COPSE_KERNEL_unary_grad_wide, { 1, 0, 1 }, NULL, lower_wide_grad, NULL, 0 },
};

static void job_grad(size_t index, struct copse_tune_job *j)
{
    job_of(index, "derivative of gelu", 2, j);
}

static copse_status build_grad(copse_graph *g, const struct copse_tune_job *j, copse_tensor *const *in,
                               copse_tensor **out)
{
    return copse__unary_grad(g, &((const struct unary *)j->work)->of, in[0], in[1], out);
}

const struct copse_family copse_family_unary_grad = {
    .name = "unary_grad",
    .variants = variants_grad,
    .count = COPSE_COUNT(variants_grad),
    .slack = 1e-5f,
    .size_class = size_class,
    .job_count = COPSE_COUNT(sizes),
    .job = job_grad,
    .build = build_grad,
};

static copse_status lower_grad(struct copse_lowering *l, const copse_tensor *y)
{
    const struct unary w = unary_of(y);
    return copse__lower_variant(l, &copse_family_unary_grad, &w);
}

static const struct copse_op op_unary_grad = {
    .name = "unary_grad",
    .attr_size = sizeof(struct copse_unary_attr),
    .infer = copse__unary_infer,
    .lower = lower_grad,
};

copse_status copse__unary_grad(copse_graph *g, const struct copse_unary_attr *a, copse_tensor *x, copse_tensor *dy,
                               copse_tensor **out)
{
    return COPSE_NODE(g, &op_unary_grad, a, out, x, dy);
}
