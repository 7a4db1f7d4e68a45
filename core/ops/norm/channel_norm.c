/* SPDX-License-Identifier: MIT */
/* Normalisation of channels: the ops of statistics over places, of the normalised channels, and of
   the derivative, in which one pass computes the sums of dy and of dy u for all operands. */
#include "core/ops/norm/channel_norm.h"

#include "copse/distribute/sync.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/unary.h"
#include "core/ops/ops.h"
#include "core/ops/reduce/column_sum.h"

struct attr {
    uint32_t groups;
    int32_t is_synchronised;
};

/* Channels of a group; the last axis of x has all channels. */
static uint32_t group_of(const copse_tensor *y)
{
    const struct attr *a = y->attr;
    const copse_shape x = y->in[0]->shape;
    return x.dims[x.rank - 1] / COPSE_MAX(a->groups, 1u);
}

/* t [.., channels]: the sum over each group of channels, times `factor`, for each channel of the
   group. */
static copse_tensor *over_groups(copse_graph *g, copse_tensor *t, uint32_t group, float factor)
{
    static const uint32_t last = 1;
    const copse_shape shape = t->shape;
    if (group <= 1)
        return copse_multiply_by(g, t, factor);
    t = copse_reshape(g, t, COPSE_SHAPE((uint32_t)(copse__elements(shape) / group), group));
    t = copse_sum(g, t, &last, 1, true);
    copse_tensor *factors = copse_fill(g, COPSE_F32, COPSE_SHAPE(group), (double)factor);
    t = copse_mul(g, t, factors);
    return copse_reshape(g, t, shape);
}

static float share_of(copse_shape x, uint32_t group)
{
    return (float)(1 / COPSE_MAX((double)x.dims[1] * group, 1));
}

/* ---- mean and variance ---- */

static copse_status infer_statistic(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(y->in[0]->shape.dims[0], y->in[0]->shape.dims[2]);
    *type = COPSE_F32;
    return COPSE_OK;
}

/* dm [batches, channels], the slope of a mean over places and groups, as the slope of each term:
   [batches, 1, channels]. */
static copse_tensor *slope_of_terms(copse_graph *g, const copse_tensor *y, copse_tensor *dm)
{
    const copse_shape x = y->in[0]->shape;
    dm = over_groups(g, dm, group_of(y), share_of(x, group_of(y)));
    return copse_reshape(g, dm, COPSE_SHAPE(x.dims[0], 1, x.dims[2]));
}

static void mean_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    dy = slope_of_terms(g, y, dy);
    dx[0] = copse_broadcast_to(g, dy, y->in[0]->shape);
}

static copse_status mean_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(l, y,
                                     &(struct copse_channel_sums){ .op = COPSE_CHANNEL_MEAN,
                                                                   .group = group_of(y),
                                                                   .shape = y->in[0]->shape,
                                                                   .x = y->in[0] });
}

static const struct copse_op op_mean = {
    .name = "channel_mean",
    .attr_size = sizeof(struct attr),
    .infer = infer_statistic,
    .gradient = mean_gradient,
    .lower = mean_lower,
};

/* ---- the variance about a mean, and the mean of the differences from it: [2, batches, channels]
   ---- */

static copse_status infer_pair(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(2, y->in[0]->shape.dims[0], y->in[0]->shape.dims[2]);
    *type = COPSE_F32;
    return COPSE_OK;
}

/* That of the variance alone. The rest is a rounding error of the mean; and the differences from
   the mean of all replicas add up to 0, so that the mean gets nothing. */
static void spread_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const copse_shape x = y->in[0]->shape;
    dy = copse__channel_part(g, dy, 0);
    copse_tensor *mean = copse_reshape(g, y->in[1], COPSE_SHAPE(x.dims[0], 1, x.dims[2]));
    copse_tensor *d = copse_sub(g, y->in[0], mean);
    d = copse_multiply_by(g, d, 2);
    dy = slope_of_terms(g, y, dy);
    dx[0] = copse_mul(g, d, dy);
}

static copse_status spread_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(l, y,
                                     &(struct copse_channel_sums){ .op = COPSE_CHANNEL_SPREAD,
                                                                   .group = group_of(y),
                                                                   .shape = y->in[0]->shape,
                                                                   .x = y->in[0],
                                                                   .mean = y->in[1] });
}

static const struct copse_op op_spread = {
    .name = "channel_variance",
    .attr_size = sizeof(struct attr),
    .infer = infer_pair,
    .gradient = spread_gradient,
    .lower = spread_lower,
};

/* ---- the normalised channels ---- */

