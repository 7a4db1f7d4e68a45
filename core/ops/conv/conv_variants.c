/* SPDX-License-Identifier: MIT */
/* Convolutions: the kernel variants with their launches, the family, and the derivatives. The
   gradient of x is a convolution of dy with the weights of transposed channels, so all of them are
   one family. conv_tile reads these weights in place, for others they are copied. */
#include <stdio.h>

#include "core/graph/type.h"
#include "core/ops/conv/conv.h"
#include "core/ops/ops.h"
#include "core/ops/product/precision.h"
#include "core/ops/product/product.h"
#include "core/ops/reduce/column_sum.h"

#define MAX_TAPS 8192u
#define MAX_SIZE (1u << 30) /* of an axis of y */
/* Some drivers leave a loop after 65535 rounds: three of each tap, one of each product. */
#define MAX_ROUNDS 60000u

/* ---- launches ---- */

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct copse_conv *c = work;
    const struct copse_conv_geometry *of = &c->of;
    const struct copse_conv_axis *h = &of->h, *w = &of->w;
    const uint32_t taps = copse__conv_taps(of), most = (MAX_ROUNDS - 3 * taps) / taps;
    const int32_t spec[COPSE_MAX_SPECS] = { c->bias != NULL, (int32_t)c->activation,
                                            copse__conv_has_gaps(of) };
    struct copse_params_conv p = {
        .count = (uint32_t)copse__elements(c->y->shape),
        .taps_h = h->taps,
        .gap_h = h->gap,
        .gap_w = w->gap,
        COPSE_CONV_SIZES(of),
    };
    struct copse_operand x = c->x, weights = c->weights;
    COPSE_TRY(copse__give_bytes(l, (uint64_t)of->batch * h->in * w->in * of->in_channels, &x));
    COPSE_TRY(copse__give_bytes(
        l, (uint64_t)taps * (of->in_channels / of->groups) * of->out_channels, &weights));
    do {
        p.c_begin = p.c_end;
        p.c_end += COPSE_MIN(p.group_in - p.c_begin, most);
        COPSE_TRY(COPSE_LAUNCH(l, conv, spec, p, copse__groups_for(l, COPSE_KERNEL_conv, p.count),
                               x, weights, c->bias ? copse__of(c->bias) : weights,
                               copse__of(c->y)));
    } while (p.c_end < p.group_in);
    return COPSE_OK;
}

/* The weights as panels of whole vectors. */
static copse_status conv_pack(struct copse_lowering *l, const struct copse_conv *c, uint32_t terms,
                              uint32_t width, struct copse_operand *panels)
{
    const uint32_t out = c->of.out_channels, count = (out + width - 1) / width;
    const struct copse_params_matmul_wide_pack p = { terms, out, width, 1 };
    COPSE_TRY(copse__scratch(l, (uint64_t)count * width * terms, panels));
    return COPSE_LAUNCH(l, matmul_wide_pack, NULL, p, (uint64_t)count * ((terms + 63) / 64),
                        c->weights, *panels);
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_conv *c = work;
    const struct copse_conv_geometry *of = &c->of;
    const struct copse_conv_axis *h = &of->h, *w = &of->w;
    const int32_t log_vectors = copse__conv_log_vectors(of);
    const uint32_t width = 16u << log_vectors, out = of->out_channels,
                   rows = COPSE_CONV_WIDE_ROWS(log_vectors);
    const uint32_t terms = copse__conv_taps(of) * (of->in_channels / of->groups);
    const int32_t spec[COPSE_MAX_SPECS] = { c->bias != NULL, (int32_t)c->activation,
                                            copse__conv_has_gaps(of), log_vectors };
    struct copse_params_conv_wide p = {
        .pixels = copse__conv_pixels(of),
        .taps_h = h->taps,
        .gap_h = h->gap,
        .gap_w = w->gap,
        .panel = width,
        .step = out,
        COPSE_CONV_SIZES(of),
    };
    struct copse_operand weights = c->weights;
    /* Rows far apart map to few cache lines; with few pixels a copy does not pay off. */
    if (of->groups == 1 && (out % width != 0 || (out > width && p.pixels > 8 * rows))) {
        p.panel = terms * width;
        p.step = width;
        COPSE_TRY(conv_pack(l, c, terms, width, &weights));
    }
    const uint64_t groups = (uint64_t)((p.pixels + rows - 1) / rows) * ((out + width - 1) / width);
    return COPSE_LAUNCH(l, conv_wide, spec, p, groups, c->x, weights,
                        c->bias ? copse__of(c->bias) : c->weights, copse__of(c->y));
}

