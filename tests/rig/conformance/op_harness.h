/* SPDX-License-Identifier: MIT */
/* Runs tables of conformance cases on every device found, with the engine of the conformance room,
   and evaluates graphs for tests without table rows. */
#ifndef COPSE_OP_HARNESS_H
#define COPSE_OP_HARNESS_H

#include "core/graph/case.h"
#include "prover/cases/cases.h"
#include "tests/rig/rig.h"

/* Group set-up and tear-down of cmocka: context and devices. The environment variable
   COPSE_TEST_DEVICES ("opencl:0,host:0") selects devices. */
int harness_open(void **state);
int harness_close(void **state);
size_t harness_device_count(void);
copse_device *harness_device(size_t i);
copse_context *harness_context(void);

/* Run every case of a table, forward and backward, with every variant of its kernels, on every
   device. Each failed case is printed; then the test fails. COPSE_TEST_TIER names the tier: quick,
   standard (without it) or full. */
void harness_run(const struct copse_case_table *table);
/* The same with the cases that have their turn on the device: rig_takes_on. */
void harness_run_in_turn(const struct copse_case_table *table);
/* The library's table of this name. */
void harness_run_named(const char *family);

/* Evaluate on device `dev`: `in` are inputs with `values`, results go to `results` as doubles. */
void harness_on_device(copse_device *dev, copse_graph *g, copse_tensor *const *in,
                       double *const *values, size_t in_count, copse_tensor *const *out,
                       size_t out_count, const uint32_t *step, double *const *results);
/* The same in double precision. */
void harness_in_double(copse_graph *g, copse_tensor *const *in, double *const *values,
                       size_t in_count, copse_tensor *const *out, size_t out_count,
                       const uint32_t *step, double *const *results);

/* A build that must fail: the code, and a word of the text. */
void harness_fails(copse_status got, copse_status code, const char *word);

#endif
