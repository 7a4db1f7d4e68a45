/* SPDX-License-Identifier: MIT */
/* Schedules: phases of products of factors. */
#ifndef COPSE_RULE_SCHEDULE_H
#define COPSE_RULE_SCHEDULE_H

#include "copse/optim/schedule.h"
#include "core/base/base.h"

#define COPSE_FACTOR_NUMBERS   3
#define COPSE_SCHEDULE_FACTORS 16 /* of all phases */

/* A place in a phase: step k of n; n is 0 where the phase has no end. */
struct copse_phase_place {
    double k, n;
};

struct copse_factor;

/* A kind of factor: a row of the table in rate_schedule_factors.c. */
struct copse_factor_kind {
    const char *name, *usage;
    uint32_t least, most; /* numbers */
    double defaults[COPSE_FACTOR_NUMBERS];
    bool needs_end, is_single;
    const char *(*check)(const double *numbers); /* what is wrong, or NULL. NULL: no rule */
    double (*value)(const struct copse_factor *f, const struct copse_phase_place *at);
};

struct copse_factor {
    const struct copse_factor_kind *kind;
    double numbers[COPSE_FACTOR_NUMBERS];
    uint32_t phase;
    /* Of a plateau. */
    double best, product;
    uint64_t waited;
};

struct copse_phase {
    uint64_t first, count; /* steps; count 0: no end */
};

struct copse_rate_schedule {
    copse_context *ctx; /* a reference */
    double rate;
    uint64_t steps;
    struct copse_factor factors[COPSE_SCHEDULE_FACTORS];
    uint32_t factor_count;
    struct copse_phase phases[COPSE_SCHEDULE_FACTORS];
    uint32_t phase_count;
};

/* rate_schedule_factors.c: by name, of `length` bytes; NULL: none. */
const struct copse_factor_kind *copse__factor_kind(const char *name, size_t length);
/* "constant, warmup, ..." */
const char *copse__factor_names(void);

/* rate_schedule_parse.c: factors and phases of the text. */
copse_status copse__schedule_parse(const char *text, uint64_t steps, copse_schedule *out);

#endif
