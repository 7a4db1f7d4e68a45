/* SPDX-License-Identifier: MIT */
/* Sums over the places of channels: the kernel variants with their launches. A second launch adds
   the sums of chunks. */
#include <math.h>
#include <stdio.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/norm/channel_norm.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

enum { MEAN = COPSE_CHANNEL_MEAN, SPREAD = COPSE_CHANNEL_SPREAD, SLOPES = COPSE_CHANNEL_SLOPES };

enum {
    FEW_PLACES = 64, /* least places of a chunk */
    MOST_CHUNKS = 256,
    MOST_ITEMS = 32768,  /* chunks x channels of a group, which one invocation adds */
    MOST_PLACES = 60000, /* of a chunk: rounds of an invocation */
    STRIP = 64,          /* channels of an invocation of channel_sums_wide */
};

struct work {
    struct copse_channel_sums of;
    uint32_t batches, places, channels, chunks, rows; /* rows: places of a chunk */
    struct copse_operand sums;
};

static uint32_t most_chunks(uint32_t group)
{
    return COPSE_MIN(MOST_CHUNKS, COPSE_MAX(MOST_ITEMS / COPSE_MAX(group, 1u), 1u));
}

bool copse__channel_norm_fits(uint32_t places, uint32_t group)
{
    return group <= MOST_ITEMS && places <= MOST_PLACES * most_chunks(group);
}

static struct work work_of(copse_shape x, const struct copse_channel_sums *s)
{
    struct work w = { .of = *s,
                      .batches = x.dims[0],
                      .places = x.dims[1],
                      .channels = x.dims[2],
                      .rows = FEW_PLACES };
    const uint32_t most = most_chunks(s->group);
    w.rows = COPSE_MAX(w.rows, (w.places + most - 1) / most);
    w.chunks = (w.places + w.rows - 1) / w.rows;
    return w;
}

/* ---- launches ---- */

/* Every argument needs a buffer. */
static struct copse_operand channel_sums_of(const struct work *w, const copse_tensor *t)
{
    return copse__of(t ? t : w->of.x);
}

static uint32_t sums_of(const struct work *w)
{
    return w->batches * w->chunks * w->channels;
}

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct work *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.op };
    const struct copse_params_channel_sums p = { sums_of(w), w->places, w->channels,
                                                 w->chunks,  w->rows,   w->batches * w->channels };
    return COPSE_LAUNCH(l, channel_sums, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_channel_sums, p.n), copse__of(w->of.x),
                        channel_sums_of(w, w->of.slope), channel_sums_of(w, w->of.mean),
                        channel_sums_of(w, w->of.inverse), w->sums);
}

static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct work *)work)->channels >= COPSE_WIDE_CHANNELS;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct work *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->of.op };
    const struct copse_params_channel_sums_wide p = { sums_of(w),  w->places,
                                                      w->channels, w->chunks,
                                                      w->rows,     w->batches * w->channels };
    const uint64_t strips = (w->channels + STRIP - 1) / STRIP;
    return COPSE_LAUNCH(l, channel_sums_wide, spec, p, w->batches * w->chunks * strips,
                        copse__of(w->of.x), channel_sums_of(w, w->of.slope),
                        channel_sums_of(w, w->of.mean), channel_sums_of(w, w->of.inverse), w->sums);
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_channel_sums, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide",
      COPSE_KERNEL_channel_sums_wide,
      { 1, 0, 1, 1 },
      .fits = fits_wide,
      .lower = lower_wide },
};

static bool channel_sums_work_size(const void *work, struct copse_size *out)
{
    const struct work *w = work;
    out->of[0] = w->channels;
    return sums_of(w) > 0;
}

static void channel_sums_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const copse_shape x = COPSE_SHAPE(1, 4096, at->of[0]);
    const struct work w = work_of(x, &(struct copse_channel_sums){ .op = MEAN, .group = 1 });
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "%u places of %u channels, mean", (unsigned)w.places,
             (unsigned)w.channels);
    j->in[0] = x;
}

