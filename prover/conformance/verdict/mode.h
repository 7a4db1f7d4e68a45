/* SPDX-License-Identifier: MIT */
/* Shared by the modes without tables of graphs: one case from begin to end, its outcome. */
#ifndef COPSE_CORE_CONFORMANCE_MODE_H
#define COPSE_CORE_CONFORMANCE_MODE_H

#include "prover/conformance/verdict/conformance.h"

/* The outcome of a case, with space for its texts. Zeroed: PASS without a number. */
struct copse_conform_outcome {
    struct copse_case_result result;
    char text[512], hash[20];
    bool is_excused; /* a failure is not that of the device's kernels */
};

struct copse_conform_case {
    const char *mode, *op, *name, *variant; /* variant NULL = "" */
};

/* Runs a case: sets the numbers, and the verdict if it is not PASS. A status other than COPSE_OK
   becomes the corresponding verdict, and its text the text of the result. */
typedef copse_status copse_conform_fn(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out);

/* Begin, run and end a case, unless begin refuses it: SKIP. A case that fails is repeated once: if
   it passes then, the fault comes and goes. Returns the verdict. */
copse_verdict copse__conform_one(struct copse_conform_run *r, const struct copse_conform_case *c,
                                 copse_conform_fn *run, void *user);

/* Set verdict and text if the case still passes, so that the first failure is reported. */
void copse__conform_set(struct copse_conform_outcome *out, copse_verdict verdict, const char *fmt,
                        ...) COPSE_PRINTF(3, 4);
/* Set the digest of the result's bits. */
void copse__conform_digest(struct copse_conform_outcome *out, const void *bytes, size_t size);

/* Zeroed host memory of the context, or an error. */
copse_status copse__conform_memory(struct copse_conform_run *r, size_t count, size_t size,
                                   void *at);

/* Record a difference and keep the largest of the case. False if it exceeds the limit. */
bool copse__conform_measure(struct copse_conform_outcome *out, double value, uint64_t index,
                            double got, double expected);

#endif
