/* SPDX-License-Identifier: MIT */
/* An optimizer: the variables that it updates, a rule, slots and counts. Its table has two
 * implementations. `local` sums gradients over replicas and workers and updates each slice at its
 * owner. `ps` sums over the replicas of this worker and pushes the sums to the parameter store of
 * each variable, which updates. Trainers and tower optimizers use the table alone.
 *
 * A bucket is a run of variables of the store that are reduced and updated together. Buckets have
 * numbers from 0 in the order in which they were prepared; within one call of `prepare` that is the
 * order in which gradients become complete.
 */
#ifndef COPSE_OPTIM_H
#define COPSE_OPTIM_H

#include "core/optim/norms.h"
#include "core/optim/scaling.h"
#include "core/ps/server.h"
#include "core/reduce/row/row_exchange.h"
#include "core/reduce/value/block.h"
#include "core/rule/rule.h"
#include "core/variable/flat_store.h"

_Static_assert(COPSE_RULE_SLOTS == COPSE_EXCHANGE_SLOTS,
               "an exchange keeps the slots of every rule");

#define COPSE_NO_BUCKET      UINT32_MAX
#define COPSE_OPTIMIZER_NAME 64         /* bytes, with the zero */
#define COPSE_SLOT_VALUE     UINT32_MAX /* as a slot's number: the variable's values */

struct copse_optimizer;

/* What the gradients of a bucket wait for, and what to do meanwhile. */
struct copse_optimizer_ready {
    const uint64_t *tickets; /* [replicas]: a replica's gradients are complete at its ticket */
    copse_busy_fn *busy;     /* as copse__exchange_run; NULL: nothing */
    void *user;
    const atomic_bool *stop; /* as copse__exchange_stop_by; NULL: never */
};

/* The newest update whose buckets were all applied. */
struct copse_optimizer_commit {
    const uint32_t *words;                 /* its step words */
    struct copse_worker_progress progress; /* progress of this worker with it */
    bool is_unchecked; /* servers do not compare their first update with the host */
};

/* Which values a computation reads. */
enum copse_pull {
    /* a trainer's step: COPSE_ERR_CONTEXT where some replicas have computed from older values */
    COPSE_PULL_STEP,
    COPSE_PULL_EVALUATE, /* an evaluation: the values stay where a step is under way */
    /* a replica's computation: the first one of a step brings new values, for all */
    COPSE_PULL_REPLICA,
    COPSE_PULL_ALWAYS,
};

struct copse_optimizer_table {
    const char *name;
    /* every worker updates when it wants: the counts are of all, and one worker saves and
       restores */
    bool is_sharing;
    /* Slots, at their first values, and buckets for these variables, which have places in the store
       and no bucket. In order of creation. */
    copse_status (*prepare)(struct copse_optimizer *o, copse_variable *const *list, size_t count);
    /* Reduce, update and broadcast; `ps`, and where the rule measures: reduce and keep the sums for
       `commit`. The gradients are those of the store, or of a sparse variable the lists that were
       given to its bucket (row_buckets.c). */
    copse_status (*apply)(struct copse_optimizer *o, uint32_t bucket,
                          const struct copse_optimizer_ready *ready);
    /* The same where all replicas have one queue: queued behind what was queued before, nothing is
       waited for. Not where the rule measures. */
    copse_status (*queue)(struct copse_optimizer *o, uint32_t bucket);
    /* All buckets of an update were applied. Where the rule measures the host waits here, once.
       Where it scales gradients the update is skipped if a sum is not finite
       (scaling.is_skipped). */
    copse_status (*commit)(struct copse_optimizer *o, const struct copse_optimizer_commit *c);
    /* Bring the variables of the strategy up to date. */
    copse_status (*pull)(struct copse_optimizer *o, enum copse_pull when, uint32_t replica);
    /* Number of the update that words are for, where this worker's own count is `step`. */
    uint64_t (*next)(const struct copse_optimizer *o, uint64_t step);
    /* Queue the transfers of a whole slot of a variable: copse__rule_slot_words, of
       COPSE_SLOT_VALUE a word for each element. Reading: this worker's ranges; the rest of `values`
       stays. A variable without a bucket has none. The caller waits for the queues. */
    copse_status (*read_slot)(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                              void *values);
    copse_status (*write_slot)(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                               const void *values);
    /* Count of updates of a variable, NULL: of all; or set it. NULL: the caller's own count is the
       only one. */
    copse_status (*counts)(struct copse_optimizer *o, const copse_variable *v, bool is_set,
                           uint64_t *count);
    /* From now on until `forget`, values and slots are read as they are now. NULL: nothing else
       changes them. */
    copse_status (*snapshot)(struct copse_optimizer *o);
    void (*forget)(struct copse_optimizer *o);
    /* Progress of all workers: read, set or open (progress.h); and of one, in the snapshot. NULL:
       all workers are at the same step. */
    copse_status (*progress)(struct copse_optimizer *o, enum copse_progress_op op,
                             struct copse_server_progress *all);
    struct copse_worker_progress (*seen)(const struct copse_optimizer *o, uint32_t worker);
    /* what the implementation has; buckets are dropped behind it */
    void (*release)(struct copse_optimizer *o);
};