/* Sums of two levels; groups of whole vectors. */
static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    const struct copse_conv_geometry *of = &((const struct copse_conv *)work)->of;
    const uint64_t terms = (uint64_t)copse__conv_taps(of) * (of->in_channels / of->groups);
    (void)limits;
    return terms > 0 && terms <= 32768 &&
           (of->groups == 1 || of->out_channels / of->groups % 16 == 0);
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_conv, { 0, 1, 1, 1 }, .lower = lower_plain },
    { "wide",
      COPSE_KERNEL_conv_wide,
      { 1, 0, 2, 2 },
      .fits = fits_wide,
      .lower = lower_wide,
      COPSE_NEEDS(COPSE_KERNEL_matmul_wide_pack) },
    { "texel",
      COPSE_KERNEL_conv_texel,
      { 2, 2, 0, 3 },
      .fits = copse__conv_fits_texel,
      .lower = copse__conv_lower_texel,
      COPSE_NEEDS(COPSE_KERNEL_matmul_pad) },
    { "tile",
      COPSE_KERNEL_conv_tile,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = copse__conv_fits_tile,
      .lower = copse__conv_lower_tile,
      COPSE_NEEDS(COPSE_KERNEL_matmul_join) },
};

static bool conv_size(const void *work, struct copse_size *out)
{
    const struct copse_conv *c = work;
    copse__conv_size(&c->of, out);
    return c->of.batch > 0 && c->of.in_channels > 0 && !copse__conv_has_gaps(&c->of);
}

static void conv_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct copse_conv c = { .of = copse__conv_job(at, j) };
    COPSE_JOB_WORK(j, c);
    j->in[1] = COPSE_SHAPE(3, 3, c.of.in_channels, c.of.out_channels);
}

static copse_tensor *conv_build(copse_graph *g, const struct copse_tune_job *j,
                                copse_tensor *const *in)
{
    (void)j;
    return copse_conv(g, in[0], in[1], NULL,
                      &(struct copse_conv_params){ .padding = COPSE_PADDING_SAME });
}

const struct copse_family copse_family_conv = {
    .name = "conv",
    COPSE_VARIANTS(variants),
    .sizes = { { COPSE_CONV_CHANNELS }, { COPSE_CONV_CHANNELS } },
    .size = conv_size,
    .job = conv_job,
    .build = conv_build,
};

/* ---- shapes ---- */

/* Settings without defaults, by spatial axis: h and w. */
struct conv_attr {
    uint32_t stride[2], dilation[2], before[2], after[2], extra[2], groups;
    bool is_same, is_transposed;
    copse_activation activation;
};

static copse_status forward_axis(const copse_tensor *y, const struct conv_attr *a, uint32_t i,
                                 uint64_t size, struct copse_conv_axis *axis)
{
    const struct copse_window of = { axis->taps,   a->stride[i], a->dilation[i],
                                     a->before[i], a->after[i],  a->is_same };
    return copse__conv_axis(y, &of, size, axis);
}

static copse_status transposed_axis(const copse_tensor *y, const struct conv_attr *a, uint32_t i,
                                    uint64_t size, uint64_t span, struct copse_conv_axis *axis)
{
    const uint64_t stride = a->stride[i], covered = size ? (size - 1) * stride + span : 0;
    uint64_t out = size * stride, before = a->before[i];
    if (a->is_same) {
        before = covered > out ? (covered - out) / 2 : 0;
    } else {
        const uint64_t whole = covered + a->extra[i], zeros = before + a->after[i];
        if (size > 0 && whole <= zeros)
            return copse__shape_error(
                y, "expected less padding than the %llu positions of y without padding",
                (unsigned long long)whole);
        out = size > 0 ? whole - zeros : 0;
    }
    if (out > MAX_SIZE)
        return copse__shape_error(y, "expected a result with axes of at most %u", MAX_SIZE);
    *axis = (struct copse_conv_axis){ (uint32_t)size, (uint32_t)out,
                                      axis->taps,     1,
                                      a->stride[i],   -(int32_t)a->dilation[i],
                                      (int32_t)before };
    return COPSE_OK;
}

