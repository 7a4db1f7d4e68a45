/* SPDX-License-Identifier: MIT */
/* A run of conformance and the verdict on a case: its values, their comparison, known failures, and
   the kernels to blame. */
#ifndef COPSE_CORE_CONFORMANCE_H
#define COPSE_CORE_CONFORMANCE_H

#include "copse/device/conformance.h"
#include "core/graph/case.h"

/* ---- case_fill.c ---- */

uint64_t copse__case_seed(const char *op, const char *name); /* FNV of "op/name" */
/* The same for a run with a seed of its own; 0: none. */
uint64_t copse__run_seed(uint64_t seed, const char *op, const char *name);
/* Fill `count` f32 (as doubles, already rounded to f32) or i32 values of input `index`. */
void copse__fill(const struct copse_case *c, uint32_t index, uint64_t seed, size_t count,
                 double *values);
/* COPSE_FILL_PATTERNS of `count` elements takes one bit pattern in every stride, from seed % stride
   on; that many consecutive seeds cover all patterns. Prime. */
uint64_t copse__pattern_stride(size_t count);

/* ---- compare.c ---- */

struct copse_comparison {
    bool is_within;
    const char *metric;
    double worst, limit, nmse;
    uint64_t index;
    double got, expected;
    bool is_poor; /* expected values are nearly all zero, or all equal */
};
/* `magnitudes`: the same graph of |inputs|, for limit->ratio; may be NULL. `flushes_denormals`: the
   device does not keep subnormal numbers. */
void copse__compare(const struct copse_case_limit *limit, const double *expected,
                    const double *magnitudes, const double *got, uint64_t count,
                    bool flushes_denormals, struct copse_comparison *out);

/* ---- own_kernel.c ---- */

/* Make a row from params->own and install it on `dev` instead of the library's row. Release it
   after the device. COPSE_ERR_FORMAT: it violates the contract. */
struct copse_own_row;
copse_status copse__own_kernel_open(copse_context *ctx, copse_device *dev,
                                    const struct copse_own_kernel *own, struct copse_own_row **out);
/* COPSE_ERR_ARGUMENT if no case used it. */
copse_status copse__own_kernel_was_used(copse_device *dev, const struct copse_own_row *row);
void copse__own_kernel_close(copse_context *ctx, struct copse_own_row **row);

/* ---- known.c ---- */

/* A known failure: matching cases that fail are XFAIL, those that pass XPASS. Patterns may contain
   '*'. */
struct copse_known {
    const char *op, *name; /* patterns */
    const char *device;    /* pattern of the name of the device or its driver */
    const char *from, *to; /* driver versions, both included: "3.1"; "" = no bound */
    const char *reason;
    const char *mode; /* pattern; NULL = all */
};
extern const struct copse_known copse_known[]; /* known.def; ends with a NULL op */
/* NULL: no known failure. */
const struct copse_known *copse__known_find(const struct copse_known *list,
                                            const struct copse_case_result *c, const char *device,
                                            const char *driver);

/* ---- known_file.c ---- */

/* A file of known failures: lines "DEVICE | MODE/OP/CASE | REASON". */
struct copse_known_file {
    struct copse_known *rows; /* ends with a NULL op */
    char *text;               /* of the file; the rows point into it */
};
/* COPSE_ERR_IO; COPSE_ERR_FORMAT: the text names file and line. */
copse_status copse__known_file_read(struct copse_mem *mem, const char *path,
                                    struct copse_known_file *out);
/* Allowed on a zeroed struct. */
void copse__known_file_free(struct copse_mem *mem, struct copse_known_file *f);

/* ---- the run ---- */

struct copse_conform_run {
    copse_context *ctx;
    const struct copse_conformance_params *params;
    const struct copse_case_table *const *tables;
    const struct copse_known *known;
    struct copse_known_file known_file; /* of the parameters; looked at first */
    copse_device *dev;                  /* replaced after a case that lost it */
    struct copse_own_row *own;
    struct copse_lending *lending; /* during mode import */
    struct copse_conformance_summary *summary;
    uint64_t deadline_ns, began_ns;
    struct copse_kernel_wants *wants; /* run no case: collect the kernels that they need */
    bool is_listing;                  /* report every case, run none */
    bool is_probing;                  /* report nothing; only check which filters match a case */
    bool is_past;                     /* params->after was reached */
    bool is_stopped;                  /* begin requested it */
    uint64_t ops_met;                 /* probing: bits by position in params->ops */
    bool has_case, has_variant;       /* probing: a match was found */
    bool has_variants;  /* of the case: they follow if it fails, and then copse__verdicts_settle */
    bool is_shared;     /* other devices take part in the case: no kernel is blamed */
    bool has_unreached; /* cases were left out because the time was over */
    struct copse_verdicts *verdicts; /* on the kernels of the device (blame.c) */
};

/* ---- blame.c: the consequence of results for kernels ---- */

struct copse_verdicts;
copse_status copse__verdicts_create(struct copse_conform_run *r, struct copse_verdicts **out);
/* Note the kernels that `dev` uses from now on. NULL: note none. */
void copse__verdicts_watch(struct copse_conform_run *r, const copse_device *dev);
/* A case begins: it has used no kernel yet. */
void copse__verdicts_begin(struct copse_conform_run *r);
/* Whether a wrong result in this mode comes from a kernel that the running case has used. */
bool copse__verdicts_is_about(const struct copse_conform_run *r, const char *mode);
/* What a case says about kernels. */
struct copse_evidence {
    const struct copse_case_result *result;
    bool is_late;
    bool is_shaky;   /* it passed when it was repeated */
    bool is_excused; /* the fault is not that of the tested device's kernels */
    bool is_open;    /* variants of the case follow: wait for copse__verdicts_settle */
};
void copse__verdicts_take(struct copse_conform_run *r, const struct copse_evidence *e);
/* The variants of the open case were run: if none of them failed, the kernels of the case are
   blamed. */
void copse__verdicts_settle(struct copse_conform_run *r, bool has_failed_variant);
/* At the end of a run, when all failed cases are known: record the passes on the device. Frees. */
void copse__verdicts_finish(struct copse_conform_run *r);

/* A mode calls begin before each case; begin applies filters, resumption, the time limit and the
   begin callback. false: do not run the case (a SKIP was reported if required). */
bool copse__conform_begin(struct copse_conform_run *r, const char *mode, const char *op,
                          const char *name, const char *variant);
/* Report the result of `e`: sets device, seed and type if empty, applies the list of known
   failures, counts, calls the callback, and takes it as evidence on kernels. A lost device is
   opened again; r->dev then changes. */
void copse__conform_end(struct copse_conform_run *r, struct copse_case_result *result,
                        struct copse_evidence *e);
#define COPSE_CONFORM_MOST_OPS 64 /* limit of names in params->ops */

/* The device that the parameters name, with the user kernel if there is one. */
copse_status copse__conform_open(struct copse_conform_run *r);
void copse__conform_close(struct copse_conform_run *r);
/* The verdict for a status: OK -> PASS, UNSUPPORTED, NO_MEMORY -> OOM, ... */
copse_verdict copse__conform_verdict(copse_status s);

#endif
