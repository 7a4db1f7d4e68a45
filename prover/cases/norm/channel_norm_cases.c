/* SPDX-License-Identifier: MIT */
/* Cases of group norm, instance norm and batch norm. Errors are relative to the magnitudes of a
   result's terms, as those of layer norm: 16 u times |scale| (|x| + |mean|) / sigma + |offset|, and
   likewise for derivatives. Sizes around 64 places (a chunk of a sum), 64 chunks and 256 of
   them. */
#include <math.h>

#include "copse/distribute/sync.h"
#include "copse/ops/norm.h"
#include "prover/cases/cases.h"

struct settings {
    uint32_t groups; /* 0: each channel is one */
    float epsilon;
    bool is_batch; /* statistics over all examples */
};

static copse_tensor *channel_norm_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    static const uint32_t axes[COPSE_MAX_RANK] = { 0, 1, 2, 3, 4, 5 };
    const struct settings *s = user;
    const struct copse_batch_norm batch = { .gamma = in[1], .beta = in[2], .epsilon = s->epsilon };
    if (s->is_batch)
        return copse_sync_batch_norm(g, in[0], axes, in[0]->shape.rank - 1, &batch);
    return s->groups ? copse_group_norm(g, in[0], s->groups, in[1], in[2], s->epsilon)
                     : copse_instance_norm(g, in[0], in[1], in[2], s->epsilon);
}

/* ---- what limits are relative to: x as [n, places, groups, channels of a group] ---- */

static const uint32_t statistics[] = { 1, 3 };

static copse_tensor *channel_norm_split(copse_graph *g, copse_tensor *x, const struct settings *s)
{
    const uint32_t n = s->is_batch ? 1 : x->shape.dims[0],
                   channels = x->shape.dims[x->shape.rank - 1];
    const uint32_t groups = s->groups ? s->groups : COPSE_MAX(channels, 1u);
    const uint64_t line = (uint64_t)n * channels;
    const uint32_t places = line ? (uint32_t)(copse__elements(x->shape) / line) : 1;
    return copse_reshape(g, x, COPSE_SHAPE(n, places, groups, channels / groups));
}

/* A number of each channel, with the axes of `split`. */
static copse_tensor *split_channels(copse_graph *g, copse_tensor *x, const copse_tensor *like)
{
    return copse_reshape(g, x, COPSE_SHAPE(1, 1, like->shape.dims[2], like->shape.dims[3]));
}

/* 1 / sigma of each group, and (|x| + |mean|) / sigma, both split. */
static copse_status sizes_of(copse_graph *g, copse_tensor *x, const struct settings *s,
                             copse_tensor **inverse, copse_tensor **size)
{
    x = channel_norm_split(g, x, s);
    copse_tensor *mean = copse_mean(g, x, statistics, 2, true);
    copse_tensor *t = copse_sub(g, x, mean);
    t = copse_square(g, t);
    t = copse_mean(g, t, statistics, 2, true);
    *inverse = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)s->epsilon);
    t = copse_add(g, t, *inverse);
    *inverse = copse_rsqrt(g, t);
    mean = copse_abs(g, mean);
    t = copse_abs(g, x);
    t = copse_add(g, t, mean);
    *size = copse_mul(g, t, *inverse);
    return copse_graph_status(g);
}

static copse_tensor *size_of_y(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], user, &inverse, &size));
    copse_tensor *scale = copse_abs(g, in[1]);
    copse_tensor *offset = copse_abs(g, in[2]);
    scale = split_channels(g, scale, size);
    offset = split_channels(g, offset, size);
    size = copse_mul(g, size, scale);
    size = copse_add(g, size, offset);
    return copse_reshape(g, size, in[0]->shape);
}

