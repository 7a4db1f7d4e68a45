/* SPDX-License-Identifier: MIT */
/* Internals of the row exchange: memory and recorded commands (row_record.c), runs
   (row_exchange.c). */
#ifndef COPSE_ROW_EXCHANGE_INTERNAL_H
#define COPSE_ROW_EXCHANGE_INTERNAL_H

#include "core/reduce/reducer.h"
#include "core/reduce/row/row_exchange.h"

/* Memory that the owner has for one run; `entries` places are those of all lists. */
struct copse_row_join {
    copse_buffer *rows, *terms;   /* [ranks][places], with sums */
    copse_buffer *places;         /* [ranks][entries] */
    copse_buffer *leads;          /* [entries]: each row once */
    copse_buffer *sums;           /* [entries] rows */
    copse_buffer *values, *slots; /* new rows of the variable; [slots][entries] */
    /* of a rule that measures: of each COPSE_UNIT elements of the sums */
    copse_buffer *measures;
};

struct copse_row_exchange {
    struct copse_row_exchange_params params; /* ranks and values = those below */
    struct copse_mem *mem;
    struct copse_exchange_rank ranks[COPSE_MAX_REPLICAS]; /* references to queue and step buffer */
    struct copse_binding values[COPSE_MAX_REPLICAS];      /* references to the buffers */
    copse_reducer *reducer;
    bool is_one_queue;   /* all ranks of all workers have the same */
    bool is_new;         /* see copse__row_exchange_is_new */
    uint32_t owner;      /* a rank of this worker, or COPSE_ROW_NO_OWNER */
    uint32_t all;        /* ranks of all workers */
    copse_buffer *slots; /* at the owner; NULL: the rule has none */
    size_t slot_stride;  /* bytes */
    /* places of this worker's lists, a multiple of COPSE_UNIT; 0: none yet */
    uint32_t room;
    copse_buffer *rows[COPSE_MAX_REPLICAS], *terms[COPSE_MAX_REPLICAS]; /* what a rank gives */
    /* places of a list in the join: the largest `room` of all workers; 0: nothing is recorded */
    uint32_t each;
    struct copse_row_join join;
    /* the new rows, at ranks with another queue */
    copse_buffer *leads[COPSE_MAX_REPLICAS], *news[COPSE_MAX_REPLICAS];
    struct copse_segment *update, *adopt[COPSE_MAX_REPLICAS];
    struct copse_segment *sum;         /* of a rule that measures: ahead of `update` */
    struct copse_host_memory measures; /* as read */
    /* see copse__row_exchange_newest; no references */
    struct copse_command newest[COPSE_MAX_REPLICAS];
    bool has_newest; /* all leads are those of the newest update */
    struct copse_copies gather, spread;
    struct {
        const struct copse_segment *segment;
        copse_replay_fn *replay;
        void *user;
    } other; /* see copse__row_exchange_replay_by */
    struct copse_row_exchange_size size;
    /* Several workers (row_workers.c): */
    struct copse_worker_messages messages;
    /* of this worker; of all workers, at the owner; leads, then rows */
    struct copse_host_memory lists, others, new_rows;
};

#define COPSE_ROW_NO_OWNER UINT32_MAX

/* Make memory for lists of `room` places; what is recorded is released. */
copse_status copse__row_record_lists(copse_row_exchange *x, uint32_t room);
/* Record a join of lists of `each` places. */
copse_status copse__row_record_join(copse_row_exchange *x, uint32_t each);
/* Release both. Waits for replays. */
void copse__row_record_fini(copse_row_exchange *x);

/* row_lists.c */
copse_status copse__row_play(copse_row_exchange *x, struct copse_segment *segment, uint32_t rank);
copse_status copse__row_send(copse_row_exchange *x, const struct copse_copies *copies);

/* row_workers.c: a run with other workers, its second half, and the end of all messages. */
copse_status copse__row_workers_run(copse_row_exchange *x);
copse_status copse__row_workers_finish(copse_row_exchange *x);
void copse__row_workers_fini(copse_row_exchange *x);

static inline bool copse__row_has_workers(const copse_row_exchange *x)
{
    return x->params.group->workers > 1;
}

/* Whether a rank has the owner's queue. */
static inline bool copse__row_is_local(const copse_row_exchange *x, uint32_t rank)
{
    return x->owner != COPSE_ROW_NO_OWNER && x->ranks[rank].queue == x->ranks[x->owner].queue;
}

/* The first commands of a run, at the owner. */
static inline struct copse_segment *copse__row_first(const copse_row_exchange *x)
{
    return x->sum ? x->sum : x->update;
}

/* Places of all lists in the join. */
static inline uint64_t copse__row_entries(const copse_row_exchange *x)
{
    return (uint64_t)x->all * x->each;
}

/* Rows of the variable's width, in bytes. */
static inline size_t copse__row_bytes(const copse_row_exchange *x, uint64_t count)
{
    return COPSE_WORD_BYTES * (size_t)count * x->params.width;
}

/* In host memory a list has its rows, then its sums; new rows are the leads, then the values. */
static inline size_t copse__row_list_bytes(const copse_row_exchange *x)
{
    return COPSE_WORD_BYTES * (size_t)x->each + copse__row_bytes(x, x->each);
}
static inline size_t copse__row_new_bytes(const copse_row_exchange *x)
{
    return COPSE_WORD_BYTES * (size_t)copse__row_entries(x) +
           copse__row_bytes(x, copse__row_entries(x));
}
/* The lists of a worker as a message; all workers send messages of the size of the longest one. */
static inline size_t copse__row_message_bytes(const copse_row_exchange *x)
{
    uint32_t most = 0;
    for (uint32_t v = 0; v < x->params.group->workers; v++)
        most = COPSE_MAX(most, x->params.group->rank_counts[v]);
    return most * copse__row_list_bytes(x);
}

#endif
