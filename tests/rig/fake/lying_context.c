/* SPDX-License-Identifier: MIT */
/* See lying_context.h. */
#include "tests/rig/fake/lying_context.h"

#include <stdlib.h>

#include "tests/rig/fake/lying_backend.h"

copse_status lying_context_create(const struct copse_context_params *params, copse_context **out)
{
    static const char *const names[] = { "", "corrupt", "crash", "hang", "lose", "queues" };
    const char *lie = getenv("COPSE_LIE"), *over = getenv("COPSE_LIE_OVER");
    const char *colon = lie ? strchr(lie, ':') : NULL;
    for (size_t i = 1; colon && i < COPSE_COUNT(names); i++)
        if (strlen(names[i]) == (size_t)(colon - lie) &&
            strncmp(lie, names[i], (size_t)(colon - lie)) == 0)
            copse_lie.how = (enum lie)i;
    copse_lie.kernel = colon ? colon + 1 : "";
    const struct copse_backend *const *backends = lying_backends(over ? over : "host");
    *out = NULL;
    return backends ? copse__context_create_with(params, backends, out)
                    : copse_fail(COPSE_ERR_ARGUMENT, "lying: no backend '%s'", over);
}

static copse_status open_lying(void *user, const struct copse_context_params *params,
                               bool is_verbose, copse_context **out)
{
    (void)user, (void)is_verbose;
    return lying_context_create(params, out);
}

const struct copse_conformance_helper_params lying_helper_params = { .open = open_lying };

int lying_helper(int argc, char **argv, const struct copse_conformance_helper_params *params)
{
    return copse_conformance_helper(argc, argv, params ? params : &lying_helper_params);
}