/* dx = (s - mean(s) - u mean(s u)) / sigma, s = scale dy */
static copse_tensor *size_of_dx(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], user, &inverse, &size));
    copse_tensor *s = channel_norm_split(g, in[3], user);
    copse_tensor *scale = split_channels(g, in[1], size);
    s = copse_mul(g, s, scale);
    s = copse_abs(g, s);
    copse_tensor *mean = copse_mean(g, s, statistics, 2, true);
    copse_tensor *along = copse_mul(g, s, size);
    along = copse_mean(g, along, statistics, 2, true);
    along = copse_mul(g, size, along);
    s = copse_add(g, s, mean);
    s = copse_add(g, s, along);
    s = copse_mul(g, s, inverse);
    return copse_reshape(g, s, in[0]->shape);
}

static copse_tensor *sum_channels(copse_graph *g, copse_tensor *x, copse_shape channels)
{
    static const uint32_t others[] = { 0, 1 };
    x = copse_abs(g, x);
    x = copse_sum(g, x, others, 2, false);
    return copse_reshape(g, x, channels);
}

static copse_tensor *size_of_dscale(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], user, &inverse, &size));
    copse_tensor *dy = channel_norm_split(g, in[3], user);
    size = copse_mul(g, size, dy);
    return sum_channels(g, size, in[1]->shape);
}

static copse_tensor *size_of_doffset(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *dy = channel_norm_split(g, in[3], user);
    return sum_channels(g, dy, in[1]->shape);
}

/* ---- the ops ---- */

static const struct settings one = { 1, 1e-5f, false }, two = { 2, 1e-5f, false },
                             four = { 4, 1e-5f, false }, each = { 0, 1e-5f, false },
                             soft = { 2, 1.0f, false }, soft_each = { 0, 1.0f, false },
                             stated_two = { 2, 0.75f, false }, batch = { 0, 1e-5f, true };

/* Scaled by its last axis at place 0: equal scales would give sums of 0 for every x. */
static copse_tensor *random_norm(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const uint32_t start[COPSE_MAX_RANK] = { 0 };
    const struct settings *s = user;
    copse_shape row = in[0]->shape;
    for (uint32_t i = 0; i + 1 < row.rank; i++)
        row.dims[i] = 1;
    copse_tensor *scale = copse_slice(g, in[0], start, row.dims);
    scale = copse_reshape(g, scale, COPSE_SHAPE(row.dims[row.rank - 1]));
    scale = copse_tanh(g, scale);
    copse_tensor *offset = copse_fill(g, COPSE_F32, scale->shape, -0.25);
    return copse_group_norm(g, in[0], 1, scale, offset, s->epsilon);
}

static const struct copse_case_op ops[] = {
    { .name = "group_norm",
      .accuracy = COPSE_ACCURACY_norm,
      .divides = true,
      .call = channel_norm_build,
      .user = &soft,
      .in = { F32_OF(2, 3, 4), F32_OF(4), F32_OF(4) },
      .in_count = 3,
      .random = random_norm },
    { .name = "instance_norm",
      .accuracy = COPSE_ACCURACY_norm,
      .divides = true,
      .call = channel_norm_build,
      .user = &soft_each,
      .in = { F32_OF(2, 3, 4), F32_OF(4), F32_OF(4) },
      .in_count = 3 },
    /* gamma and beta may be NULL: test_null */
    { .name = "sync_batch_norm", .accuracy = COPSE_ACCURACY_norm, .divides = true },
};

#define PICTURES 4.0 * 32 * 28 * 28 * 32 /* bytes */
static const struct copse_case speeds[] = {
    { .op = "group_norm",
      .name = "32 x 28 x 28 x 32, 4 groups",
      .build = channel_norm_build,
      .user = &four,
      .in = { F32_OF(32, 28, 28, 32), F32_OF(32), F32_OF(32) },
      .in_count = 3,
      .bytes = 2 * PICTURES },
    { .op = "instance_norm",
      .name = "32 x 28 x 28 x 32",
      .build = channel_norm_build,
      .user = &each,
      .in = { F32_OF(32, 28, 28, 32), F32_OF(32), F32_OF(32) },
      .in_count = 3,
      .bytes = 2 * PICTURES },
    { .op = "sync_batch_norm",
      .name = "128 x 28 x 28 x 32",
      .build = channel_norm_build,
      .family = "channel_sums",
      .user = &batch,
      .in = { F32_OF(128, 28, 28, 32), F32_OF(32), F32_OF(32) },
      .in_count = 3,
      .bytes = 8 * PICTURES },
};

