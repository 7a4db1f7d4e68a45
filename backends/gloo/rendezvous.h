/* SPDX-License-Identifier: MIT */
/* Rendezvous of workers that know only each other's addresses. */
#ifndef COPSE_GLOO_RENDEZVOUS_H
#define COPSE_GLOO_RENDEZVOUS_H

#include "core/comm/transport.h"

#define RENDEZVOUS_BYTES 192 /* data of a rank for one other rank */

/* Fill the data of this rank for every other rank, [size][RENDEZVOUS_BYTES]. */
typedef copse_status rendezvous_ready_fn(struct copse_transport *t, unsigned char *mine);

/* Rank r's mine[p] becomes rank p's theirs[r]: both [size][RENDEZVOUS_BYTES]. Rank 0 listens at its
   address until all ranks have connected; the others retry until it listens. Then `ready` fills
   `mine`, in every rank at about the same time. A rank that is lost from then on has its bit in
   t->lost, which is no failure. */
copse_status rendezvous(struct copse_transport *t, rendezvous_ready_fn *ready, unsigned char *mine,
                        unsigned char *theirs);

/* Split "host:port" or "[host]:port"; host has room for 128 bytes. */
void rendezvous_split(const char *address, char *host, const char **port);

#endif