/* t [batches, channels] as [batches, 1, channels] */
static copse_tensor *for_places(copse_graph *g, copse_tensor *t)
{
    return copse__is_failed(t)
               ? t
               : copse_reshape(g, t, COPSE_SHAPE(t->shape.dims[0], 1, t->shape.dims[1]));
}

static copse_status infer_as_x(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* u = (x - mean - rest) / sigma, of other ops, as [batches, places, channels]. */
static copse_tensor *compose_unit(copse_graph *g, copse_tensor *x, copse_tensor *centre,
                                  copse_tensor *inverse)
{
    x = copse_reshape(g, x, copse__channel_shape(x, inverse));
    for (uint32_t i = 0; i < 2; i++) {
        copse_tensor *t = copse__channel_part(g, centre, i);
        t = for_places(g, t);
        x = copse_sub(g, x, t);
    }
    inverse = for_places(g, inverse);
    return copse_mul(g, x, inverse);
}

/* dx = (scale dy - share - u share) / sigma, of other ops, differentiated. */
static void gradient_second(copse_graph *g, const copse_tensor *y, copse_tensor *slope,
                            copse_tensor **out)
{
    copse_tensor *u = compose_unit(g, y->in[0], y->in[1], y->in[2]), *dx, *t;
    dx = copse_reshape(g, y->in[4], copse__channel_shape(y->in[4], y->in[2]));
    dx = copse_mul(g, dx, y->in[3]);
    t = copse__channel_part(g, y->in[5], 0);
    t = for_places(g, t);
    dx = copse_sub(g, dx, t);
    t = copse__channel_part(g, y->in[5], 1);
    t = for_places(g, t);
    u = copse_mul(g, u, t);
    dx = copse_sub(g, dx, u);
    t = for_places(g, y->in[2]);
    dx = copse_mul(g, dx, t);
    dx = copse_reshape(g, dx, y->shape);
    copse__partials(g, dx, slope, y->in, y->in_count, out);
}

/* The sums of dy and of dy u, of other ops, differentiated. */
static void slopes_second(copse_graph *g, const copse_tensor *y, copse_tensor *slope,
                          copse_tensor **out)
{
    static const uint32_t places = 1;
    copse_tensor *u = compose_unit(g, y->in[0], y->in[2], y->in[3]), *dy, *sums[2];
    dy = copse_reshape(g, y->in[1], copse__channel_shape(y->in[1], y->in[3]));
    u = copse_mul(g, u, dy);
    sums[0] = copse_sum(g, dy, &places, 1, false);
    sums[1] = copse_sum(g, u, &places, 1, false);
    u = copse_stack(g, sums, 2, 0);
    copse__partials(g, u, slope, y->in, y->in_count, out);
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_norm(l, y, COPSE_CHANNEL_GRADIENT, NULL, y);
}

/* dx of x, mean and rest, 1 / sigma, scale, dy, shares. */
static const struct copse_op op_gradient = {
    .name = "channel_norm_gradient",
    .infer = infer_as_x,
    .gradient = gradient_second,
    .lower = gradient_lower,
};

static copse_status slopes_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(
        l, y,
        &(struct copse_channel_sums){ .op = COPSE_CHANNEL_SLOPES,
                                      .group = 1,
                                      .shape = copse__channel_shape(y->in[0], y->in[3]),
                                      .x = y->in[0],
                                      .slope = y->in[1],
                                      .mean = y->in[2],
                                      .inverse = y->in[3] });
}

static copse_status slopes_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[2]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

/* Sums over places of dy and of dy u [2, batches, channels], of x, dy, mean and rest, 1 / sigma. */
static const struct copse_op op_slopes = {
    .name = "channel_norm_slopes",
    .infer = slopes_infer,
    .gradient = slopes_second,
    .lower = slopes_lower,
};

/* Part `i` of the slopes, added over the batches. */
static copse_tensor *over_batches(copse_graph *g, copse_tensor *slopes, uint32_t i)
{
    copse_tensor *t = copse__channel_part(g, slopes, i);
    return t->shape.dims[0] == 1 ? copse_reshape(g, t, COPSE_SHAPE(t->shape.dims[1]))
                                 : copse__column_sum(g, t);
}

/* What the statistics contribute to dx: means of scale dy and of scale dy u. Synchronised means go
   over the batches of all replicas. */
