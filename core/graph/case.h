/* SPDX-License-Identifier: MIT */
/* Tables of conformance cases: prover/cases/<family>/<name>_cases.c has the library's, and an op of
   the application makes its own from its samples (core/ops/user). A table contains its ops; cases,
   each a small graph, the fill of its inputs, and the tolerance for devices; graphs with long sums;
   graphs to be timed; and calls that must be refused. The tests, `copse conformance` and
   applications run the same tables. */
#ifndef COPSE_CASE_H
#define COPSE_CASE_H

#include "core/graph/graph.h"

#define COPSE_CASE_INPUTS 4

/* The fill of an input; seeds come from the case's name. */
enum copse_fill_kind {
    COPSE_FILL_UNIFORM,    /* uniform in [low, high]; i32: whole numbers including both ends */
    COPSE_FILL_INTEGERS,   /* small whole numbers, so that any order of summation is exact */
    COPSE_FILL_NORMAL,     /* N(0, 1) */
    COPSE_FILL_POSITIVE,   /* uniform in [0.5, 1.5]: errors of sums add up */
    COPSE_FILL_CANCELLING, /* x, -x + small, ...: sums near zero */
    COPSE_FILL_SPREAD,     /* N(0, 1) times 2^e, e in [low, high] (defaults -60, 60) */
    COPSE_FILL_SPECIAL,    /* the special values of IEEE single, every pair of them across inputs */
    COPSE_FILL_PATTERNS,   /* bit patterns with a prime stride, over all of f32 */
    COPSE_FILL_VALUES,     /* `values`, repeated */
    /* uniform in [low, high]; the last element of the innermost axis is high + 2 */
    COPSE_FILL_LAST,
    /* one number of [1, 2) for each row of the innermost axis: sums of equal terms */
    COPSE_FILL_ROWS,
    /* the same numbers, followed by those that they lose when they are added one by one */
    COPSE_FILL_LOST,
};

struct copse_case_input {
    copse_type type;
    copse_shape shape;
    enum copse_fill_kind fill;
    double low, high;
    const double *values;
    size_t value_count;
    bool is_constant; /* no gradient is computed */
};

/* An error is accepted up to the sum of these; all zero = the nearest f32, bit for bit. The sign of
   zero counts on devices that keep subnormal numbers. u is 2^-24. Classes and limits:
   docs/conformance.md. */
struct copse_case_limit {
    double ulp;     /* units in the last place of the expected value */
    double floor;   /* smallest magnitude whose ULP counts: for zeros of a derivative */
    double ratio;   /* times u times the same graph of |inputs|: componentwise ratio R of sums */
    double of_max;  /* times the largest magnitude in the tensor */
    bool is_proven; /* the ratio holds for any numbers, and all elements may need it */
};

/* The accuracy class of an op. Largest limits of each class: tests/ops/test_cases.c; in words:
   docs/conformance.md. */
enum copse_accuracy {
    COPSE_ACCURACY_exact, /* moves, compares, or is exact in whole numbers */
    COPSE_ACCURACY_sum,
    COPSE_ACCURACY_rounded, /* one rounding */
    COPSE_ACCURACY_root,
    COPSE_ACCURACY_rsqrt,
    COPSE_ACCURACY_quotient,
    COPSE_ACCURACY_division, /* by one number for all elements */
    COPSE_ACCURACY_exponential,
    COPSE_ACCURACY_logarithm,
    COPSE_ACCURACY_sigmoid,
    COPSE_ACCURACY_erf,
    COPSE_ACCURACY_maximum, /* equal elements share the derivative */
    COPSE_ACCURACY_mean,
    COPSE_ACCURACY_product, /* of matrices */
    COPSE_ACCURACY_dense,
    COPSE_ACCURACY_softmax,
    COPSE_ACCURACY_cross_entropy,
    COPSE_ACCURACY_loss, /* of the other losses: several functions, a sum, a quotient */
    COPSE_ACCURACY_squared_error,
    COPSE_ACCURACY_norm,
    COPSE_ACCURACY_gather,    /* moves; the derivative is a sum */
    COPSE_ACCURACY_scan,      /* sums of parts of an axis; so is the derivative */
    COPSE_ACCURACY_pool,      /* means of windows, which overlap */
    COPSE_ACCURACY_resize,    /* weighted means, along one axis after the other */
    COPSE_ACCURACY_attention, /* relative to the magnitudes of scores, values and results */
    COPSE_ACCURACY_rotary,    /* sums of two products */
    COPSE_ACCURACY_gated,     /* a function times another number */
    /* relative to the largest result: each step's errors pass to the next ones */
    COPSE_ACCURACY_recurrent,
    COPSE_ACCURACY_COUNT
};

