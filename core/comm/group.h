/* SPDX-License-Identifier: MIT */
/* The workers that train in step. A process that trains alone is a group of one worker: each
   operation below then returns at once with this worker's own data, so callers need no test. */
#ifndef COPSE_CLUSTER_GROUP_H
#define COPSE_CLUSTER_GROUP_H

#include "copse/strategy.h" /* COPSE_MAX_REPLICAS */
#include "core/comm/cluster.h"

struct copse_group {
    copse_cluster *cluster; /* retained; NULL in a group of one */
    /* of this process, retained; with parameter servers its workers are not in step, and each is a
       group of one. NULL: this process is the job */
    copse_cluster *job;
    uint32_t worker, workers; /* number of this worker; how many there are, >= 1 */
    uint32_t first, ranks;    /* rank of this worker's first replica; replicas of all workers */
    uint32_t rank_counts[COPSE_MAX_WORKERS]; /* replicas of each worker */
    /* smallest binding limit of the devices of all workers; not in a group of one */
    uint64_t binding_bytes;
    /* device of this worker that failed, or NULL; may be NULL */
    const char *(*failed_device)(const void *user);
    const void *user; /* of failed_device */
};

/* A group of one worker with one replica; constant. */
extern struct copse_group copse__group_of_one;
/* A group of one worker with `ranks` replicas. */
void copse__group_alone(struct copse_group *g, uint32_t ranks);
/* Join the other workers of a cluster with `ranks` replicas; retains the cluster. With a cluster of
   one worker the group is one of one. `binding_bytes`: the smallest limit of this worker's devices;
   all workers exchange theirs. COPSE_ERR_ARGUMENT when there are more than COPSE_MAX_REPLICAS
   together. `g` must not move while an exchange uses it. */
copse_status copse__group_join(struct copse_group *g, copse_cluster *c, uint32_t ranks,
                               uint64_t binding_bytes);
/* Release the cluster. */
void copse__group_leave(struct copse_group *g);

/* Whether this process writes what a job writes once. */
bool copse__group_is_chief(const struct copse_group *g);
/* Whether it has the role of an evaluator, which trains nothing. */
bool copse__group_is_evaluator(const struct copse_group *g);
/* The cluster where other processes take part in the job, else NULL. */
copse_cluster *copse__group_job(const struct copse_group *g);

/* The smallest binding limit of the devices of all workers, or `own` in a group of one. */
uint64_t copse__group_binding_bytes(const struct copse_group *g, uint64_t own);

/* ---- operations: see copse__operation_begin ---- */

void copse__group_begin(struct copse_group *g, const char *call);
/* Returns `s`. */
copse_status copse__group_end(struct copse_group *g, copse_status s);

/* ---- collectives: all workers call them in the same order. `what` names the call in texts and
   must be the same ---- */

/* All workers have arrived. `mine` other than COPSE_OK is this worker's reason to stop: every
   worker returns it, and the group goes on. */
copse_status copse__group_barrier(struct copse_group *g, const char *what, uint64_t size,
                                  copse_status mine);
/* The same with the form of the operands, such as "f32 [3, 4]": where it differs between workers
   all return COPSE_ERR_SHAPE, and the group goes on. */
copse_status copse__group_barrier_on(struct copse_group *g, const char *what, const char *form,
                                     uint64_t size, copse_status mine);
/* A barrier, then the first worker's bytes become those of all. */
copse_status copse__group_broadcast(struct copse_group *g, const char *what, void *bytes,
                                    size_t size, copse_status mine);
/* all[w] receives `mine` of worker w, `size` bytes each. */
copse_status copse__group_allgather(struct copse_group *g, const char *what, const void *mine,
                                    void *all, size_t size);
/* A barrier, then `all` has `size` bytes of every rank; those of this worker's replicas are already
   there. */
copse_status copse__group_gather_ranks(struct copse_group *g, const char *what, void *all,
                                       size_t size, copse_status mine);
/* Whether all have the same text, line by line; else COPSE_ERR_ARGUMENT on all of them with the
   first difference. */
copse_status copse__group_agree(struct copse_group *g, const char *what, const char *text);
/* Exchange statuses. Returns `mine` and its text, or COPSE_ERR_COMM that names a worker that
   failed. */
copse_status copse__group_vote(struct copse_group *g, copse_status mine, const char *what);

/* ---- behind a barrier, as parts of the same collective: only the cluster can fail here ---- */

/* Worker w has sizes[w] bytes; they follow one another in `all`, this worker's already there. */
copse_status copse__group_allgatherv(struct copse_group *g, void *all, const size_t *sizes);
/* The same where each has `size` bytes. */
copse_status copse__group_allgather_each(struct copse_group *g, void *all, size_t size);

/* ---- failure ---- */

/* This worker cannot continue: the others are notified, with the device that failed, and do not
   wait for it. Keeps the text of the last error. */
void copse__group_abort(struct copse_group *g);
/* Whether a device of this worker has failed. */
bool copse__group_has_failed_device(const struct copse_group *g);
/* How many collectives have begun and operations have ended; 0 in a group of one. */
uint64_t copse__group_sequence(const struct copse_group *g);
/* Whether a failure since then has changed nothing on any worker: a worker refused the collective,
   or none has begun. False in a group of one. */
bool copse__group_is_whole(const struct copse_group *g, uint64_t since);
/* Whether a vote has ended a collective, or an operation has failed here, since then. */
bool copse__group_was_refused(const struct copse_group *g, uint64_t since);
/* Vote `why` in the collective that the others are about to begin; keeps the text. Returns
   `why`. */
copse_status copse__group_refuse(struct copse_group *g, const char *what, copse_status why);
/* The header of the next collective holds this number, which must be the same on all workers. */
void copse__group_note(struct copse_group *g, uint32_t detail);

#endif