static copse_tensor *channel_norm_shares(copse_graph *g, const copse_tensor *y,
                                         copse_tensor *slopes)
{
    const struct attr *a = y->attr;
    copse_tensor *part;
    if (a->is_synchronised && g->replicas > 1) {
        slopes = copse_all_reduce(g, slopes, COPSE_SUM);
        part = copse__step_scalar(g, COPSE_STEP_PART);
        slopes = copse_mul(g, slopes, part);
    }
    slopes = copse_mul(g, slopes, y->in[3]);
    return over_groups(g, slopes, group_of(y),
                       share_of(copse__channel_shape(y, y->in[2]), group_of(y)));
}

/* dx has the part of the statistics, so that these pass nothing on. */
static void channel_norm_op_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                     copse_tensor **dx)
{
    copse_tensor *x = y->in[0], *slopes, *of_statistics;
    slopes = COPSE_NODE(g, &op_slopes, NULL, x, dy, y->in[1], y->in[2]);
    if (x->needs_gradient) {
        of_statistics = channel_norm_shares(g, y, slopes);
        dx[0] =
            COPSE_NODE(g, &op_gradient, NULL, x, y->in[1], y->in[2], y->in[3], dy, of_statistics);
    }
    if (y->in[3]->needs_gradient)
        dx[3] = over_batches(g, slopes, 1);
    if (y->in[4]->needs_gradient)
        dx[4] = over_batches(g, slopes, 0);
}

static copse_status norm_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_norm(l, y, COPSE_CHANNEL_FORWARD, NULL, y);
}

/* ---- the norm in one launch with what reads it ---- */

enum { NORM, SUM, RELU }; /* the places of the nodes in a fusion */

/* Only relu reads the norm; or the addition of another tensor, and relu of it; or the addition. */
static bool norm_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                      struct copse_fused *out)
{
    const copse_tensor *next = copse__reader(l, y, 0);
    out->is_inner[NORM] = true;
    if (next && copse__is_sum_of_two(next)) {
        out->at[SUM] = next;
        out->inside[SUM] = next->in[0] == y ? 1 : 2;
        next = turn == 0 ? copse__reader(l, next, 0) : NULL;
    }
    if (next && copse__is_relu(next)) {
        out->at[RELU] = next;
        out->inside[RELU] = 1;
        out->is_inner[SUM] = out->at[SUM] != NULL;
    }
    return turn <= (out->at[SUM] != NULL);
}

static copse_status lower_with_readers(struct copse_lowering *l, const struct copse_fused *f)
{
    const copse_tensor *y = f->at[NORM], *sum = f->at[SUM], *relu = f->at[RELU];
    const enum copse_channel_op op = !sum   ? COPSE_CHANNEL_RELU
                                     : relu ? COPSE_CHANNEL_RELU_OF_SUM
                                            : COPSE_CHANNEL_SUM;
    return copse__lower_channel_norm(l, y, op, sum ? sum->in[sum->in[0] == y] : NULL,
                                     relu ? relu : sum);
}

static const struct copse_op op_norm = {
    .name = "channel_norm",
    .attr_size = sizeof(struct attr),
    .infer = infer_as_x,
    .gradient = channel_norm_op_gradient,
    .lower = norm_lower,
    .fuse = norm_fuse,
    .lower_fused = lower_with_readers,
};

copse_tensor *copse__channel_norm(copse_graph *g, const struct copse_channel_norm *n,
                                  copse_tensor **mean, copse_tensor **variance)
{
    const struct attr a = { n->groups, n->is_synchronised };
    const uint32_t channels = n->scale->shape.dims[0], batches = n->batches;
    const uint64_t places =
        copse__elements(n->x->shape) / COPSE_MAX((uint64_t)batches * channels, 1);
    copse_tensor *x = copse_reshape(g, n->x, COPSE_SHAPE(batches, (uint32_t)places, channels));
    copse_tensor *m = COPSE_NODE(g, &op_mean, &a, x);
    if (n->is_synchronised)
        m = copse__mean_over_batch(g, m);
    copse_tensor *spread = COPSE_NODE(g, &op_spread, &a, x, m);
    if (n->is_synchronised)
        spread = copse__mean_over_batch(g, spread);
    copse_tensor *centre = copse__channel_finish(g, COPSE_CHANNEL_CENTRE, m, spread, n->epsilon);
    copse_tensor *inverse = copse__channel_finish(g, COPSE_CHANNEL_INVERSE, m, spread, n->epsilon);
    if (mean)
        *mean = m;
    if (variance)
        *variance = copse__channel_finish(g, COPSE_CHANNEL_VARIANCE, m, spread, n->epsilon);
    return COPSE_NODE(g, &op_norm, &a, n->x, centre, inverse, n->scale, n->offset);
}
