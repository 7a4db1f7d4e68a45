/* SPDX-License-Identifier: MIT */
/* Ask whether the results of devices can be trusted, before they are trained on: trust [DEVICES
   [OPS [DEADLINE]]]. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/copse.h"
#include "copse/device/conformance_job.h"

static void tell(void *user, const struct copse_conformance_event *e)
{
    (void)user;
    if (e->kind == COPSE_CONFORM_RESULT && copse_verdict_fails(e->result->verdict))
        printf("%s %s %s %s (%s): %s\n", copse_verdict_name(e->result->verdict), e->result->mode,
               e->result->op, e->result->name, e->result->variant, e->result->text);
}

static copse_status check(copse_context *ctx, const struct copse_conformance_job_params *params,
                          bool *is_trusted)
{
    struct copse_conformance_outcome out;
    copse_conformance_job *job;
    COPSE_TRY(copse_conformance_start(ctx, params, &job));
    /* a window would ask for the progress */
    const copse_status s = copse_conformance_wait(job, -1, &out);
    copse_conformance_job_release(&job);
    *is_trusted = s == COPSE_OK && out.is_trusted;
    if (s == COPSE_OK)
        printf("%llu passed, %llu failed, %llu not reached\n",
               (unsigned long long)out.summary.counts[COPSE_VERDICT_PASS],
               (unsigned long long)out.failed, (unsigned long long)out.not_reached);
    return s;
}

int main(int argc, char **argv)
{
    /* Drivers run in helper processes, which are this program again. */
    const int code = copse_conformance_helper(argc, argv, NULL);
    if (code >= 0)
        return code;
    const struct copse_context_params no_drivers = { .disable = "opencl,vulkan" };
    const struct copse_conformance_job_params params = {
        .devices = argc > 1 ? argv[1] : "all",
        .ops = argc > 2 ? argv[2] : NULL,
        .deadline = argc > 3 ? atof(argv[3]) : 60,
        .seconds = 60,
        .helper = argv[0],
        .cache_folder = "", /* kernels that fail are blocked for later programs, too */
        .event = tell,
    };
    copse_context *ctx = NULL;
    bool is_trusted = false;
    const bool is_done = copse_context_create(&no_drivers, &ctx) == COPSE_OK &&
                         check(ctx, &params, &is_trusted) == COPSE_OK;
    if (!is_done)
        fprintf(stderr, "%s\n", copse_last_error());
    copse_context_release(&ctx);
    return !is_done ? 2 : is_trusted ? 0 : 1;
}
