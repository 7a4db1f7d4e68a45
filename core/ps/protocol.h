/* SPDX-License-Identifier: MIT */
/* What workers and parameter servers say to each other: a request, its payload, a reply, its payloads. One
   request of a worker at a time. All members of a job run the same build on the same byte order. */
#ifndef COPSE_SERVER_PROTOCOL_H
#define COPSE_SERVER_PROTOCOL_H

#include "core/ps/server.h"

#define COPSE_SERVER_MAGIC 0x636f707365707331ull

enum copse_server_op {
    COPSE_SERVER_MAKE,    /* struct copse_server_making, name, values if it may begin; id comes back, and
                             as value its place in the server's window */
    COPSE_SERVER_PULL,    /* struct copse_server_seen[count]; versions[count] and values come back */
    COPSE_SERVER_READ,    /* id; values come back */
    COPSE_SERVER_CHANGE,  /* id, how; values */
    COPSE_SERVER_SCATTER, /* id, how, count; indices[count] and their slices */
    COPSE_SERVER_GROUP,   /* struct copse_server_rule, ids[count], value = key; id comes back */
    COPSE_SERVER_DROP,    /* group */
    COPSE_SERVER_PUSH,    /* group, rate, scale, place; gradients, or value = their number in the worker's
                              window; count of updates comes back as value, or with a failure
                              COPSE_SERVER_UNREAD as id */
    COPSE_SERVER_UPDATES, /* group, how = is_set, value; value comes back */
    COPSE_SERVER_SLOT,    /* group, id = member, count = slot, how = is_set; values, one way */
    COPSE_SERVER_SNAPSHOT,    /* group; struct copse_server_state and values come back */
    COPSE_SERVER_PROGRESS,  /* group, how; struct copse_server_progress; comes back when it is read */
    COPSE_SERVER_COUNTER, /* how = is_set, value; value comes back */
    COPSE_SERVER_LEAVE,   /* value comes back: whether all workers are done */
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
    uint64_t magic, size, value; /* size: of the values behind it */
    uint32_t status, id;
    char text[256]; /* of a failure; then nothing comes behind it */
};

/* Limits of what one server keeps. */
#define COPSE_SERVER_VARIABLES  (1u << 20)
#define COPSE_SERVER_NAME_BYTES 4096u /* of a variable's name, with its end and padding */

struct copse_pstore;
/* Whether the request has the size that its operation, its counts and its indices say; an operation on a variable or an
   optimizer that the server does not have has no payload. COPSE_ERR_COMM, with the operation's name, otherwise. */
copse_status copse__request_check(const struct copse_pstore *s, const struct copse_server_request *r);

/* Nothing was changed: the worker's window cannot be read, and gradients come by messages. */
#define COPSE_SERVER_UNREAD 1u

struct copse_server_making {
    uint32_t type, rank, dims[COPSE_MAX_RANK], may_begin;
    uint32_t name_bytes; /* with padding to whole words; it ends with a zero */
};

struct copse_server_seen {
    uint64_t version;
    uint32_t id, elements; /* coming back: of the values that follow, 0 where nothing has changed */
};

struct copse_server_rule {
    uint32_t kind;
    float learning_rate, momentum, beta1, beta2, epsilon, weight_decay, average;
};

#endif
