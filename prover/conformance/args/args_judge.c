/* SPDX-License-Identifier: MIT */
/* The verdict on one call of mode args: its status, and that a refused call left no result. */
#include "prover/conformance/args/args.h"

void copse__args_judge(struct copse_conform_outcome *out, const char *call, copse_status got,
                       copse_status expected, bool is_untouched)
{
    if (got != expected)
        copse__conform_set(out, COPSE_VERDICT_FAIL, "%.200s: %s, expected %s: %.160s", call,
                           copse_status_name(got), copse_status_name(expected),
                           got ? copse_last_error() : "");
    else if (!is_untouched)
        copse__conform_set(out, COPSE_VERDICT_FAIL, "%.200s: refused, but it left a result", call);
}
