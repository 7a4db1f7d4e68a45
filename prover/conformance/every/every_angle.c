/* SPDX-License-Identifier: MIT */
/* Sine, cosine and tangent of large numbers, where consecutive numbers are too far apart to
   interpolate: the sine of x + k step is that of x and of k step, by the addition theorem, and k
   step is the same for all blocks of one exponent. */
#include <math.h>

#include "prover/conformance/every/every.h"

#define LEAST_COSINE 0x1p-8 /* tangents of smaller ones are left to the reference */

/* The function by the name of its form; false: another one. */
static bool every_angle_find(const struct copse_launch_form *f, enum copse_angle *out)
{
    static const char *const names[] = {
        [COPSE_ANGLE_SIN] = "sin", [COPSE_ANGLE_COS] = "cos", [COPSE_ANGLE_TAN] = "tan"
    };
    for (size_t i = 0; i < COPSE_COUNT(names); i++)
        if (strcmp(f->name, names[i]) == 0) {
            *out = (enum copse_angle)i;
            return true;
        }
    return false;
}

static void set_step(struct copse_angles *a, double step)
{
    for (size_t k = 0; k < COPSE_EVERY_BLOCK && a->step != step; k++) {
        a->sines[k] = sin((double)k * step); /* the product is exact */
        a->cosines[k] = cos((double)k * step);
    }
    a->step = step;
}

/* Errors of sine and cosine: 2^-51, with those of the tables. */
bool copse__every_angles(const struct copse_every *e, struct copse_angles *a, double x, double step,
                         double *y, double *noise)
{
    enum copse_angle which;
    if (!every_angle_find(e->launch->form, &which))
        return false;
    set_step(a, step);
    const double sine = sin(x), cosine = cos(x);
    const bool is_cosine = (which == COPSE_ANGLE_COS) != e->is_gradient;
    const double sign = which == COPSE_ANGLE_COS && e->is_gradient ? -1 : 1;
    *noise = which != COPSE_ANGLE_TAN ? 0x1p-50 : e->is_gradient ? 0x1p-26 : 0x1p-34;
    for (size_t k = 0; k < COPSE_EVERY_BLOCK; k++) {
        const double s = sine * a->cosines[k] + cosine * a->sines[k],
                     c = cosine * a->cosines[k] - sine * a->sines[k];
        const double tangent = e->is_gradient ? 1 / (c * c) : s / c;
        y[k] = which != COPSE_ANGLE_TAN ? sign * (is_cosine ? c : s)
               : fabs(c) < LEAST_COSINE ? NAN
                                        : tangent;
    }
    return true;
}
