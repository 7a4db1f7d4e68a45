/* SPDX-License-Identifier: MIT */
/* The tasks of a step of SLURM (srun), from its variables. No network. */
#ifndef COPSE_SLURM_H
#define COPSE_SLURM_H

#include "core/base/base.h"

struct copse_slurm {
    uint32_t rank, size, node;
    const char *hosts; /* "n[01-03,7],login": of the nodes of the step */
    const char *tasks; /* "2(x3),1": tasks of each of them */
    uint32_t port;     /* of the first task of each node; 0: COPSE_PORT is wrong */
};

/* A count that a launcher has put into a variable. False: there is none. */
bool copse__launcher_number(const char *variable, uint32_t *out);
/* Whether srun started this process with others. */
bool copse__slurm_find(struct copse_slurm *out);
/* "host:port" of a task. Tasks fill one node after the other (--distribution=block).
   COPSE_ERR_ARGUMENT: the variables cannot be read, or do not fit together. */
copse_status copse__slurm_address(const struct copse_slurm *s, uint32_t task, char *text,
                                  size_t room);
/* COPSE_ERR_ARGUMENT where this task is not on the node that it has by `copse__slurm_address`, or
   COPSE_PORT is wrong. */
copse_status copse__slurm_check(const struct copse_slurm *s);

#endif
