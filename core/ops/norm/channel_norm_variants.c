/* SPDX-License-Identifier: MIT */
/* Normalised channels, and their derivative: the kernel variants with their launches. */
#include <stdio.h>

#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/norm/channel_norm.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

struct work {
    int32_t op;
    uint32_t batches, places, channels;
    const copse_tensor *y, *r, *to; /* r: NULL where nothing is added */
};

static struct work work_of(copse_shape x, int32_t op)
{
    return (
        struct work){ .op = op, .batches = x.dims[0], .places = x.dims[1], .channels = x.dims[2] };
}

/* ---- launches ---- */

/* Every argument needs a buffer: the shares are the last operand of a derivative, or r. */
static struct copse_operand shares_of(const struct work *w)
{
    return copse__of(w->op == COPSE_CHANNEL_GRADIENT ? w->y->in[5] : w->r ? w->r : w->y->in[1]);
}

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct work *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->op };
    struct copse_params_channel_norm p = { .n = w->batches * w->places * w->channels,
                                           .channels = w->channels,
                                           .size = w->places * w->channels,
                                           .second = w->batches * w->channels };
    copse_tensor *const *in = w->y->in;
    copse__divisor(p.channels, &p.m, &p.h);
    copse__divisor(p.size, &p.size_m, &p.size_h);
    return COPSE_LAUNCH(l, channel_norm, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_channel_norm, p.n), copse__of(in[0]),
                        copse__of(in[1]), copse__of(in[2]), copse__of(in[3]), copse__of(in[4]),
                        shares_of(w), copse__of(w->to));
}

static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct work *)work)->channels >= COPSE_WIDE_CHANNELS;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { ENOUGH = 4096 }; /* elements of an invocation */
    const struct work *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->op };
    const struct copse_params_channel_norm_wide p = { w->batches * w->places * w->channels,
                                                      w->channels, w->places * w->channels,
                                                      w->batches * w->channels,
                                                      COPSE_MAX(ENOUGH / w->channels, 1u) };
    const uint64_t blocks = (w->places + p.each - 1) / p.each;
    copse_tensor *const *in = w->y->in;
    return COPSE_LAUNCH(l, channel_norm_wide, spec, p, w->batches * blocks, copse__of(in[0]),
                        copse__of(in[1]), copse__of(in[2]), copse__of(in[3]), copse__of(in[4]),
                        shares_of(w), copse__of(w->to));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_channel_norm, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide",
      COPSE_KERNEL_channel_norm_wide,
      { 1, 0, 1, 1 },
      .fits = fits_wide,
      .lower = lower_wide },
};

static bool channel_norm_work_size(const void *work, struct copse_size *out)
{
    const struct work *w = work;
    out->of[0] = w->channels;
    return w->batches > 0 && w->places > 0 && w->channels > 0;
}

static void channel_norm_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const copse_shape x = COPSE_SHAPE(2, 2048, at->of[0]);
    const struct work w = work_of(x, COPSE_CHANNEL_FORWARD);
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "2 x %u places of %u channels", (unsigned)w.places,
             (unsigned)w.channels);
    j->in[0] = x;
    j->in[1] = COPSE_SHAPE(2, 2, w.channels);
    j->in[2] = COPSE_SHAPE(w.channels);
}

static copse_status infer_job(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower_job(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_norm(l, y, COPSE_CHANNEL_FORWARD, NULL, y);
}

static const struct copse_op op_job = {
    .name = "channel_norm",
    .infer = infer_job,
    .lower = lower_job,
};

/* 1 / sigma: the first means, because three inputs are the most. Means, rests and factors are whole
   numbers. */
static copse_tensor *channel_norm_build(copse_graph *g, const struct copse_tune_job *j,
                                        copse_tensor *const *in)
{
    const uint32_t channels = ((const struct work *)j->work)->channels;
    copse_tensor *inverse;
    inverse =
        copse_slice(g, in[1], (const uint32_t[]){ 0, 0, 0 }, (const uint32_t[]){ 1, 2, channels });
    inverse = copse_reshape(g, inverse, COPSE_SHAPE(2, channels));
    return COPSE_NODE(g, &op_job, NULL, in[0], in[1], inverse, in[2], in[2]);
}

const struct copse_family copse_family_channel_norm = {
    .name = "channel_norm",
    COPSE_VARIANTS(variants),
    .sizes = { { 16, 64 } },
    .size = channel_norm_work_size,
    .job = channel_norm_job,
    .operations = { 6 },
    .build = channel_norm_build,
};

copse_status copse__lower_channel_norm(struct copse_lowering *l, const copse_tensor *y,
                                       enum copse_channel_op op, const copse_tensor *r,
                                       const copse_tensor *to)
{
    struct work w = work_of(copse__channel_shape(y, y->in[2]), (int32_t)op);
    w.y = y;
    w.r = r;
    w.to = to;
    return copse__elements(y->shape) > 0 ? copse__lower_variant(l, &copse_family_channel_norm, &w)
                                         : COPSE_OK;
}

/* ---- references ---- */

static bool has_sum(const int32_t *spec)
{
    return spec[0] == COPSE_CHANNEL_SUM || spec[0] == COPSE_CHANNEL_RELU_OF_SUM;
}

/* The norm is rounded before r is added, as by launches of their own. */
static double channel_norm_end(const int32_t *spec, const struct copse_host_arg *r, size_t i,
                               double y)
{
    if (has_sum(spec))
        y = (r->is_double ? y : (double)(float)y) + copse__load(r, i);
    return (spec[0] == COPSE_CHANNEL_RELU || spec[0] == COPSE_CHANNEL_RELU_OF_SUM) && y <= 0 ? 0
                                                                                             : y;
}

static void channel_norm_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t c = i % p->channels, at = i / p->size * p->channels + c;
        const double inverse = copse__load(&args[2], at),
                     d = copse__load(&args[0], i) - copse__load(&args[1], at);
        const double u = (d - copse__load(&args[1], p->second + at)) * inverse;
        const double scale = copse__load(&args[3], c);
        copse__store(&args[6], i,
                     spec[0] != COPSE_CHANNEL_GRADIENT
                         ? channel_norm_end(spec, &args[5], i, u * scale + copse__load(&args[4], c))
                         : (scale * copse__load(&args[4], i) - copse__load(&args[5], at) -
                            u * copse__load(&args[5], p->second + at)) *
                               inverse);
    }
}

