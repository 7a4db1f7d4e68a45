/* SPDX-License-Identifier: MIT */
/* Contexts whose device lying:0 is faulty: COPSE_LIE=crash:softmax (or hang, lose, corrupt;
   softmax*: also its variants; queues:2) sets the fault, COPSE_LIE_OVER=opencl the backend [host]. */
#ifndef COPSE_LYING_CONTEXT_H
#define COPSE_LYING_CONTEXT_H

#include "copse/device/conformance_job.h"

copse_status lying_context_create(const struct copse_context_params *params, copse_context **out);
/* Helper processes with such contexts. */
extern const struct copse_conformance_helper_params lying_helper_params;
/* copse_conformance_helper with them, for programs that pass NULL. */
int lying_helper(int argc, char **argv, const struct copse_conformance_helper_params *params);

#endif