enum copse_tier { COPSE_TIER_QUICK, COPSE_TIER_STANDARD, COPSE_TIER_FULL, COPSE_TIER_EXHAUSTIVE };

/* Adds an op to a graph: the case's inputs, its `user`. */
typedef copse_tensor *copse_case_build(copse_graph *g, copse_tensor *const *in, const void *user);

struct copse_case {
    const char *op;   /* "softmax" */
    const char *name; /* unique within the op: "row longer than a group" */
    copse_case_build *build;
    const void *user;
    struct copse_case_input in[COPSE_CASE_INPUTS];
    size_t in_count;
    struct copse_case_limit forward, backward;
    /* The basis of limit.ratio, a graph of the same inputs that is evaluated in double: for the
       result; for the derivative of each input, where in[in_count] is dy. [NULL = the case's graph
       of |inputs|] */
    copse_case_build *magnitude, *slope_magnitude[COPSE_CASE_INPUTS];
    /* the result, stated as numbers: the reference must return them [NULL] */
    const double *want;
    bool has_no_gradient;
    bool skips_differences; /* the derivative is not compared with central differences */
    bool is_poor;           /* many zeros are expected: never MISTRUSTED */
    /* the lowest tier that runs it; of rows of QUICK that are alike, tier quick runs one (walk.c) */
    enum copse_tier tier;
    /* of kernel variants (variant.h), which are forced in turn; NULL = none */
    const char *family;
    bool family_is_of_gradient; /* variants are forced in mode grad only */
    /* of the work of its family, for variants that take some types only [f32] */
    copse_type operands;
    /* of the sums of the result, which may be any numbers: its ratio is the bound that is proven
       for the variant (core/device/kernel/sum_bound.h) [0 = forward] */
    uint32_t terms;
    const uint32_t *step; /* COPSE_STEP_WORDS words                           [NULL = part 1] */
    double flops, bytes;  /* of a graph to be timed: one of the two */
};

/* An op, with the properties that hold for all its cases. */
struct copse_case_op {
    const char *name; /* "softmax" */
    enum copse_accuracy accuracy;
    bool divides; /* results of whole numbers are not whole */
    bool takes_any_type;
    /* A legal call of a public op with its operands (`type` and `shape` are used). NULL: the op is
       not public. */
    copse_case_build *call;
    const void *user;
    struct copse_case_input in[COPSE_CASE_INPUTS];
    size_t in_count;
    /* For random graphs: a smooth function with values of moderate size, of any in[0] with 2 or 3
       axes and an in[1] that broadcasts with it. [NULL = none] */
    copse_case_build *random;
};

/* Calls that an op must refuse: see REFUSES in prover/cases/cases.h. */
struct copse_refusals {
    copse_graph *graph;
    copse_tensor *other; /* f32 [2, 2] of another graph */
    copse_status status; /* of the preparations for the calls */
    /* `y` is the call's result: must be NULL after a refusal. `says`: text that the error
       contains. */
    void (*judge)(struct copse_refusals *r, const char *call, copse_status got,
                  copse_status expected, const char *says, const copse_tensor *y);
    void *user;
};

struct copse_case_table {
    const char *family; /* of its file: "elementwise" */
    const struct copse_case *cases;
    size_t count;
    const struct copse_case_op *ops;
    size_t op_count;
    const struct copse_case *stress; /* sums of more than 65,535 terms */
    size_t stress_count;
    /* f32 inputs get numbers from 0.1 to 1, i32 inputs 0, 1, 2, ... */
    const struct copse_case *speeds;
    size_t speed_count;
    void (*refusals)(struct copse_refusals *r);
    bool is_sampled; /* of an application's op: tier quick runs all its rows */
};

#endif
