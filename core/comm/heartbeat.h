/* SPDX-License-Identifier: MIT */
/* A worker's signs of life to parameter servers, from a thread of its own: however long a step takes, servers
   know that its process lives. Between two requests they have nothing else to tell a worker that computes from
   one that is stopped for good. */
#ifndef COPSE_HEARTBEAT_H
#define COPSE_HEARTBEAT_H

#include "core/comm/cluster.h"

#define COPSE_TAG_HEARTBEAT 4u

/* What a beat consists of. */
struct copse_heartbeat {
    uint64_t count;
};

/* Begin, where there are servers and this is a worker. From then on c->table is a guard that lets one thread
   at a time into the engine, as it comes. Not over an engine that only the thread may call that opened it: its
   worker never beats, and servers do not expect it to. */
copse_status copse__heartbeats_begin(copse_cluster *c);
/* The last is sent, and c->table is the engine's own. What servers have not taken yet stays on its way: this worker
   may have more to tell them, which would not pass a message that was dropped. Fine without beats, and again. */
void copse__heartbeats_end(copse_cluster *c);
/* The same, and nothing is on its way any more. */
void copse__heartbeats_drop(copse_cluster *c);

#endif
