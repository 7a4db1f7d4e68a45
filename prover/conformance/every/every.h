/* SPDX-License-Identifier: MIT */
/* Every bit pattern of a function of one number, value or derivative: tier exhaustive of the modes
   run and grad. */
#ifndef COPSE_CORE_CONFORMANCE_EVERY_H
#define COPSE_CORE_CONFORMANCE_EVERY_H

#include "prover/conformance/launch/launch.h"

#define COPSE_EVERY_BLOCK 2048u /* patterns; a block has one sign and one exponent */

/* What the results are compared with. */
struct copse_every {
    const struct copse_launch *launch; /* its form, specialisation and parameters */
    copse_host_fn *truth;
    bool is_gradient, flushes;
    double ulp; /* the largest error; 0: the same bits */
};

/* Sines and cosines of multiples of a step (every_angle.c). */
enum copse_angle { COPSE_ANGLE_SIN, COPSE_ANGLE_COS, COPSE_ANGLE_TAN };
struct copse_angles {
    double step, sines[COPSE_EVERY_BLOCK], cosines[COPSE_EVERY_BLOCK];
};
/* The expected results, without the slopes, of a block that starts at x, and their error. False:
   the function is none of these. */
bool copse__every_angles(const struct copse_every *e, struct copse_angles *a, double x, double step,
                         double *y, double *noise);

/* Consecutive patterns, for one thread. */
struct copse_every_part {
    const struct copse_every *every;
    uint32_t first;      /* pattern; a multiple of the block */
    size_t count;        /* the same */
    const float *slope;  /* upstream slopes from 0.5 to 2, of both signs; NULL: values */
    const uint32_t *got; /* words of the device */
    /* largest error of an accepted number so far [ULP]; kept from part to part */
    double most;
    /* room for `count`: places of numbers that only the reference can judge */
    uint32_t *found;
    size_t found_count;
    unsigned uneven; /* blocks in a row that could not be interpolated */
    struct copse_angles angles;
};

/* Find all numbers that may be outside of the tolerance, and those with the largest errors. The
   expected results are those of the reference at ten points of a block of 2048 or fewer patterns,
   interpolated; where the interpolation is off at points between its nodes by more than 1/32 ULP of
   the largest result, those of the reference at each number. A number is accepted only if its error
   and the error of the interpolation are within the tolerance together. */
void copse__every_scan(struct copse_every_part *p);

/* The cases "every number" of a mode: values or derivatives. */
void copse__conform_every(struct copse_conform_run *r, const char *mode,
                          enum copse_every_what what);

#endif
