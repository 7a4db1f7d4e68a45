/* SPDX-License-Identifier: MIT */
/* The version of the library, and its build. */
#include "copse/copse.h"
#include "core/base/private.h"
#include "layout.h" /* generated */

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define VERSION \
    TEXT(COPSE_VERSION_MAJOR) "." TEXT(COPSE_VERSION_MINOR) "." TEXT(COPSE_VERSION_PATCH)

const char *copse_version(void)
{
    return VERSION;
}

const char *copse__build(void)
{
    return VERSION " (layout " COPSE_LAYOUT ")";
}
