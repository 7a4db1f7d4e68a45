/* SPDX-License-Identifier: MIT */
/* Events of a job: to the application's callback, and as counts for those who ask. */
#include <stdio.h>

#include "prover/isolation/job.h"

void copse__job_tell(copse_conformance_job *job, copse_conformance_event_kind kind,
                     const cJSON *event, const struct copse_case_result *result, size_t first)
{
    char measure[400] = "", again[1200] = "";
    if (!job->params.event)
        return;
    char *json = event ? cJSON_PrintUnformatted(event) : NULL;
    if (event && !json)
        job->results->has_no_memory = true;
    if (kind == COPSE_CONFORM_RESULT && result) {
        copse__case_measure(measure, sizeof measure, result);
        copse__case_repeat(again, sizeof again, job->results, result);
    }
    job->params.event(job->params.user, &(struct copse_conformance_event){
                                            .kind = kind,
                                            .result = result,
                                            .measure = measure,
                                            .again = again,
                                            .results = job->results,
                                            .first = first,
                                            .done = job->done,
                                            .planned = job->planned,
                                            .json = json ? json : "",
                                        });
    cJSON_free(json);
}

void copse__job_count(copse_conformance_job *job, size_t done, size_t planned, const char *running)
{
    copse__mutex_lock(&job->lock);
    job->done += done;
    job->planned += planned;
    snprintf(job->running, sizeof job->running, "%s", running ? running : "");
    copse__mutex_unlock(&job->lock);
}
