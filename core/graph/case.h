/* SPDX-License-Identifier: MIT */
/* A conformance case: a small graph, how its inputs are filled, and how far a device may be off. The
   tables stand beside the ops (core/ops/<family>_cases.c) and are run by the tests, by
   `copse conformance` and by applications alike. */
#ifndef COPSE_CASE_H
#define COPSE_CASE_H

#include "core/graph/graph.h"

#define COPSE_CASE_INPUTS 4

/* How an input is filled; seeds come from the case's name. */
enum copse_fill_kind {
    COPSE_FILL_UNIFORM,    /* uniform in [low, high]; i32: whole numbers, both ends included */
    COPSE_FILL_INTEGERS,   /* small whole numbers, so that any order of summation is exact */
    COPSE_FILL_NORMAL,     /* N(0, 1) */
    COPSE_FILL_POSITIVE,   /* uniform in [0.5, 1.5]: errors of sums add up */
    COPSE_FILL_CANCELLING, /* x, -x + small, ...: sums near zero */
    COPSE_FILL_SPREAD,     /* N(0, 1) times 2^e, e in [low, high] (defaults -60, 60) */
    COPSE_FILL_SPECIAL,    /* the special values of IEEE single, every pair of them across inputs */
    COPSE_FILL_PATTERNS,   /* bit patterns with a prime stride, over all of f32 */
    COPSE_FILL_VALUES,     /* `values`, repeated */
};

struct copse_case_input {
    copse_type type;
    copse_shape shape;
    enum copse_fill_kind fill;
    double low, high;
    const double *values;
    size_t value_count;
    bool is_constant; /* no gradient is asked for */
};

/* An error is accepted up to the sum of these; all zero = the nearest f32, bit for bit (but for the
   sign of zero). u is 2^-24. Classes and figures: docs/conformance.md. */
struct copse_case_limit {
    double ulp;    /* units in the last place of the expected value */
    double floor;  /* smallest magnitude whose ULP counts: for zeros of a derivative */
    double ratio;  /* times u times the same graph of |inputs|: componentwise ratio R of sums */
    double of_max; /* times the largest magnitude in the tensor */
};

enum copse_tier { COPSE_TIER_QUICK, COPSE_TIER_STANDARD, COPSE_TIER_FULL, COPSE_TIER_EXHAUSTIVE };

struct copse_case {
    const char *op;   /* "softmax" */
    const char *name; /* unique within the op: "row longer than a group" */
    copse_status (*build)(copse_graph *g, copse_tensor *const *in, const void *user,
                          copse_tensor **y);
    const void *user;
    struct copse_case_input in[COPSE_CASE_INPUTS];
    size_t in_count;
    struct copse_case_limit forward, backward;
    bool has_no_gradient;
    bool skips_differences; /* the derivative is not compared with central differences */
    bool is_poor;           /* many zeros are expected: never MISTRUSTED */
    enum copse_tier tier;   /* the lowest tier that runs it */
    const char *family;     /* of kernel variants (variant.h), which are forced in turn; NULL = none */
    bool family_is_of_gradient; /* variants are forced in mode grad only */
    uint32_t chain;         /* terms of its sums: a vendor's library may add them in one chain, with
                               a ratio of up to 2 sqrt(chain)                [0 = the limits'] */
    const uint32_t *step;   /* COPSE_STEP_WORDS words                           [NULL = share 1] */
};

struct copse_case_table {
    const char *family; /* file it stands in: "elementwise" */
    const struct copse_case *cases;
    size_t count;
};

/* Every table, NULL-terminated. The build makes it from the names of the files. */
extern const struct copse_case_table *const copse_case_tables[];

#endif
