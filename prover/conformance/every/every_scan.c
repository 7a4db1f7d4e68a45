/* SPDX-License-Identifier: MIT */
/* The filter of the exhaustive tier: results of a device against interpolated references. The loops
   over numbers have no branches. */
#include <math.h>

#include "prover/conformance/every/every.h"

#define NODES   6u /* of the interpolation, by Chebyshev */
#define POINTS  10u
#define LEAST   64u /* patterns of the smallest block that is interpolated */
#define CHUNK   64u /* numbers of a loop; divides LEAST */
#define PATIENT 4u  /* uneven blocks in a row after which only one of RETRY is tried */
#define RETRY   32u

#define UNIT     0x1p-24
#define TINIEST  0x1p-149
#define SMALLEST 0x1p-126
/* replaces an expected result that overflows; no tolerance reaches from it to a float */
#define BEYOND   0x1p129
#define OVERFLOW 0x1.ffffffp127 /* from here on a result rounds to an infinity */
#define VAST     0x1p140        /* results of this size overflow with every slope */
#define NOTHING  0x1p-300
#define LARGE    0x1p9 /* numbers whose angles are computed by the addition theorem */

/* A polynomial over consecutive numbers: `at` of t from -1 to 1, where number k has t = from + k
   step. */
struct curve {
    double at[NODES], from, step, noise;
};

/* Consecutive numbers x + k step. */
struct span {
    double x, step;
    size_t place, count;
};

/* ---- the reference ---- */

/* For a derivative the upstream slope is 1. */
static void every_scan_evaluate(const struct copse_every *e, const double *x, double *y,
                                size_t count)
{
    double ones[COPSE_EVERY_BLOCK];
    struct copse_params_unary p; /* unary_grad has the same members */
    memcpy(&p, e->launch->params, sizeof p);
    p.n = (uint32_t)count;
    struct copse_host_arg args[3] = { { (void *)(uintptr_t)x, count, true }, { y, count, true } };
    if (e->is_gradient) {
        for (size_t i = 0; i < count; i++)
            ones[i] = 1.0;
        args[2] = args[1];
        args[1] = (struct copse_host_arg){ ones, count, true };
    }
    e->truth(&p, e->launch->spec, args);
}

static double number_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* ---- interpolation ---- */

/* Coefficients of the polynomial through the nodes. */
static void every_scan_fit(const double *y, struct curve *c)
{
    /* cos(j (2 i + 1) pi / 12) of coefficient j, node i */
    static const double cosines[NODES][NODES] = {
        { 1, 1, 1, 1, 1, 1 },
        { 0.96592582628906829, 0.70710678118654752, 0.25881904510252076, -0.25881904510252076,
          -0.70710678118654752, -0.96592582628906829 },
        { 0.86602540378443865, 0, -0.86602540378443865, -0.86602540378443865, 0,
          0.86602540378443865 },
        { 0.70710678118654752, -0.70710678118654752, -0.70710678118654752, 0.70710678118654752,
          0.70710678118654752, -0.70710678118654752 },
        { 0.5, -1, 0.5, 0.5, -1, 0.5 },
        { 0.25881904510252076, -0.70710678118654752, 0.96592582628906829, -0.96592582628906829,
          0.70710678118654752, -0.25881904510252076 },
    };
    double s[NODES];
    for (unsigned j = 0; j < NODES; j++) {
        s[j] = 0;
        for (unsigned i = 0; i < NODES; i++)
            s[j] += cosines[j][i] * y[i];
        s[j] /= j == 0 ? NODES : NODES / 2.0;
    }
    c->at[0] = s[0] - s[2] + s[4];
    c->at[1] = s[1] - 3 * s[3] + 5 * s[5];
    c->at[2] = 2 * s[2] - 8 * s[4];
    c->at[3] = 4 * s[3] - 20 * s[5];
    c->at[4] = 8 * s[4];
    c->at[5] = 16 * s[5];
}

static double value_at(const struct curve *c, double t)
{
    return c->at[0] +
           t * (c->at[1] + t * (c->at[2] + t * (c->at[3] + t * (c->at[4] + t * c->at[5]))));
}

static void set_constant(struct curve *c, double y, double noise)
{
    memset(c->at, 0, sizeof c->at);
    c->at[0] = y;
    c->noise = noise;
}

/* Values that have no polynomial but one expected result: NaN, an overflow, numbers that vanish. */
static bool is_constant(const double *y, struct curve *c)
{
    unsigned nans = 0, high = 0, low = 0, none = 0;
    for (unsigned i = 0; i < POINTS; i++) {
        nans += isnan(y[i]);
        high += y[i] >= VAST;
        low += y[i] <= -VAST;
        none += fabs(y[i]) <= NOTHING;
    }
    if (nans == POINTS)
        set_constant(c, NAN, 0);
    else if (high == POINTS || low == POINTS)
        set_constant(c, high ? VAST : -VAST, 0);
    else if (none == POINTS)
        set_constant(c, 0, NOTHING);
    else
        return false;
    return true;
}

