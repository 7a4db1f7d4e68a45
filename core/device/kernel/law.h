/* SPDX-License-Identifier: MIT */
/* The law of a kernel: what a launch computes, written from the definition, and how it is checked.
   Each kernel has one constant copse_law_<kernel>, beside its host function; a kernel without one
   does not link. kernel_ids.h declares them. */
#ifndef COPSE_LAW_H
#define COPSE_LAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/ops/user_op.h" /* struct copse_host_arg */
#include "core/base/private.h"

#define COPSE_MAX_BINDINGS    8
#define COPSE_MAX_SPECS       6
#define COPSE_MAX_PARAM_WORDS 32 /* including the hidden group_base */

struct copse_kernel;
struct copse_command;
struct copse_split;

/* The double-precision reference of a kernel: runs the whole dispatch. `params` points to struct
   copse_params_<kernel>, `spec` to the specialisation constants. F32 arguments are float, or double
   in the graph's reference evaluation. */
typedef void copse_host_fn(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args);

/* One element of the last buffer or buffers, for kernels whose other buffers are read only. Those
   buffers have the words before the launch. */
typedef double copse_host_at_fn(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args, size_t i);
/* How many of the last buffers have elements, as many each, and the first buffer before the next. */
typedef uint32_t copse_host_results_fn(const int32_t *spec);
/* The word of element `i`, where elements are counted in another order than they are stored. */
typedef size_t copse_host_place_fn(const void *params, const int32_t *spec, size_t i);
/* Elements of a launch, and operations of each. */
struct copse_elements {
    uint64_t count, depth;
};
typedef struct copse_elements copse_host_elements_fn(const void *params, const int32_t *spec);

/* The units of a launch (launch_split.h). out->params are the parameters of the launch. False: there are
   none. */
typedef bool copse_split_fn(const struct copse_command *c, struct copse_split *out);

/* Lines of a launch. The host computes each line alone: it reads whole operands, and writes words
   that no other line reads or writes. The results are floats. */
#define COPSE_LINE_WORDS 2
struct copse_line_words {
    uint32_t buffer;
    size_t first, count;
};
typedef void copse_host_line_fn(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args, size_t line);
struct copse_lines {
    uint64_t (*count)(const void *params);
    copse_host_line_fn *host, *size; /* the results, and S; operands may be f32 or double */
    /* what belongs to a line of the results, also words that it leaves as they are; returns how
       many entries of `out` */
    size_t (*words)(const void *params, const int32_t *spec, size_t line,
                    struct copse_line_words out[COPSE_LINE_WORDS]);
};
/* The parameters that the functions of lines take, from the kernel's. */
typedef void copse_line_params_fn(const void *params, uint32_t out[COPSE_MAX_PARAM_WORDS]);

/* A result y may be wrong by u (ulp max(|y|, floor) + ratio S); u is 2^-24. All zero: the same
   bits. Checks while training allow more: COPSE_BOUND_MARGIN (core/check/bound.h). */
struct copse_limit {
    double ulp, floor, ratio;
    /* writes S to the results [S is the host function of the magnitudes of the operands] */
    copse_host_fn *size;
    bool is_single; /* the host function takes float, not double */
};
/* Where the limit of a kernel depends on its constants: change the one of its law. `params` are
   NULL where no launch is known. */
typedef void copse_limit_fn(const void *params, const int32_t *spec, struct copse_limit *limit);
/* Set the constants with which the host function computes S: without activation, or so that it adds
   the magnitudes of its terms. */
typedef void copse_magnitudes_fn(int32_t *spec);

/* The largest number of roundings that a term takes part in (sum_bound.h): of a sum of so many
   products, in all launches that it takes; and of the sums of one launch, with the largest slope of
   the function that follows. */
typedef uint64_t copse_roundings_fn(uint64_t terms);
struct copse_sum {
    uint64_t roundings;
    double slope;
};
typedef struct copse_sum copse_sum_fn(const void *params, const int32_t *spec);

/* Multiplications and additions of a launch, roughly. */
typedef uint64_t copse_work_fn(const void *params, const int32_t *spec);

/* A launch that takes microseconds, on numbers with which every operation of the kernel is exact. A
   kernel must pass it on a device before its first use there (self_test.c). */
#define COPSE_SELF_TEST_WORDS 2048
struct copse_self_test {
    uint32_t params[COPSE_MAX_PARAM_WORDS];
    uint64_t groups; /* 0 = nothing to test */
    /* For each buffer. Read buffers hold whole numbers from -4 to 4, or from 0 to 3 for integers;
       written ones a number that never occurs as a result. */
    uint32_t counts[COPSE_MAX_BINDINGS];
    uint32_t words[COPSE_MAX_BINDINGS][COPSE_SELF_TEST_WORDS];
    float slack; /* accepted error of floats relative to 1 + |x|; 0 = the same bits */
};
/* Set the fields that are zero for the kernel's specialisation and group size. */
typedef void copse_self_test_fn(const struct copse_kernel *k, struct copse_self_test *t);

/* In brackets: without the member. */
struct copse_law {
    /* takes the parameters and constants of this kernel, also if it is a variant */
    copse_host_fn *host;
    copse_host_at_fn *at;           /* one element                        [whole launches only] */
    copse_host_results_fn *results; /* buffers of elements            [1] */
    copse_host_place_fn *place;     /* the word of an element             [its number] */
    /* how many elements a buffer has [the first parameter, one operation each] */
    copse_host_elements_fn *elements;
    copse_split_fn *split;             /* independent units                  [none] */
    const struct copse_lines *lines;   /*                                  [none] */
    copse_line_params_fn *line_params; /* for `lines`                    [the kernel's own] */
    /* more than to read and write words [the operations of all elements, or none] */
    copse_work_fn *work;
    struct copse_limit limit; /*                                    [the same bits] */
    /* [the same limit for all constants] */
    copse_limit_fn *limit_of;
    copse_magnitudes_fn *magnitudes; /* constants for S                    [the launch's] */
    /* with these constants it takes the operands as they are, since their signs select terms
       [their magnitudes] */
    bool has_signs;
    copse_roundings_fn *roundings; /*                                    [no sums of products] */
    copse_sum_fn *sum;             /*                                    [none is counted] */
    copse_self_test_fn *self_test;
};

static inline bool copse__limit_is_exact(const struct copse_limit *l)
{
    return !(l->ulp > 0) && !(l->ratio > 0);
}

/* The limit of a launch, or of any launch with these constants (params NULL). */
COPSE_PRIVATE void copse__law_limit(const struct copse_law *law, const void *params,
                                    const int32_t *spec, struct copse_limit *out);

/* The law of a command: of its kernel, or of a product of a vendor's library, a copy or a fill; and
   the parameters and constants for its functions. `c` must outlive them. */
extern COPSE_PRIVATE const struct copse_law copse__law_product; /* of a vendor's library */
const struct copse_law *copse__law_of(const struct copse_command *c);
const void *copse__law_params(const struct copse_command *c);
const int32_t *copse__law_spec(const struct copse_command *c);

#endif
