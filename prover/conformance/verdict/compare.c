/* SPDX-License-Identifier: MIT */
/* Errors of results: in units in the last place as the OpenCL test suite counts them, and for sums
   relative to the sum of magnitudes, which does not depend on cancellation. */
#include <float.h>
#include <math.h>

#include "prover/conformance/verdict/conformance.h"

#define UNIT       0x1p-24
#define BEYOND     0x1p128 /* the value of an infinite result where a finite one is expected */
#define POOR_COUNT 8       /* fewer results are not judged */
#define POOR_SHARE 0.95    /* of zeros */

/* Allowed mean square errors of the classes: sums, and sums of products. */
#define SUM_RATIO    4.0
#define SUM_NMSE     1e-13
#define PRODUCT_NMSE 1e-10

/* Distance of the two floats around y, by Muller's definition: for a power of two the distance to
   the float below; subnormals are equally spaced. */
static double ulp_of(double y)
{
    int exponent;
    const double mantissa = frexp(fabs(y), &exponent);
    exponent -= mantissa == 0.5;
    return exponent < -125 ? 0x1p-149 : ldexp(1.0, COPSE_MIN(exponent, 128) - 24);
}

/* One element: its error, its limit, and the unit of both. */
struct deviation {
    double error, allowed, unit;
};

static struct deviation compare_measure(const struct copse_case_limit *l, double y, double got,
                                        double magnitude, double largest, bool flushes)
{
    const double rounded = (double)(float)y;
    struct deviation d = { 0, 0, ulp_of(y) };
    if (isnan(y) || isnan(got) || isinf(y)) {
        d.error = (isnan(y) && isnan(got)) || got == y ? 0 : INFINITY;
        return d;
    }
    const double value = isinf(got) ? copysign(BEYOND, got) : got;
    d.allowed = l->ulp * ulp_of(fmax(fabs(y), l->floor)) + l->ratio * UNIT * magnitude +
                l->of_max * largest;
    d.error = d.allowed > 0 ? fabs(value - y) : got == rounded ? 0 : fabs(value - rounded);
    const bool is_exact = !(l->ulp > 0) && !(l->ratio > 0) && !(l->of_max > 0);
    if (is_exact && !flushes && got == 0 && rounded == 0 && signbit(got) != signbit(rounded))
        d.error = INFINITY; /* the same bits are promised */
    if (isinf(got) && (got > 0) != (y > 0))
        d.error = INFINITY;
    else if (isinf(got) && isinf(rounded))
        d.error = 0;
    if (flushes && got == 0 && fabs(y) - d.allowed < 0x1p-126)
        d.error = 0;
    if (l->ratio > 0 && magnitude > 0)
        d.unit = UNIT * magnitude;
    else if (l->ratio == 0 && l->ulp > 0)
        d.unit = ulp_of(fmax(fabs(y), l->floor));
    else if (l->ratio == 0 && l->of_max > 0 && largest > 0)
        d.unit = largest;
    return d;
}

/* The error as a fraction of the limit, above 1 for a failure; infinite for any error if the limit
   is 0. */
static double compare_used(const struct deviation *d)
{
    if (d->error == 0)
        return 0;
    if (d->allowed == 0 || isinf(d->error))
        return INFINITY;
    const double part = d->error / d->allowed;
    return d->error > d->allowed ? fmax(part, 1 + DBL_EPSILON) : part;
}

static double largest_of(const double *values, uint64_t count)
{
    double largest = 0;
    for (uint64_t k = 0; k < count; k++)
        if (isfinite(values[k]))
            largest = fmax(largest, fabs(values[k]));
    return largest;
}

static bool is_poor(const double *values, uint64_t count)
{
    uint64_t zeros = 0, same = 0;
    for (uint64_t k = 0; k < count; k++) {
        zeros += values[k] == 0;
        same += values[k] == values[0] || (isnan(values[k]) && isnan(values[0]));
    }
    return count >= POOR_COUNT && (same == count || (double)zeros > POOR_SHARE * (double)count);
}

void copse__compare(const struct copse_case_limit *limit, const double *expected,
                    const double *magnitudes, const double *got, uint64_t count,
                    bool flushes_denormals, struct copse_comparison *out)
{
    const double largest = largest_of(expected, count);
    double errors = 0, squares = 0, sizes = 0, most = -1;
    *out = (struct copse_comparison){
        .is_within = true,
        .metric = limit->ratio > 0                       ? "R"
                  : limit->of_max > 0 && limit->ulp == 0 ? "norm"
                                                         : "ulp",
        .limit = limit->ratio > 0 ? limit->ratio
                 : limit->ulp > 0 ? limit->ulp
                                  : limit->of_max,
        .is_poor = is_poor(expected, count),
    };
    for (uint64_t k = 0; k < count; k++) {
        const double magnitude = magnitudes ? fabs(magnitudes[k]) : 0;
        const struct deviation d =
            compare_measure(limit, expected[k], got[k], magnitude, largest, flushes_denormals);
        const double part = compare_used(&d);
        if (part > most) {
            most = part;
            out->index = k;
            out->got = got[k];
            out->expected = expected[k];
            out->worst = isfinite(d.error) ? d.error / d.unit : BEYOND;
            if (d.allowed > 0)
                out->limit = d.allowed / d.unit;
        }
        if (isfinite(expected[k]) && isfinite(got[k])) {
            errors += (got[k] - expected[k]) * (got[k] - expected[k]);
            squares += expected[k] * expected[k];
            sizes += isfinite(magnitude) ? magnitude * magnitude : 0;
        }
    }
    out->is_within = most <= 1;
    out->nmse = squares > 0 ? errors / squares : 0;

    /* Second check: many elements with larger errors than correct sums have, each of them within R.
       Results of cancellation may have any relative error. */
    const double honest = limit->ratio * UNIT / 4;
    if (limit->ratio > 0 && !limit->is_proven && errors > honest * honest * sizes)
        out->is_within =
            out->is_within && out->nmse <= (limit->ratio <= SUM_RATIO ? SUM_NMSE : PRODUCT_NMSE);
}
