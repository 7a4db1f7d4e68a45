/* SPDX-License-Identifier: MIT */
/* A program that judges a device, built outside the tree by install.sh over both libraries: cases
   of one op in this process, and again in a helper process, which is this program. */
#include <stdio.h>

#include <copse/device/conformance_job.h>

static copse_status judge(copse_context *ctx, const char *program)
{
    struct copse_conformance_summary here;
    struct copse_conformance_outcome there;
    copse_conformance_job *job = NULL;
    COPSE_TRY(copse_conformance_run(ctx,
                                    &(struct copse_conformance_params){ .device = "host:0",
                                                                        .modes = COPSE_CONFORM_RUN,
                                                                        .ops = "softmax" },
                                    &here));
    COPSE_TRY(copse_conformance_start(
        ctx,
        &(struct copse_conformance_job_params){
            .helper = program, .devices = "host:0", .modes = COPSE_CONFORM_RUN, .ops = "softmax" },
        &job));
    const copse_status s = copse_conformance_wait(job, -1, &there);
    copse_conformance_job_release(&job);
    if (s == COPSE_OK)
        printf("%u and %u cases %s\n", (unsigned)here.counts[COPSE_VERDICT_PASS],
               (unsigned)there.summary.counts[COPSE_VERDICT_PASS],
               copse_verdict_name(COPSE_VERDICT_PASS));
    return s;
}

int main(int argc, char **argv)
{
    copse_context *ctx = NULL;
    const int helper = copse_conformance_helper(argc, argv, NULL);
    if (helper >= 0)
        return helper;
    copse_status s = copse_context_create(NULL, &ctx);
    if (s == COPSE_OK)
        s = judge(ctx, argv[0]);
    copse_context_release(&ctx);
    if (s != COPSE_OK)
        fprintf(stderr, "%s: %s\n", copse_status_name(s), copse_last_error());
    return s != COPSE_OK;
}
