/* SPDX-License-Identifier: MIT */
/* copse conformance heal: runs what blocked kernels have failed, until nothing is blocked or a run
   fails. */
#include "copse/device/choice.h"

#include "tools/conformance/conform.h"

/* Kernels that are blocked on the devices; prints them if `prints`. -1: they cannot be read. */
static int count_blocked(const struct conform_settings *s, bool prints)
{
    copse_context *ctx = NULL;
    char ids[COPSE_MAX_REPLICAS][32];
    size_t taken = 0, total = 0;
    copse_status status = session_open(&(struct session_how){ .is_verbose = s->is_verbose }, &ctx);
    if (status == COPSE_OK)
        status = copse_select_drivers(ctx, s->job.devices, ids, COPSE_MAX_REPLICAS, &taken);
    for (size_t i = 0; status == COPSE_OK && i < taken; i++) {
        const struct copse_blocked_kernel *list;
        size_t count = 0;
        status = copse_device_blocked(ctx, ids[i], &list, &count);
        for (size_t k = 0; status == COPSE_OK && k < count; k++) {
            total++;
            if (prints)
                printf("still blocked on %s: %s (%s%s)\n", ids[i], list[k].kernel, list[k].reason,
                       list[k].is_lasting ? "; only copse devices --unblock removes it" : "");
        }
    }
    if (status != COPSE_OK)
        session_fail(status);
    copse_context_release(&ctx);
    return status == COPSE_OK ? (int)total : -1;
}

int conform_heal(struct conform_settings *s, uint64_t runs, int argc, char **argv)
{
    int left = count_blocked(s, false), code = EXIT_DONE;
    if (left == 0 && !s->is_json)
        printf("no kernel is blocked\n");
    s->job.modes |= COPSE_CONFORM_FAILED;
    s->is_quiet = true;
    for (uint64_t i = 0; i < runs && left > 0 && code == EXIT_DONE; i++) {
        if (!s->is_json)
            printf("run %llu of %llu: ", (unsigned long long)i + 1, (unsigned long long)runs);
        fflush(stdout);
        code = conform_run(s, "", argc, argv);
        left = code == EXIT_BAD_INPUT ? left : count_blocked(s, false);
    }
    if (left < 0 || code == EXIT_BAD_INPUT)
        return EXIT_BAD_INPUT;
    if (left > 0 && !s->is_json)
        (void)count_blocked(s, true);
    return code != EXIT_DONE ? code : left > 0 ? EXIT_FAILED : EXIT_DONE;
}
