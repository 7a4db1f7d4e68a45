/* SPDX-License-Identifier: MIT */
/* Tower optimizers from the inside: gradients kept until all replicas have given theirs, and
   recordings of loss functions whose results are values. */
#ifndef COPSE_TOWER_H
#define COPSE_TOWER_H

#include "copse/compat/replicated.h"
#include "core/call/call.h"
#include "core/value/replica_run.h"

/* One call of copse_tower_apply; the gradients are references. */
struct copse_tower_call {
    struct copse_tower_gradient *pairs;
    size_t count;
};

struct copse_tower_optimizer {
    struct copse_dependant dependant; /* of the strategy */
    copse_strategy *strategy;
    struct copse_tower_params params; /* without the name, which the caller may free */
    copse_loss_reduction reduction;   /* in use */
    /* of the variables that were updated; `held` counts what is in `kept` */
    struct copse_optimizer *optimizer;
    bool is_used;
    /* of the optimizer: their launches were compared with the host, or need not be */
    size_t checked_buckets;
    uint64_t calls[COPSE_MAX_REPLICAS]; /* since the last finish */
    struct {
        struct copse_tower_call *at;
        size_t count, room;
    } kept[COPSE_MAX_REPLICAS];
    struct copse_calls computing; /* of its loss functions */
};

/* tower.c */
/* The tower optimizer of a strategy that was made before `t`, or the newest one (NULL); NULL at the
   end. */
copse_tower_optimizer *copse__tower_next(const copse_strategy *st, const copse_tower_optimizer *t);

/* tower_gradients.c */
/* The replica that the thread is in; COPSE_ERR_CONTEXT unless it is one of the strategy's. */
copse_status copse__tower_replica(const copse_tower_optimizer *t, uint32_t *rank);
/* The rule, from the factory at its first use. */
copse_status copse__tower_rule(copse_tower_optimizer *t);
/* pairs[i] is of a variable that is trained, and the first of it. */
copse_status copse__tower_listed(const copse_tower_optimizer *t,
                                 const struct copse_tower_gradient *pairs, size_t i);
/* Keep references of the gradients that a replica has given. */
copse_status copse__tower_keep(copse_tower_optimizer *t, uint32_t rank,
                               const struct copse_tower_gradient *pairs, size_t count);
/* Release the first list that is kept of a replica; take back its newest call; or release all lists,
   and forget the count of calls. */
void copse__tower_drop_first(copse_tower_optimizer *t, uint32_t replica);
void copse__tower_drop_last(copse_tower_optimizer *t, uint32_t replica);
void copse__tower_drop_all(copse_tower_optimizer *t);
void copse__tower_call_free(copse_tower_optimizer *t, struct copse_tower_call *call);

/* tower_compute.c */
void copse__tower_computing_init(copse_tower_optimizer *t);

/* tower_check.c */
/* Cross-check before an update; nothing to do unless there are new buckets. COPSE_ERR_UNRELIABLE
   where a launch differs from the host; no variable has changed. */
copse_status copse__tower_check_update(copse_tower_optimizer *t);

/* tower_update.c */
/* Sum the first kept lists of all replicas and update. */
copse_status copse__tower_update(copse_tower_optimizer *t, bool moves_step);
/* Barrier of all workers at "<what> of <name>", with the same number of updates; if one fails, all
   fail. */
copse_status copse__tower_barrier(copse_tower_optimizer *t, const char *what, uint64_t size,
                                  copse_status mine);

#endif