struct copse_optimizer_bucket {
    uint32_t id;              /* of the exchange */
    copse_row_exchange *rows; /* of a sparse variable, which has a bucket of its own; else NULL */
    uint32_t variable;        /* that one's index */
    bool is_kept;             /* its sums wait for the commit */
    bool is_due;              /* of a named optimizer: the update that is made has its variables */
};

struct copse_optimizer {
    struct copse_dependant dependant; /* of the strategy */
    const struct copse_optimizer_table *table;
    copse_strategy *strategy; /* not a reference */
    /* "": a trainer's; else variables join with their first updates */
    char name[COPSE_OPTIMIZER_NAME];
    struct copse_rule rule;
    /* for each parameter group of `rule`; the last one for variables of no group */
    struct copse_rule *of_group;
    bool has_rule;
    struct {
        struct copse_optimizer_bucket *at;
        size_t count, room;
    } buckets;
    /* by index: its bucket, or COPSE_NO_BUCKET */
    struct {
        uint32_t *at;
        size_t count, room;
    } of_variable;
    size_t variable_count; /* that have buckets */
    /* local: numbers of the buckets that are kept, in order of `apply` */
    struct {
        uint32_t *at;
        size_t count, room;
    } kept;
    struct copse_norms norms; /* of a rule that measures */
    struct copse_scaling scaling;
    /* lists of gradients that replicas have handed over, and that wait for others */
    uint32_t held[COPSE_MAX_REPLICAS];
    bool is_torn;  /* an update was cut short */
    uint64_t step; /* of a named one: its updates, of this worker */
    struct {
        void *user;
        void (*drop_held)(void *user);         /* forget those gradients */
        copse_status (*make_rule)(void *user); /* give a rule, where there is none yet */
    } owner;                                   /* of a named one */
};

/* One for the strategy's variables, of the implementation that its kind needs. `name`: "" or NULL
   for a trainer, else unique in the strategy. Without a rule until copse__optimizer_rule. */
copse_status copse__optimizer_create(copse_strategy *st, const char *name,
                                     struct copse_optimizer **out);
copse_status copse__optimizer_rule(struct copse_optimizer *o,
                                   const struct copse_optimizer_params *params);
/* COPSE_ERR_ARGUMENT unless it can train the variable; `what` begins the text. */
copse_status copse__optimizer_trains(const struct copse_optimizer *o, const copse_variable *v,
                                     const char *what);
/* variable_group.c: the parameter group of a variable, or rule.groups.count. */
uint32_t copse__optimizer_group(const struct copse_optimizer *o, const copse_variable *v);
/* Whether the group of the variable is frozen. */
bool copse__optimizer_freezes(const struct copse_optimizer *o, const copse_variable *v);
/* COPSE_ERR_ARGUMENT if a pattern of the parameter groups matches none of the variables. */
copse_status copse__optimizer_check_groups(const struct copse_optimizer *o,
                                           copse_variable *const *list, size_t count);
/* slot_names.c: COPSE_ERR_ARGUMENT if a checkpoint could not hold the slots of these variables,
   because another array has the name of one. Called before `prepare`. */
copse_status copse__slots_check(const struct copse_optimizer *o, copse_variable *const *list,
                                size_t count);
/* The check_name of a strategy with optimizers. */
copse_status copse__slots_check_name(const copse_strategy *st, const char *name);
/* list.c: add it to its strategy. */
void copse__optimizer_join(struct copse_optimizer *o);
/* The optimizer of a strategy that was made before `o`, or the newest one (NULL); NULL at the
   end. */
struct copse_optimizer *copse__optimizer_next(const copse_strategy *st,
                                              const struct copse_optimizer *o);
/* NULL is fine. Releases the slots; waits for queued work. */
void copse__optimizer_release(struct copse_optimizer **o);

/* The bucket of a variable, or COPSE_NO_BUCKET. */
static inline uint32_t copse__optimizer_bucket(const struct copse_optimizer *o,
                                               const copse_variable *v)
{
    return v->index < o->of_variable.count ? o->of_variable.at[v->index] : COPSE_NO_BUCKET;
}

/* Rate, bias corrections and number of the update; `step`: this worker's count with it. Asks the
   schedule, which may make no call on `user`, the trainer or tower optimizer. */
copse_status copse__optimizer_words(const struct copse_optimizer *o, const void *user,
                                    uint64_t step, uint32_t words[]);

/* buckets.c: cut these variables, in order of creation, into buckets of the exchange, with `rule`;
   a bucket has variables of one parameter group, unless the rule has no `user`, and that of its
   rule takes the place of `user`. Where it fails no bucket is added. */
