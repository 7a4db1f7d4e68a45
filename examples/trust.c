/* SPDX-License-Identifier: MIT */
/* Ask whether a device's results can be trusted, before it is trained on. */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/device/conformance.h"

static void tell(void *user, const struct copse_case_result *r)
{
    (void)user;
    if (r->verdict == COPSE_VERDICT_FAIL)
        printf("%s %s %s (%s): %s\n", r->mode, r->op, r->name, r->variant, r->text);
}

int main(int argc, char **argv)
{
    const struct copse_conformance_params params = {
        .device = argc > 1 ? argv[1] : "host:0",
        .modes = COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD,
        .tier = COPSE_CONFORM_QUICK,
        .seconds = 60,
        .result = tell,
    };
    struct copse_conformance_summary summary;
    copse_context *ctx;
    if (copse_context_create(NULL, &ctx) != COPSE_OK ||
        copse_conformance_run(ctx, &params, &summary) != COPSE_OK) {
        fprintf(stderr, "%s\n", copse_last_error());
        return 2;
    }
    printf("%llu passed, %llu failed, %llu not reached\n",
           (unsigned long long)summary.counts[COPSE_VERDICT_PASS],
           (unsigned long long)summary.counts[COPSE_VERDICT_FAIL],
           (unsigned long long)summary.counts[COPSE_VERDICT_SKIP]);
    copse_context_release(&ctx);
    return summary.counts[COPSE_VERDICT_FAIL] > 0;
}
