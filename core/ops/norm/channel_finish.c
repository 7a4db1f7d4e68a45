/* SPDX-License-Identifier: MIT */
/* What channels are normalised by: the last step of their statistics, in one launch for each
   result. Few numbers, so that launches count and not bytes. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/ops/norm/channel_norm.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

enum { CENTRE = COPSE_CHANNEL_CENTRE, INVERSE = COPSE_CHANNEL_INVERSE };

struct attr {
    int32_t op;
    float epsilon;
};

static copse_status finish_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct attr *a = y->attr;
    *shape = y->in[a->op == CENTRE ? 1 : 0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status finish_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct attr *a = y->attr;
    const struct copse_params_channel_finish p = { (uint32_t)copse__elements(y->in[0]->shape),
                                                   a->epsilon };
    const int32_t spec[COPSE_MAX_SPECS] = { a->op };
    return COPSE_LAUNCH(l, channel_finish, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_channel_finish, p.n), copse__of(y->in[0]),
                        copse__of(y->in[1]), copse__of(y));
}

copse_shape copse__channel_shape(const copse_tensor *x, const copse_tensor *inverse)
{
    const uint32_t batches = inverse->shape.dims[0], channels = inverse->shape.dims[1];
    const uint64_t places = copse__elements(x->shape) / COPSE_MAX((uint64_t)batches * channels, 1);
    return COPSE_SHAPE(batches, (uint32_t)places, channels);
}

copse_tensor *copse__channel_part(copse_graph *g, copse_tensor *pair, uint32_t i)
{
    const uint32_t batches = pair->shape.dims[1], channels = pair->shape.dims[2];
    copse_tensor *part = copse_slice(g, pair, (const uint32_t[]){ i, 0, 0 },
                                     (const uint32_t[]){ 1, batches, channels });
    return copse_reshape(g, part, COPSE_SHAPE(batches, channels));
}

/* The same, made of other ops. */
static copse_tensor *finish_compose(copse_graph *g, const struct attr *a, copse_tensor *mean,
                                    copse_tensor *spread)
{
    const copse_shape shape = mean->shape;
    copse_tensor *rest = copse__channel_part(g, spread, 1), *t, *variance, *small;
    variance = copse__channel_part(g, spread, 0);
    t = copse_square(g, rest);
    t = copse_sub(g, variance, t);
    variance = copse_relu(g, t);
    if (a->op == INVERSE) {
        small = copse_scalar(g, (double)a->epsilon);
        t = copse_add(g, variance, small);
        return copse_rsqrt(g, t);
    }
    if (a->op != CENTRE)
        return variance;
    t = copse_square(g, mean);
    t = copse_less(g, t, variance);
    small = copse_scalar(g, 0);
    rest = copse_where(g, t, small, rest);
    t = copse_concat(g, (copse_tensor *[]){ mean, rest }, 2, 0);
    return copse_reshape(g, t, COPSE_SHAPE(2, shape.dims[0], shape.dims[1]));
}

static void finish_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *slope,
                            copse_tensor **out)
{
    copse_tensor *same = finish_compose(g, y->attr, y->in[0], y->in[1]);
    copse__partials(g, same, slope, y->in, y->in_count, out);
}

/* Of the mean m [batches, channels], and of E d^2 and E d [2, batches, channels] with d = x - m.
   The variance is E d^2 - (E d)^2, the mean m + E d. E d corrects a mean larger than sigma; of a
   smaller one it has rounding errors alone. */
static const struct copse_op op_finish = {
    .name = "channel_finish",
    .attr_size = sizeof(struct attr),
    .infer = finish_infer,
    .gradient = finish_gradient,
    .lower = finish_lower,
};

copse_tensor *copse__channel_finish(copse_graph *g, enum copse_channel_finish op,
                                    copse_tensor *mean, copse_tensor *spread, float epsilon)
{
    const struct attr a = { (int32_t)op, epsilon };
    return COPSE_NODE(g, &op_finish, &a, mean, spread);
}

/* ---- reference ---- */

/* A step of the formula: rounded to float where the operands are, as on devices. So the rest is
   chosen as on devices. */
static double finish_round(const struct copse_host_arg *like, double x)
{
    return like->is_double ? x : (double)(float)x;
}

static void channel_finish_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_channel_finish *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double mean = copse__load(&args[0], i), rest = copse__load(&args[1], p->n + i),
                     of_rest = finish_round(args, rest * rest),
                     difference = finish_round(args, copse__load(&args[1], i) - of_rest),
                     variance = difference <= 0 ? 0 : difference;
        copse__store(&args[2], i,
                     spec[0] == CENTRE ? mean
                     : spec[0] == INVERSE
                         ? 1 / sqrt(finish_round(args, variance + (double)p->epsilon))
                         : variance);
        if (spec[0] == CENTRE)
            copse__store(&args[2], p->n + i, finish_round(args, mean * mean) < variance ? 0 : rest);
    }
}

/* ---- self-test ---- */

static void channel_finish_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t n = COPSE_TEST_N;
    const struct copse_params_channel_finish p = { n, 1.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), n, 2 * n, (k->spec[0] == CENTRE ? 2 : 1) * n);
    t->slack = k->spec[0] == INVERSE ? COPSE_SELF_TEST_SLACK : 0;
}

/* ---- law ---- */

/* The roundings of the terms of the variance, as they show in the result. A rest may be chosen or
   not where the square of the mean is the variance up to roundings. */
static void channel_finish_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_channel_finish *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double mean = copse__load(&args[0], i), second = copse__load(&args[1], i),
                     rest = copse__load(&args[1], p->n + i),
                     terms = fabs(second) + rest * rest + 0x1p-126,
                     variance = fmax(second - rest * rest, 0) + (double)p->epsilon;
        const bool is_near =
            fabs(mean * mean - second + rest * rest) <= 0x1p-21 * (terms + mean * mean);
        copse__store(&args[2], i,
                     spec[0] == CENTRE    ? 0
                     : spec[0] == INVERSE ? terms / variance / sqrt(variance)
                                          : terms);
        if (spec[0] == CENTRE)
            copse__store(&args[2], p->n + i, is_near ? 0x1p24 * fabs(rest) : 0);
    }
}

static void channel_finish_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    if (spec[0] == CENTRE)
        limit->ulp = 0;
    if (spec[0] == INVERSE)
        limit->ulp = 4;
}

static bool channel_finish_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_channel_finish *p = COPSE_SPLIT_PARAMS(channel_finish, o);
    copse__split_pieces(o, 0, 1, p->n, 1);
    copse__split_pieces(o, 1, 2, p->n, 1);
    copse__split_pieces(o, 2, c->kernel->spec[0] == CENTRE ? 2 : 1, p->n, 1);
    o->units = p->n;
    copse__split_count(o, &p->n, 1);
    return true;
}

const struct copse_law copse_law_channel_finish = {
    .host = channel_finish_host,
    .split = channel_finish_split,
    .limit = { .ulp = 1, .ratio = 4, .size = channel_finish_size },
    .limit_of = channel_finish_limit,
    .self_test = channel_finish_test,
};
