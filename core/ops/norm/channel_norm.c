/* SPDX-License-Identifier: MIT */
/* Normalisation of channels: the ops of statistics over places, of the normalised channels, and of
   the derivative, in which one pass computes the sums of dy and of dy u for all operands. */
#include "core/ops/norm/channel_norm.h"

#include "copse/distribute/sync.h"
#include "core/ops/ops.h"
#include "core/ops/reduce/column_sum.h"

struct attr {
    uint32_t groups;
    int32_t is_synchronised;
};

static uint32_t group_of(const copse_tensor *y)
{
    const struct attr *a = y->attr;
    return y->in[0]->shape.dims[2] / COPSE_MAX(a->groups, 1u);
}

/* t [.., channels]: the sum over each group of channels, times `factor`, for each channel of the
   group. */
static copse_status over_groups(copse_graph *g, copse_tensor *t, uint32_t group, float factor,
                                copse_tensor **out)
{
    static const uint32_t last = 1;
    const copse_shape shape = t->shape;
    copse_tensor *factors;
    if (group <= 1)
        return copse_multiply_by(g, t, factor, out);
    COPSE_TRY(
        copse_reshape(g, t, COPSE_SHAPE((uint32_t)(copse__elements(shape) / group), group), &t));
    COPSE_TRY(copse_sum(g, t, &last, 1, true, &t));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SHAPE(group), (double)factor, &factors));
    COPSE_TRY(copse_mul(g, t, factors, &t));
    return copse_reshape(g, t, shape, out);
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
static copse_status slope_of_terms(copse_graph *g, const copse_tensor *y, copse_tensor *dm,
                                   copse_tensor **out)
{
    const copse_shape x = y->in[0]->shape;
    COPSE_TRY(over_groups(g, dm, group_of(y), share_of(x, group_of(y)), &dm));
    return copse_reshape(g, dm, COPSE_SHAPE(x.dims[0], 1, x.dims[2]), out);
}

static copse_status mean_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                  copse_tensor **dx)
{
    COPSE_TRY(slope_of_terms(g, y, dy, &dy));
    return copse_broadcast_to(g, dy, y->in[0]->shape, &dx[0]);
}

static copse_status mean_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(l, y,
                                     &(struct copse_channel_sums){ .op = COPSE_CHANNEL_MEAN,
                                                                   .group = group_of(y),
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

/* Part `i` of a pair [2, batches, channels]. */
static copse_status part_of(copse_graph *g, copse_tensor *pair, uint32_t i, copse_tensor **out)
{
    const uint32_t batches = pair->shape.dims[1], channels = pair->shape.dims[2];
    COPSE_TRY(copse_slice(g, pair, (const uint32_t[]){ i, 0, 0 },
                          (const uint32_t[]){ 1, batches, channels }, out));
    return copse_reshape(g, *out, COPSE_SHAPE(batches, channels), out);
}

/* That of the variance alone. The rest is a rounding error of the mean; and the differences from
   the mean of all replicas add up to 0, so that the mean gets nothing. */
static copse_status spread_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                    copse_tensor **dx)
{
    const copse_shape x = y->in[0]->shape;
    copse_tensor *mean, *d;
    COPSE_TRY(part_of(g, dy, 0, &dy));
    COPSE_TRY(copse_reshape(g, y->in[1], COPSE_SHAPE(x.dims[0], 1, x.dims[2]), &mean));
    COPSE_TRY(copse_sub(g, y->in[0], mean, &d));
    COPSE_TRY(copse_multiply_by(g, d, 2, &d));
    COPSE_TRY(slope_of_terms(g, y, dy, &dy));
    return copse_mul(g, d, dy, &dx[0]);
}

static copse_status spread_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(
        l, y,
        &(struct copse_channel_sums){
            .op = COPSE_CHANNEL_SPREAD, .group = group_of(y), .x = y->in[0], .mean = y->in[1] });
}

static const struct copse_op op_spread = {
    .name = "channel_variance",
    .attr_size = sizeof(struct attr),
    .infer = infer_pair,
    .gradient = spread_gradient,
    .lower = spread_lower,
};

/* ---- the normalised channels ---- */

static copse_status infer_as_x(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_norm(l, y, true);
}

/* dx of x, mean and rest, 1 / sigma, scale, dy, shares. */
static const struct copse_op op_gradient = {
    .name = "channel_norm_gradient",
    .infer = infer_as_x,
    .lower = gradient_lower,
};

static copse_status slopes_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(l, y,
                                     &(struct copse_channel_sums){ .op = COPSE_CHANNEL_SLOPES,
                                                                   .group = 1,
                                                                   .x = y->in[0],
                                                                   .slope = y->in[1],
                                                                   .mean = y->in[2],
                                                                   .inverse = y->in[3] });
}

/* Sums over places of dy and of dy u [2, batches, channels], of x, dy, mean and rest, 1 / sigma. */
static const struct copse_op op_slopes = {
    .name = "channel_norm_slopes",
    .infer = infer_pair,
    .lower = slopes_lower,
};

