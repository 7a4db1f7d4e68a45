/* SPDX-License-Identifier: MIT */
/* What the modes share that are not tables of graphs: one case from begin to end, its outcome. */
#ifndef COPSE_CORE_CONFORMANCE_MODE_H
#define COPSE_CORE_CONFORMANCE_MODE_H

#include "core/conformance/conformance.h"
#include "copse/device/queue.h"
#include "copse/device/function.h"
#include "copse/optimizer.h"

/* What a case came to, with room for its texts. Zeroed it means PASS without a number. */
struct copse_conform_outcome {
    struct copse_case_result result;
    char text[512], hash[20];
};

struct copse_conform_case {
    const char *mode, *op, *name, *variant; /* variant NULL = "" */
};

/* Runs a case: fills in the numbers, and the verdict where it is not PASS. A status other than
   COPSE_OK becomes the verdict that it stands for, and its text the result's. */
typedef copse_status copse_conform_fn(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out);

/* Begin, run and end a case, unless begin says no. */
void copse__conform_one(struct copse_conform_run *r, const struct copse_conform_case *c,
                        copse_conform_fn *run, void *user);

/* Set verdict and text, but only when the case still passes: the first trouble is told. */
void copse__conform_say(struct copse_conform_outcome *out, copse_verdict verdict, const char *fmt,
                        ...) COPSE_PRINTF(3, 4);
/* Set the digest of the result's bits. */
void copse__conform_digest(struct copse_conform_outcome *out, const void *bytes, size_t size);

/* Zeroed host memory of the context; the error that says so. */
copse_status copse__conform_memory(struct copse_conform_run *r, size_t count, size_t size,
                                   void *at);

/* Measure a difference, keep the worst one of the case. False when it is out of the limit. */
bool copse__conform_measure(struct copse_conform_outcome *out, double value, uint64_t index,
                            double got, double expected);

/* What is timed: runs of a function, or a command on a queue. */
struct copse_timed {
    copse_function *f;
    copse_queue *q;
    struct copse_command c;
};
/* Seconds of one run: the best of at least three batches, each long enough for the clock, `enough`
   seconds together (timed.c). */
copse_status copse__conform_time(const struct copse_timed *t, double enough, double *best);

/* The definition of every update rule (opt.c): what a parameter x with gradient g loses in step t
   (from 1), defaults filled in. *size is the same with the magnitudes of all terms added, the
   measure of errors that does not depend on how much of them cancels. */
double copse__conform_change(const struct copse_optimizer_params *p, double t, double g, double x,
                             double *first, double *second, double *size);

#endif
