/* SPDX-License-Identifier: MIT */
/* How workers that know each other's addresses alone find each other. */
#ifndef COPSE_GLOO_MEET_H
#define COPSE_GLOO_MEET_H

#include "core/cluster/transport.h"

#define MEET_BYTES 192 /* what every rank has for every other */

/* Rank r's mine[p] becomes rank p's theirs[r]: both [size][MEET_BYTES]. Rank 0 listens at its address
   until everybody has come; the others keep calling there. */
copse_status meet(struct copse_transport *t, const unsigned char *mine, unsigned char *theirs);

/* "host:port" or "[host]:port" to its parts; host has room for 128 bytes. */
void meet_split(const char *address, char *host, const char **port);

#endif
