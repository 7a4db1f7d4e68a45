/* SPDX-License-Identifier: MIT */
/* The law of a kernel: what a launch computes, written from the definition, and how it is checked. Each kernel has one
   constant copse_law_<kernel>, beside its host function; a kernel without one does not link. kernel_ids.h declares
   them. */
#ifndef COPSE_LAW_H
#define COPSE_LAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/ops/user_op.h" /* struct copse_host_arg */

#define COPSE_MAX_BINDINGS 8
#define COPSE_MAX_SPECS 6
#define COPSE_MAX_PARAM_WORDS 32 /* including the hidden group_base */

struct copse_kernel;
struct copse_command;

/* The double-precision reference of a kernel: runs the whole dispatch. `params` points to
   struct copse_params_<kernel>, `spec` to the specialisation constants. F32 arguments are float, or double in the graph's
   reference evaluation. */
typedef void copse_host_fn(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args);

/* One element of the last buffer, for kernels whose other buffers are read only. That buffer has the words before the
   launch. */
typedef double copse_host_at_fn(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args, size_t i);
/* The word of element `i`, where elements are counted in another order than they are stored. */
typedef size_t copse_host_place_fn(const void *params, const int32_t *spec, size_t i);
/* Elements of a launch, and operations of each. */
struct copse_elements {
    uint64_t count, depth;
};
typedef struct copse_elements copse_host_elements_fn(const void *params, const int32_t *spec);

/* A launch that takes microseconds, on numbers with which every operation of the kernel is exact. A kernel must pass
   it on a device before its first use there (self_test.c). */
#define COPSE_SELF_TEST_WORDS 2048
struct copse_self_test {
    uint32_t params[COPSE_MAX_PARAM_WORDS];
    uint64_t groups; /* 0 = nothing to test */
    /* For each buffer. Read buffers hold whole numbers from -4 to 4, or from 0 to 3 for integers; written ones a
       number that never occurs as a result. */
    uint32_t counts[COPSE_MAX_BINDINGS];
    uint32_t words[COPSE_MAX_BINDINGS][COPSE_SELF_TEST_WORDS];
    float slack; /* accepted error of floats relative to 1 + |x|; 0 = the same bits */
};
/* Set the fields that are zero for the kernel's specialisation and group size. */
typedef void copse_self_test_fn(const struct copse_kernel *k, struct copse_self_test *t);

struct copse_law {
    copse_host_fn *host;              /* takes parameters and constants of this kernel, a variant too */
    copse_host_at_fn *at;             /* computes one element              [only whole launches] */
    copse_host_place_fn *place;       /* where it is stored                [element i is word i] */
    copse_host_elements_fn *elements; /* how many there are                [the first parameter, each one operation] */
    copse_self_test_fn *self_test;
};

/* The law of a command: of its kernel, or of a product of a vendor's library, a copy or a fill; and the parameters and
   constants for its functions. `c` must outlive them. */
const struct copse_law *copse__law_of(const struct copse_command *c);
const void *copse__law_params(const struct copse_command *c);
const int32_t *copse__law_spec(const struct copse_command *c);

#endif
