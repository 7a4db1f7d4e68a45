/* SPDX-License-Identifier: MIT */
/* Progress of the workers of a job with parameter servers, each at steps and data of its own: the
   stores keep it, the chief writes and restores it. Of other jobs there is none: all workers are at
   the same step. */
#ifndef COPSE_PROGRESS_H
#define COPSE_PROGRESS_H

#include "core/optim/optimizer.h"

#define COPSE_PROGRESS_KEY  "worker_places"
#define COPSE_PROGRESS_TEXT (64 * COPSE_MAX_WORKERS)

/* Whether the chief writes and restores this worker's checkpoints. */
bool copse__progress_is_non_chief(const copse_strategy *st);

/* "steps:epoch:batch" of every worker, as in the snapshot; this one is at `mine`. "" where there is
   one worker. */
void copse__progress_text(const struct copse_optimizer *o, const struct copse_worker_progress *mine,
                          char text[COPSE_PROGRESS_TEXT]);
/* Where all go on, from such a text (NULL: all go on where the chief was, *mine). If the number of
   workers differs all take turns anew from where the slowest was, the chief, too: its *mine becomes
   that. `path` is for texts. COPSE_ERR_FORMAT: the text is no such list; nothing is changed. */
copse_status copse__progress_read(const struct copse_optimizer *o, const char *path,
                                  const char *text, struct copse_worker_progress *mine,
                                  struct copse_server_progress *out);
/* The other workers may begin. Nothing to do where all are at the same step. */
copse_status copse__progress_open(struct copse_optimizer *o);
/* Of a worker that is not the chief: wait until the chief has opened, and get the progress of
   all. */
copse_status copse__progress_await(struct copse_optimizer *o, struct copse_server_progress *out);

/* ---- of a strategy whose optimizers are named: one progress for all of them ---- */

/* The chief's: all workers begin at this position of the data. Nothing to do where there are no
   servers or no other workers. */
copse_status copse__progress_let(copse_strategy *st, uint32_t epoch, uint64_t batch);
/* Of a worker that is not the chief: wait until the chief lets it begin. */
copse_status copse__progress_await_chief(copse_strategy *st, uint32_t *epoch, uint64_t *batch);

#endif