static void channel_norm_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 4, 6));
    copse_tensor *s = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 4, 6));
    copse_tensor *wide = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 32769));
    copse_tensor *of_wide = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(32769));
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 60000 * 256 + 1, 1));
    copse_tensor *single = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1));
    REFUSES(r, SHAPE,
            "group_norm: operands f32[2, 4, 6], f32[4] and f32[6]: expected f32 x [n, .., "
            "channels], scale and offset [channels]",
            copse_group_norm(g, x, 2, v, s, 1));
    REFUSES(r, SHAPE, "expected f32 x", copse_group_norm(g, x, 2, s, v, 1));
    REFUSES(r, SHAPE, "expected f32 x", copse_group_norm(g, x, 2, x, s, 1));
    REFUSES(r, SHAPE, "expected f32 x", copse_group_norm(g, s, 2, s, s, 1));
    REFUSES(r, SHAPE, "expected f32 x", copse_group_norm(g, n, 2, s, s, 1));
    REFUSES(r, SHAPE, "instance_norm: operands i32[2, 4, 6]", copse_instance_norm(g, n, s, s, 1));
    REFUSES(r, ARGUMENT, "group_norm: 4 groups do not divide 6 channels",
            copse_group_norm(g, x, 4, s, s, 1));
    REFUSES(r, ARGUMENT, "0 groups", copse_group_norm(g, x, 0, s, s, 1));
    REFUSES(r, ARGUMENT, "12 groups", copse_group_norm(g, x, 12, s, s, 1));
    REFUSES(r, SHAPE, "1 places and groups of 32769 channels are too many",
            copse_group_norm(g, wide, 1, of_wide, of_wide, 1));
    REFUSES(r, SHAPE, "15360001 places", copse_instance_norm(g, far, single, single, 1));
    REFUSES(r, ARGUMENT, "group_norm: operand 2", copse_group_norm(g, x, 2, s, NULL, 1));
    REFUSES(r, ARGUMENT, "epsilon 0", copse_group_norm(g, x, 2, s, s, 0));
    REFUSES(r, ARGUMENT, "epsilon 1e-39", copse_instance_norm(g, x, s, s, 1e-39f));
    REFUSES(r, ARGUMENT, "epsilon -1", copse_group_norm(g, x, 2, s, s, -1));
    REFUSES(r, ARGUMENT, "epsilon inf", copse_instance_norm(g, x, s, s, INFINITY));
    REFUSES(r, ARGUMENT, "epsilon", copse_group_norm(g, x, 2, s, s, NAN));
}

/* ---- the cases ---- */

#define NORM_OF(kind, label, settings_, x, channels, ...)                                \
    {                                                                                    \
        .op = kind, .name = label, .build = channel_norm_build, .user = &settings_,      \
        THREE_INPUTS(x, UNIFORM(-2, 2, DIMS(channels)), UNIFORM(-1, 1, DIMS(channels))), \
        .forward = { .ratio = 16 }, .backward = { .ratio = 16 }, .magnitude = size_of_y, \
        .slope_magnitude = { size_of_dx, size_of_dscale, size_of_doffset }, __VA_ARGS__  \
    }
#define GROUPS(label, settings, x, channels, ...) \
    NORM_OF("group_norm", label, settings, x, channels, __VA_ARGS__)
#define EACH(label, x, channels, ...) \
    NORM_OF("instance_norm", label, each, x, channels, __VA_ARGS__)
