/* SPDX-License-Identifier: MIT */
/* The stages of `copse gpucheck`, in the order in which they run. */
#include <string.h>

#include "tools/gpucheck/gpucheck.h"

/* The op "limit" of mode api is left out: it asks for the largest buffers that the driver claims. */
const struct gpucheck_part gpucheck_parts[] = {
    { "existence", COPSE_CONFORM_COMPILE, COPSE_CONFORM_QUICK, NULL, 10, false, false },
    { "correctness", COPSE_CONFORM_API, COPSE_CONFORM_QUICK, "queue,barrier,copy,read", 4, false,
      true },
    { "correctness", COPSE_CONFORM_RUN, COPSE_CONFORM_QUICK, NULL, 10, false, true },
    { "correctness", COPSE_CONFORM_GRAD, COPSE_CONFORM_QUICK, NULL, 8, false, true },
    { "correctness", COPSE_CONFORM_BITWISE, COPSE_CONFORM_QUICK, NULL, 6, false, true },
    { "correctness", COPSE_CONFORM_TRAIN, COPSE_CONFORM_QUICK, NULL, 4, false, true },
    { "correctness", COPSE_CONFORM_LAUNCH, COPSE_CONFORM_QUICK, NULL, 18, false, true },
    { "correctness", COPSE_CONFORM_STRESS, COPSE_CONFORM_QUICK, NULL, 6, true, true },
    { "ceilings", COPSE_CONFORM_CEILINGS, COPSE_CONFORM_QUICK, NULL, 6, false, false },
    { "kernels", COPSE_CONFORM_PERF, COPSE_CONFORM_STANDARD, NULL, 20, false, false },
    { "tuning", COPSE_CONFORM_TUNE, COPSE_CONFORM_QUICK, NULL, 12, false, false },
    { NULL, 0, COPSE_CONFORM_QUICK, NULL, 0, false, false },
};

static bool stages_has(const char *name, size_t length)
{
    for (const struct gpucheck_part *p = gpucheck_parts; p->stage; p++)
        if (strlen(p->stage) == length && memcmp(p->stage, name, length) == 0)
            return true;
    return false;
}

static bool stages_lists(const char *list, const char *stage)
{
    for (const char *at = list; at;) {
        const size_t n = strcspn(at, ",");
        if (strlen(stage) == n && memcmp(at, stage, n) == 0)
            return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

bool gpucheck_stages_parse(const char *list, bool is_stress, bool taken[GPUCHECK_MOST_PARTS],
                           char wrong[32])
{
    for (const char *at = list; at;) {
        const size_t n = strcspn(at, ",");
        if (!stages_has(at, n)) {
            snprintf(wrong, 32, "%.*s", (int)(n < 31 ? n : 31), at);
            return false;
        }
        at = at[n] ? at + n + 1 : NULL;
    }
    for (size_t i = 0; gpucheck_parts[i].stage; i++)
        taken[i] = (!list || stages_lists(list, gpucheck_parts[i].stage)) &&
                   (is_stress || !gpucheck_parts[i].is_stress);
    return true;
}
