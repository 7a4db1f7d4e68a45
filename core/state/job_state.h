/* SPDX-License-Identifier: MIT */
/* A training job in checkpoints: the order of work of every save and restore. Each file has the
   variables of a strategy, its named optimizers, counters, the position in the data and what the
   application adds. A trainer adds its optimizer, its settings, and lines of its own. With
   parameter servers the chief writes and restores; the other workers wait. */
#ifndef COPSE_STATE_JOB_H
#define COPSE_STATE_JOB_H

#include "core/state/state.h"

struct copse_state_job {
    copse_strategy *strategy;
    struct copse_optimizer *optimizer; /* without a name; or NULL */
    const char *reduction, *sharding;  /* settings; NULL: none */
    uint64_t step, seed;               /* as written to a file */
    bool is_torn;            /* an update or restore was cut short; set and cleared by a restore */
    const char *consequence; /* end of the error text of a restore that was cut short, or "" */
    void *user;              /* of these functions; each may be NULL: */
    copse_status (*check)(void *user);                      /* it is between two updates */
    copse_status (*put)(void *user, struct copse_state *s); /* add its lines of metadata */
    /* check its lines; change nothing */
    copse_status (*match)(void *user, const struct copse_state *s);
    void (*restored)(void *user, const struct copse_state_counters *c); /* everything was written */
};

/* copse_trainer_checkpoint. All workers call it. */
copse_status copse__job_checkpoint(struct copse_state_job *job, const char *path,
                                   const struct copse_state_params *params);
/* copse_trainer_restore. All workers call it; outputs may be NULL. */
copse_status copse__job_restore(struct copse_state_job *job, const char *path,
                                struct copse_position *position, copse_checkpoint **file);
/* The variables alone, without a checksum. */
copse_status copse__job_export(struct copse_state_job *job, const char *path);

#endif