#define BATCH(label, x, channels, ...) \
    NORM_OF("sync_batch_norm", label, batch, x, channels, __VA_ARGS__)
#define ROUGH .skips_differences = true

/* Channels of vectors of 16, which overlap; statistics and results with each variant. */
#define WIDE(macro, label, x, channels, ...)                                   \
    macro(label ", sums", x, channels, .family = "channel_sums", __VA_ARGS__), \
        macro(label ", results", x, channels, .family = "channel_norm", __VA_ARGS__)

#define N NAN
#define I INFINITY
static const double equal[] = { 2.5 };
/* Groups of 2 channels over 2 places; the channels of a group are adjacent. */
static const double stated[] = { 1, 2, 5, 5, 3, 4, 5, 5, 1, N, 1, 2, 3, 4, I, 4 };
static const double scales[] = { 1, 2, 0.5, -1 }, offsets[] = { 0, 1, -1, 10 };
/* With epsilon 0.75 the first group has sigma sqrt(2). */
static const double norms[] = { -1.0606601717798212,
                                0.29289321881345254,
                                -1,
                                10,
                                0.35355339059327379,
                                3.1213203435596424,
                                -1,
                                10,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N };
static const double huge_and_tiny[] = { 0x1p40, 0.1, 0.2, 0.3, -0.1, 0.7, 0.5, -0.25, 0.125, 3 };

