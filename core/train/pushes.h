/* SPDX-License-Identifier: MIT */
/* The update of a trainer whose variables are with servers: the worker's sums of gradients go there. */
#ifndef COPSE_PUSHES_H
#define COPSE_PUSHES_H

#include "core/server/server.h"
#include "core/train/trainer.h"

/* A rule of the exchange that keeps the sums and changes nothing: a push reads them. */
struct copse_exchange_rule copse__push_rule(void);

/* What goes where, once buckets are made. */
copse_status copse__pushes_make(copse_trainer *t);
void copse__pushes_free(copse_trainer *t);
/* Number of the update that the next push is expected to be. */
uint64_t copse__pushes_next(const copse_trainer *t);
/* All buckets have been exchanged: their sums go to the servers. Waits for the devices. */
copse_status copse__pushes_send(copse_trainer *t);

/* ---- for checkpoints ---- */

/* Look at all that the trainer has with each server, at one moment of that server. Released with the
   trainer, or by copse__pushes_forget. */
copse_status copse__pushes_look(copse_trainer *t);
void copse__pushes_forget(copse_trainer *t);
/* What was seen of a trained variable: its values, or the optimizer's slot (COPSE_ENTRY_VALUE, or a
   number). Lifetime: until the next look. */
const float *copse__pushes_seen(const copse_trainer *t, const copse_variable *v, uint32_t slot);
/* The most updates that a server was seen to have made; and where a worker was: where it had come to with
   all of them. */
uint64_t copse__pushes_seen_updates(const copse_trainer *t);
struct copse_server_place copse__pushes_seen_place(const copse_trainer *t, uint32_t worker);

/* Optimizer slot of a trained variable, whole. */
copse_status copse__pushes_set_slot(const copse_trainer *t, const copse_variable *v, uint32_t slot,
                                    const void *values);
/* The servers' count of updates; or set it. */
copse_status copse__pushes_updates(const copse_trainer *t, bool is_set, uint64_t *count);
/* Say the same to every server. Read: of the first that has not opened, or of all of them the same. */
copse_status copse__pushes_places(const copse_trainer *t, enum copse_server_say say,
                                  struct copse_server_places *places);

#endif
