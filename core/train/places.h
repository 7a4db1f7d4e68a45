/* SPDX-License-Identifier: MIT */
/* Where the workers of a job with parameter servers are, each at steps and data of its own: kept by the servers,
   written and brought back by the chief. */
#ifndef COPSE_PLACES_H
#define COPSE_PLACES_H

#include "core/train/pushes.h"

#define COPSE_PLACES_KEY  "worker_places"
#define COPSE_PLACES_TEXT (64 * COPSE_MAX_WORKERS)

/* A worker whose checkpoints are the chief's. */
bool copse__places_is_guest(const copse_trainer *t);

/* "steps:epoch:batch" of every worker, as the servers' state was looked at; the chief is at `mine`. "" where
   there is one worker. */
void copse__places_text(const copse_trainer *t, const struct copse_position *mine,
                        char text[COPSE_PLACES_TEXT]);
/* Where all go on, from such a text (NULL: none, all go on where the chief was). Workers that are more or
   fewer than then take turns anew, from where the slowest was; so may the chief, whose position `mine` then
   becomes that. COPSE_ERR_FORMAT: it is no such text; nothing is changed. */
copse_status copse__places_read(const copse_trainer *t, const char *path, const char *text, uint64_t steps,
                                struct copse_position *mine, struct copse_server_places *out);
/* Others may begin. */
copse_status copse__places_open(copse_trainer *t);
/* A guest's: wait until the chief has said so, and take this worker's part over. */
copse_status copse__places_await(copse_trainer *t, struct copse_position *out);

#endif