/* False: the function is uneven there. */
static bool every_scan_interpolate(const struct copse_every *e, const struct span *s,
                                   struct curve *c)
{
    static const double nodes[NODES] = { 0.96592582628906829,  0.70710678118654752,
                                         0.25881904510252076,  -0.25881904510252076,
                                         -0.70710678118654752, -0.96592582628906829 };
    const size_t n = s->count, checks[POINTS - NODES] = { 0, n - 1, n / 3 + s->place / n % 7,
                                                          n - n / 4 - s->place / n % 5 };
    const double middle = s->x + s->step * (double)(n - 1) / 2, half = s->step * (double)n / 2;
    double x[POINTS], y[POINTS], largest = 0, worst = 0;
    for (unsigned i = 0; i < NODES; i++)
        x[i] = middle + half * nodes[i];
    for (unsigned i = NODES; i < POINTS; i++)
        x[i] = s->x + s->step * (double)checks[i - NODES];
    every_scan_evaluate(e, x, y, POINTS);
    c->step = 2.0 / (double)n;
    c->from = 1.0 / (double)n - 1;
    if (is_constant(y, c))
        return true;
    for (unsigned i = 0; i < POINTS; i++) {
        if (!(fabs(y[i]) < VAST))
            return false;
        largest = fmax(largest, fabs(y[i]));
    }
    every_scan_fit(y, c);
    for (unsigned i = NODES; i < POINTS; i++)
        worst =
            fmax(worst, fabs(value_at(c, c->from + c->step * (double)checks[i - NODES]) - y[i]));
    c->noise = 4 * worst + 0x1p-48 * largest;
    return c->noise <= largest * UNIT / 32;
}

/* ---- comparison ---- */

/* The tolerance, and what else an accepted number depends on. */
struct rule {
    double relative, least; /* allowed: relative |y|, at least `least` */
    double noise, flushed;  /* of the interpolation; results below it may be zero */
    double most;            /* ULP, above which a number is reported */
};

/* Numbers that round to an infinity are equal, and so are NaN. */
static inline double every_scan_limited(double x)
{
    x = x >= OVERFLOW ? BEYOND : x;
    x = x <= -OVERFLOW ? -BEYOND : x;
    return x == x ? x : 4 * BEYOND;
}

/* A number whose error is within the tolerance, as 0, and one that is not, as 1; `high`: as 1 if
   the error is above r->most. These are floats so that compilers use vector instructions. */
struct look {
    double far, high, error; /* error: ULP */
};

static inline struct look look_at(const struct rule *r, double y, double got)
{
    const double expected = every_scan_limited(y), size = fabs(expected),
                 distance = fabs(every_scan_limited(got) - expected);
    const double scaled = size * r->relative, allowed = scaled > r->least ? scaled : r->least;
    const double normal = size > SMALLEST ? size : SMALLEST;
    uint64_t bits;
    double inverse;
    memcpy(&bits, &normal, sizeof bits);
    /* the reciprocal of the power of two */
    bits = ((uint64_t)2046 << 52) - (bits & (uint64_t)0x7ff << 52);
    memcpy(&inverse, &bits, sizeof inverse);
    const double error = distance * inverse * 0x1p23;
    return (struct look){ distance + r->noise <= allowed ? 0.0 : 1.0, error > r->most ? 1.0 : 0.0,
                          error };
}

/* The same words. Zeros that are expected have no sign here: those of the device that have one are
   found. */
static inline uint64_t examine_exact(double expected, uint32_t got)
{
    const float y = (float)(expected + 0.0);
    uint32_t word, differs;
    memcpy(&word, &y, sizeof word);
    differs = (uint32_t)(word != got);
    return differs &
           (uint32_t) !(((word & 0x7fffffffu) > 0x7f800000u) & ((got & 0x7fffffffu) > 0x7f800000u));
}

static void every_scan_find(struct copse_every_part *p, size_t place)
{
    p->found[p->found_count++] = (uint32_t)place;
}

static void find_exact(struct copse_every_part *p, const double *y, size_t place)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < CHUNK; k++)
        sum += examine_exact(y[k], p->got[place + k]);
    for (size_t k = 0; sum > 0 && k < CHUNK; k++)
        if (examine_exact(y[k], p->got[place + k]))
            every_scan_find(p, place + k);
}

/* Whether a number of the chunk is far or has a high error. */
static bool has_any(const struct rule *of, const double *y, const double *got)
{
    const struct rule r = *of;
    double far[CHUNK], high[CHUNK];
    uint64_t any = 0;
    for (size_t k = 0; k < CHUNK; k++) {
        const struct look l = look_at(&r, y[k], got[k]);
        far[k] = l.far;
        high[k] = l.high;
    }
    for (size_t k = 0; k < CHUNK; k++) {
        uint64_t a, b;
        memcpy(&a, &far[k], sizeof a);
        memcpy(&b, &high[k], sizeof b);
        any |= a | b;
    }
    return any != 0;
}

