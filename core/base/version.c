/* SPDX-License-Identifier: MIT */
/* The version of the library. */
#include "copse/copse.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *copse_version(void)
{
    return TEXT(COPSE_VERSION_MAJOR) "." TEXT(COPSE_VERSION_MINOR) "." TEXT(COPSE_VERSION_PATCH);
}
