/* SPDX-License-Identifier: MIT */
/* The factors of schedules, one row each. */
#include <math.h>

#include "core/rule/rate_schedule.h"

#define PI 3.14159265358979323846

static double rate_schedule_factors_part(const struct copse_phase_place *at)
{
    return at->n > 0.0 ? at->k / at->n : 0.0;
}

/* From a to b along half a cosine. */
static double rate_schedule_factors_anneal(double a, double b, double t)
{
    return b + (a - b) * (0.5 * (1.0 + cos(PI * t)));
}

static double rate_schedule_factors_constant(const struct copse_factor *f,
                                             const struct copse_phase_place *at)
{
    (void)at;
    return f->numbers[0];
}

static double rate_schedule_factors_warmup(const struct copse_factor *f,
                                           const struct copse_phase_place *at)
{
    return f->numbers[0] + (1.0 - f->numbers[0]) * ((at->k + 1.0) / at->n);
}

static double rate_schedule_factors_linear(const struct copse_factor *f,
                                           const struct copse_phase_place *at)
{
    return f->numbers[0] + (f->numbers[1] - f->numbers[0]) * rate_schedule_factors_part(at);
}

static double rate_schedule_factors_cosine(const struct copse_factor *f,
                                           const struct copse_phase_place *at)
{
    return rate_schedule_factors_anneal(1.0, f->numbers[0], rate_schedule_factors_part(at));
}

static double rate_schedule_factors_polynomial(const struct copse_factor *f,
                                               const struct copse_phase_place *at)
{
    return f->numbers[1] +
           (1.0 - f->numbers[1]) * pow(1.0 - rate_schedule_factors_part(at), f->numbers[0]);
}

static double rate_schedule_factors_exponential(const struct copse_factor *f,
                                                const struct copse_phase_place *at)
{
    return pow(f->numbers[0], at->k / f->numbers[1]);
}

static double rate_schedule_factors_step(const struct copse_factor *f,
                                         const struct copse_phase_place *at)
{
    return pow(f->numbers[0], floor(at->k / f->numbers[1]));
}

static double inverse_sqrt(const struct copse_factor *f, const struct copse_phase_place *at)
{
    const double warm = f->numbers[0], t = at->k + 1.0;
    return fmin(t / warm, sqrt(warm / t));
}

/* As PyTorch: the peak is at step F n - 1, the last step at n - 1. */
static double one_cycle(const struct copse_factor *f, const struct copse_phase_place *at)
{
    const double peak = f->numbers[0] * at->n - 1.0, last = at->n - 1.0;
    const double first = 1.0 / f->numbers[1], least = first / f->numbers[2];
    if (at->k <= peak)
        return rate_schedule_factors_anneal(first, 1.0, peak > 0.0 ? at->k / peak : 1.0);
    return rate_schedule_factors_anneal(1.0, least,
                                        last > peak ? (at->k - peak) / (last - peak) : 1.0);
}

static double rate_schedule_factors_plateau(const struct copse_factor *f,
                                            const struct copse_phase_place *at)
{
    (void)at;
    return f->product;
}

/* ---- the numbers ---- */

static const char *not_negative(const double *x)
{
    return x[0] >= 0.0 && x[1] >= 0.0 ? NULL : "numbers >= 0 are needed";
}

static const char *check_polynomial(const double *x)
{
    return x[0] > 0.0 && x[1] >= 0.0 ? NULL : "a power > 0 and an end >= 0 are needed";
}

static const char *check_decay(const double *x)
{
    return x[0] > 0.0 && x[1] >= 1.0 ? NULL : "a factor > 0 and a number of steps >= 1 are needed";
}

static const char *check_warm(const double *x)
{
    return x[0] >= 1.0 ? NULL : "a number of steps >= 1 is needed";
}

static const char *check_cycle(const double *x)
{
    return x[0] > 0.0 && x[0] <= 1.0 && x[1] >= 1.0 && x[2] >= 1.0
               ? NULL
               : "a part from 0 to 1 and divisors >= 1 are needed";
}

static const char *check_plateau(const double *x)
{
    return x[0] > 0.0 && x[0] < 1.0 && x[1] >= 1.0 && x[2] >= 0.0 && x[2] < 1.0
               ? NULL
               : "a factor between 0 and 1, a count >= 1 and a threshold from 0 to 1 are needed";
}

static const struct copse_factor_kind kinds[] = {
    { "constant",
      "constant [A]",
      0,
      1,
      { 1 },
      false,
      false,
      not_negative,
      rate_schedule_factors_constant },
    { "warmup",
      "warmup [A]",
      0,
      1,
      { 0 },
      true,
      false,
      not_negative,
      rate_schedule_factors_warmup },
    { "linear",
      "linear [A [B]]",
      0,
      2,
      { 1, 0 },
      true,
      false,
      not_negative,
      rate_schedule_factors_linear },
    { "cosine",
      "cosine [B]",
      0,
      1,
      { 0 },
      true,
      false,
      not_negative,
      rate_schedule_factors_cosine },
    { "polynomial",
      "polynomial P [B]",
      1,
      2,
      { 0, 0 },
      true,
      false,
      check_polynomial,
      rate_schedule_factors_polynomial },
    { "exponential",
      "exponential G [N]",
      1,
      2,
      { 0, 1 },
      false,
      false,
      check_decay,
      rate_schedule_factors_exponential },
    { "step", "step G N", 2, 2, { 0 }, false, false, check_decay, rate_schedule_factors_step },
    { "inverse_sqrt", "inverse_sqrt W", 1, 1, { 0 }, false, false, check_warm, inverse_sqrt },
    { "one_cycle",
      "one_cycle [F [D [E]]]",
      0,
      3,
      { 0.3, 25, 1e4 },
      true,
      false,
      check_cycle,
      one_cycle },
    { "plateau",
      "plateau G N [T]",
      2,
      3,
      { 0, 0, 1e-4 },
      false,
      true,
      check_plateau,
      rate_schedule_factors_plateau },
};

const struct copse_factor_kind *copse__factor_kind(const char *name, size_t length)
{
    for (size_t i = 0; i < COPSE_COUNT(kinds); i++)
        if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, name, length) == 0)
            return &kinds[i];
    return NULL;
}

const char *copse__factor_names(void)
{
    return "constant, warmup, linear, cosine, polynomial, exponential, step, inverse_sqrt, "
           "one_cycle or plateau";
}
