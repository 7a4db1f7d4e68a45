/* SPDX-License-Identifier: MIT */
/* References and self-tests of the kernels of pooling. */
#include <math.h>

#include "core/ops/conv/pool.h"
#include "core/ops/self_tests.h"

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
    return (struct place){ p,
                           spec,
                           line / p->out_h,
                           i % p->channels,
                           (int64_t)(line % p->out_h * p->stride_h) - p->before_h,
                           (int64_t)(pixel % p->out_w * p->stride_w) - p->before_w };
}

/* The element of x that a tap reads; false: none. */
static bool pool_kernels_element(const struct place *at, int32_t tap, size_t *x)
{
    const struct copse_params_pool *p = at->p;
    const int64_t h = at->h + tap / at->spec[2] * (int64_t)p->step_h,
                  w = at->w + tap % at->spec[2] * (int64_t)p->step_w;
    *x = ((at->image * p->in_h + (size_t)h) * p->in_w + (size_t)w) * p->channels + at->channel;
    return h >= 0 && h < p->in_h && w >= 0 && w < p->in_w;
}

static size_t pool_kernels_count(const struct place *at)
{
    size_t n = 0, x;
    for (int32_t tap = 0; tap < at->spec[1] * at->spec[2]; tap++)
        n += pool_kernels_element(at, tap, &x);
    return n;
}

/* The first largest element of x, or NaN, in a window; false: it has no element. */
static bool pool_kernels_largest(const struct place *at, const struct copse_host_arg *x,
                                 size_t *place)
{
    double best = 0;
    bool is_there = false;
    size_t e;
    for (int32_t tap = 0; tap < at->spec[1] * at->spec[2]; tap++) {
        if (!pool_kernels_element(at, tap, &e) ||
            (is_there && (isnan(best) || copse__load(x, e) <= best)))
            continue;
        is_there = true;
        best = copse__load(x, e);
        *place = e;
    }
    return is_there;
}

static double pool_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                      size_t i)
{
    const struct copse_params_pool *p = params;
    const struct place at = place_of(p, spec, i);
    size_t e;
    double sum = 0;
    if (spec[0] == COPSE_POOL_LARGEST)
        return pool_kernels_largest(&at, &args[0], &e) ? copse__load(&args[0], e)
                                                       : (double)-INFINITY;
    for (int32_t tap = 0; tap < spec[1] * spec[2]; tap++)
        sum += pool_kernels_element(&at, tap, &e) ? copse__load(&args[0], e) : 0;
    return sum / (double)(p->divisor ? p->divisor : COPSE_MAX(pool_kernels_count(&at), (size_t)1));
}

static void pool_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_pool *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__store(&args[1], i, pool_at(params, spec, args, i));
}

#define ADDS_MAGNITUDES 5 /* of the specification: the magnitudes of the slopes, for limits */

/* The slope of window `o`. */
static double slope_of(const int32_t *spec, const struct copse_host_arg *args, size_t o)
{
    const double dy = copse__load(&args[1], o);
    return spec[ADDS_MAGNITUDES] ? fabs(dy) : dy;
}

/* What window `o` adds to element `e`. */
static double share_of(const struct copse_params_pool *p, const int32_t *spec,
                       const struct copse_host_arg *args, size_t o, size_t e)
{
    const struct place at = place_of(p, spec, o);
    const double dy = slope_of(spec, args, o);
    double sum = 0;
    size_t other;
    if (spec[0] == COPSE_POOL_LARGEST)
        return pool_kernels_largest(&at, &args[0], &other) && other == e ? dy : 0;
    for (int32_t tap = 0; tap < spec[1] * spec[2]; tap++)
        if (pool_kernels_element(&at, tap, &other) && other == e)
            sum += dy / (double)(p->divisor ? p->divisor : pool_kernels_count(&at));
    return sum;
}

