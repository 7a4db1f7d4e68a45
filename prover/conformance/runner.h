/* SPDX-License-Identifier: MIT */
/* A run over all modes, and the list of them. */
#ifndef COPSE_CONFORMANCE_RUNNER_H
#define COPSE_CONFORMANCE_RUNNER_H

#include "prover/conformance/verdict/conformance.h"

/* copse_conformance_run with other tables and known failures than the library's, for tests. */
copse_status copse__conformance_run_with(copse_context *ctx,
                                         const struct copse_conformance_params *params,
                                         const struct copse_case_table *const *tables,
                                         const struct copse_known *known,
                                         struct copse_conformance_summary *out);
copse_status copse__conformance_list_with(copse_context *ctx,
                                          const struct copse_conformance_params *params,
                                          const struct copse_case_table *const *tables);

/* Compile the kernels that the cases of modes RUN and GRAD need and no cache has, on all
   processors where the context has a function for it (copse_context_compile_with). It ends
   early after params->seconds. Progress goes to the context's callback. */
copse_status copse__conformance_prepare(copse_context *ctx,
                                        const struct copse_conformance_params *params);

/* A mode returns only errors of the harness (no memory on the host): a failed case is a result, not
   an error. */
struct copse_conform_mode {
    const char *name;
    unsigned bit;
    copse_status (*run)(struct copse_conform_run *r);
};
extern const struct copse_conform_mode copse_conform_modes[]; /* ends with a NULL name */

#endif
