/* SPDX-License-Identifier: MIT */
/* Derivatives of functions of one tensor: the op, and its kernel variants with their launches. */
#include "core/ops/elementwise/elementwise_chain.h"
#include "core/ops/elementwise/unary.h"

/* ---- launches ---- */

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct copse_unary_work *w = work;
    const struct copse_params_unary_grad p = { w->n, w->of.alpha, w->of.beta };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary_grad, spec, p, copse__groups_for(l, COPSE_KERNEL_unary_grad, p.n),
                        copse__of(w->x), copse__of(w->dy), copse__of(w->y));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_unary_work *w = work;
    const struct copse_params_unary_grad_wide p = { w->n, w->of.alpha, w->of.beta,
                                                    COPSE_UNARY_EACH };
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.id };
    return COPSE_LAUNCH(l, unary_grad_wide, spec, p, (p.n + p.each - 1) / p.each, copse__of(w->x),
                        copse__of(w->dy), copse__of(w->y));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_unary_grad, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide", COPSE_KERNEL_unary_grad_wide, { 1, 0, 1, 1 }, .lower = lower_wide },
};

static void unary_grad_job(const struct copse_size *at, struct copse_tune_job *j)
{
    copse__unary_job(at, "derivative of gelu", j);
    j->in[1] = j->in[0];
}

static copse_tensor *unary_grad_build(copse_graph *g, const struct copse_tune_job *j,
                                      copse_tensor *const *in)
{
    return copse__unary_grad(g, &((const struct copse_unary_work *)j->work)->of, in[0], in[1]);
}

const struct copse_family copse_family_unary_grad = {
    .name = "unary_grad",
    COPSE_VARIANTS(variants),
    .slack = 1e-5f,
    .sizes = { { COPSE_UNARY_SIZES } },
    .size = copse__unary_size,
    .job = unary_grad_job,
    .operations = { 50 },
    .build = unary_grad_build,
};

/* ---- the op ---- */

static copse_status unary_grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_unary_work w = copse__unary_work(y);
    return copse__lower_variant(l, &copse_family_unary_grad, &w);
}

const struct copse_op copse_op_unary_grad = {
    .name = "unary_grad",
    .attr_size = sizeof(struct copse_unary_attr),
    .infer = copse__unary_infer,
    .lower = unary_grad_lower,
    .fuse = copse__chain_fuse,
    .lower_fused = copse__chain_lower,
    .chain = COPSE_CHAIN_UNARY_SLOPE,
};

copse_tensor *copse__unary_grad(copse_graph *g, const struct copse_unary_attr *a, copse_tensor *x,
                                copse_tensor *dy)
{
    return COPSE_NODE(g, &copse_op_unary_grad, a, x, dy);
}
