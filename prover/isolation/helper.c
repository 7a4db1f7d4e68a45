/* SPDX-License-Identifier: MIT */
/* A helper process: reads its request, does it, and writes its events as lines of JSON to the
   pipe. */
#include <stdlib.h>

#include "copse/copse.h"
#include "prover/conformance/verdict/library.h"
#include "prover/isolation/isolation.h"
#include "prover/isolation/process.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2 };

static bool write_event(void *user, cJSON *event)
{
    (void)user;
    char *text = cJSON_PrintUnformatted(event);
    size_t size = text ? strlen(text) : 0;
    if (text)
        text[size++] = '\n'; /* replaces the NUL, which cJSON_free does not need */
    const bool is_written = text && copse__child_write(text, size);
    cJSON_free(text);
    cJSON_Delete(event);
    return is_written;
}

/* The first event tells the parent that this program is a helper of the same version. */
static bool helper_greet(void)
{
    cJSON *o = copse__json_event("helper");
    if (o && copse__json_add_text(o, "version", copse_version()))
        return write_event(NULL, o);
    cJSON_Delete(o);
    return false;
}

int copse_conformance_helper(int argc, char **argv,
                             const struct copse_conformance_helper_params *params)
{
    struct copse_request q;
    if (!copse__request_is(argc, argv))
        return -1;
    if (copse__conform_library() || !copse__request_read(argc, argv, &q) ||
        (params && copse_no_reserved(copse_conformance_helper_params, params)) ||
        !copse__child_begin(q.parent) || !helper_greet())
        return EXIT_BAD_INPUT;
    q.has_fences = true;
    copse__request_do(&q, params, write_event, NULL);
    return EXIT_DONE;
}