static void find_near(struct copse_every_part *p, const struct rule *r, const double *y,
                      size_t place)
{
    float words[CHUNK];
    double got[CHUNK], worst = r->most;
    size_t which = CHUNK;
    memcpy(words, p->got + place, sizeof words);
    for (size_t k = 0; k < CHUNK; k++)
        got[k] = (double)words[k];
    if (!has_any(r, y, got))
        return;
    for (size_t k = 0; k < CHUNK; k++) {
        const struct look l = look_at(r, y[k], got[k]);
        if (l.far > 0) {
            if (!(got[k] == 0 && fabs(y[k]) < r->flushed))
                every_scan_find(p, place + k);
        } else if (l.error > worst) {
            worst = l.error;
            which = k;
        }
    }
    if (which < CHUNK) {
        every_scan_find(p, place + which);
        p->most = worst;
    }
}

/* CHUNK expected numbers, without the slopes. */
static void every_scan_compare(struct copse_every_part *p, double *y, size_t place, double noise)
{
    const double ulp = p->every->ulp;
    const struct rule r = { .relative = ulp * UNIT,
                            .least = ulp * TINIEST,
                            .noise = (p->slope ? 2 : 1) * noise,
                            .flushed = p->every->flushes ? SMALLEST : 0,
                            .most = p->most };
    for (size_t k = 0; p->slope && k < CHUNK; k++)
        y[k] *= (double)p->slope[place + k];
    if (!(ulp > 0))
        find_exact(p, y, place);
    else
        find_near(p, &r, y, place);
}

/* ---- blocks ---- */

static void compare_curve(struct copse_every_part *p, const struct curve *c, const struct span *s)
{
    double y[CHUNK];
    for (size_t i = 0; i < s->count; i += CHUNK) {
        const double from = c->from + c->step * (double)i;
        for (size_t k = 0; k < CHUNK; k++)
            y[k] = value_at(c, from + c->step * (double)(int32_t)k);
        every_scan_compare(p, y, s->place + i, c->noise);
    }
}

static void compare_each(struct copse_every_part *p, const struct span *s)
{
    double x[COPSE_EVERY_BLOCK], y[COPSE_EVERY_BLOCK];
    for (size_t k = 0; k < s->count; k++)
        x[k] = number_of(p->first + (uint32_t)(s->place + k));
    every_scan_evaluate(p->every, x, y, s->count);
    for (size_t i = 0; i < s->count; i += CHUNK)
        every_scan_compare(p, y + i, s->place + i, 0);
}

static bool compare_angles(struct copse_every_part *p, const struct span *s)
{
    double y[COPSE_EVERY_BLOCK], noise;
    if (s->count < COPSE_EVERY_BLOCK || !(fabs(s->x) > LARGE) ||
        !copse__every_angles(p->every, &p->angles, s->x, s->step, y, &noise))
        return false;
    for (size_t i = 0; i < s->count; i += CHUNK)
        every_scan_compare(p, y + i, s->place + i, noise);
    return true;
}

/* Numbers that were compared one by one. */
static size_t every_scan_take(struct copse_every_part *p, const struct span *s)
{
    struct curve c;
    size_t each = 0;
    if (every_scan_interpolate(p->every, s, &c)) {
        compare_curve(p, &c, s);
        return 0;
    }
    if (compare_angles(p, s))
        return 0;
    if (s->count <= LEAST) {
        compare_each(p, s);
        return s->count;
    }
    for (size_t i = 0; i < 4; i++) {
        struct span quarter = *s;
        quarter.count = COPSE_MAX(s->count / 4, LEAST);
        if (i * quarter.count >= s->count)
            break;
        quarter.place += i * quarter.count;
        quarter.x += s->step * (double)(i * quarter.count);
        each += every_scan_take(p, &quarter);
    }
    return each;
}

void copse__every_scan(struct copse_every_part *p)
{
    p->found_count = 0;
    for (size_t i = 0; i < p->count; i += COPSE_EVERY_BLOCK) {
        const uint32_t first = p->first + (uint32_t)i;
        struct span s = { .x = number_of(first), .place = i, .count = COPSE_EVERY_BLOCK };
        s.step = number_of(first + 1) - s.x;
        const bool is_finite = (first & 0x7f800000u) != 0x7f800000u;
        if (!is_finite || (p->uneven >= PATIENT && p->uneven++ % RETRY != 0)) {
            compare_each(p, &s);
            continue;
        }
        p->uneven = every_scan_take(p, &s) > s.count / 2 ? p->uneven + 1 : 0;
    }
}
