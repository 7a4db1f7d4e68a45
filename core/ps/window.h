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
#ifndef COPSE_SERVER_WINDOW_H
#define COPSE_SERVER_WINDOW_H

#include "core/ps/shelf.h"

#define COPSE_NO_PLACE   0ull /* as an offset: nothing of it is in the window, */
#define COPSE_BY_MESSAGE 1ull /* or its version alone */

/* ---- a server's side: keeper.c ---- */

struct copse_window_keeper {
    copse_cluster *cluster; /* not a reference */
    struct copse_shelf *shelf;
    uint64_t sequence, low; /* low: offset of the last values */
    struct { struct copse_window_place { uint64_t offset, version; } *at; size_t count, room; } places;
    struct { uint32_t *at; size_t count, room; } changed;
    void *gradients; /* a worker's */
    size_t room;
};

/* Both fine where the cluster has no windows: then nothing has a place. */
void copse__keeper_init(struct copse_window_keeper *k, copse_cluster *c, struct copse_shelf *s);
void copse__keeper_fini(struct copse_window_keeper *k);
/* Lay out what has changed on the shelf: before anybody hears that it has. Waits for the shelf's device. */
copse_status copse__keeper_publish(struct copse_window_keeper *k);
uint64_t copse__keeper_place(const struct copse_window_keeper *k, uint32_t id);
/* What a worker laid out as its push `number`, in memory of the keeper until its next call. `is_unread` receives
   whether it failed because the worker's window cannot be read, which concerns this worker alone: after a read that
   did not end within `timeout_ns` its window is not read any more. */
copse_status copse__keeper_take(struct copse_window_keeper *k, uint32_t worker, uint64_t number, size_t size,
                                uint64_t timeout_ns, const void **gradients, bool *is_unread);

/* ---- a worker's side: reader.c ---- */

struct copse_window_reader {
    copse_cluster *cluster; /* not a reference */
    uint32_t server;        /* rank */
    struct { struct copse_window_find { uint64_t offset, bytes; } *at; size_t count, room; } places; /* by id */
    struct { struct copse_window_part *at; size_t count, room; } parts;
    uint64_t *words; /* sequence and versions, and room for the sequence once more */
    size_t word_count;
    bool is_unread; /* the server cannot read this worker's window */
};

void copse__reader_init(struct copse_window_reader *r, copse_cluster *c, uint32_t server);
void copse__reader_fini(struct copse_window_reader *r);
/* Variable `id` of `bytes` lies at `offset`, or has no place. */
copse_status copse__reader_add(struct copse_window_reader *r, uint32_t id, uint64_t offset, uint64_t bytes);
/* As the table's pull. `is_done` false: ask by a message; no version has changed then, but
   values of those that are new may have. */
copse_status copse__reader_pull(struct copse_window_reader *r, const uint32_t *ids, uint32_t count,
                                uint64_t *seen, void *const *values, bool *is_done);
/* Lay gradients out for the server. Returns the number of the push, 0 where there is no room for them. */
uint64_t copse__reader_offer(struct copse_window_reader *r, const void *gradients, uint64_t bytes);

#endif
