/* SPDX-License-Identifier: MIT */
/* The servers of a parameter server strategy, and which of them keeps which variable. Replicas have
   working copies of the values, for graphs; everything else reads and changes the server's. */
#ifndef COPSE_SERVERS_H
#define COPSE_SERVERS_H

#include "core/ps/server.h"
#include "core/variable/storage.h"

/* What one server keeps, in order of creation. */
struct copse_server_store {
    struct copse_server *server;
    struct {
        uint32_t *at;
        size_t count, room;
    } ids; /* the server's */
    struct {
        uint64_t *at;
        size_t count, room;
    } seen; /* versions that were pulled */
    struct {
        void **at;
        size_t count, room;
    } pulled; /* values, in host memory */
};

struct copse_servers {
    struct copse_storage storage; /* of the strategy; the table is copse__on_servers */
    uint32_t count;
    struct copse_server_store at[COPSE_MAX_WORKERS];
    char device[32]; /* where this process keeps them, else "" */
    uint32_t placed; /* variables that went round robin */
    bool may_begin;  /* gives variables their first values: the chief does */
};

extern const struct copse_storage_table copse__on_servers;

/* The servers that keep the variables of a strategy; NULL where replicas keep them, and without a
   strategy. */
static inline struct copse_servers *copse__servers_of(const copse_strategy *st)
{
    return st && st->storage && st->storage->table == &copse__on_servers
               ? (struct copse_servers *)st->storage
               : NULL;
}

#endif
