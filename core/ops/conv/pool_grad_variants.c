/* SPDX-License-Identifier: MIT */
/* The gradient of pooling: the geometry of windows, the kernel variants with their launches, the
   family, and the op. That of the largest element needs x, not y. */
#include <stdio.h>

#include "core/ops/conv/pool.h"
#include "core/ops/ops.h"

/* ---- geometry ---- */

copse_status copse__pool_work(const copse_tensor *y, const struct copse_pool_attr *a, copse_shape x,
                              struct copse_pool *out)
{
    *out = (struct copse_pool){ .kind = a->kind,
                                .images = x.dims[0],
                                .channels = x.dims[x.rank - 1],
                                .divisor = a->counts_padding ? a->h.taps * a->w.taps : 0 };
    COPSE_TRY(copse__conv_axis(y, &a->h, x.rank == 4 ? x.dims[1] : 1, &out->h));
    return copse__conv_axis(y, &a->w, x.dims[x.rank - 2], &out->w);
}

/* ---- launches ---- */

/* Every argument needs a buffer: the mean does not read x. */
static struct copse_operand x_of(const struct copse_pool *w)
{
    return copse__of(w->x ? w->x : w->dy);
}

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct copse_pool *w = work;
    const struct copse_params_pool_grad p =
        COPSE_POOL_PARAMS((uint32_t)copse__elements(w->to->shape), w);
    const int32_t spec[COPSE_MAX_SPECS] = { w->kind, (int32_t)w->h.taps, (int32_t)w->w.taps };
    return COPSE_LAUNCH(l, pool_grad, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_pool_grad, p.count), x_of(w),
                        copse__of(w->dy), copse__of(w->to));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_pool *w = work;
    const struct copse_params_pool_grad_wide p = COPSE_POOL_PARAMS(w->images * w->h.in, w);
    const int32_t spec[COPSE_MAX_SPECS] = { w->kind, (int32_t)w->h.taps, (int32_t)w->w.taps };
    return COPSE_LAUNCH(l, pool_grad_wide, spec, p, p.lines, x_of(w), copse__of(w->dy),
                        copse__of(w->to));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_pool_grad, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide",
      COPSE_KERNEL_pool_grad_wide,
      { 1, 0, 1, 1 },
      .fits = copse__pool_fits_wide,
      .lower = lower_wide },
};

bool copse__pool_size(const void *work, struct copse_size *out)
{
    const struct copse_pool *w = work;
    out->of[0] = w->channels;
    return w->images > 0 && w->channels > 0;
}

void copse__pool_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct copse_conv_axis axis = { 14, 7, 2, 2, 1, 1, 0 };
    const struct copse_pool w = { .images = 8, .channels = at->of[0], .h = axis, .w = axis };
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "8 x 14 x 14 x %u, 2 x 2", (unsigned)w.channels);
    j->in[0] = COPSE_SHAPE(8, 14, 14, w.channels);
}

static void pool_grad_job(const struct copse_size *at, struct copse_tune_job *j)
{
    copse__pool_job(at, j);
    j->in[1] = COPSE_SHAPE(8, 7, 7, at->of[0]);
}

static copse_tensor *pool_grad_build(copse_graph *g, const struct copse_tune_job *j,
                                     copse_tensor *const *in)
{
    const struct copse_window two = { 2, 2, 1, 0, 0, false };
    (void)j;
    return copse__pool_gradient(g, &(struct copse_pool_attr){ two, two, COPSE_POOL_LARGEST, false },
                                in[0], in[1]);
}

const struct copse_family copse_family_pool_grad = {
    .name = "pool_grad",
    COPSE_VARIANTS(variants),
    .sizes = { { COPSE_POOL_SIZES } },
    .size = copse__pool_size,
    .job = pool_grad_job,
    .operations = { 1 },
    .build = pool_grad_build,
};

/* ---- the op ---- */

static copse_status pool_grad_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct copse_pool_grad_attr *)dx->attr)->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status pool_grad_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct copse_pool_grad_attr *a = dx->attr;
    struct copse_pool work;
    COPSE_TRY(copse__pool_work(dx, &a->of, a->shape, &work));
    work.dy = dx->in[0];
    work.x = dx->in_count > 1 ? dx->in[1] : NULL;
    work.to = dx;
    return copse__lower_variant(l, &copse_family_pool_grad, &work);
}

/* dx of dy and, for the largest element, x. */
const struct copse_op copse_op_pool_gradient = {
    .name = "pool_gradient",
    .attr_size = sizeof(struct copse_pool_grad_attr),
    .infer = pool_grad_infer,
    .lower = pool_grad_lower,
};

copse_tensor *copse__pool_gradient(copse_graph *g, const struct copse_pool_attr *of,
                                   copse_tensor *x, copse_tensor *dy)
{
    const struct copse_pool_grad_attr a = { *of, x->shape };
    return of->kind == COPSE_POOL_LARGEST ? COPSE_NODE(g, &copse_op_pool_gradient, &a, dy, x)
                                          : COPSE_NODE(g, &copse_op_pool_gradient, &a, dy);
}
