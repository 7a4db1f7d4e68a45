/* SPDX-License-Identifier: MIT */
/* Pooling over windows: the largest element, or the mean. The kernel variants with their launches,
   the family, and the ops. */
#include <stdio.h>

#include "copse/ops/pool.h"
#include "core/ops/conv/pool.h"
#include "core/ops/ops.h"

#define MAX_WINDOW 256u
#define MAX_TAPS   8192u
#define MAX_ROUNDS 60000u /* of the loops of an invocation */

/* ---- launches ---- */

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct copse_pool *w = work;
    const struct copse_params_pool p =
        COPSE_POOL_PARAMS((uint32_t)copse__elements(w->to->shape), w);
    const int32_t spec[COPSE_MAX_SPECS] = { w->kind, (int32_t)w->h.taps, (int32_t)w->w.taps };
    return COPSE_LAUNCH(l, pool, spec, p, copse__groups_for(l, COPSE_KERNEL_pool, p.count),
                        copse__of(w->x), copse__of(w->to));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_pool *w = work;
    const struct copse_params_pool_wide p = COPSE_POOL_PARAMS(w->images * w->h.out, w);
    const int32_t spec[COPSE_MAX_SPECS] = { w->kind, (int32_t)w->h.taps, (int32_t)w->w.taps };
    return COPSE_LAUNCH(l, pool_wide, spec, p, p.lines, copse__of(w->x), copse__of(w->to));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_pool, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide",
      COPSE_KERNEL_pool_wide,
      { 1, 0, 1, 1 },
      .fits = copse__pool_fits_wide,
      .lower = lower_wide },
};

static copse_tensor *pool_build(copse_graph *g, const struct copse_tune_job *j,
                                copse_tensor *const *in)
{
    (void)j;
    return copse_max_pool(g, in[0], &(struct copse_pool_params){ .window = { 2, 2 } });
}

const struct copse_family copse_family_pool = {
    .name = "pool",
    COPSE_VARIANTS(variants),
    .sizes = { { COPSE_POOL_SIZES } },
    .size = copse__pool_size,
    .job = copse__pool_job,
    .operations = { 1 },
    .build = pool_build,
};

/* ---- shapes ---- */

static uint64_t pool_overlapping(struct copse_conv_axis axis)
{
    return COPSE_MIN(axis.taps,
                     ((uint64_t)(axis.taps - 1) * (uint64_t)axis.step + 1 + axis.stride - 1) /
                         axis.stride);
}

static copse_status pool_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct copse_pool_attr *a = y->attr;
    const copse_shape x = y->in[0]->shape;
    struct copse_pool of;
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected an f32 operand");
    if (x.rank != 3 && x.rank != 4)
        return copse__shape_error(y, "expected x of rank 3 or 4");
    COPSE_TRY(copse__pool_work(y, a, x, &of));
    const uint64_t taps = (uint64_t)of.h.taps * of.w.taps;
    if (a->kind == COPSE_POOL_LARGEST &&
        taps + pool_overlapping(of.h) * pool_overlapping(of.w) * taps > MAX_ROUNDS)
        return copse__shape_error(
            y, "expected windows that overlap less: %llu of %llu elements contain an element",
            (unsigned long long)(pool_overlapping(of.h) * pool_overlapping(of.w)),
            (unsigned long long)taps);
    *shape = x;
    shape->dims[1] = x.rank == 4 ? of.h.out : of.w.out;
    shape->dims[x.rank - 2] = of.w.out;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status pool_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct copse_pool work;
    COPSE_TRY(copse__pool_work(y, y->attr, y->in[0]->shape, &work));
    work.x = y->in[0];
    work.to = y;
    return copse__lower_variant(l, &copse_family_pool, &work);
}

static void pool_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    dx[0] = copse__pool_gradient(g, y->attr, y->in[0], dy);
}

/* ---- the ops ---- */