static copse_status infer_job(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = COPSE_SHAPE(1, y->in[0]->shape.dims[2]);
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status lower_job(struct copse_lowering *l, const copse_tensor *y)
{
    return copse__lower_channel_sums(
        l, y,
        &(struct copse_channel_sums){
            .op = MEAN, .group = 1, .shape = y->in[0]->shape, .x = y->in[0] });
}

static const struct copse_op op_job = {
    .name = "channel_sums",
    .infer = infer_job,
    .lower = lower_job,
};

static copse_tensor *channel_sums_build(copse_graph *g, const struct copse_tune_job *j,
                                        copse_tensor *const *in)
{
    (void)j;
    return COPSE_NODE(g, &op_job, NULL, in[0]);
}

const struct copse_family copse_family_channel_sums = {
    .name = "channel_sums",
    COPSE_VARIANTS(variants),
    .sizes = { { 16, 64 } },
    .size = channel_sums_work_size,
    .job = channel_sums_job,
    .operations = { 8 },
    .build = channel_sums_build,
};

/* ---- the sums of chunks, and of these ---- */

copse_status copse__lower_channel_sums(struct copse_lowering *l, const copse_tensor *y,
                                       const struct copse_channel_sums *s)
{
    struct work w = work_of(s->shape, s);
    const int32_t spec[COPSE_MAX_SPECS] = { s->op };
    const struct copse_params_channel_merge p = {
        w.batches * w.channels / COPSE_MAX(s->group, 1u), w.chunks, w.channels, s->group,
        (float)COPSE_MAX((double)w.places * s->group, 1)
    };
    if (sums_of(&w) == 0)
        return copse__lower_fill(l, y, 0);
    COPSE_TRY(copse__scratch(l, 2 * (uint64_t)sums_of(&w), &w.sums));
    COPSE_TRY(copse__lower_variant(l, &copse_family_channel_sums, &w));
    return COPSE_LAUNCH(l, channel_merge, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_channel_merge, p.n), w.sums,
                        copse__of(y));
}

/* ---- references ---- */

/* Sums with a NaN or an infinity have NaN as their rounding errors, and then as their means. */

static void channel_sums_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_channel_sums *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t line = i / p->channels, c = i % p->channels, b = line / p->chunks;
        const size_t first = line % p->chunks * p->rows,
                     end = COPSE_MIN(first + p->rows, p->places);
        double s = 0, t = 0;
        for (size_t k = first; k < end; k++) {
            const size_t place = (b * p->places + k) * p->channels + c, at = b * p->channels + c;
            const double x = copse__load(&args[0], place),
                         d = spec[0] == MEAN ? 0 : x - copse__load(&args[2], at);
            s += spec[0] == MEAN ? x : spec[0] == SPREAD ? d * d : copse__load(&args[1], place);
            if (spec[0] == SPREAD)
                t += d;
            if (spec[0] == SLOPES)
                t += copse__load(&args[1], place) * (d - copse__load(&args[2], p->second + at)) *
                     copse__load(&args[3], at);
        }
        copse__store(&args[4], i, spec[0] == MEAN && !isfinite(s) ? NAN : s);
        copse__store(&args[4], p->n + i, spec[0] == MEAN && !isfinite(s) ? NAN : t);
    }
}

static void channel_merge_host(const void *params, const int32_t *spec,
                               const struct copse_host_arg *args)
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
                copse__store(&args[1], p->n * p->group + i * p->group + c,
                             spec[0] == SLOPES ? t : t / (double)p->count);
        }
    }
}

/* ---- self-tests ---- */

#define B 2u  /* batches */
#define C 6u  /* channels */
#define S 70u /* places: two chunks */

static void channel_sums_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_channel_sums p = { B * 2 * C, S, C, 2, 64, B * C };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), B * S * C, B * S * C, 2 * B * C, B * C,
                    2 * p.n);
}

static void channel_merge_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t group = k->spec[0] == SLOPES ? 1 : 3;
    const struct copse_params_channel_merge p = { B * C / group, 70, C, group, 4.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 2 * B * 70 * C,
                    (k->spec[0] == MEAN ? 1 : 2) * B * C);
    t->slack = COPSE_SELF_TEST_SLACK;
}

