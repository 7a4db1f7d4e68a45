/* SPDX-License-Identifier: MIT */
/* Normalisation of channels: statistics over places, the normalised channels, and the derivative, in which one pass
   computes the sums of dy and of dy u for all operands. */
#include "core/ops/channel_norm.h"

#include <math.h>

#include <math.h>

#include "copse/distribute/sync.h"
#include "core/ops/column_sum.h"
#include "core/ops/self_tests.h"

/* Of kernels/row/channel_sums.cl and channel_merge.cl. */
enum { MEAN, SPREAD, SLOPES };
/* Of kernels/row/channel_norm.cl. */
enum { FORWARD, GRADIENT };

enum {
    FEW_PLACES = 64,     /* least places of a chunk */
    MOST_CHUNKS = 256,
    MOST_ITEMS = 32768,  /* chunks x channels of a group, which one invocation adds */
    MOST_PLACES = 60000, /* of a chunk: rounds of an invocation */
};

struct attr {
    uint32_t groups;
    int32_t is_synchronised;
};

/* ---- sums over chunks of places, and their sums ---- */

struct work {
    uint32_t batches, places, channels, group, chunks, rows; /* rows: places of a chunk */
};

static uint32_t most_chunks(uint32_t group)
{
    return COPSE_MIN(MOST_CHUNKS, COPSE_MAX(MOST_ITEMS / COPSE_MAX(group, 1u), 1u));
}

bool copse__channel_norm_fits(uint32_t places, uint32_t group)
{
    return group <= MOST_ITEMS && places <= MOST_PLACES * most_chunks(group);
}

static struct work work_of(copse_shape x, uint32_t group)
{
    struct work w = { x.dims[0], x.dims[1], x.dims[2], group, 0, FEW_PLACES };
    const uint32_t most = most_chunks(group);
    w.rows = COPSE_MAX(w.rows, (w.places + most - 1) / most);
    w.chunks = (w.places + w.rows - 1) / w.rows;
    return w;
}

static uint32_t group_of(const copse_tensor *y)
{
    const struct attr *a = y->attr;
    return y->in[0]->shape.dims[2] / COPSE_MAX(a->groups, 1u);
}

static copse_status lower_sums(struct copse_lowering *l, const copse_tensor *y, int32_t op, uint32_t group,
                               const copse_tensor *slope, const copse_tensor *mean, const copse_tensor *inverse)
{
    const struct work w = work_of(y->in[0]->shape, group);
    const int32_t spec[COPSE_MAX_SPECS] = { op };
    const uint32_t n = w.batches * w.chunks * w.channels;
    const struct copse_params_channel_sums p = { n, w.places, w.channels, w.chunks, w.rows, w.batches * w.channels };
    const struct copse_params_channel_merge merge = { w.batches * w.channels / COPSE_MAX(group, 1u), w.chunks, w.channels,
                                                      group, (float)COPSE_MAX((double)w.places * group, 1) };
    struct copse_operand sums;
    if (n == 0)
        return copse__lower_fill(l, y, 0);
    COPSE_TRY(copse__scratch(l, 2 * (uint64_t)n, &sums));
    COPSE_TRY(COPSE_LAUNCH(l, channel_sums, spec, p, copse__groups_for(l, COPSE_KERNEL_channel_sums, n),
                           copse__of(y->in[0]), copse__of(slope), copse__of(mean), copse__of(inverse), sums));
    return COPSE_LAUNCH(l, channel_merge, spec, merge, copse__groups_for(l, COPSE_KERNEL_channel_merge, merge.n), sums,
                        copse__of(y));
}

/* t [.., channels]: the sum over each group of channels, times `factor`, for each channel of the group. */
static copse_status over_groups(copse_graph *g, copse_tensor *t, uint32_t group, float factor, copse_tensor **out)
{
    static const uint32_t last = 1;
    const copse_shape shape = t->shape;
    copse_tensor *factors;
    if (group <= 1)
        return copse_multiply_by(g, t, factor, out);
    COPSE_TRY(copse_reshape(g, t, COPSE_SHAPE((uint32_t)(copse__elements(shape) / group), group), &t));
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

/* dm [batches, channels], the slope of a mean over places and groups, as the slope of each term: [batches, 1, channels]. */
static copse_status slope_of_terms(copse_graph *g, const copse_tensor *y, copse_tensor *dm, copse_tensor **out)
{
    const copse_shape x = y->in[0]->shape;
    COPSE_TRY(over_groups(g, dm, group_of(y), share_of(x, group_of(y)), &dm));
    return copse_reshape(g, dm, COPSE_SHAPE(x.dims[0], 1, x.dims[2]), out);
}

static copse_status mean_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    COPSE_TRY(slope_of_terms(g, y, dy, &dy));
    return copse_broadcast_to(g, dy, y->in[0]->shape, &dx[0]);
}