static const struct copse_op op_max_pool = {
    .name = "max_pool",
    .attr_size = sizeof(struct copse_pool_attr),
    .infer = pool_infer,
    .gradient = pool_gradient,
    .lower = pool_lower,
};
static const struct copse_op op_average_pool = {
    .name = "average_pool",
    .attr_size = sizeof(struct copse_pool_attr),
    .infer = pool_infer,
    .gradient = pool_gradient,
    .lower = pool_lower,
};

copse_tensor *copse__pool_mean(copse_graph *g, const struct copse_pool_attr *a, copse_tensor *x)
{
    return COPSE_NODE(g, &op_average_pool, a, x);
}

static copse_status check_window(const char *op, const struct copse_pool_params *p, uint32_t axes,
                                 uint32_t i)
{
    const uint64_t dilation = p->dilation[i] ? p->dilation[i] : 1,
                   span = (p->window[i] - 1) * dilation + 1;
    if (p->window[i] < 1 || p->window[i] > MAX_WINDOW ||
        (axes == 2 && p->window[0] * p->window[1] > MAX_TAPS))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: a window has 1 to %u elements along an axis, %u together", op,
                          MAX_WINDOW, MAX_TAPS);
    if (p->before[i] >= span || p->after[i] >= span)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: padding of %u and %u for a window that spans %llu", op,
                          (unsigned)p->before[i], (unsigned)p->after[i], (unsigned long long)span);
    return COPSE_OK;
}

static copse_status pool_check(const char *op, const struct copse_pool_params *p, uint32_t axes)
{
    COPSE_TRY(copse__check_numbers(op, "stride", p->stride));
    COPSE_TRY(copse__check_numbers(op, "dilation", p->dilation));
    if (p->padding != COPSE_PADDING_EXPLICIT && p->padding != COPSE_PADDING_SAME)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: %d is no padding", op, (int)p->padding);
    if (p->padding == COPSE_PADDING_SAME &&
        (p->before[0] || p->before[1] || p->after[0] || p->after[1]))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: with COPSE_PADDING_SAME before and after must be 0", op);
    for (uint32_t i = 0; i < axes; i++)
        COPSE_TRY(check_window(op, p, axes, i));
    return COPSE_OK;
}

static struct copse_window pool_window(const struct copse_pool_params *p, uint32_t i)
{
    return (struct copse_window){ p->window[i],
                                  p->stride[i] ? p->stride[i] : p->window[i],
                                  p->dilation[i] ? p->dilation[i] : 1,
                                  p->before[i],
                                  p->after[i],
                                  p->padding == COPSE_PADDING_SAME };
}

static copse_tensor *pool_add(copse_graph *g, const struct copse_op *op, copse_tensor *x,
                              const struct copse_pool_params *p)
{
    const bool is_sequence = x->shape.rank == 3;
    const struct copse_window one = { 1, 1, 1, 0, 0, false };
    COPSE_LATCH(g, copse_need(op->name, p));
    COPSE_LATCH(g, copse_no_reserved(copse_pool_params, p));
    COPSE_LATCH(g, pool_check(op->name, p, is_sequence ? 1 : 2));
    const struct copse_pool_attr a = { is_sequence ? one : pool_window(p, 0),
                                       pool_window(p, is_sequence ? 0 : 1),
                                       op == &op_max_pool ? COPSE_POOL_LARGEST : COPSE_POOL_MEAN,
                                       p->counts_padding };
    return COPSE_NODE(g, op, &a, x);
}

copse_tensor *copse_max_pool(copse_graph *g, copse_tensor *x,
                             const struct copse_pool_params *params)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("max_pool", g, x));
    return pool_add(g, &op_max_pool, x, params);
}

copse_tensor *copse_average_pool(copse_graph *g, copse_tensor *x,
                                 const struct copse_pool_params *params)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("average_pool", g, x));
    return pool_add(g, &op_average_pool, x, params);
}
