/* SPDX-License-Identifier: MIT */
/* Checkpoints of replicated models: the variables of a strategy and its named optimizers
   (core/state/job_state.h). */
#include "copse/compat/replicated.h"
#include "core/replica/replica_context.h"
#include "core/state/job_state.h"

static copse_status replicated_state_init(copse_strategy *st, struct copse_state_job *job)
{
    COPSE_TRY(copse_need("checkpoint", st));
    COPSE_TRY(copse__require_device(st, "checkpoint"));
    *job = (struct copse_state_job){ .strategy = st, .consequence = "" };
    /* most updates of one */
    for (const struct copse_optimizer *o = NULL; (o = copse__optimizer_next(st, o));)
        if (o->name[0])
            job->step = COPSE_MAX(job->step, o->step);
    return copse__require_cross(st, "checkpoint");
}

copse_status copse_replicated_checkpoint(copse_strategy *st, const char *path,
                                         const struct copse_state_params *params)
{
    struct copse_state_job job;
    COPSE_TRY(replicated_state_init(st, &job));
    return copse__job_checkpoint(&job, path, params);
}

copse_status copse_replicated_restore(copse_strategy *st, const char *path,
                                      struct copse_position *position, copse_checkpoint **file)
{
    struct copse_state_job job;
    if (file)
        *file = NULL;
    COPSE_TRY(replicated_state_init(st, &job));
    return copse__job_restore(&job, path, position, file);
}