/* Part `i` of the slopes, added over the batches. */
static copse_status over_batches(copse_graph *g, copse_tensor *slopes, uint32_t i,
                                 copse_tensor **out)
{
    copse_tensor *t;
    COPSE_TRY(part_of(g, slopes, i, &t));
    return t->shape.dims[0] == 1 ? copse_reshape(g, t, COPSE_SHAPE(t->shape.dims[1]), out)
                                 : copse__column_sum(g, t, out);
}

/* What the statistics contribute to dx: means of scale dy and of scale dy u. Synchronised means go
   over the batches of all replicas. */
static copse_status shares(copse_graph *g, const copse_tensor *y, copse_tensor *slopes,
                           copse_tensor **out)
{
    const struct attr *a = y->attr;
    copse_tensor *part;
    if (a->is_synchronised && g->replicas > 1) {
        COPSE_TRY(copse_all_reduce(g, slopes, COPSE_SUM, &slopes));
        COPSE_TRY(copse__step_scalar(g, COPSE_STEP_PART, &part));
        COPSE_TRY(copse_mul(g, slopes, part, &slopes));
    }
    COPSE_TRY(copse_mul(g, slopes, y->in[3], &slopes));
    return over_groups(g, slopes, group_of(y), share_of(y->shape, group_of(y)), out);
}

/* dx has the part of the statistics, so that these pass nothing on. */
static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                             copse_tensor **dx)
{
    copse_tensor *x = y->in[0], *slopes, *of_statistics;
    COPSE_TRY(COPSE_NODE(g, &op_slopes, NULL, &slopes, x, dy, y->in[1], y->in[2]));
    if (x->needs_gradient) {
        COPSE_TRY(shares(g, y, slopes, &of_statistics));
        COPSE_TRY(COPSE_NODE(g, &op_gradient, NULL, &dx[0], x, y->in[1], y->in[2], y->in[3], dy,
                             of_statistics));
    }
    if (y->in[3]->needs_gradient)
        COPSE_TRY(over_batches(g, slopes, 1, &dx[3]));
    return y->in[4]->needs_gradient ? over_batches(g, slopes, 0, &dx[4]) : COPSE_OK;
}

static copse_status norm_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_norm(l, y, false);
}

static const struct copse_op op_norm = {
    .name = "channel_norm",
    .attr_size = sizeof(struct attr),
    .infer = infer_as_x,
    .gradient = gradient,
    .lower = norm_lower,
};

/* The variance is that about mean + rest: E d^2 - (E d)^2 with d = x - mean. The rest corrects a
   mean larger than sigma; of a smaller one it is only rounding errors. */
static copse_status finish(copse_graph *g, copse_tensor *mean, copse_tensor *spread, float epsilon,
                           copse_tensor **centre, copse_tensor **variance, copse_tensor **inverse)
{
    const copse_shape shape = mean->shape;
    copse_tensor *rest, *t, *small;
    COPSE_TRY(part_of(g, spread, 0, variance));
    COPSE_TRY(part_of(g, spread, 1, &rest));
    COPSE_TRY(copse_square(g, rest, &t));
    COPSE_TRY(copse_sub(g, *variance, t, &t));
    COPSE_TRY(copse_relu(g, t, variance));
    COPSE_TRY(copse_square(g, mean, &t));
    COPSE_TRY(copse_less(g, t, *variance, &t));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, 0, &small));
    COPSE_TRY(copse_where(g, t, small, rest, &rest));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)epsilon, &small));
    COPSE_TRY(copse_add(g, *variance, small, &t));
    COPSE_TRY(copse_rsqrt(g, t, inverse));
    COPSE_TRY(copse_concat(g, (copse_tensor *[]){ mean, rest }, 2, 0, centre));
    return copse_reshape(g, *centre, COPSE_SHAPE(2, shape.dims[0], shape.dims[1]), centre);
}

copse_status copse__channel_norm(copse_graph *g, const struct copse_channel_norm *n,
                                 copse_tensor **mean, copse_tensor **variance, copse_tensor **y)
{
    const struct attr a = { n->groups, n->is_synchronised };
    copse_tensor *m, *v, *spread, *centre, *inverse;
    COPSE_TRY(COPSE_NODE(g, &op_mean, &a, &m, n->x));
    if (n->is_synchronised)
        COPSE_TRY(copse__mean_over_batch(g, m, &m));
    COPSE_TRY(COPSE_NODE(g, &op_spread, &a, &spread, n->x, m));
    if (n->is_synchronised)
        COPSE_TRY(copse__mean_over_batch(g, spread, &spread));
    COPSE_TRY(finish(g, m, spread, n->epsilon, &centre, &v, &inverse));
    if (mean)
        *mean = m;
    if (variance)
        *variance = v;
    return COPSE_NODE(g, &op_norm, &a, y, n->x, centre, inverse, n->scale, n->offset);
}