static void channel_norm_wide_host(const void *params, const int32_t *spec,
                                   const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm_wide *p = params;
    const struct copse_params_channel_norm of = {
        .n = p->n, .channels = p->channels, .size = p->size, .second = p->second
    };
    channel_norm_host(&of, spec, args);
}

/* ---- self-tests ---- */

#define B 2u /* batches */
#define C 6u /* channels */

static void channel_norm_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_channel_norm p = {
        .n = B * 9 * C, .channels = C, .size = 9 * C, .second = B * C
    };
    copse__divisor(p.channels, &p.m, &p.h);
    copse__divisor(p.size, &p.size_m, &p.size_h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, 2 * B * C, B * C, C,
                    k->spec[0] == COPSE_CHANNEL_GRADIENT ? p.n : C,
                    has_sum(k->spec) ? p.n : 2 * B * C, p.n);
}

#define WIDE_C 21u /* the last vector overlaps the one before */

static void channel_norm_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_channel_norm_wide p = { B * 9 * WIDE_C, WIDE_C, 9 * WIDE_C,
                                                      B * WIDE_C, 5 };
    COPSE_SELF_TEST(t, p, B * 2, p.n, 2 * B * WIDE_C, B * WIDE_C, WIDE_C,
                    k->spec[0] == COPSE_CHANNEL_GRADIENT ? p.n : WIDE_C,
                    has_sum(k->spec) ? p.n : 2 * B * WIDE_C, p.n);
}

/* ---- bases of tolerances ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

/* |u scale| + |offset| + |r|; of the gradient (|scale dy| + |share[0]| + |u share[1]|) / sigma. */
static void channel_norm_size(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t c = i % p->channels, at = i / p->size * p->channels + c;
        const double inverse = fabs(copse__load(&args[2], at)),
                     scale = fabs(copse__load(&args[3], c));
        const double d = fabs(copse__load(&args[0], i) - copse__load(&args[1], at));
        const double u = (d + fabs(copse__load(&args[1], p->second + at))) * inverse + LEAST;
        copse__store(&args[6], i,
                     spec[0] != COPSE_CHANNEL_GRADIENT
                         ? u * scale + fabs(copse__load(&args[4], c)) +
                               (has_sum(spec) ? fabs(copse__load(&args[5], i)) : 0)
                         : (scale * fabs(copse__load(&args[4], i)) +
                            fabs(copse__load(&args[5], at)) +
                            u * fabs(copse__load(&args[5], p->second + at)) + LEAST) *
                               inverse);
    }
}

static void channel_norm_wide_size(const void *params, const int32_t *spec,
                                   const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm_wide *p = params;
    const struct copse_params_channel_norm of = {
        .n = p->n, .channels = p->channels, .size = p->size, .second = p->second
    };
    channel_norm_size(&of, spec, args);
}

/* ---- laws ---- */

/* Places of each item of the batch. */
static bool split_places(const struct copse_command *c, struct copse_split *o, uint32_t *n,
                         uint64_t channels, uint32_t *item)
{
    const uint64_t size = *item, items = size > 0 ? *n / size : 0;
    if (items == 0 || channels == 0 || *n % size != 0)
        return false;
    for (uint32_t i = 0; i < 7; i++)
        copse__split_buffer(o, i, 0);
    copse__split_pieces(o, 0, items, size, channels);
    copse__split_pieces(o, 6, items, size, channels);
    if (c->kernel->spec[0] == COPSE_CHANNEL_GRADIENT) /* else it has an offset of each channel */
        copse__split_pieces(o, 4, items, size, channels);
    if (has_sum(c->kernel->spec))
        copse__split_pieces(o, 5, items, size, channels);
    o->units = size / channels;
    copse__split_count(o, n, items * channels);
    copse__split_count(o, item, channels);
    return true;
}

static bool channel_norm_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_channel_norm *p = COPSE_SPLIT_PARAMS(channel_norm, o);
    return split_places(c, o, &p->n, p->channels, &p->size);
}

static bool channel_norm_wide_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_channel_norm_wide *p = COPSE_SPLIT_PARAMS(channel_norm_wide, o);
    return split_places(c, o, &p->n, p->channels, &p->size);
}

const struct copse_law copse_law_channel_norm = {
    .host = channel_norm_host,
    .split = channel_norm_split,
    .limit = { .ulp = 1, .ratio = 16, .size = channel_norm_size },
    .self_test = channel_norm_test,
};
const struct copse_law copse_law_channel_norm_wide = {
    .host = channel_norm_wide_host,
    .split = channel_norm_wide_split,
    .limit = { .ulp = 1, .ratio = 16, .size = channel_norm_wide_size },
    .self_test = channel_norm_wide_test,
};
