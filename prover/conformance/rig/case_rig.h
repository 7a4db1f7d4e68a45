/* SPDX-License-Identifier: MIT */
/* Runs a case: builds its graph, evaluates it in double, and runs it on devices with every value
   between guard bands. */
#ifndef COPSE_CORE_CONFORMANCE_RIG_H
#define COPSE_CORE_CONFORMANCE_RIG_H

#include "prover/conformance/verdict/mode.h"

#define COPSE_RIG_ROOM    (COPSE_CASE_INPUTS + 1)
#define COPSE_RIG_FLUSHES 6 /* combinations in which two inputs are flushed: see case_rig.c */

/* A case with its inputs and expected results. Without a gradient the only result is y. */
struct copse_rig {
    struct copse_mem *mem;
    const struct copse_case *c;
    copse_graph *graph;
    uint32_t step[COPSE_STEP_WORDS];
    copse_tensor *in[COPSE_RIG_ROOM]; /* the last one is the slope, if there are gradients */
    double *values[COPSE_RIG_ROOM];
    size_t in_count;
    copse_tensor *out[COPSE_RIG_ROOM]; /* y, then the gradients */
    size_t source[COPSE_RIG_ROOM];     /* of each gradient: which input */
    double *expected[COPSE_RIG_ROOM], *magnitude[COPSE_RIG_ROOM]; /* NULL where not needed */
    /* With subnormal inputs treated as zeros; NULL after the last combination. */
    double *flushed[COPSE_RIG_FLUSHES][COPSE_RIG_ROOM];
    size_t out_count;
    size_t first; /* first result that devices compute: 1 omits y, unless gradients need it */
};

bool copse__case_has_gradient(const struct copse_case *c);
/* Graph and inputs. Close it also after a failure. */
copse_status copse__rig_open(copse_context *ctx, const struct copse_case *c, uint64_t seed,
                             bool has_gradient, struct copse_rig *rig);
/* Evaluate the references. This takes much longer, so it is called only for cases that run, before
   copse__rig_judge. */
copse_status copse__rig_expect(struct copse_rig *rig);
void copse__rig_close(struct copse_rig *rig);
/* Evaluate results in double for the rig's inputs or others. */
copse_status copse__rig_evaluate(const struct copse_rig *rig, double *const *values, size_t count,
                                 double *const *results);

/* The case on a device, as a separate program. */
struct copse_rig_program;
/* `variant` "" = the library's choice. UNSUPPORTED becomes INTERNAL if the device declares
   support. */
copse_status copse__rig_program_open(struct copse_rig *rig, copse_device *dev, const char *variant,
                                     struct copse_rig_program **out);
/* Add the kernels of this program to a list, without making it. */
copse_status copse__rig_kernels(struct copse_rig *rig, copse_device *dev, const char *variant,
                                struct copse_kernel_wants *wants);
/* Write the inputs, run, read everything back. Writes out of range and missing results are reported
   in `out`, verdict FAIL. */
copse_status copse__rig_program_run(struct copse_rig_program *p, struct copse_conform_outcome *out);
/* The bits of result `i` of the last run. */
const uint32_t *copse__rig_program_bits(const struct copse_rig_program *p, size_t i);
void copse__rig_program_close(struct copse_rig_program **p);

/* Compare the results first .. out_count-1 of the last run; `out` gets the numbers of the worst
   one. */
copse_status copse__rig_judge(const struct copse_rig_program *p, size_t first,
                              struct copse_conform_outcome *out);

/* ---- walk.c ---- */

/* A case of a table with a forced variant, "" = the library's choice. */
typedef copse_status copse_walk_fn(struct copse_conform_run *r, const struct copse_case *c,
                                   const char *variant, struct copse_conform_outcome *out);
/* Every case of the run's tables that `takes` accepts (NULL = all), variant after variant. */
void copse__conform_walk(struct copse_conform_run *r, const char *mode,
                         bool (*takes)(const struct copse_case *c), copse_walk_fn *run);
/* Every row of the tables' long sums, variant after variant. */
void copse__conform_walk_stress(struct copse_conform_run *r, const char *mode, copse_walk_fn *run);

#endif
