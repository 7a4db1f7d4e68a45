/* SPDX-License-Identifier: MIT */
/* A server stores the authoritative copy of variables; this is its interface for a worker. Workers
 * read and change values and push gradients, which the server applies by the optimizer's rule on
 * its own device, where it stores the slots, too. Two implementations: a parameter store of this
 * process, and a client of a ps task of the cluster.
 *
 * Requests are atomic. Between two requests of a worker, others may change all values; there is no
 * locking.
 */
#ifndef COPSE_SERVER_H
#define COPSE_SERVER_H

#include "copse/optimizer.h"
#include "core/comm/cluster.h"
#include "core/ps/change.h"

/* A variable that a worker asks for. The first worker with `may_begin` sets the initial values; a
   worker without waits until they are set. All ask for the same type and shape. */
struct copse_server_variable {
    const char *name;
    copse_type type;
    copse_shape shape;
    const void *values; /* words */
    bool may_begin;
};

/* Progress of a worker, sent with each push. */
struct copse_worker_progress {
    uint64_t steps; /* updates of its trainer */
    uint64_t batch; /* the next one of its data in the epoch */
    uint32_t epoch, pad;
};

/* Of a group: progress of all workers, and whether they may begin: the chief has restored them, or
   has nothing to restore. */
struct copse_server_progress {
    uint64_t seed; /* of the restored trainer */
    uint32_t is_open, pad;
    struct copse_worker_progress at[COPSE_MAX_WORKERS];
};

enum copse_progress_op {
    COPSE_PROGRESS_READ,
    COPSE_PROGRESS_SET,  /* all but is_open */
    COPSE_PROGRESS_OPEN, /* only is_open */
};

/* State of a group besides variables and slots. */
struct copse_server_state {
    uint64_t updates;
    struct copse_server_progress progress;
};

/* One worker's step: a gradient for every variable of a group. */
struct copse_server_push {
    uint32_t worker;
    struct copse_worker_progress progress; /* of the worker, after this step */
    float rate;                            /* learning rate of this update */
    float scale;                           /* factor on the gradients */
    const float *gradients;                /* of all variables, concatenated in the group's order */
    uint64_t elements;                     /* of all of them */
    bool is_unchecked;                     /* the first update is not compared with the host */
};

struct copse_server;

struct copse_server_table {
    /* Find or make a variable. */
    copse_status (*make)(struct copse_server *s, const struct copse_server_variable *v,
                         uint32_t *id);
    /* For each variable whose version is not seen[i] (0: never read), read the values into
       values[i] and the version into seen[i]. After a failure the values are undefined; if the
       cluster's window.stuck has new bits, their memory may be written to as long as the cluster
       lives: hand it to copse__window_keep. */
    copse_status (*pull)(struct copse_server *s, const uint32_t *ids, uint32_t count,
                         uint64_t *seen, void *const *values);
    copse_status (*read)(struct copse_server *s, uint32_t id, void *values);
    copse_status (*change)(struct copse_server *s, uint32_t id, enum copse_change how,
                           uint64_t count, const void *values);
    /* Change rows; `how` is one of COPSE_SCATTER_... */
    copse_status (*scatter)(struct copse_server *s, uint32_t id, enum copse_change how,
                            const struct copse_rows *rows);
    /* Make or join a group: variables that one optimizer updates together, with slots that start at
       zero. Workers with the same key share a group; with key 0 the n-th group of each worker is
       shared. */
    copse_status (*group)(struct copse_server *s, uint64_t key, const uint32_t *ids, uint32_t count,
                          const struct copse_optimizer_params *rule, uint32_t *group);
    void (*drop)(struct copse_server *s, uint32_t group);
    /* Update the group. The rule uses the server's count of updates, which `count` receives. */
    copse_status (*push)(struct copse_server *s, uint32_t group, const struct copse_server_push *p,
                         uint64_t *count);
    /* Read or set the count of updates. */
    copse_status (*updates)(struct copse_server *s, uint32_t group, bool is_set, uint64_t *count);
    /* Read or set a slot of variable `member` of the group, which has `count` words. */
    copse_status (*slot)(struct copse_server *s, uint32_t group, uint32_t member, uint32_t slot,
                         bool is_set, uint64_t count, void *values);
    /* Values and slots of a group at one moment: [variable][values, slot, ...], `count` elements of
       4 bytes. */
    copse_status (*snapshot)(struct copse_server *s, uint32_t group, uint64_t count, void *words,
                             struct copse_server_state *out);
    copse_status (*progress)(struct copse_server *s, uint32_t group, enum copse_progress_op op,
                             struct copse_server_progress *progress);
    /* Add to or set the counter of the job; `value` receives the new value. */
    copse_status (*counter)(struct copse_server *s, bool is_set, uint64_t *value);
    /* This worker is done. Over an engine whose ranks leave together it waits until all workers are
       done. */
    void (*leave)(struct copse_server *s);
};

struct copse_server {
    const struct copse_server_table *table;
    copse_context *ctx; /* not a reference */
};

/* A server of this process, on a device. */
copse_status copse__server_local(copse_context *ctx, const char *device, struct copse_server **out);
/* A client of the ps task with this rank; `c` outlives it. */
copse_status copse__server_remote(copse_cluster *c, uint32_t rank, struct copse_server **out);
/* Leaves and frees. */
void copse__server_release(struct copse_server **at);

#endif
