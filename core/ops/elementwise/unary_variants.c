/* SPDX-License-Identifier: MIT */
/* Functions of one tensor: the kernel variants with their launches. */
#include "core/ops/elementwise/unary.h"

/* ---- launches ---- */

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct copse_unary_work *w = work;
    const struct copse_params_unary p = { w->n, w->of.alpha, w->of.beta };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary, spec, p, copse__groups_for(l, COPSE_KERNEL_unary, p.n),
                        copse__of(w->x), copse__of(w->y));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_unary_work *w = work;
    const struct copse_params_unary_wide p = { w->n, w->of.alpha, w->of.beta, COPSE_UNARY_EACH };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary_wide, spec, p, (p.n + p.each - 1) / p.each, copse__of(w->x),
                        copse__of(w->y));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_unary, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide", COPSE_KERNEL_unary_wide, { 1, 0, 1, 1 }, .lower = lower_wide },
};

static const struct copse_op op_job;

static void unary_job(const struct copse_size *at, struct copse_tune_job *j)
{
    copse__unary_job(at, "gelu", j);
}

static copse_tensor *unary_build(copse_graph *g, const struct copse_tune_job *j,
                                 copse_tensor *const *in)
{
    return COPSE_NODE(g, &op_job, &((const struct copse_unary_work *)j->work)->of, in[0]);
}

const struct copse_family copse_family_unary = {
    .name = "unary",
    COPSE_VARIANTS(variants),
    .slack = 1e-5f,
    .sizes = { { COPSE_UNARY_SIZES } },
    .size = copse__unary_size,
    .job = unary_job,
    .operations = { 50 },
    .build = unary_build,
};

/* ---- the op ---- */

copse_status copse__unary_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_unary_work w = copse__unary_work(y);
    return copse__lower_variant(l, &copse_family_unary, &w);
}

static const struct copse_op op_job = {
    .name = "unary",
    .attr_size = sizeof(struct copse_unary_attr),
    .infer = copse__unary_infer,
    .lower = copse__unary_lower,
};