/* The geometry of y from its operands and settings. */
static copse_status conv_geometry(const copse_tensor *y, struct copse_conv_geometry *of)
{
    const struct conv_attr *a = y->attr;
    const copse_shape x = y->in[0]->shape, w = y->in[1]->shape;
    for (uint32_t i = 0; i < y->in_count; i++)
        if (!copse__type_is_smooth(y->in[i]->type))
            return copse__shape_error(y, "expected f32 operands");
    if ((x.rank != 3 && x.rank != 4) || w.rank != x.rank)
        return copse__shape_error(y, "expected x and w of rank 4, or both of rank 3");
    const uint32_t axes = x.rank - 2;
    *of = (struct copse_conv_geometry){ x.dims[0], x.dims[x.rank - 1],      w.dims[w.rank - 1],
                                        a->groups, { 1, 1, 1, 1, 1, 1, 0 }, { 0 } };
    if (of->in_channels % a->groups || of->out_channels % a->groups ||
        of->in_channels / a->groups != w.dims[w.rank - 2])
        return copse__shape_error(
            y, "expected %u groups to divide the channels, and w to have a group's channels of x",
            (unsigned)a->groups);
    if (y->in_count == 3 &&
        (y->in[2]->shape.rank != 1 || y->in[2]->shape.dims[0] != of->out_channels))
        return copse__shape_error(y, "expected a bias of %u elements, the last size of w",
                                  (unsigned)of->out_channels);
    uint64_t taps = 1;
    for (uint32_t i = 0; i < axes; i++)
        taps *= w.dims[i]; /* of at most two axes */
    if (taps == 0 || taps > MAX_TAPS)
        return copse__shape_error(y, "expected w to have 1 to %u taps", MAX_TAPS);
    for (uint32_t i = 0; i < axes; i++) {
        struct copse_conv_axis *axis = i == axes - 1 ? &of->w : &of->h;
        const uint64_t span = (uint64_t)(w.dims[i] - 1) * a->dilation[i] + 1;
        if (x.dims[1 + i] > COPSE_MAX_AXIS || span > COPSE_MAX_AXIS)
            return copse__shape_error(y, "expected spatial axes of at most %u", COPSE_MAX_AXIS);
        axis->taps = w.dims[i];
        COPSE_TRY(a->is_transposed ? transposed_axis(y, a, i, x.dims[1 + i], span, axis)
                                   : forward_axis(y, a, i, x.dims[1 + i], axis));
    }
    return COPSE_OK;
}

static copse_status conv_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    struct copse_conv_geometry of;
    COPSE_TRY(conv_geometry(y, &of));
    *shape = y->in[0]->shape;
    shape->dims[1] = of.h.out;
    shape->dims[shape->rank - 2] = of.w.out;
    shape->dims[shape->rank - 1] = of.out_channels;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* Transposes the channels of the weights. */
static copse_status conv_turn(struct copse_lowering *l, struct copse_conv *c)
{
    const uint32_t groups = c->of.groups, in = c->of.in_channels / groups,
                   out = c->of.out_channels / groups;
    const copse_shape shape = COPSE_SHAPE(copse__conv_taps(&c->of), in, groups, out);
    const uint32_t strides[] = { out * groups * in, 1, in, groups * in };
    struct copse_operand turned;
    c->is_turned = false;
    if (copse__elements(shape) == 0)
        return COPSE_OK;
    COPSE_TRY(copse__scratch(l, copse__elements(shape), &turned));
    COPSE_TRY(copse__launch_strided(l, COPSE_F32, shape, strides, 0, false, c->weights, turned));
    c->weights = turned;
    return COPSE_OK;
}

static copse_status conv_launch(struct copse_lowering *l, struct copse_conv *c)
{
    const struct copse_variant *v;
    COPSE_TRY(copse__widen(l, &c->x));
    COPSE_TRY(copse__widen(l, &c->weights));
    COPSE_TRY(copse__choose(l, &copse_family_conv, c, &v));
    if (c->is_turned && v->kernel != COPSE_KERNEL_conv_tile)
        COPSE_TRY(conv_turn(l, c));
    return v->lower(l, c);
}

