/* SPDX-License-Identifier: MIT */
/* Pooling over windows: the largest element, or the mean. The gradient of the largest element needs x alone. */
#include <math.h>

#include "copse/ops/pool.h"
#include "core/device/host_at.h"
#include "core/ops/conv.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

enum { LARGEST, MEAN }; /* KIND of the kernels */

#define MAX_WINDOW 256u
#define MAX_TAPS   8192u
#define MAX_ROUNDS 60000u /* of the loops of an invocation */

struct pool_attr {
    struct copse_window h, w;
    int32_t kind;
    bool counts_padding;
};

struct geometry {
    struct copse_conv_axis h, w;
};

/* Parameters of both kernels. */
#define PARAMS(count_, attr_, g, c)                                                                             \
    { (uint32_t)(count_), c, (g).h.in, (g).w.in, (g).h.out, (g).w.out, (g).h.stride, (g).w.stride,              \
      (uint32_t)(g).h.step, (uint32_t)(g).w.step, (uint32_t)-(g).h.first, (uint32_t)-(g).w.first,               \
      (attr_)->counts_padding ? (g).h.taps * (g).w.taps : 0 }

/* Of the images or sequences `x`. */
static copse_status geometry(const copse_tensor *y, const struct pool_attr *a, copse_shape x, struct geometry *of)
{
    COPSE_TRY(copse__conv_axis(y, &a->h, x.rank == 4 ? x.dims[1] : 1, &of->h));
    return copse__conv_axis(y, &a->w, x.dims[x.rank - 2], &of->w);
}

static uint64_t overlapping(struct copse_conv_axis axis)
{
    return COPSE_MIN(axis.taps, ((uint64_t)(axis.taps - 1) * (uint64_t)axis.step + 1 + axis.stride - 1) / axis.stride);
}

static copse_status infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct pool_attr *a = y->attr;
    const copse_shape x = y->in[0]->shape;
    struct geometry of;
    if (y->in[0]->type != COPSE_F32)
        return copse__shape_error(y, "expected an f32 operand");
    if (x.rank != 3 && x.rank != 4)
        return copse__shape_error(y, "expected x of rank 3 or 4");
    COPSE_TRY(geometry(y, a, x, &of));
    const uint64_t taps = (uint64_t)of.h.taps * of.w.taps;
    if (a->kind == LARGEST && taps + overlapping(of.h) * overlapping(of.w) * taps > MAX_ROUNDS)
        return copse__shape_error(y, "expected windows that overlap less: %llu of %llu elements contain an element",
                                  (unsigned long long)(overlapping(of.h) * overlapping(of.w)), (unsigned long long)taps);
    *shape = x;
    shape->dims[1] = x.rank == 4 ? of.h.out : of.w.out;
    shape->dims[x.rank - 2] = of.w.out;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct pool_attr *a = y->attr;
    struct geometry of;
    COPSE_TRY(geometry(y, a, y->in[0]->shape, &of));
    const struct copse_params_pool p = PARAMS(copse__elements(y->shape), a, of, y->shape.dims[y->shape.rank - 1]);
    const int32_t spec[COPSE_MAX_SPECS] = { a->kind, (int32_t)of.h.taps, (int32_t)of.w.taps };
    return COPSE_LAUNCH(l, pool, spec, p, copse__groups_for(l, COPSE_KERNEL_pool, p.count), copse__of(y->in[0]), copse__of(y));
}

/* ---- the derivative ---- */

struct gradient_attr {
    struct pool_attr of;
    copse_shape shape;
};

static copse_status gradient_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct gradient_attr *)dx->attr)->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const struct gradient_attr *a = dx->attr;
    struct geometry of;
    COPSE_TRY(geometry(dx, &a->of, a->shape, &of));
    const struct copse_params_pool_grad p = PARAMS(copse__elements(a->shape), &a->of, of, a->shape.dims[a->shape.rank - 1]);
    const int32_t spec[COPSE_MAX_SPECS] = { a->of.kind, (int32_t)of.h.taps, (int32_t)of.w.taps };
    return COPSE_LAUNCH(l, pool_grad, spec, p, copse__groups_for(l, COPSE_KERNEL_pool_grad, p.count),
                        copse__of(dx->in[dx->in_count - 1]), copse__of(dx->in[0]), copse__of(dx));
}

/* dx of dy and, for the largest element, x. */
static const struct copse_op op_pool_gradient = {
    .name = "pool_gradient",
    .attr_size = sizeof(struct gradient_attr),
    .infer = gradient_infer,
    .lower = gradient_lower,
};

static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    const struct gradient_attr a = { *(const struct pool_attr *)y->attr, y->in[0]->shape };
    return a.of.kind == LARGEST ? COPSE_NODE(g, &op_pool_gradient, &a, &dx[0], dy, y->in[0])
                                : COPSE_NODE(g, &op_pool_gradient, &a, &dx[0], dy);
}

/* ---- the ops ---- */

