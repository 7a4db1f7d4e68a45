/* SPDX-License-Identifier: MIT */
/* One context shared by all tests of a program. */
#ifndef COPSE_ONE_CONTEXT_H
#define COPSE_ONE_CONTEXT_H

#include "tests/rig/rig.h"

static copse_context *ctx;

static inline int open_context(void **state)
{
    (void)state;
    return copse_context_create(NULL, &ctx) == COPSE_OK ? 0 : -1;
}

static inline int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

#endif
