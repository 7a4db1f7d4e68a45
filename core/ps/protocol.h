/* SPDX-License-Identifier: MIT */
/* Protocol between workers and parameter servers: a request, its payload, a reply, its payloads. A
   worker has one pending request at a time. All tasks of a job run the same build on the same byte
   order. */
#ifndef COPSE_SERVER_PROTOCOL_H
#define COPSE_SERVER_PROTOCOL_H

#include "core/ps/server.h"

#define COPSE_SERVER_MAGIC 0x636f707365707331ull

enum copse_server_op {
    /* fields and payload of the request -> fields and payload of the reply */
    /* struct copse_server_making, name, values if may_begin -> id, value = window offset */
    COPSE_SERVER_MAKE,
    COPSE_SERVER_PULL,    /* struct copse_server_seen[count] -> versions[count] and values */
    COPSE_SERVER_READ,    /* id -> values */
    COPSE_SERVER_CHANGE,  /* id, how; values */
    COPSE_SERVER_SCATTER, /* id, how, count; indices[count] and their slices */
    COPSE_SERVER_GROUP,   /* struct copse_server_rule, ids[count], value = key -> id */
    COPSE_SERVER_DROP,    /* group */
    /* group, rate, scale, progress, how = is_unchecked; gradients, or value = number of the push in
       the worker's window -> value = count of updates; after a failure id may be
       COPSE_SERVER_UNREAD */
    COPSE_SERVER_PUSH,
    COPSE_SERVER_UPDATES, /* group, how = is_set, value -> value */
    /* group, id = member, count = slot, how = is_set; values if it is set -> values if not */
    COPSE_SERVER_SLOT,
    COPSE_SERVER_SNAPSHOT, /* group -> struct copse_server_state and values */
    /* group, how; struct copse_server_progress if it is set -> the same if it is read */
    COPSE_SERVER_PROGRESS,
    COPSE_SERVER_COUNTER, /* how = is_set, value -> value */
    COPSE_SERVER_LEAVE,   /* -> value = whether all workers are done */
    COPSE_SERVER_OPS,
};

struct copse_server_request {
    uint64_t magic, size, value; /* size: of the payload */
    uint32_t op, id, group, how, count;
    float rate, scale;
    uint32_t pad;
    struct copse_worker_progress progress;
};

struct copse_server_reply {
    uint64_t magic, size, value; /* size: of the values that follow */
    uint32_t status, id;
    char text[256]; /* of a failure; then no values follow */
};

/* Limits of one server. */
#define COPSE_SERVER_VARIABLES  (1u << 20)
#define COPSE_SERVER_NAME_BYTES 4096u /* of a variable's name, with its end and padding */

struct copse_pstore;
/* Check that the payload has the size that operation, counts and ids require; an operation on an
   unknown variable or optimizer has no payload. Else COPSE_ERR_COMM with the operation's name. */
copse_status copse__request_check(const struct copse_pstore *s,
                                  const struct copse_server_request *r);

/* The push changed nothing: the worker's window cannot be read. The worker sends its gradients by
   message. */
#define COPSE_SERVER_UNREAD 1u

struct copse_server_making {
    uint32_t type, rank, dims[COPSE_MAX_RANK], may_begin;
    uint32_t name_bytes; /* padded to whole words; the last byte is zero */
};

struct copse_server_seen {
    uint64_t version;
    uint32_t id, elements; /* in the reply: of the values that follow; 0: unchanged */
};

struct copse_server_rule {
    uint32_t kind, is_centred, epsilon_in_root, plain_average;
    float learning_rate, momentum, beta1, beta2, epsilon, weight_decay, average, initial, l1, l2,
        momentum_decay, trust;
};

#endif
