/* SPDX-License-Identifier: MIT */
/* A training job on the model of train_model.h, for steps and monitors: 200 examples in batches of
   32 (the last has 8), shuffled, with dropout. Include after cmocka.h. */
#ifndef COPSE_TEST_JOB_H
#define COPSE_TEST_JOB_H

#include "copse/distribute/cluster.h"
#include "copse/loop/monitor.h"

#include "tests/rig/train/train_model.h"

#define JOB_BATCHES 7 /* in an epoch */

/* Zero means: one replica on host:0, Adam, one iteration a step, one epoch. */
struct job {
    copse_context *ctx;
    copse_cluster *cluster; /* other workers; NULL: none */
    const char *devices[8];
    size_t device_count;
    struct copse_strategy_params strategy;
    struct copse_optimizer_params optimizer;
    uint32_t iterations, epochs;
    uint64_t seed; /* of dropout */
    struct model m;
    unsigned made;       /* trainers */
    unsigned lose_after; /* from this trainer on the last device is omitted; 0: never */
};

/* A copse_make_trainer_fn and a copse_dataset_fn; `user` is the job. */
copse_status job_make(void *user, copse_trainer **out);
copse_status job_dataset(void *user, copse_strategy *st, copse_dataset **out);
copse_status job_step(struct job *j, copse_step **out);
/* Values of all variables on a replica, concatenated; the caller frees them. NULL: it failed. */
float *job_values(const struct job *j, uint32_t replica);

/* The lists of devices for tests: 1, 2, 3 and 5 replicas on the host, and on opencl:0 and vulkan:0
   if available. Returns the number of lists; `i` from 0. */
size_t job_mixtures(copse_context *ctx);
void job_devices(copse_context *ctx, struct job *j, size_t i);

#endif