static copse_status mean_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_sums(l, y, MEAN, group_of(y), y->in[0], y->in[0], y->in[0]);
}

static const struct copse_op op_mean = {
    .name = "channel_mean",
    .attr_size = sizeof(struct attr),
    .infer = infer_statistic,
    .gradient = mean_gradient,
    .lower = mean_lower,
};

/* ---- the variance about a mean, and the mean of the differences from it: [2, batches, channels] ---- */

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
    COPSE_TRY(copse_slice(g, pair, (const uint32_t[]){ i, 0, 0 }, (const uint32_t[]){ 1, batches, channels }, out));
    return copse_reshape(g, *out, COPSE_SHAPE(batches, channels), out);
}

/* That of the variance alone. The rest is a rounding error of the mean; and the differences from the mean of all replicas
   add up to 0, so that the mean gets nothing. */
static copse_status spread_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
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
    return lower_sums(l, y, SPREAD, group_of(y), y->in[0], y->in[1], y->in[1]);
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

static copse_status lower_norm(struct copse_lowering *l, const copse_tensor *y, int32_t op, const copse_tensor *shares)
{
    const copse_shape x = y->shape;
    const int32_t spec[COPSE_MAX_SPECS] = { op };
    struct copse_params_channel_norm p = { .n = (uint32_t)copse__elements(x), .channels = x.dims[2],
                                           .size = x.dims[1] * x.dims[2], .second = x.dims[0] * x.dims[2] };
    if (p.n == 0)
        return COPSE_OK;
    copse__divisor(p.channels, &p.m, &p.h);
    copse__divisor(p.size, &p.size_m, &p.size_h);
    return COPSE_LAUNCH(l, channel_norm, spec, p, copse__groups_for(l, COPSE_KERNEL_channel_norm, p.n), copse__of(y->in[0]),
                        copse__of(y->in[1]), copse__of(y->in[2]), copse__of(y->in[3]), copse__of(y->in[4]),
                        copse__of(shares), copse__of(y));
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_norm(l, y, GRADIENT, y->in[5]);
}

/* dx of x, mean and rest, 1 / sigma, scale, dy, shares. */
static const struct copse_op op_gradient = {
    .name = "channel_norm_gradient",
    .infer = infer_as_x,
    .lower = gradient_lower,
};

static copse_status slopes_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_sums(l, y, SLOPES, 1, y->in[1], y->in[2], y->in[3]);
}

/* Sums over places of dy and of dy u [2, batches, channels], of x, dy, mean and rest, 1 / sigma. */
static const struct copse_op op_slopes = {
    .name = "channel_norm_slopes",
    .infer = infer_pair,
    .lower = slopes_lower,
};

/* Part `i` of the slopes, added over the batches. */
static copse_status over_batches(copse_graph *g, copse_tensor *slopes, uint32_t i, copse_tensor **out)
{
    copse_tensor *t;
    COPSE_TRY(part_of(g, slopes, i, &t));
    return t->shape.dims[0] == 1 ? copse_reshape(g, t, COPSE_SHAPE(t->shape.dims[1]), out) : copse__column_sum(g, t, out);
}

/* What the statistics contribute to dx: means of scale dy and of scale dy u. Synchronised means go over the
   batches of all replicas. */
static copse_status shares(copse_graph *g, const copse_tensor *y, copse_tensor *slopes, copse_tensor **out)
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
static copse_status gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    copse_tensor *x = y->in[0], *slopes, *of_statistics;
    COPSE_TRY(COPSE_NODE(g, &op_slopes, NULL, &slopes, x, dy, y->in[1], y->in[2]));
    if (x->needs_gradient) {
        COPSE_TRY(shares(g, y, slopes, &of_statistics));
        COPSE_TRY(COPSE_NODE(g, &op_gradient, NULL, &dx[0], x, y->in[1], y->in[2], y->in[3], dy, of_statistics));
    }
    if (y->in[3]->needs_gradient)
        COPSE_TRY(over_batches(g, slopes, 1, &dx[3]));
    return y->in[4]->needs_gradient ? over_batches(g, slopes, 0, &dx[4]) : COPSE_OK;
}

static copse_status norm_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_norm(l, y, FORWARD, y->in[1]);
}