/* Whether some tap of the windows at `first` along an axis may be element `e`. */
static bool pool_kernels_spans(int64_t first, uint32_t step, int32_t taps, size_t e)
{
    return (int64_t)e >= first && (int64_t)e <= first + (int64_t)step * (taps - 1);
}

static double pool_grad_at(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args, size_t e)
{
    struct copse_params_pool p;
    _Static_assert(sizeof p == sizeof(struct copse_params_pool_grad),
                   "both kernels have the same parameters");
    memcpy(&p, params, sizeof p);
    const size_t pixel = e / p.channels, line = pixel / p.in_w, image = line / p.in_h;
    double sum = 0;
    for (size_t h = 0; h < p.out_h; h++)
        for (size_t w = 0; w < p.out_w; w++)
            if (pool_kernels_spans((int64_t)(h * p.stride_h) - p.before_h, p.step_h, spec[1],
                                   line % p.in_h) &&
                pool_kernels_spans((int64_t)(w * p.stride_w) - p.before_w, p.step_w, spec[2],
                                   pixel % p.in_w))
                sum += share_of(&p, spec, args,
                                ((image * p.out_h + h) * p.out_w + w) * p.channels + e % p.channels,
                                e);
    return sum;
}

static void pool_grad_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    struct copse_params_pool p;
    _Static_assert(sizeof p == sizeof(struct copse_params_pool_grad),
                   "both kernels have the same parameters");
    memcpy(&p, params, sizeof p);
    const size_t images = ((size_t)p.count + (size_t)p.in_h * p.in_w * p.channels - 1) /
                          ((size_t)p.in_h * p.in_w * p.channels);
    for (size_t i = 0; i < p.count; i++)
        copse__store(&args[2], i, 0);
    for (size_t o = 0; o < images * p.out_h * p.out_w * p.channels; o++) {
        const struct place at = place_of(&p, spec, o);
        const double dy = slope_of(spec, args, o);
        size_t e;
        if (spec[0] == COPSE_POOL_LARGEST && pool_kernels_largest(&at, &args[0], &e) && e < p.count)
            copse__store(&args[2], e, copse__load(&args[2], e) + dy);
        for (int32_t tap = 0; spec[0] == COPSE_POOL_MEAN && tap < spec[1] * spec[2]; tap++)
            if (pool_kernels_element(&at, tap, &e) && e < p.count)
                copse__store(&args[2], e,
                             copse__load(&args[2], e) +
                                 dy / (double)(p.divisor ? p.divisor : pool_kernels_count(&at)));
    }
}

/* ---- self-tests: two images of 5 x 4, windows with a stride of 2 that overlap ---- */

#define C COPSE_TEST_ROWS

static struct copse_params_pool test_params(const struct copse_kernel *k, uint32_t *in,
                                            uint32_t *out)
{
    /* As many elements as the window needs. */
    const uint32_t h = 3 + (uint32_t)COPSE_MIN(k->spec[1], 8),
                   w = 2 + (uint32_t)COPSE_MIN(k->spec[2], 8);
    const struct copse_params_pool p = {
        0, C, h, w, 3, 2, 2, 2, 1, 1, 1, 0, k->spec[0] == COPSE_POOL_MEAN ? 4 : 0
    };
    *in = 2 * h * w * C;
    *out = 2 * 3 * 2 * C;
    return p;
}

static void pool_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t in, out;
    struct copse_params_pool p = test_params(k, &in, &out);
    p.count = out;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, out), in, out);
}

static void pool_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t in, out;
    struct copse_params_pool p = test_params(k, &in, &out);
    p.count = in;
    COPSE_SELF_TEST(t, p, copse__test_groups(k, in), in, out, in);
}

/* ---- those of the kernels for wide vectors ---- */

/* The parameters of all kernels are the same words; the first one counts results, or lines of
   `width` pixels. */
