/* SPDX-License-Identifier: MIT */
/* What a server lays out in its window for workers to read, and what a worker does for its server.
 *
 * A server's window begins with words of 8 bytes: a sequence, which is odd while values change, and the version of each
 * variable by its id; values lie at the other end, downwards in the order in which variables came. A worker reads the
 * words, then the values whose version is new to it, then the sequence again: where it is the same and even, all
 * that it read is of one moment, as if it were a request. Else it tries again, a few times, and then asks by a
 * message, which takes its turn.
 *
 * A worker's window begins with the number of the push whose gradients lie behind it; 0 while they change. The
 * server takes them when a request says that number, and finds it unchanged afterwards. Where it cannot read them it
 * changes nothing and says so: the worker sends them, and all that come later.
 *
 * Variables begin at multiples of a line. Values of one that has no room there, or that is so large that messages are
 * faster (window.most of the cluster), go by messages; its version stands in the window all the same, so that a worker
 * asks only where there is something new, and then for all that is new at once: one moment again. Gradients that have
 * no room use messages.
 */
#ifndef COPSE_ONE_SIDED_H
#define COPSE_ONE_SIDED_H

#include "core/ps/parameter_store.h"

#define COPSE_WINDOW_NONE   0ull /* as an offset: nothing of it is in the window, */
#define COPSE_WINDOW_MESSAGE 1ull /* or its version alone */

/* ---- a server's side: one_sided_server.c ---- */

struct copse_one_sided_server {
    copse_cluster *cluster; /* not a reference */
    struct copse_pstore *store;
    uint64_t sequence, low; /* low: offset of the last values */
    struct { struct copse_published { uint64_t offset, version; } *at; size_t count, room; } published;
    struct { uint32_t *at; size_t count, room; } changed;
    void *gradients; /* a worker's */
    size_t room;
};

/* Both fine where the cluster has no windows: then nothing has a place. */
void copse__one_sided_server_init(struct copse_one_sided_server *k, copse_cluster *c, struct copse_pstore *s);
void copse__one_sided_server_fini(struct copse_one_sided_server *k);
/* Lay out what has changed on the store: before anybody hears that it has. Waits for the store's device. */
copse_status copse__one_sided_server_publish(struct copse_one_sided_server *k);
uint64_t copse__one_sided_server_offset(const struct copse_one_sided_server *k, uint32_t id);
/* What a worker laid out as its push `number`, in memory of the keeper until its next call. `is_unread` receives
   whether it failed because the worker's window cannot be read, which concerns this worker alone: after a read that
   did not end within `timeout_ns` its window is not read any more. */
copse_status copse__one_sided_server_fetch(struct copse_one_sided_server *k, uint32_t worker, uint64_t number,
                                           size_t size, uint64_t timeout_ns, const void **gradients, bool *is_unread);

/* ---- a worker's side: one_sided_client.c ---- */

struct copse_one_sided_client {
    copse_cluster *cluster; /* not a reference */
    uint32_t server;        /* rank */
    struct { struct copse_fetched { uint64_t offset, bytes; } *at; size_t count, room; } fetched; /* by id */
    struct { struct copse_window_range *at; size_t count, room; } parts;
    uint64_t *words; /* sequence and versions, and room for the sequence once more */
    size_t word_count;
    bool is_unread; /* the server cannot read this worker's window */
};

void copse__one_sided_client_init(struct copse_one_sided_client *r, copse_cluster *c, uint32_t server);
void copse__one_sided_client_fini(struct copse_one_sided_client *r);
/* Variable `id` of `bytes` lies at `offset`, or has no place. */
copse_status copse__one_sided_client_add(struct copse_one_sided_client *r, uint32_t id, uint64_t offset,
                                         uint64_t bytes);
/* As the table's pull. `is_done` false: ask by a message; no version has changed then, but
   values of those that are new may have. */
copse_status copse__one_sided_client_fetch(struct copse_one_sided_client *r, const uint32_t *ids, uint32_t count,
                                           uint64_t *seen, void *const *values, bool *is_done);
/* Lay gradients out for the server. Returns the number of the push, 0 where there is no room for them. */
uint64_t copse__one_sided_client_publish(struct copse_one_sided_client *r, const void *gradients, uint64_t bytes);

#endif
