/* SPDX-License-Identifier: MIT */
/* Recordings of a loss function on the replicas of a strategy: what those of trainers and of tower
   optimizers have in common. The user of their lists is the object that calls the functions. */
#ifndef COPSE_LOSS_RECORDING_H
#define COPSE_LOSS_RECORDING_H

#include "copse/trainer.h"
#include "core/graph/recording.h"
#include "core/replica/replica_context.h"
#include "core/value/value.h"

#define COPSE_RECORDINGS 32 /* kept of a replica, unless the params set a number */

/* A list for each replica of this worker; `lists` has COPSE_MAX_REPLICAS. `limit` 0:
   COPSE_RECORDINGS. */
void copse__loss_recordings_init(struct copse_recordings *lists,
                                 const struct copse_recording_table *table, void *user,
                                 copse_strategy *st, uint32_t limit);
void copse__loss_recordings_fini(struct copse_recordings *lists);

/* Called before and after a function of the application that builds the recording's graph, in the
   replica's context: merge calls and assignments are refused there. `name` is for texts. */
struct copse_graph_call {
    struct copse_callback callback;
    struct copse_frame frame;
};
void copse__graph_call_enter(struct copse_graph_call *c, const struct copse_recording *r,
                             const char *name);
copse_status copse__graph_call_leave(struct copse_graph_call *c, copse_status s);

/* For tables: the functions `call` and `target`. */
copse_status copse__loss_call(struct copse_recording *r, copse_batch *in, bool is_training,
                              const char *name, copse_loss_fn *loss, void *user);
void copse__loss_target(struct copse_recording *r, struct copse_program_params *params);
/* dx[i]: derivative of the weighted loss by x[i], NULL if it is 0. `from`: the derivative of what
   follows the loss by it, of its shape; NULL: the loss is a scalar, and this is 1. */
copse_status copse__loss_differentiate(struct copse_recording *r, copse_tensor *from,
                                       copse_tensor *const *x, size_t count, copse_tensor **dx);
/* New memory on the replica's device, where the program leaves a tensor with its other results of
   `bucket`. */
copse_status copse__loss_place(struct copse_recording *r, copse_tensor *t, uint32_t bucket,
                               struct copse_block **out);

#endif
