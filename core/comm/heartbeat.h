/* SPDX-License-Identifier: MIT */
/* Heartbeats of a worker to parameter servers, from a thread of their own. They let a server
   distinguish a worker that computes a long step from a worker whose process hangs. */
#ifndef COPSE_HEARTBEAT_H
#define COPSE_HEARTBEAT_H

#include "core/comm/cluster.h"

#define COPSE_TAG_HEARTBEAT 4u

/* The message. */
struct copse_heartbeat {
    uint64_t count;
};

/* Start, if there are servers and this task is a worker. From then on c->table is a guard that lets
   one thread at a time into the engine, in order of arrival. Nothing is started over an engine that
   only its opening thread may call: servers expect no heartbeats then. */
copse_status copse__heartbeats_begin(copse_cluster *c);
/* Stop sending; c->table becomes the engine's own. Sent heartbeats stay pending: if they were
   dropped, later messages might not arrive. May be called without heartbeats, and again. */
void copse__heartbeats_end(copse_cluster *c);
/* Stop, and drop pending heartbeats. */
void copse__heartbeats_drop(copse_cluster *c);

#endif
