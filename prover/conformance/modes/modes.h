/* SPDX-License-Identifier: MIT */
/* The modes that are a file each, mode_<name>.c, and what several of them need. */
#ifndef COPSE_CONFORMANCE_MODES_H
#define COPSE_CONFORMANCE_MODES_H

#include "copse/device/function.h"
#include "copse/device/queue.h"
#include "copse/optimizer.h"
#include "prover/conformance/rig/case_rig.h"

/* Mode `run` is copse__conform_forward. */
copse_status copse__conform_forward(struct copse_conform_run *r);
copse_status copse__conform_grad(struct copse_conform_run *r);
copse_status copse__conform_bitwise(struct copse_conform_run *r);
copse_status copse__conform_opt(struct copse_conform_run *r);
copse_status copse__conform_reduce(struct copse_conform_run *r);
copse_status copse__conform_train(struct copse_conform_run *r);
copse_status copse__conform_perf(struct copse_conform_run *r);
copse_status copse__conform_limits(struct copse_conform_run *r);
copse_status copse__conform_import(struct copse_conform_run *r);
copse_status copse__conform_tune(struct copse_conform_run *r);
copse_status copse__conform_compile(struct copse_conform_run *r);
copse_status copse__conform_ceilings(struct copse_conform_run *r);

/* Compare the result of a case with the double reference (mode_run.c). */
copse_status copse__conform_result(struct copse_conform_run *r, const struct copse_case *c,
                                   const char *variant, struct copse_conform_outcome *out);
/* A short training run of mode train's network: digest of the losses and all parameters.
   COPSE_ERR_INTERNAL if the replicas do not hold the same bits. */
copse_status copse__conform_train_hash(struct copse_conform_run *r, const char *const *ids,
                                       uint32_t replicas, uint64_t *hash);

/* ---- timed.c ---- */

/* The timed work: runs of a function, or a command on a queue. */
struct copse_timed {
    copse_function *f;
    copse_queue *q;
    struct copse_command c;
};
/* Seconds of one run: the best of at least three batches, each long enough for the clock, `enough`
   seconds together. */
copse_status copse__conform_time(const struct copse_timed *t, double enough, double *best);

/* ---- opt_rules.c ---- */

/* A variable in double precision. size[i] is the newest change of an element with the magnitudes of
   all terms added; relative to it, errors do not depend on cancellation. Infinite: rounding decides
   the sign of the change. */
#define COPSE_RULE_MOMENTS 3 /* slots of a definition */
struct copse_conform_variable {
    size_t count;
    double *value, *slots[COPSE_RULE_MOMENTS], *size;
};

/* The definition of every update rule: step t (from 1) with the gradient g; the
   settings have their defaults. */
struct copse_rule;
void copse__conform_update(const struct copse_rule *rule, double t, const double *g,
                           const struct copse_conform_variable *v);

/* Settings with which mode opt checks a rule; each rule has one at least. */
struct copse_conform_rule_setup {
    const char *name;
    struct copse_optimizer_params params;
    copse_conformance_tier tier; /* of its 1000 steps */
};
extern const struct copse_conform_rule_setup copse_conform_rule_setups[];
extern const size_t copse_conform_rule_setup_count;

#endif
