/* SPDX-License-Identifier: MIT */
/* An engine between threads of one process: for tests of the layers above, without a network. */
#ifndef COPSE_CLUSTER_LOCAL_H
#define COPSE_CLUSTER_LOCAL_H

#include "core/comm/cluster.h"

/* Connects the workers of one process. Outlives them. */
struct copse_local_hub;
copse_status copse__local_hub_create(copse_context *ctx, struct copse_local_hub **out);
void copse__local_hub_free(struct copse_local_hub **hub);
/* The worker is lost from now on: its messages are dropped, and the others detect it. */
void copse__local_hub_kill(struct copse_local_hub *hub, uint32_t rank);
/* Number of messages that a worker has sent. */
uint64_t copse__local_hub_messages(struct copse_local_hub *hub, uint32_t rank);

extern const struct copse_transport_table copse__transport_local; /* user: the hub */

#endif
