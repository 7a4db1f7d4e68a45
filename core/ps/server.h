/* SPDX-License-Identifier: MIT */
/* What keeps the authoritative copy of variables, as a worker sees it: a server. Workers read values,
 * change them, and push gradients, which the server applies by the optimizer's rule on its own device,
 * where the slots live, too. Two implementations: a parameter store of this process, and one that a ps task of
 * the cluster keeps, over messages.
 *
 * A request is whole: nothing of another worker's request comes between its parts. Between requests
 * others may change everything; nobody waits for anybody.
 */
#ifndef COPSE_SERVER_H
#define COPSE_SERVER_H

#include "copse/optimizer.h"
#include "core/comm/cluster.h"
#include "core/ps/change.h"

/* A variable as it is asked for. The first worker that `may_begin` it gives it its values; who may not
   waits until one has. All must ask for the same type and shape. */
struct copse_server_variable {
    const char *name;
    copse_type type;
    copse_shape shape;
    const void *values; /* 4 bytes an element */
    bool may_begin;
};

/* How far a worker has come in its work, as its newest push says. */
struct copse_worker_progress {
    uint64_t steps; /* updates of its trainer */
    uint64_t batch; /* of its data, in the epoch: the one that comes next */
    uint32_t epoch, pad;
};

/* Of a group: where all workers are, and whether they may begin: the chief has restored them, or has
   nothing to restore. */
struct copse_server_progress {
    uint64_t seed; /* of the trainer that was restored */
    uint32_t is_open, pad;
    struct copse_worker_progress at[COPSE_MAX_WORKERS];
};

enum copse_progress_op {
    COPSE_PROGRESS_READ,
    COPSE_PROGRESS_SET,  /* all but is_open */
    COPSE_PROGRESS_OPEN, /* that alone */
};

/* What a group is besides its variables and slots. */
struct copse_server_state {
    uint64_t updates;
    struct copse_server_progress progress;
};

/* What one worker's step changes: a gradient for every variable of a group. */
struct copse_server_push {
    uint32_t worker;
    struct copse_worker_progress progress; /* it is there then */
    float rate;             /* learning rate of this update */
    float scale;            /* factor on the gradients */
    const float *gradients; /* one variable behind another, in the group's order */
    uint64_t elements;      /* of all of them */
};

struct copse_server;

struct copse_server_table {
    /* Find or make a variable. */
    copse_status (*make)(struct copse_server *s, const struct copse_server_variable *v, uint32_t *id);
    /* Values of those whose version is not seen[i] (0: of none yet) into values[i]; seen[i] becomes it. After a
       failure their values are of no use; where it has added to the cluster's window.stuck, their memory may be
       written to for as long as the cluster lives: it must go to copse__window_keep. */
    copse_status (*pull)(struct copse_server *s, const uint32_t *ids, uint32_t count, uint64_t *seen,
                         void *const *values);
    copse_status (*read)(struct copse_server *s, uint32_t id, void *values);
    copse_status (*change)(struct copse_server *s, uint32_t id, enum copse_change how, uint64_t count,
                           const void *values);
    /* Change rows; `how` is one of COPSE_SCATTER_... */
    copse_status (*scatter)(struct copse_server *s, uint32_t id, enum copse_change how,
                            const struct copse_rows *rows);
    /* Variables that one optimizer updates together, with slots that start at zero. The same group as that of
       other workers with this key; with key 0 the n-th of a worker is the n-th of all others. */
    copse_status (*group)(struct copse_server *s, uint64_t key, const uint32_t *ids, uint32_t count,
                          const struct copse_optimizer_params *rule, uint32_t *group);
    void (*drop)(struct copse_server *s, uint32_t group);
    /* Update the group: the rule sees the server's count of its updates, which `count` receives. */
    copse_status (*push)(struct copse_server *s, uint32_t group, const struct copse_server_push *p,
                         uint64_t *count);
    /* The count of updates so far; and to set it, as a checkpoint does. */
    copse_status (*updates)(struct copse_server *s, uint32_t group, bool is_set, uint64_t *count);
    /* Read or set a slot of variable `member` of the group, which has `count` elements. */
    copse_status (*slot)(struct copse_server *s, uint32_t group, uint32_t member, uint32_t slot,
                         bool is_set, uint64_t count, void *values);
    /* All of a group at one moment: values and slots of its variables, [variable][values, slot, ...], `count`
       elements, 4 bytes each. */
    copse_status (*snapshot)(struct copse_server *s, uint32_t group, uint64_t count, void *words,
                             struct copse_server_state *out);
    copse_status (*progress)(struct copse_server *s, uint32_t group, enum copse_progress_op op,
                             struct copse_server_progress *progress);
    /* A counter of the job: add to it or set it; `value` receives what it is then. */
    copse_status (*counter)(struct copse_server *s, bool is_set, uint64_t *value);
    /* This worker is done. Blocking: over an engine whose ranks leave together, until all are done. */
    void (*leave)(struct copse_server *s);
};

struct copse_server {
    const struct copse_server_table *table;
    copse_context *ctx; /* not a reference */
};

/* A server of this process, on a device. */
copse_status copse__server_local(copse_context *ctx, const char *device, struct copse_server **out);
/* The one that the ps task with this rank keeps; `c` outlives it. */
copse_status copse__server_remote(copse_cluster *c, uint32_t rank, struct copse_server **out);
/* Leaves and frees. */
void copse__server_release(struct copse_server **at);

#endif
