/* SPDX-License-Identifier: MIT */
/* How workers that know each other's addresses alone find each other. */
#ifndef COPSE_GLOO_RENDEZVOUS_H
#define COPSE_GLOO_RENDEZVOUS_H

#include "core/comm/transport.h"

#define RENDEZVOUS_BYTES 192 /* what every rank has for every other */

/* What this rank has for every other, [size][RENDEZVOUS_BYTES]. */
typedef copse_status rendezvous_ready_fn(struct copse_transport *t, unsigned char *mine);

/* Rank r's mine[p] becomes rank p's theirs[r]: both [size][RENDEZVOUS_BYTES]. Rank 0 listens at its address
   until everybody has come; the others keep calling there. Once all have come `ready` fills `mine`, in every rank at
   about the same time. Who is lost from then on has its bit in t->lost, and fails nothing. */
copse_status rendezvous(struct copse_transport *t, rendezvous_ready_fn *ready, unsigned char *mine,
                        unsigned char *theirs);

/* "host:port" or "[host]:port" to its parts; host has room for 128 bytes. */
void rendezvous_split(const char *address, char *host, const char **port);

#endif