static const struct copse_case cases[] = {
    GROUPS("pictures, two groups", two, FILL(NORMAL, DIMS(3, 5, 4, 6)), 6, QUICK),
    EACH("sequences", FILL(NORMAL, DIMS(3, 21, 5)), 5, QUICK),
    { .op = "group_norm",
      .name = "stated: a group, equal numbers, NaN, infinity",
      .build = channel_norm_build,
      .user = &stated_two,
      THREE_INPUTS(VALUES(stated, DIMS(2, 2, 4)), VALUES(scales, DIMS(4)),
                   VALUES(offsets, DIMS(4))),
      .forward = { .ratio = 16 },
      .magnitude = size_of_y,
      .want = norms,
      .has_no_gradient = true,
      QUICK },
    GROUPS("one group", one, FILL(NORMAL, DIMS(2, 7, 3)), 3, STANDARD),
    GROUPS("a group for each channel", four, FILL(NORMAL, DIMS(2, 9, 4)), 4, STANDARD),
    GROUPS("epsilon 1", soft, UNIFORM(-2, 2, DIMS(3, 11, 4)), 4, STANDARD),
    GROUPS("one place", soft, FILL(NORMAL, DIMS(5, 14)), 14, STANDARD),
    GROUPS("one example", two, FILL(NORMAL, DIMS(1, 10, 6)), 6, STANDARD),
    GROUPS("six axes", two, FILL(NORMAL, DIMS(2, 1, 3, 1, 2, 4)), 4, FULL),
    GROUPS("65 places, two chunks", two, FILL(NORMAL, DIMS(2, 65, 4)), 4, STANDARD),
    GROUPS("groups of 70 channels", two, FILL(NORMAL, DIMS(2, 3, 140)), 140, STANDARD),
    GROUPS("two groups of 5000 channels", two, FILL(NORMAL, DIMS(1, 3, 10000)), 10000, FULL, ROUGH),
    GROUPS("groups of 32,768 channels", one, FILL(NORMAL, DIMS(1, 2, 32768)), 32768, FULL, ROUGH),
    EACH("one place: the offset", FILL(NORMAL, DIMS(6, 3)), 3, STANDARD, .is_poor = true),
    EACH("one channel", FILL(NORMAL, DIMS(2, 19, 1)), 1, STANDARD),
    EACH("64 places", FILL(NORMAL, DIMS(2, 8, 8, 3)), 3, STANDARD),
    EACH("16,384 places, all chunks of 64", FILL(NORMAL, DIMS(1, 16384, 2)), 2, FULL, ROUGH),
    EACH("16,385 places, chunks of 65", FILL(NORMAL, DIMS(1, 16385, 2)), 2, STANDARD, ROUGH),
    EACH("1,100,001 places, chunks of 4297", FILL(NORMAL, DIMS(1, 1100001, 1)), 1, FULL, ROUGH),
    EACH("many channels", FILL(NORMAL, DIMS(3, 4, 301)), 301, STANDARD),
    GROUPS("no examples", two, FILL(NORMAL, DIMS(0, 3, 4)), 4, STANDARD, .is_poor = true),
    GROUPS("no places", two, FILL(NORMAL, DIMS(2, 0, 4)), 4, STANDARD, .is_poor = true),
    EACH("no channels", FILL(NORMAL, DIMS(2, 3, 0)), 0, STANDARD),
    GROUPS("positive numbers", two, FILL(POSITIVE, DIMS(2, 300, 4)), 4, STANDARD),
    GROUPS("a mean a thousand times sigma", two, UNIFORM(1000, 1003.5, DIMS(2, 80, 6)), 6, STANDARD,
           ROUGH),
    EACH("a mean a million times sigma", UNIFORM(1e6, 1000002, DIMS(2, 300, 3)), 3, STANDARD,
         ROUGH),
    GROUPS("numbers that cancel", one, FILL(CANCELLING, DIMS(2, 301, 1)), 1, STANDARD),
    GROUPS("numbers that cancel over channels", one, FILL(CANCELLING, DIMS(2, 43, 7)), 7, STANDARD),
    EACH("magnitudes from 2^-30 to 2^30", SPREAD(-30, 30, DIMS(2, 151, 3)), 3, STANDARD, ROUGH),
    GROUPS("one huge number among tiny ones", one, VALUES(huge_and_tiny, DIMS(3, 97, 2)), 2,
           STANDARD, ROUGH),
    BATCH("pictures", FILL(NORMAL, DIMS(3, 5, 4, 6)), 6, QUICK),
    BATCH("features", FILL(NORMAL, DIMS(21, 5)), 5, QUICK),
    BATCH("many examples", FILL(NORMAL, DIMS(2049, 9, 2)), 2, STANDARD, ROUGH),
    BATCH("positive numbers", FILL(POSITIVE, DIMS(300, 4)), 4, STANDARD),
    BATCH("a mean a million times sigma", UNIFORM(1e6, 1000002, DIMS(300, 3)), 3, STANDARD, ROUGH),
    BATCH("numbers that cancel", FILL(CANCELLING, DIMS(301, 1)), 1, STANDARD),
    BATCH("equal numbers", VALUES(equal, DIMS(77, 2)), 2, STANDARD, ROUGH, .is_poor = true),
    EACH("equal numbers", VALUES(equal, DIMS(5, 77, 2)), 2, STANDARD, ROUGH, .is_poor = true),
    WIDE(EACH, "17 channels, two chunks", FILL(NORMAL, DIMS(2, 70, 17)), 17, STANDARD),
    WIDE(BATCH, "16 channels", FILL(NORMAL, DIMS(3, 7, 6, 16)), 16, STANDARD),
    WIDE(BATCH, "70 channels, two strips", FILL(NORMAL, DIMS(65, 70)), 70, STANDARD, ROUGH),
    WIDE(BATCH, "a mean a million times sigma, 18 channels", UNIFORM(1e6, 1000002, DIMS(300, 18)),
         18, STANDARD, ROUGH),
    WIDE(BATCH, "numbers that cancel, 16 channels", FILL(CANCELLING, DIMS(301, 16)), 16, STANDARD,
         ROUGH),
};

static const struct copse_case stress[] = {
    EACH("70,001 places", FILL(NORMAL, DIMS(1, 70001, 2)), 2, QUICK),
};

COPSE_CASE_TABLE(channel_norm, OPS, STRESS, SPEEDS, .refusals = channel_norm_refusals)