static const struct copse_op op_norm = {
    .name = "channel_norm",
    .attr_size = sizeof(struct attr),
    .infer = infer_as_x,
    .gradient = gradient,
    .lower = norm_lower,
};

/* The variance is that about mean + rest: E d^2 - (E d)^2 with d = x - mean. The rest corrects a mean larger than sigma;
   of a smaller one it is only rounding errors. */
static copse_status finish(copse_graph *g, copse_tensor *mean, copse_tensor *spread, float epsilon, copse_tensor **centre,
                           copse_tensor **variance, copse_tensor **inverse)
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

copse_status copse__channel_norm(copse_graph *g, const struct copse_channel_norm *n, copse_tensor **mean,
                                 copse_tensor **variance, copse_tensor **y)
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

/* ---- references ---- */

/* Sums with a NaN or an infinity have NaN as their rounding errors, and then as their means. */

void copse_host_channel_sums(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_channel_sums *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t line = i / p->channels, c = i % p->channels, b = line / p->chunks;
        const size_t first = line % p->chunks * p->rows, end = COPSE_MIN(first + p->rows, p->places);
        double s = 0, t = 0;
        for (size_t k = first; k < end; k++) {
            const size_t place = (b * p->places + k) * p->channels + c, at = b * p->channels + c;
            const double x = copse__load(&args[0], place), d = spec[0] == MEAN ? 0 : x - copse__load(&args[2], at);
            s += spec[0] == MEAN ? x : spec[0] == SPREAD ? d * d : copse__load(&args[1], place);
            if (spec[0] == SPREAD)
                t += d;
            if (spec[0] == SLOPES)
                t += copse__load(&args[1], place) * (d - copse__load(&args[2], p->second + at)) * copse__load(&args[3], at);
        }
        copse__store(&args[4], i, spec[0] == MEAN && !isfinite(s) ? NAN : s);
        copse__store(&args[4], p->n + i, spec[0] == MEAN && !isfinite(s) ? NAN : t);
    }
}

void copse_host_channel_merge(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_channel_merge *p = params;
    const size_t groups = p->channels / p->group, second = (size_t)p->n * p->chunks * p->group;
    for (size_t i = 0; i < p->n; i++) {
        const size_t base = i / groups * p->chunks * p->channels + i % groups * p->group;
        double s = 0, t = 0;
        for (size_t k = 0; k < p->chunks; k++)
            for (size_t c = 0; c < p->group; c++) {
                s += copse__load(&args[0], base + k * p->channels + c);
                t += copse__load(&args[0], second + base + k * p->channels + c);
            }
        if (spec[0] == MEAN)
            s = isfinite(s) ? s + t : NAN;
        for (size_t c = 0; c < p->group; c++) {
            copse__store(&args[1], i * p->group + c, spec[0] == SLOPES ? s : s / (double)p->count);
            if (spec[0] != MEAN)
                copse__store(&args[1], p->n * p->group + i * p->group + c, spec[0] == SLOPES ? t : t / (double)p->count);
        }
    }
}

void copse_host_channel_norm(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t c = i % p->channels, at = i / p->size * p->channels + c;
        const double inverse = copse__load(&args[2], at), d = copse__load(&args[0], i) - copse__load(&args[1], at);
        const double u = (d - copse__load(&args[1], p->second + at)) * inverse;
        const double scale = copse__load(&args[3], c);
        copse__store(&args[6], i,
                     spec[0] == FORWARD ? u * scale + copse__load(&args[4], c)
                                        : (scale * copse__load(&args[4], i) - copse__load(&args[5], at) -
                                           u * copse__load(&args[5], p->second + at)) * inverse);
    }
}

/* ---- self-tests ---- */

#define B 2u  /* batches */
#define C 6u  /* channels */
#define S 70u /* places: two chunks */

void copse_self_test_channel_sums(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_channel_sums p = { B * 2 * C, S, C, 2, 64, B * C };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), B * S * C, B * S * C, 2 * B * C, B * C, 2 * p.n);
}

void copse_self_test_channel_merge(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t group = k->spec[0] == SLOPES ? 1 : 3;
    const struct copse_params_channel_merge p = { B * C / group, 70, C, group, 4.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 2 * B * 70 * C, (k->spec[0] == MEAN ? 1 : 2) * B * C);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse_self_test_channel_norm(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_channel_norm p = { .n = B * 9 * C, .channels = C, .size = 9 * C, .second = B * C };
    copse__divisor(p.channels, &p.m, &p.h);
    copse__divisor(p.size, &p.size_m, &p.size_h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, 2 * B * C, B * C, C, k->spec[0] == FORWARD ? C : p.n, 2 * B * C, p.n);
}
