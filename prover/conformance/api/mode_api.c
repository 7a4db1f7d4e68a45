/* SPDX-License-Identifier: MIT */
/* Mode api: the list of cases. */
#include "prover/conformance/api/api.h"

copse_status copse__conform_api(struct copse_conform_run *r)
{
    static const struct {
        const char *op, *name;
        copse_conform_fn *run;
    } cases[] = {
        { "queue", "dispatches in order", copse__api_chain },
        { "queue", "submissions in order", copse__api_submissions },
        { "queue", "recorded commands in order", copse__api_replays },
        { "queue", "tickets", copse__api_tickets },
        { "queue", "two queues", copse__api_two_queues },
        { "barrier", "every pair of commands", copse__api_hazards },
        { "copy", "ranges", copse__api_ranges },
        { "copy", "more than the staging memory", copse__api_large },
        { "read", "changing contents", copse__api_reads },
        { "limit", "offsets of bindings", copse__api_alignment },
        { "limit", "largest buffer", copse__api_largest },
        { "limit", "memory", copse__api_memory },
    };
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        copse__conform_one(r,
                           &(struct copse_conform_case){ "api", cases[i].op, cases[i].name, NULL },
                           cases[i].run, NULL);
    return COPSE_OK;
}
