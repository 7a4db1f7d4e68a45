/* SPDX-License-Identifier: MIT */
/* Inside of the conformance room: fills, comparison, the rig that runs a case, the modes, the runner. */
#ifndef COPSE_CORE_CONFORMANCE_H
#define COPSE_CORE_CONFORMANCE_H

#include "copse/device/conformance.h"
#include "core/graph/case.h"

/* ---- fill.c ---- */

uint64_t copse__case_seed(const char *op, const char *name); /* FNV of "op/name" */
/* Fill `count` f32 (as doubles, already rounded to f32) or i32 values of input `index`. */
void copse__fill(const struct copse_case *c, uint32_t index, uint64_t seed, size_t count,
                 double *values);
/* COPSE_FILL_PATTERNS of `count` elements takes every so many-th bit pattern, from seed % stride on:
   that many seeds in a row meet all of them. Prime. */
uint64_t copse__pattern_stride(size_t count);

/* ---- compare.c ---- */

struct copse_comparison {
    bool is_within;
    const char *metric;
    double worst, limit, nmse;
    uint64_t index;
    double got, expected;
    bool is_poor; /* expected is nearly all zero, or all one value */
};
/* `magnitudes`: the same graph of |inputs|, for limit->ratio; may be NULL. `flushes_denormals`:
   the device does not keep them. */
void copse__compare(const struct copse_case_limit *limit, const double *expected,
                    const double *magnitudes, const double *got, uint64_t count,
                    bool flushes_denormals, struct copse_comparison *out);

/* ---- own_kernel.c ---- */

/* A row made from params->own, put in the place of the library's on `dev`. Release it after the
   device. COPSE_ERR_FORMAT: it does not keep the contract. */
struct copse_own_row;
copse_status copse__own_kernel_open(copse_context *ctx, copse_device *dev,
                                    const struct copse_own_kernel *own, struct copse_own_row **out);
/* COPSE_ERR_ARGUMENT when no case made use of it. */
copse_status copse__own_kernel_was_used(copse_device *dev, const struct copse_own_row *row);
void copse__own_kernel_close(copse_context *ctx, struct copse_own_row **row);

/* ---- known.c ---- */

/* A failure that is known: matching cases that fail are XFAIL, those that pass XPASS. Patterns may
   hold '*'. */
struct copse_known {
    const char *op, *name;  /* patterns */
    const char *device;     /* pattern of the device's name, or of its driver's */
    const char *from, *to;  /* driver versions, both included: "3.1"; "" = no bound */
    const char *reason;
};
extern const struct copse_known copse_known[]; /* known.def; ends with a NULL op */
/* NULL: no failure is known. */
const struct copse_known *copse__known_find(const struct copse_known *list, const char *op,
                                            const char *name, const struct copse_device_info *dev);

/* ---- the runner ---- */

struct copse_conform_run {
    copse_context *ctx;
    const struct copse_conformance_params *params;
    const struct copse_case_table *const *tables;
    const struct copse_known *known;
    copse_device *dev; /* another one after a case that lost it */
    struct copse_own_row *own;
    struct copse_lending *lending; /* during mode import */
    struct copse_conformance_summary *summary;
    uint64_t deadline_ns, began_ns;
    bool is_listing; /* report every case, run none */
    bool is_probing; /* and not even report: only look which filters meet a case */
    bool is_past;    /* params->after was met */
    bool is_stopped; /* begin said so */
    uint64_t ops_met; /* probing: by position in params->ops */
    bool has_case, has_variant; /* probing: met */
    struct {
        struct copse_passed_case {
            char kernel[48];
            uint64_t id;
        } *at;
        size_t count, room;
    } passed; /* that had failed in runs before */
};

/* copse_conformance_run over other tables and known failures than the library's, for tests. */
copse_status copse__conformance_run_with(copse_context *ctx,
                                         const struct copse_conformance_params *params,
                                         const struct copse_case_table *const *tables,
                                         const struct copse_known *known,
                                         struct copse_conformance_summary *out);
copse_status copse__conformance_list_with(copse_context *ctx,
                                          const struct copse_conformance_params *params,
                                          const struct copse_case_table *const *tables);

/* What a mode does for each of its cases: ask begin, which applies filters, resumption, the time box
   and the begin callback. false: do not run it (a SKIP was reported where that is due). */
bool copse__conform_begin(struct copse_conform_run *r, const char *mode, const char *op,
                          const char *name, const char *variant);
/* Report a result: fills in device, seed and type where empty, applies the list of known failures,
   counts, calls back, blocks the kernel variant that failed, notes one that had failed and passes. A lost device is
   opened again: r->dev is another one then. */
void copse__conform_end(struct copse_conform_run *r, struct copse_case_result *result);
#define COPSE_CONFORM_MOST_OPS 64 /* named in params->ops */

/* The device that the parameters name, with the person's own kernel where there is one. */
copse_status copse__conform_open(struct copse_conform_run *r);
void copse__conform_close(struct copse_conform_run *r);
/* Tell the device which cases passed that had failed in runs before. */
void copse__conform_take_passes(struct copse_conform_run *r);
/* The verdict that a status stands for: OK -> PASS, UNSUPPORTED, NO_MEMORY -> OOM, ... */
copse_verdict copse__conform_verdict(copse_status s);

/* One function per mode; modes.c lists them in order. Each returns only failures of its own
   making (no memory on the host): a failing case is a result, not an error. */
struct copse_conform_mode {
    const char *name;
    unsigned bit;
    copse_status (*run)(struct copse_conform_run *r);
};
extern const struct copse_conform_mode copse_conform_modes[]; /* ends with a NULL name */

copse_status copse__conform_forward(struct copse_conform_run *r);
copse_status copse__conform_grad(struct copse_conform_run *r);
copse_status copse__conform_opt(struct copse_conform_run *r);
copse_status copse__conform_reduce(struct copse_conform_run *r);
copse_status copse__conform_train(struct copse_conform_run *r);
copse_status copse__conform_bitwise(struct copse_conform_run *r);
copse_status copse__conform_args(struct copse_conform_run *r);
copse_status copse__conform_perf(struct copse_conform_run *r);
copse_status copse__conform_stress(struct copse_conform_run *r);
copse_status copse__conform_limits(struct copse_conform_run *r);
copse_status copse__conform_import(struct copse_conform_run *r);

/* A short training of mode train's network (train.c): digest of the losses and all parameters.
   COPSE_ERR_INTERNAL when the replicas do not hold the same bits. */
copse_status copse__conform_train_hash(struct copse_conform_run *r, const char *const *ids,
                                       uint32_t replicas, uint64_t *hash);
copse_status copse__conform_tune(struct copse_conform_run *r);

#endif
