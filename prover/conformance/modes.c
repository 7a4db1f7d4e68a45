/* SPDX-License-Identifier: MIT */
/* The modes in the order in which they run: small ones, whose failures explain others, come
   first. */
#include "prover/conformance/modes/modes.h"
#include "prover/conformance/api/api.h"
#include "prover/conformance/args/args.h"
#include "prover/conformance/launch/launch.h"
#include "prover/conformance/runner.h"
#include "prover/conformance/stress/stress.h"

const struct copse_conform_mode copse_conform_modes[] = {
    { "run", COPSE_CONFORM_RUN, copse__conform_forward },
    { "grad", COPSE_CONFORM_GRAD, copse__conform_grad },
    { "bitwise", COPSE_CONFORM_BITWISE, copse__conform_bitwise },
    { "launch", COPSE_CONFORM_LAUNCH, copse__conform_launch },
    { "opt", COPSE_CONFORM_OPT, copse__conform_opt },
    { "reduce", COPSE_CONFORM_REDUCE, copse__conform_reduce },
    { "train", COPSE_CONFORM_TRAIN, copse__conform_train },
    { "api", COPSE_CONFORM_API, copse__conform_api },
    { "args", COPSE_CONFORM_ARGS, copse__conform_args },
    { "stress", COPSE_CONFORM_STRESS, copse__conform_stress },
    { "limits", COPSE_CONFORM_LIMITS, copse__conform_limits },
    { "import", COPSE_CONFORM_IMPORT, copse__conform_import },
    { "compile", COPSE_CONFORM_COMPILE, copse__conform_compile },
    { "ceilings", COPSE_CONFORM_CEILINGS, copse__conform_ceilings },
    { "perf", COPSE_CONFORM_PERF, copse__conform_perf },
    { "tune", COPSE_CONFORM_TUNE, copse__conform_tune },
    { NULL, 0, NULL },
};
