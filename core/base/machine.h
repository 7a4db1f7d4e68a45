/* SPDX-License-Identifier: MIT */
/* The machine, the environment of the process, and the shared libraries that it has loaded: what
   conformance reports say of them. */
#ifndef COPSE_BASE_MACHINE_H
#define COPSE_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/private.h"

/* A text that is unknown is "". */
struct copse_machine {
    char system[128];      /* "Debian GNU/Linux 12 (bookworm)" */
    char kernel[160];      /* "Linux 6.1.0-28-amd64 x86_64" */
    char cpu[128];         /* model */
    uint64_t memory_bytes; /* 0 = unknown */
};
COPSE_PRIVATE void copse__machine_describe(struct copse_machine *out);

/* The n-th environment variable as "NAME=value"; NULL behind the last. Valid until the environment
   changes. */
COPSE_PRIVATE const char *copse__environment_at(size_t n);

/* Call `seen` with the path of each loaded shared library that itself defines `symbol`. No library
   on systems that cannot list them. `seen` loads and closes no library. */
void copse__libraries_with(const char *symbol, void (*seen)(void *user, const char *path),
                           void *user);

#endif
