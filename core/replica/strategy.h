/* SPDX-License-Identifier: MIT */
/* A strategy as everything else sees it: replicas, the group of workers, and a table of what
   distinguishes it. */
#ifndef COPSE_CORE_STRATEGY_H
#define COPSE_CORE_STRATEGY_H

#include "core/base/callback.h"
#include "core/comm/group.h"
#include "core/graph/graph.h"
#include "core/graph/variant.h"
#include "core/replica/replica.h"

struct copse_storage;
struct copse_store;

/* What distinguishes the strategies: one table each, in a file of its own. */
struct copse_strategy_table {
    copse_strategy_kind kind;
    const char *name;  /* in messages */
    bool has_one_copy; /* of each variable, so that synchronization has no effect */
    /* replicas that name the same device share it and its queue; else each has a part of it */
    bool shares_devices;
    /* Set the job's count of training steps to *value, or add *value to it; *value receives the
       count. */
    copse_status (*count)(copse_strategy *st, bool is_set, uint64_t *value);
    void (*dispose)(copse_strategy *st); /* after the last release; NULL: the strategy is static */
};

/* What belongs to a strategy and is made above it, such as an optimizer: the first member of its
   struct. It retains the strategy. `kind` is an address that all objects of one sort share. */
struct copse_dependant {
    const void *kind;
    struct copse_dependant *next;
};

struct copse_strategy {
    copse_refs refs;
    copse_context *ctx;
    const struct copse_strategy_table *table;
    uint32_t serial; /* 0 = the default strategy */
    struct copse_strategy_params params;
    struct copse_choices choices; /* kernel variants that are forced */
    uint32_t replica_count;
    struct copse_replica replicas[COPSE_MAX_REPLICAS];
    /* the workers in step, this one among them; has the ranks of the replicas */
    struct copse_group group;
    struct {
        copse_variable **at;
        size_t count, room;
    } variables;               /* in order of creation */
    struct copse_store *store; /* memory of the trained variables (core/variable/store.h) */
    /* where values of variables are kept (core/variable/storage.h) */
    struct copse_storage *storage;
    struct copse_value_reducer *reducer; /* of values; NULL until the first reduction */
    /* the application's cross-device operations; NULL = the library's choice */
    struct copse_cross_device *cross;
    /* recordings of calls, and how they are released; NULL until the first call */
    struct copse_calls *calls;
    void (*release_calls)(copse_strategy *st);
    bool has_mean_losses; /* of the replicated model that runs (copse_current_loss_reduction) */
    struct copse_replica_thread *idle_threads; /* of replicas (replica_threads.c) */
    struct copse_dependant *dependants;        /* newest first */
    /* COPSE_ERR_ARGUMENT if checkpoints have an array of an optimizer by this name; NULL: there is
       no optimizer. */
    copse_status (*check_name)(const copse_strategy *st, const char *name);
    uint64_t global_step; /* see train_step.h */
    /* The rest of a training step that an application executes in slices, of the trainer `user`.
       What reads or changes variables finishes it first. NULL: no step is begun. */
    struct {
        copse_status (*finish)(void *user);
        void *user;
    } begun;
    struct {
        uint32_t steps_per_run; /* batches that a trainer takes ahead; 0: it steps one by one */
        uint32_t cores[COPSE_MAX_REPLICAS]; /* of each replica */
    } accelerator;                          /* see accelerator.h */
};

/* One replica, number 0 of 1, without a device or variables; static, and never released. Its
   context is NULL. */
extern copse_strategy copse__default_strategy;

/* The `count` row of strategies whose processes count for themselves. */
copse_status copse__strategy_count(copse_strategy *st, bool is_set, uint64_t *value);

/* How many copies of each variable are changed: one, or one on each replica of this worker. */
static inline uint32_t copse__strategy_copies(const copse_strategy *st)
{
    return st->table->has_one_copy ? 1 : st->replica_count;
}

/* Whether the application's operations sum what several replicas have, in place of the exchange. */
static inline bool copse__strategy_has_own_sums(const copse_strategy *st)
{
    return st->cross && st->group.ranks > 1;
}

/* Finish the step that is begun, if any. */
static inline copse_status copse__strategy_settle(copse_strategy *st)
{
    return st->begun.finish ? st->begun.finish(st->begun.user) : COPSE_OK;
}

/* Whether all replicas have the same queue. */
bool copse__strategy_has_one_queue(const copse_strategy *st);

/* The strategy's reducer of values, made by the first call. */
copse_status copse__strategy_reducer(copse_strategy *st, struct copse_value_reducer **out);

void copse__dependant_add(copse_strategy *st, struct copse_dependant *d, const void *kind);
void copse__dependant_remove(copse_strategy *st, struct copse_dependant *d);
/* The next one of this kind behind `d`, or the first of all (NULL); NULL at the end. */
void *copse__dependant_next(const copse_strategy *st, const struct copse_dependant *d,
                            const void *kind);

#endif
