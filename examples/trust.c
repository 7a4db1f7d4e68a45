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
    struct copse_conformance_outcome out = { .is_trusted = false };
    copse_context *ctx = NULL;
    copse_conformance_job *job = NULL;
    copse_status s = copse_context_create(&no_drivers, &ctx);
    s = s ? s : copse_conformance_start(ctx, &params, &job);
    s = s ? s : copse_conformance_wait(job, -1, &out); /* a window would ask for the progress */
    if (s)
        fprintf(stderr, "%s\n", copse_last_error());
    else
        printf("%llu passed, %llu failed, %llu not reached\n",
               (unsigned long long)out.summary.counts[COPSE_VERDICT_PASS],
               (unsigned long long)out.failed, (unsigned long long)out.not_reached);
    copse_conformance_job_release(&job);
    copse_context_release(&ctx);
    return s ? 2 : out.is_trusted ? 0 : 1;
}