static const struct copse_op op_max_pool = {
    .name = "max_pool",
    .attr_size = sizeof(struct pool_attr),
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};
static const struct copse_op op_average_pool = {
    .name = "average_pool",
    .attr_size = sizeof(struct pool_attr),
    .infer = infer,
    .gradient = gradient,
    .lower = lower,
};

static copse_status check_window(const char *op, const struct copse_pool_params *p, uint32_t axes, uint32_t i)
{
    const uint64_t dilation = p->dilation[i] ? p->dilation[i] : 1, span = (p->window[i] - 1) * dilation + 1;
    if (p->window[i] < 1 || p->window[i] > MAX_WINDOW || (axes == 2 && p->window[0] * p->window[1] > MAX_TAPS))
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: a window has 1 to %u elements along an axis, %u together", op, MAX_WINDOW,
                          MAX_TAPS);
    if (p->before[i] >= span || p->after[i] >= span)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: padding of %u and %u for a window that spans %llu", op,
                          (unsigned)p->before[i], (unsigned)p->after[i], (unsigned long long)span);
    return COPSE_OK;
}

static copse_status check(const char *op, const struct copse_pool_params *p, uint32_t axes)
{
    COPSE_TRY(copse__check_numbers(op, "stride", p->stride));
    COPSE_TRY(copse__check_numbers(op, "dilation", p->dilation));
    if (p->padding != COPSE_PADDING_EXPLICIT && p->padding != COPSE_PADDING_SAME)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: %d is no padding", op, (int)p->padding);
    if (p->padding == COPSE_PADDING_SAME && (p->before[0] || p->before[1] || p->after[0] || p->after[1]))
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: with COPSE_PADDING_SAME before and after must be 0", op);
    for (uint32_t i = 0; i < axes; i++)
        COPSE_TRY(check_window(op, p, axes, i));
    return COPSE_OK;
}

static struct copse_window window(const struct copse_pool_params *p, uint32_t i)
{
    return (struct copse_window){ p->window[i], p->stride[i] ? p->stride[i] : p->window[i],
                                  p->dilation[i] ? p->dilation[i] : 1, p->before[i], p->after[i],
                                  p->padding == COPSE_PADDING_SAME };
}

static copse_status add(copse_graph *g, const struct copse_op *op, copse_tensor *x, const struct copse_pool_params *p,
                        copse_tensor **y)
{
    const bool is_sequence = x->shape.rank == 3;
    const struct copse_window one = { 1, 1, 1, 0, 0, false };
    COPSE_TRY(copse_need(op->name, p));
    COPSE_TRY(copse_no_reserved(copse_pool_params, p));
    COPSE_TRY(check(op->name, p, is_sequence ? 1 : 2));
    const struct pool_attr a = { is_sequence ? one : window(p, 0), window(p, is_sequence ? 0 : 1),
                                 op == &op_max_pool ? LARGEST : MEAN, p->counts_padding };
    return COPSE_NODE(g, op, &a, y, x);
}

copse_status copse_max_pool(copse_graph *g, copse_tensor *x, const struct copse_pool_params *params, copse_tensor **y)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("max_pool", g, y, x));
    return add(g, &op_max_pool, x, params, y);
}

copse_status copse_average_pool(copse_graph *g, copse_tensor *x, const struct copse_pool_params *params, copse_tensor **y)
{
    COPSE_TRY(COPSE_CHECK_OPERANDS("average_pool", g, y, x));
    return add(g, &op_average_pool, x, params, y);
}

/* ---- references ---- */

/* A window: the position of its first tap, which may be outside of x. */
struct place {
    const struct copse_params_pool *p;
    const int32_t *spec;
    size_t image, channel;
    int64_t h, w;
};

static struct place place_of(const struct copse_params_pool *p, const int32_t *spec, size_t i)
{
    const size_t pixel = i / p->channels, line = pixel / p->out_w;
    return (struct place){ p, spec, line / p->out_h, i % p->channels,
                           (int64_t)(line % p->out_h * p->stride_h) - p->before_h,
                           (int64_t)(pixel % p->out_w * p->stride_w) - p->before_w };
}

/* The element of x that a tap reads; false: none. */
static bool element(const struct place *at, int32_t tap, size_t *x)
{
    const struct copse_params_pool *p = at->p;
    const int64_t h = at->h + tap / at->spec[2] * (int64_t)p->step_h, w = at->w + tap % at->spec[2] * (int64_t)p->step_w;
    *x = ((at->image * p->in_h + (size_t)h) * p->in_w + (size_t)w) * p->channels + at->channel;
    return h >= 0 && h < p->in_h && w >= 0 && w < p->in_w;
}

static size_t count(const struct place *at)
{
    size_t n = 0, x;
    for (int32_t tap = 0; tap < at->spec[1] * at->spec[2]; tap++)
        n += element(at, tap, &x);
    return n;
}