copse_status copse__optimizer_cut(struct copse_optimizer *o, copse_variable *const *list,
                                  size_t count, const struct copse_exchange_rule *rule);
/* Run the exchange of a bucket, and, of a rule that measures, its second half; or queue it, where
   all replicas have one queue. */
copse_status copse__optimizer_exchange(const struct copse_optimizer *o, uint32_t bucket,
                                       const struct copse_optimizer_ready *ready);
copse_status copse__optimizer_finish(const struct copse_optimizer *o, uint32_t bucket);
copse_status copse__optimizer_queue(const struct copse_optimizer *o, uint32_t bucket);
/* copse__exchange_visit of a bucket, and copse__exchange_replay_by for a segment of any. */
copse_status copse__optimizer_visit(const struct copse_optimizer *o, uint32_t bucket,
                                    copse_replay_fn *visit, void *user);
void copse__optimizer_replay_by(const struct copse_optimizer *o,
                                const struct copse_segment *segment, copse_replay_fn *replay,
                                void *user);
/* Drop buckets from number `first` on. */
void copse__optimizer_drop(struct copse_optimizer *o, size_t first);
/* separate.c: afterwards no bucket has both variables of the set and others; slots keep their
   values. `is_in`: by index of the variable, the same on all workers, which all call it. `mine`: why
   this worker cannot take part. Where it fails with buckets dropped, the optimizer is torn. Nothing
   but `mine` where no bucket is mixed. */
copse_status copse__optimizer_separate(struct copse_optimizer *o, const unsigned char *is_in,
                                       copse_status mine);

/* ---- sparse variables (row_buckets.c) ---- */

/* Cut all other variables of the list into buckets; then a bucket for each sparse one, with this
   rule. COPSE_ERR_UNSUPPORTED for a rule without a sparse form. Where it fails no bucket is
   added. */
copse_status copse__optimizer_cut_rows(struct copse_optimizer *o, copse_variable *const *list,
                                       size_t count, const struct copse_exchange_rule *rule);

/* Where a program leaves the gradient of a sparse variable (core/ops/sort/row_gradient.h). */
struct copse_row_place {
    uint32_t bucket, count; /* the latter of places */
    struct copse_block *list, *sums;
};

/* The rows, and their sums. */
static inline struct copse_binding copse__row_place_list(const struct copse_row_place *p)
{
    return (struct copse_binding){ p->list->buffer, 0, COPSE_WORD_BYTES * (size_t)p->count };
}
static inline struct copse_binding copse__row_place_sums(const struct copse_row_place *p)
{
    return (struct copse_binding){ p->sums->buffer, 0, COPSE_WORD_BYTES * (size_t)p->sums->count };
}

/* ---- slots (slots.c) ---- */

/* The elements of a variable that a range of slots of a bucket holds. */
struct copse_slot_part {
    copse_queue *queue;
    copse_buffer *buffer;
    uint64_t first, count, all; /* elements, in the range; of the range */
    size_t at;                  /* first element, in the variable */
};

/* Part `i` of the ranges of the variable's bucket, or false behind the last. Ranges without
   elements of the variable give a count of 0. */
bool copse__slot_part(const struct copse_optimizer *o, const copse_variable *v, size_t i,
                      struct copse_slot_part *out);
/* Queue the transfers of what this worker's replicas have of a slot. */
copse_status copse__slot_read_own(const struct copse_optimizer *o, const copse_variable *v,
                                  uint32_t slot, void *values);
copse_status copse__slot_write_own(const struct copse_optimizer *o, const copse_variable *v,
                                   uint32_t slot, const void *values);
/* The number of the rule's slot with this name. */
bool copse__slot_find(const struct copse_optimizer *o, const char *name, uint32_t *slot);
/* The words of a whole slot in host memory, on every worker; all of them call it. Blocking. After
   COPSE_ERR_TIMEOUT a device may still write there. */
copse_status copse__slot_read_words(struct copse_optimizer *o, const copse_variable *v,
                                    uint32_t slot, struct copse_block **out);
/* A whole slot as floats, one for each element, in host memory, on every worker; all of them call
   it. Codes become the numbers that they stand for, each element gets the scale of its block.
   Blocking. */
copse_status copse__slot_read(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                              struct copse_block **out);
/* Each worker has some of the words, and zeros for the others; afterwards every worker has all of
   them. `mine`: why this worker cannot take part. Alone, and with servers, nothing but `mine`.
   Blocking. */
copse_status copse__slot_join(struct copse_optimizer *o, const char *what, uint32_t *words,
                              size_t count, copse_status mine);

extern const struct copse_optimizer_table copse__optimizer_local;
/* ps.c */
extern const struct copse_optimizer_table copse__optimizer_ps;
size_t copse__optimizer_ps_bytes(void); /* of its struct, which begins with copse_optimizer */

#endif
