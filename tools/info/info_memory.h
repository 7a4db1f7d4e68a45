/* SPDX-License-Identifier: MIT */
/* What `copse info --memory` says: the memory plan of a training step. */
#ifndef INFO_MEMORY_H
#define INFO_MEMORY_H

#include "tools/tool.h"

struct info_memory {
    const char *path; /* a model file; NULL: `model` */
    const char *model, *data, *devices;
    uint32_t batch, context;
    uint64_t budget;
    struct option_choice optimizer, precision, tokens;
    struct session_how how;
    bool is_json;
};

struct info_memory info_memory_defaults(void);
/* Plan and print. Returns the exit code. */
int info_memory_run(const struct info_memory *how);

#endif
