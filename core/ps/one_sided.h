/* SPDX-License-Identifier: MIT */
/* One-sided publish and fetch: a server publishes values in its window and fetches gradients from
 * the windows of workers; a worker does the reverse.
 *
 * A server's window begins with words of 8 bytes: a sequence number, which is odd while values
 * change, and the version of each variable by its id. Values are at the other end, downwards in the
 * order of creation. A worker reads the words, then the values of new versions, then the sequence
 * number again. If it is unchanged and even, all values are of one moment, as if they had been
 * requested. Else the worker tries again, a few times, and then requests them by message.
 *
 * A worker's window begins with the number of the push whose gradients follow; 0 while they change.
 * The server fetches the gradients of the push that a request names, and checks that the number is
 * unchanged afterwards. If it cannot read them it changes nothing and reports that: the worker
 * sends these and all later gradients by message.
 *
 * Variables begin at multiples of a cache line. A variable that does not fit, or that is so large
 * that messages are faster (window.most of the cluster), is sent by message. For it the window
 * holds only the version number; a worker requests values by message when a version is new, all new
 * values in one request, so that they are of one moment. Gradients that do not fit are sent by
 * message.
 */
#ifndef COPSE_ONE_SIDED_H
#define COPSE_ONE_SIDED_H

#include "core/ps/parameter_store.h"

#define COPSE_WINDOW_NONE    0ull /* as an offset: the window does not hold the variable, */
#define COPSE_WINDOW_MESSAGE 1ull /* or only its version */

/* ---- server: one_sided_server.c ---- */

struct copse_one_sided_server {
    copse_cluster *cluster; /* not a reference */
    struct copse_pstore *store;
    uint64_t sequence, low; /* low: offset of the newest variable's values */
    struct {
        struct copse_published {
            uint64_t offset, version;
        } *at;
        size_t count, room;
    } published;
    struct {
        uint32_t *at;
        size_t count, room;
    } changed;
    void *gradients; /* fetched from a worker */
    size_t room;
};

/* Without windows the server publishes nothing. */
void copse__one_sided_server_init(struct copse_one_sided_server *k, copse_cluster *c,
                                  struct copse_pstore *s);
void copse__one_sided_server_fini(struct copse_one_sided_server *k);
/* Publish what has changed in the store, before the request that changed it is answered. Waits for
   the store's device. */
copse_status copse__one_sided_server_publish(struct copse_one_sided_server *k);
uint64_t copse__one_sided_server_offset(const struct copse_one_sided_server *k, uint32_t id);
/* Fetch the gradients of a worker's push `number`, into memory of `k` until its next call.
   `is_unread` receives whether it failed because the worker's window cannot be read: after a read
   that did not end within `timeout_ns` the window of this worker is not read again. */
copse_status copse__one_sided_server_fetch(struct copse_one_sided_server *k, uint32_t worker,
                                           uint64_t number, size_t size, uint64_t timeout_ns,
                                           const void **gradients, bool *is_unread);

/* ---- worker: one_sided_client.c ---- */

struct copse_one_sided_client {
    copse_cluster *cluster; /* not a reference */
    uint32_t server;        /* rank */
    /* by id */
    struct {
        struct copse_fetched {
            uint64_t offset, bytes;
        } *at;
        size_t count, room;
    } fetched;
    struct {
        struct copse_window_range *at;
        size_t count, room;
    } reads;
    uint64_t *words; /* sequence and versions, and room for the sequence once more */
    size_t word_count;
    bool is_unread; /* the server cannot read this worker's window */
};

void copse__one_sided_client_init(struct copse_one_sided_client *r, copse_cluster *c,
                                  uint32_t server);
void copse__one_sided_client_fini(struct copse_one_sided_client *r);
/* Variable `id` of `bytes` is at `offset`, or has COPSE_WINDOW_NONE or COPSE_WINDOW_MESSAGE. */
copse_status copse__one_sided_client_add(struct copse_one_sided_client *r, uint32_t id,
                                         uint64_t offset, uint64_t bytes);
/* As `pull` of the table. `is_done` false: request them by message; then `seen` is unchanged, but
   new values may have been written. */
copse_status copse__one_sided_client_fetch(struct copse_one_sided_client *r, const uint32_t *ids,
                                           uint32_t count, uint64_t *seen, void *const *values,
                                           bool *is_done);
/* Publish gradients for the server. Returns the number of the push, 0 if they do not fit. */
uint64_t copse__one_sided_client_publish(struct copse_one_sided_client *r, const void *gradients,
                                         uint64_t bytes);

#endif
