/* SPDX-License-Identifier: MIT */
/* The engine between the threads of one process: for the tests of the layers above, and for trying
   a job of several workers without a network. */
#ifndef COPSE_CLUSTER_LOCAL_H
#define COPSE_CLUSTER_LOCAL_H

#include "core/comm/cluster.h"

/* Where workers of one process meet. Outlives them. */
struct copse_local_hub;
copse_status copse__local_hub_create(copse_context *ctx, struct copse_local_hub **out);
void copse__local_hub_free(struct copse_local_hub **hub);
/* From now on a worker is lost: its messages are gone, and the others notice. */
void copse__local_hub_kill(struct copse_local_hub *hub, uint32_t rank);
/* How many messages a worker has sent. */
uint64_t copse__local_hub_messages(struct copse_local_hub *hub, uint32_t rank);

extern const struct copse_transport_table copse__transport_local; /* user: the hub */

#endif
