/* SPDX-License-Identifier: MIT */
/* Runs an op, or any small graph, in double precision and on every device found, forward and
   backward, and compares. A case is a table row; a failure prints everything needed to repeat
   it. */
#ifndef COPSE_OP_HARNESS_H
#define COPSE_OP_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/graph/graph.h"
#include "copse/ops.h"

#define HARNESS_INPUTS 4

/* An error is accepted up to the sum of these; all zero = the nearest f32, bit for bit (but for the
   sign of zero). u is 2^-24. */
struct harness_limit {
    double ulp;    /* units in the last place of the expected value */
    double floor;  /* smallest magnitude whose ULP counts: for zeros of a derivative */
    double ratio;  /* times u times the same graph of |inputs|: for sums of products (ratio R) */
    double of_max; /* times the largest magnitude in the tensor */
};

struct harness_input {
    copse_type type;
    copse_shape shape;
    double low, high;      /* random values in between */
    const double *values;  /* or these */
    bool is_constant;      /* no gradient is asked for */
};

struct harness_case {
    const char *name;
    copse_status (*build)(copse_graph *g, copse_tensor *const *in, const void *user,
                          copse_tensor **y);
    const void *user;
    struct harness_input in[HARNESS_INPUTS];
    size_t in_count;
    struct harness_limit forward, backward;
    bool has_no_gradient;
    bool skips_differences; /* the derivative is not compared with central differences */
    uint64_t seed;          /* of the random inputs                      [0 = 1] */
    const uint32_t *step;   /* COPSE_STEP_WORDS words                    [NULL = zeros] */
    const char *matmul;     /* force this variant of the matrix product  [NULL = choose] */
};

/* Group set-up and tear-down of cmocka: context and devices. The environment variable
   COPSE_TEST_DEVICES ("opencl:0,host:0") picks some of them. */
int harness_open(void **state);
int harness_close(void **state);
size_t harness_device_count(void);
copse_device *harness_device(size_t i);
copse_context *harness_context(void);

/* Reference, central differences (h = 1e-5, limit 1e-6 (1e-3 + |g|) times the scale of the values),
   then every device. Fails the test at the first difference. */
void harness_run(const struct harness_case *c);

/* Evaluate on device `dev`: `in` are inputs with `values`, results go to `results` as doubles. */
void harness_on_device(copse_device *dev, copse_graph *g, copse_tensor *const *in,
                       double *const *values, size_t in_count, copse_tensor *const *out,
                       size_t out_count, const uint32_t *step, const char *matmul,
                       double *const *results);
/* The same in double precision. */
void harness_in_double(copse_graph *g, copse_tensor *const *in, double *const *values,
                       size_t in_count, copse_tensor *const *out, size_t out_count,
                       const uint32_t *step, double *const *results);

/* A build that must fail: code, and a word of its text. */
void harness_fails(copse_status got, copse_status code, const char *word);

#define OK(expr)                                                                                   \
    do {                                                                                           \
        const copse_status ok_ = (expr);                                                           \
        if (ok_)                                                                                   \
            fail_msg("%s: %s: %s", #expr, copse_status_name(ok_), copse_last_error());             \
    } while (0)

#endif