static copse_status conv_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct copse_conv c = { .activation = ((const struct conv_attr *)y->attr)->activation,
                            .x = copse__of(y->in[0]),
                            .weights = copse__of(y->in[1]),
                            .bias = y->in_count == 3 ? y->in[2] : NULL,
                            .y = y };
    COPSE_TRY(conv_geometry(y, &c.of));
    return conv_launch(l, &c);
}

/* ---- the derivatives ---- */

static copse_status gradient_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct copse_conv_attr *)dx->attr)->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* The same pairs of elements and taps, seen from x. */
static struct copse_conv_axis adjoint_axis(struct copse_conv_axis a)
{
    return (struct copse_conv_axis){ a.out, a.in, a.taps, a.gap, a.stride, -a.step, -a.first };
}

static struct copse_conv_geometry adjoint_of(const struct copse_conv_geometry *of)
{
    return (struct copse_conv_geometry){ of->batch,  of->out_channels,    of->in_channels,
                                         of->groups, adjoint_axis(of->h), adjoint_axis(of->w) };
}

/* The sum is bilinear: a convolution without bias has the same derivatives. */
static void gradient_second(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct copse_conv_attr *a = y->attr;
    const struct copse_conv_geometry adjoint = adjoint_of(&a->of);
    copse_tensor *x = y->in[0], *w = y->in[1], *narrow = copse__narrow_slope(g, y, dy);
    if (x->needs_gradient)
        dx[0] = copse__conv_by(g, &adjoint, x->shape, narrow, w, !a->is_turned);
    if (w->needs_gradient)
        dx[1] = a->is_turned ? copse__conv_weight(g, &adjoint, w->shape, narrow, x)
                             : copse__conv_weight(g, &a->of, w->shape, x, narrow);
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct copse_conv_attr *a = dx->attr;
    struct copse_conv c = { .of = a->of,
                            .x = copse__of(dx->in[0]),
                            .weights = copse__of(dx->in[1]),
                            .y = dx,
                            .is_turned = a->is_turned };
    return conv_launch(l, &c);
}

/* dx of dy and the weights with transposed channels; of any geometry. */
static const struct copse_op op_gradient = {
    .name = "conv_gradient",
    .attr_size = sizeof(struct copse_conv_attr),
    .infer = gradient_infer,
    .gradient = gradient_second,
    .lower = gradient_lower,
    .takes_stored = true,
};

copse_tensor *copse__conv_by(copse_graph *g, const struct copse_conv_geometry *of,
                             copse_shape shape, copse_tensor *x, copse_tensor *weights,
                             bool is_turned)
{
    const struct copse_conv_attr a = { *of, shape, is_turned };
    return COPSE_NODE(g, &op_gradient, &a, x, weights);
}

copse_tensor *copse__conv_input(copse_graph *g, const struct copse_conv_geometry *of,
                                const copse_tensor *x, copse_tensor *weights, copse_tensor *dy)
{
    const struct copse_conv_geometry adjoint = adjoint_of(of);
    return copse__conv_by(g, &adjoint, x->shape, dy, weights, true);
}

static void conv_op_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    const struct conv_attr *a = y->attr;
    copse_tensor *x = y->in[0], *w = y->in[1], *dz, *narrow, *rows;
    struct copse_conv_geometry of;
    COPSE_LATCH_VOID(g, conv_geometry(y, &of));
    dz = copse__activation_gradient(g, a->activation, g->nodes.at[y->id], dy);
    narrow = copse__narrow_slope(g, y, dz);
    if (x->needs_gradient)
        dx[0] = copse__conv_input(g, &of, x, w, narrow);
    if (w->needs_gradient)
        dx[1] = copse__conv_weight(g, &of, w->shape, x, narrow);
    if (y->in_count == 3 && y->in[2]->needs_gradient) {
        rows = copse_reshape(g, dz, COPSE_SHAPE(of.batch * of.h.out * of.w.out, of.out_channels));
        dx[2] = copse__column_sum(g, rows);
    }
}

