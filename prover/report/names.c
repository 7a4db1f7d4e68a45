/* SPDX-License-Identifier: MIT */
/* The names of modes, tiers and verdicts in files and on command lines. */
#include "prover/report/report.h"

const struct copse_conform_name copse_conform_mode_names[] = {
    { "run", COPSE_CONFORM_RUN, "results of every op against a reference in double precision" },
    { "grad", COPSE_CONFORM_GRAD,
      "gradients against the reference's, and those against differences" },
    { "bitwise", COPSE_CONFORM_BITWISE, "the same bits from run to run, and where promised" },
    { "launch", COPSE_CONFORM_LAUNCH, "each kernel alone, by launch size and class of values" },
    { "opt", COPSE_CONFORM_OPT, "every optimizer after 1, 10 and 1000 steps" },
    { "reduce", COPSE_CONFORM_REDUCE, "sums over sets of devices, by every schedule" },
    { "train", COPSE_CONFORM_TRAIN, "a small training run; 1 against several replicas" },
    { "api", COPSE_CONFORM_API,
      "queues, barriers, copies, reads and claimed limits of the driver" },
    { "args", COPSE_CONFORM_ARGS, "invalid arguments get the right error" },
    { "stress", COPSE_CONFORM_STRESS, "odd sizes, many groups, far offsets, exhausted memory" },
    { "limits", COPSE_CONFORM_LIMITS, "the same as other, smaller devices" },
    { "import", COPSE_CONFORM_IMPORT, "the same on a device that an application lends and uses" },
    { "compile", COPSE_CONFORM_COMPILE, "how long each kernel compiles without a cache" },
    { "ceilings", COPSE_CONFORM_CEILINGS,
      "copies, products, launches, waits and transfers at their fastest" },
    { "perf", COPSE_CONFORM_PERF, "speed beside what was measured as possible" },
    { "tune", COPSE_CONFORM_TUNE, "speed of every kernel variant, for the library to choose by" },
    { NULL, 0, NULL },
};

const struct copse_conform_name copse_conform_tier_names[] = {
    { "quick", COPSE_CONFORM_QUICK, "about 10 s a device with warm caches" },
    { "standard", COPSE_CONFORM_STANDARD, "minutes; every kernel variant" },
    { "full", COPSE_CONFORM_FULL, "hours" },
    { "exhaustive", COPSE_CONFORM_EXHAUSTIVE, "every bit pattern of functions of one number" },
    { NULL, 0, NULL },
};

const struct copse_conform_name *copse__conform_name_find(const struct copse_conform_name *list,
                                                          const char *name)
{
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

copse_verdict copse__conform_verdict_find(const char *name)
{
    int v = 0;
    while (v < COPSE_VERDICT_COUNT && strcmp(copse_verdict_name((copse_verdict)v), name) != 0)
        v++;
    return (copse_verdict)v;
}

bool copse_verdict_fails(copse_verdict verdict)
{
    switch (verdict) {
    case COPSE_VERDICT_FAIL:
    case COPSE_VERDICT_XPASS:
    case COPSE_VERDICT_CRASH:
    case COPSE_VERDICT_TIMEOUT:
    case COPSE_VERDICT_DEVICE_LOST:
    case COPSE_VERDICT_MISTRUSTED:
        return true;
    default:
        return false;
    }
}

static const char *name_of(const struct copse_conform_name *list, unsigned value)
{
    for (; list->name; list++)
        if (list->value == value)
            return list->name;
    return "";
}

const char *copse_conformance_mode_name(unsigned mode)
{
    return name_of(copse_conform_mode_names, mode & ~(unsigned)COPSE_CONFORM_FAILED);
}

const char *copse_conformance_tier_name(copse_conformance_tier tier)
{
    return name_of(copse_conform_tier_names, (unsigned)tier);
}