static struct copse_params_pool by_lines(const void *params, bool is_grad)
{
    struct copse_params_pool p;
    _Static_assert(sizeof p == sizeof(struct copse_params_pool_wide) &&
                       sizeof p == sizeof(struct copse_params_pool_grad_wide),
                   "all kernels have the same parameters");
    memcpy(&p, params, sizeof p);
    p.count *= (is_grad ? p.in_w : p.out_w) * p.channels;
    return p;
}

static void pool_wide_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_pool p = by_lines(params, false);
    pool_host(&p, spec, args);
}

static void pool_grad_wide_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_pool p = by_lines(params, true);
    pool_grad_host(&p, spec, args);
}

#define WIDE_C 21u /* the last vector overlaps the one before */

static struct copse_params_pool wide_params(const struct copse_kernel *k, uint32_t *in,
                                            uint32_t *out)
{
    struct copse_params_pool p = test_params(k, in, out);
    p.channels = WIDE_C;
    *in = *in / C * WIDE_C;
    *out = *out / C * WIDE_C;
    return p;
}

static void pool_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t in, out;
    struct copse_params_pool p = wide_params(k, &in, &out);
    p.count = 2 * p.out_h;
    COPSE_SELF_TEST(t, p, p.count, in, out);
}

static void pool_grad_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    uint32_t in, out;
    struct copse_params_pool p = wide_params(k, &in, &out);
    p.count = 2 * p.in_h;
    COPSE_SELF_TEST(t, p, p.count, in, out, in);
}

/* ---- laws ---- */

static struct copse_elements pool_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_pool *p = params;
    return (struct copse_elements){ p->count, (uint64_t)spec[1] * (uint64_t)spec[2] };
}

static struct copse_elements pool_grad_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_pool_grad *p = params;
    (void)spec;
    return (struct copse_elements){ p->count, (uint64_t)p->out_h * p->out_w };
}

static struct copse_elements pool_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_pool_wide *p = params;
    return (struct copse_elements){ (uint64_t)p->lines * p->out_w * p->channels,
                                    (uint64_t)spec[1] * (uint64_t)spec[2] };
}

static struct copse_elements pool_grad_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_pool_grad_wide *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->lines * p->in_w * p->channels,
                                    (uint64_t)p->out_h * p->out_w };
}

/* The largest element is one of x. */
static void pool_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    if (spec[0] == COPSE_POOL_LARGEST)
        limit->ulp = limit->ratio = 0;
}

/* With the last constant the host function adds the magnitudes of the slopes. x keeps its signs: they
   decide which windows an element is the largest of. */
static void pool_grad_magnitudes(int32_t *spec)
{
    spec[ADDS_MAGNITUDES] = 1;
}

const struct copse_law copse_law_pool = {
    .host = pool_host,
    .at = pool_at,
    .elements = pool_elements,
    .limit = { .ulp = 4, .ratio = 4 },
    .limit_of = pool_limit,
    .self_test = pool_test,
};
const struct copse_law copse_law_pool_grad = {
    .host = pool_grad_host,
    .at = pool_grad_at,
    .elements = pool_grad_elements,
    .limit = { .ulp = 4, .ratio = 4 },
    .magnitudes = pool_grad_magnitudes,
    .has_signs = true,
    .self_test = pool_grad_test,
};
const struct copse_law copse_law_pool_wide = {
    .host = pool_wide_host,
    .at = pool_at,
    .elements = pool_wide_elements,
    .limit = { .ulp = 4, .ratio = 4 },
    .limit_of = pool_limit,
    .self_test = pool_wide_test,
};
const struct copse_law copse_law_pool_grad_wide = {
    .host = pool_grad_wide_host,
    .at = pool_grad_at,
    .elements = pool_grad_wide_elements,
    .limit = { .ulp = 4, .ratio = 4 },
    .magnitudes = pool_grad_magnitudes,
    .has_signs = true,
    .self_test = pool_grad_wide_test,
};
