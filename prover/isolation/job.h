/* SPDX-License-Identifier: MIT */
/* A job: its thread, its results, what its callback gets. */
#ifndef COPSE_ISOLATION_JOB_H
#define COPSE_ISOLATION_JOB_H

#include "prover/conformance/verdict/conformance.h"
#include "prover/isolation/isolation.h"

struct copse_conformance_job {
    copse_context *ctx;                         /* a reference */
    struct copse_conformance_job_params params; /* texts belong to `texts` */
    struct copse_arena texts;
    char helper[1024];
    struct copse_isolation isolation;
    struct copse_known_file known;
    copse_conformance_results *results; /* of the job's thread until it is finished */
    atomic_bool is_cancelled;
    /* planned cases that were not run because a process died; of the job's thread as well */
    uint64_t left_out;
    uint64_t start_ns;
    copse_thread thread;
    copse_mutex lock; /* guards what follows */
    copse_cond finished;
    size_t done, planned;
    char running[320];
    bool is_finished;
    copse_status status;
    char error[COPSE_ERROR_BYTES];
};

/* Do the job (run.c). */
copse_status copse__job_run(copse_conformance_job *job);

/* ---- the callback (event.c) ---- */

/* Pass an event on; `event`, `result` may be NULL. */
void copse__job_tell(copse_conformance_job *job, copse_conformance_event_kind kind,
                     const cJSON *event, const struct copse_case_result *result, size_t first);
/* Count, and set the text of the running case (NULL: none). */
void copse__job_count(copse_conformance_job *job, size_t done, size_t planned, const char *running);

#endif
