/* SPDX-License-Identifier: MIT */
/* A file of `copse train --hash`, in memory. */
#ifndef HASHED_RUN_H
#define HASHED_RUN_H

#include "tools/tool.h"

struct hashed_step {
    uint64_t step;
    size_t order;     /* of lines */
    uint64_t *hashes; /* of all variables, then of each one */
};

struct hashed_launch {
    uint64_t step, hash;
    size_t order; /* of lines */
    uint32_t replica, number;
    char kernel[48];
};

struct hashed_run {
    const char *path;
    char **variables;
    size_t variable_count, variable_room;
    struct hashed_step *steps; /* by number, each one once: its last line */
    size_t step_count, step_room;
    struct hashed_launch *launches; /* by step, in order of execution */
    size_t launch_count, launch_room;
};

/* COPSE_ERR_IO, or COPSE_ERR_FORMAT with the line that is wrong. A last line that is not complete
   is left out: the run was killed, or still writes. */
copse_status hashed_run_read(const char *path, struct hashed_run *out);
bool hashed_run_has(const struct hashed_run *r, uint64_t step);
/* Allowed on a zeroed struct. */
void hashed_run_free(struct hashed_run *r);

#endif
