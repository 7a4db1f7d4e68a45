/* SPDX-License-Identifier: MIT */
/* The description of a job from the inside. Pure data. */
#ifndef COPSE_CLUSTER_SPEC_H
#define COPSE_CLUSTER_SPEC_H

#include "copse/distribute/cluster.h"
#include "core/device/device.h"

#define COPSE_ROLES 4

struct copse_cluster_spec {
    copse_refs refs;
    copse_context *ctx; /* retained */
    struct {
        char **at; /* addresses; entries NULL where a launcher described the job */
        size_t count, room;
    } tasks[COPSE_ROLES];
    copse_role role;
    uint32_t index;
    bool is_launched; /* by MPI: no addresses */
    bool is_ranked;   /* tasks are ranks of a launcher: its last ones may become servers */
};

copse_cluster_spec *copse__cluster_spec_retain(copse_cluster_spec *spec);

/* How many tasks connect, and the rank of this one among them: chief, workers, then parameter
   servers. An evaluator is alone. */
uint32_t copse__cluster_spec_members(const copse_cluster_spec *spec, uint32_t *rank);
/* How many of them are workers. */
uint32_t copse__cluster_spec_trainers(const copse_cluster_spec *spec);

/* Role and index of the member with this rank. */
void copse__cluster_spec_worker(const copse_cluster_spec *spec, uint32_t rank, copse_role *role,
                                uint32_t *index);

/* "worker 1 (b:7000)" of a rank, for messages. Returns text. */
#define COPSE_WORKER_TEXT 160
const char *copse__worker_text(const copse_cluster_spec *spec, uint32_t rank,
                               char text[COPSE_WORKER_TEXT]);

/* Identifies the job: the same for all its tasks, different for other jobs. */
uint64_t copse__cluster_spec_hash(const copse_cluster_spec *spec);

#endif