/* ---- the ops ---- */

static const struct copse_op op_conv = {
    .name = "conv",
    .attr_size = sizeof(struct conv_attr),
    .infer = conv_infer,
    .gradient = conv_op_gradient,
    .lower = conv_lower,
    .takes_stored = true,
};
static const struct copse_op op_transposed = {
    .name = "conv_transposed",
    .attr_size = sizeof(struct conv_attr),
    .infer = conv_infer,
    .gradient = conv_op_gradient,
    .lower = conv_lower,
    .takes_stored = true,
};

static copse_status check_padding(const char *op, const struct copse_conv_params *p,
                                  const struct conv_attr *a)
{
    const bool is_explicit =
        p->before[0] || p->before[1] || p->after[0] || p->after[1] || p->extra[0] || p->extra[1];
    if (p->padding != COPSE_PADDING_EXPLICIT && p->padding != COPSE_PADDING_SAME)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: %d is no padding", op, (int)p->padding);
    if (a->is_same && is_explicit)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: with COPSE_PADDING_SAME before, after and extra must be 0", op);
    for (uint32_t i = 0; i < 2; i++)
        if (p->extra[i] > 0 &&
            (!a->is_transposed || p->extra[i] >= COPSE_MAX(a->stride[i], a->dilation[i])))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              a->is_transposed ? "%s: extra %u is not less than stride or dilation"
                                               : "%s: extra %u: only copse_conv_transposed has it",
                              op, (unsigned)p->extra[i]);
    return COPSE_OK;
}

static copse_status conv_settle(const char *op, const struct copse_conv_params *params,
                                bool is_transposed, struct conv_attr *a)
{
    const struct copse_conv_params none = { 0 }, *p = params ? params : &none;
    COPSE_TRY(copse_no_reserved(copse_conv_params, p));
    *a = (struct conv_attr){
        .groups = p->groups ? p->groups : 1,
        .is_same = p->padding == COPSE_PADDING_SAME,
        .is_transposed = is_transposed,
        .activation = p->activation <= COPSE_TANH ? p->activation : COPSE_LINEAR,
    };
    COPSE_TRY(copse__check_numbers(op, "stride", p->stride));
    COPSE_TRY(copse__check_numbers(op, "dilation", p->dilation));
    COPSE_TRY(copse__check_numbers(op, "padding", p->before));
    COPSE_TRY(copse__check_numbers(op, "padding", p->after));
    if ((int)p->activation < COPSE_LINEAR || p->activation > COPSE_SILU)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: %d is no activation", op, (int)p->activation);
    for (uint32_t i = 0; i < 2; i++) {
        a->stride[i] = p->stride[i] ? p->stride[i] : 1;
        a->dilation[i] = p->dilation[i] ? p->dilation[i] : 1;
        a->before[i] = p->before[i];
        a->after[i] = p->after[i];
        a->extra[i] = p->extra[i];
    }
    return check_padding(op, p, a);
}

static copse_tensor *conv_add(copse_graph *g, const struct copse_op *op, copse_tensor *x,
                              copse_tensor *w, copse_tensor *bias,
                              const struct copse_conv_params *params)
{
    struct conv_attr a;
    copse__product_operands(g, &x, &w);
    if (bias)
        COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &bias));
    COPSE_LATCH(g, conv_settle(op->name, params, op == &op_transposed, &a));
    copse_tensor *z = bias ? COPSE_NODE(g, op, &a, x, w, bias) : COPSE_NODE(g, op, &a, x, w);
    if (params && params->activation == COPSE_GELU)
        return copse_gelu(g, z);
    if (params && params->activation == COPSE_SILU)
        return copse_silu(g, z);
    return z;
}

copse_tensor *copse_conv(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *bias,
                         const struct copse_conv_params *params)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("conv", g, x, w));
    return conv_add(g, &op_conv, x, w, bias, params);
}

copse_tensor *copse_conv_transposed(copse_graph *g, copse_tensor *x, copse_tensor *w,
                                    copse_tensor *bias, const struct copse_conv_params *params)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("conv_transposed", g, x, w));
    return conv_add(g, &op_transposed, x, w, bias, params);
}