/* The first largest element of x, or NaN, in a window; false: it has no element. */
static bool largest(const struct place *at, const struct copse_host_arg *x, size_t *place)
{
    double best = 0;
    bool is_there = false;
    size_t e;
    for (int32_t tap = 0; tap < at->spec[1] * at->spec[2]; tap++) {
        if (!element(at, tap, &e) || (is_there && (isnan(best) || copse__load(x, e) <= best)))
            continue;
        is_there = true;
        best = copse__load(x, e);
        *place = e;
    }
    return is_there;
}

double copse_at_pool(const void *params, const int32_t *spec, const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_pool *p = params;
    const struct place at = place_of(p, spec, i);
    size_t e;
    double sum = 0;
    if (spec[0] == LARGEST)
        return largest(&at, &args[0], &e) ? copse__load(&args[0], e) : (double)-INFINITY;
    for (int32_t tap = 0; tap < spec[1] * spec[2]; tap++)
        sum += element(&at, tap, &e) ? copse__load(&args[0], e) : 0;
    return sum / (double)(p->divisor ? p->divisor : COPSE_MAX(count(&at), (size_t)1));
}

void copse_host_pool(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_pool *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__store(&args[1], i, copse_at_pool(params, spec, args, i));
}

/* What window `o` adds to element `e`. */
static double share_of(const struct copse_params_pool *p, const int32_t *spec, const struct copse_host_arg *args, size_t o,
                       size_t e)
{
    const struct place at = place_of(p, spec, o);
    const double dy = copse__load(&args[1], o);
    double sum = 0;
    size_t other;
    if (spec[0] == LARGEST)
        return largest(&at, &args[0], &other) && other == e ? dy : 0;
    for (int32_t tap = 0; tap < spec[1] * spec[2]; tap++)
        if (element(&at, tap, &other) && other == e)
            sum += dy / (double)(p->divisor ? p->divisor : count(&at));
    return sum;
}

/* Whether some tap of the windows at `first` along an axis may be element `e`. */
static bool spans(int64_t first, uint32_t step, int32_t taps, size_t e)
{
    return (int64_t)e >= first && (int64_t)e <= first + (int64_t)step * (taps - 1);
}

double copse_at_pool_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args, size_t e)
{
    struct copse_params_pool p;
    _Static_assert(sizeof p == sizeof(struct copse_params_pool_grad), "both kernels have the same parameters");
    memcpy(&p, params, sizeof p);
    const size_t pixel = e / p.channels, line = pixel / p.in_w, image = line / p.in_h;
    double sum = 0;
    for (size_t h = 0; h < p.out_h; h++)
        for (size_t w = 0; w < p.out_w; w++)
            if (spans((int64_t)(h * p.stride_h) - p.before_h, p.step_h, spec[1], line % p.in_h) &&
                spans((int64_t)(w * p.stride_w) - p.before_w, p.step_w, spec[2], pixel % p.in_w))
                sum += share_of(&p, spec, args, ((image * p.out_h + h) * p.out_w + w) * p.channels + e % p.channels, e);
    return sum;
}

void copse_host_pool_grad(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    struct copse_params_pool p;
    _Static_assert(sizeof p == sizeof(struct copse_params_pool_grad), "both kernels have the same parameters");
    memcpy(&p, params, sizeof p);
    const size_t images = ((size_t)p.count + (size_t)p.in_h * p.in_w * p.channels - 1) / ((size_t)p.in_h * p.in_w * p.channels);
    for (size_t i = 0; i < p.count; i++)
        copse__store(&args[2], i, 0);
    for (size_t o = 0; o < images * p.out_h * p.out_w * p.channels; o++) {
        const struct place at = place_of(&p, spec, o);
        const double dy = copse__load(&args[1], o);
        size_t e;
        if (spec[0] == LARGEST && largest(&at, &args[0], &e) && e < p.count)
            copse__store(&args[2], e, copse__load(&args[2], e) + dy);
        for (int32_t tap = 0; spec[0] == MEAN && tap < spec[1] * spec[2]; tap++)
            if (element(&at, tap, &e) && e < p.count)
                copse__store(&args[2], e, copse__load(&args[2], e) + dy / (double)(p.divisor ? p.divisor : count(&at)));
    }
}

/* ---- self-tests: two images of 5 x 4, windows with a stride of 2 that overlap ---- */

#define C COPSE_TEST_ROWS

static struct copse_params_pool test_params(const struct copse_kernel *k, uint32_t *in, uint32_t *out)
{
    /* As many elements as the window needs. */
    const uint32_t h = 3 + (uint32_t)COPSE_MIN(k->spec[1], 8), w = 2 + (uint32_t)COPSE_MIN(k->spec[2], 8);
    const struct copse_params_pool p = { 0, C, h, w, 3, 2, 2, 2, 1, 1, 1, 0, k->spec[0] == MEAN ? 4 : 0 };
    *in = 2 * h * w * C;
    *out = 2 * 3 * 2 * C;
    return p;
}

void copse_self_test_pool(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t in, out;
    struct copse_params_pool p = test_params(k, &in, &out);
    p.count = out;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, out), in, out);
}

void copse_self_test_pool_grad(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t in, out;
    struct copse_params_pool p = test_params(k, &in, &out);
    p.count = in;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, in), in, out, in);
}