#define WIDE_C 17u /* the last vector overlaps the one before */
#define WIDE_S 60u /* places: two chunks */

static void channel_sums_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_channel_sums_wide p = { B * 2 * WIDE_C, WIDE_S, WIDE_C, 2, 40,
                                                      B * WIDE_C };
    _Static_assert(sizeof p == sizeof(struct copse_params_channel_sums),
                   "both kernels have the same parameters");
    (void)k;
    COPSE_SELF_TEST(t, p, B * 2, B * WIDE_S * WIDE_C, B * WIDE_S * WIDE_C, 2 * B * WIDE_C,
                    B * WIDE_C, 2 * p.n);
}

/* ---- bases of tolerances ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

/* The sums of the magnitudes of the terms. Of a mean, the rounding error of the sum has the size of
   the sum. */
static void channel_sums_size(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_channel_sums *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t line = i / p->channels, c = i % p->channels, b = line / p->chunks;
        const size_t first = line % p->chunks * p->rows,
                     end = COPSE_MIN(first + p->rows, p->places);
        double s = 0, t = 0;
        for (size_t k = first; k < end; k++) {
            const size_t place = (b * p->places + k) * p->channels + c, at = b * p->channels + c;
            const double x = copse__load(&args[0], place),
                         d = spec[0] == MEAN ? x : x - copse__load(&args[2], at);
            const double rest = spec[0] == SLOPES ? copse__load(&args[2], p->second + at) : 0;
            const double dy = spec[0] == SLOPES ? fabs(copse__load(&args[1], place)) : 0;
            s += spec[0] == MEAN ? fabs(x) : spec[0] == SPREAD ? d * d + LEAST : dy;
            t += spec[0] == MEAN ? fabs(x)
                 : spec[0] == SPREAD
                     ? fabs(d)
                     : dy * ((fabs(d) + fabs(rest)) * fabs(copse__load(&args[3], at)) + LEAST) +
                           LEAST;
        }
        copse__store(&args[4], i, s);
        copse__store(&args[4], p->n + i, t);
    }
}

/* ---- laws ---- */

/* Channels. Both kernels have the same parameters. */
static bool channel_sums_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_channel_sums *p = COPSE_SPLIT_PARAMS(channel_sums, o);
    _Static_assert(sizeof *p == sizeof(struct copse_params_channel_sums_wide),
                   "both kernels have the same parameters");
    const uint64_t channels = p->channels, of_item = channels * p->chunks,
                   items = of_item > 0 ? p->n / of_item : 0;
    const uint64_t lines = items * p->chunks;
    const bool has_slopes = c->kernel->spec[0] == SLOPES;
    if (items == 0 || p->n != items * of_item || (has_slopes && p->second != items * channels))
        return false;
    copse__split_pieces(o, 0, items * p->places, channels, 1);
    copse__split_pieces(o, 1, items * p->places, channels, has_slopes ? 1 : 0);
    copse__split_pieces(o, 2, (has_slopes ? 2 : 1) * items, channels,
                        c->kernel->spec[0] == MEAN ? 0 : 1);
    copse__split_pieces(o, 3, items, channels, has_slopes ? 1 : 0);
    copse__split_pieces(o, 4, 2 * lines, channels, 1);
    o->units = channels;
    copse__split_count(o, &p->n, lines);
    copse__split_count(o, &p->channels, 1);
    if (has_slopes)
        copse__split_count(o, &p->second, items);
    return true;
}

const struct copse_law copse_law_channel_sums = {
    .host = channel_sums_host,
    .split = channel_sums_split,
    .limit = { .ulp = 1, .ratio = 16, .size = channel_sums_size },
    .self_test = channel_sums_test,
};
const struct copse_law copse_law_channel_sums_wide = {
    .host = channel_sums_host,
    .split = channel_sums_split,
    .limit = { .ulp = 1, .ratio = 16, .size = channel_sums_size },
    .self_test = channel_sums_wide_test,
};
const struct copse_law copse_law_channel_merge = {
    .host = channel_merge_host,
    .limit = { .ulp = 4, .ratio = 4 },
    .self_test = channel_merge_test,
};
