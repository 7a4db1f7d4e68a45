/* SPDX-License-Identifier: MIT */
#include "prover/conformance/verdict/library.h"

#include "copse/copse.h"
#include "core/base/base.h"
#include "layout.h" /* generated */

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

copse_status copse__conform_library(void)
{
    static const char build[] = TEXT(COPSE_VERSION_MAJOR) "." TEXT(COPSE_VERSION_MINOR) "." TEXT(
        COPSE_VERSION_PATCH) " (layout " COPSE_LAYOUT ")";
    if (strcmp(copse__build(), build) == 0)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_UNSUPPORTED,
                      "conformance: libcopse-conformance %s needs the libcopse of its own build, "
                      "and found libcopse %s: install both libraries from one build",
                      build, copse__build());
}
