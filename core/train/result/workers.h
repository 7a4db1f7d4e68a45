/* SPDX-License-Identifier: MIT */
/* The workers of a trainer: what they agree on, what all do when one of them fails, and the results
   of a step that each sends to the others. Nothing to do where there is one worker. */
#ifndef COPSE_TRAIN_WORKERS_H
#define COPSE_TRAIN_WORKERS_H

#include "core/train/result/step_slots.h"

struct copse_train_workers {
    struct copse_group *group; /* of the strategy */
    const bool *is_torn;       /* an update of this worker was cut short */
};

/* All workers have the same settings, and cross-device operations of this name. */
copse_status copse__workers_agree(const struct copse_train_workers *w,
                                  const struct copse_trainer_params *params,
                                  const char *operations);
/* This worker cannot take part in the step: the others fail with it, and nothing is changed. */
copse_status copse__workers_refuse(const struct copse_train_workers *w, copse_status why);
/* Returns `why`. Where a device of this worker has failed, or an update was cut short, notifies the
   others that this worker cannot go on. */
copse_status copse__workers_report(const struct copse_train_workers *w, copse_status why);
/* Returns `why`, a failure since then. Unless a worker refused, notifies the others that this
   worker cannot go on. */
copse_status copse__workers_abort(const struct copse_train_workers *w, uint64_t since,
                                  copse_status why);
/* The same; but where the step has not reached a barrier with the other workers, refuses it. */
copse_status copse__workers_notify(const struct copse_train_workers *w, uint64_t since,
                                   copse_status why);

/* Send this worker's reports to the others, when its devices have them. */
copse_status copse__workers_send(const struct copse_step_ring *ring, struct copse_step_slot *slot);
/* Receive those of the others. COPSE_ERR_TIMEOUT when some have not come and `wait` is false. */
copse_status copse__workers_receive(const struct copse_step_ring *ring,
                                    struct copse_step_slot *slot, bool wait);
/* Value `i` of a row, [part][replica of any worker]. */
float copse__rank_value(const struct copse_group *g, const struct copse_step_slot *slot, size_t row,
                        uint32_t i);

#endif
