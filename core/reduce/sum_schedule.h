/* SPDX-License-Identifier: MIT */
/* The canonical reduction tree and the schedules that evaluate it. Pure integers, no device.
 *
 * The sum over ranks 0..N-1 is defined element by element: at level k = 0, 1, 2, ... every rank r
 * that is a multiple of 2^(k+1) takes value[r] = value[r] + value[r + 2^k] where rank r + 2^k
 * exists. So for five ranks ((0+1)+(2+3))+4. Every schedule below evaluates just this tree, so
 * algorithm, sizes of slices and arrival order change no bit.
 */
#ifndef COPSE_SCHEDULE_H
#define COPSE_SCHEDULE_H

#include "copse/strategy.h"
#include "core/device/backend.h" /* COPSE_UNIT */

enum copse_move_kind {
    COPSE_MOVE_GATHER,     /* src's gradients become readable by dst */
    COPSE_MOVE_SUM,        /* dst sums the contributions of all ranks by the tree */
    COPSE_MOVE_ACCUMULATE, /* dst's partial sum += src's */
    COPSE_MOVE_UPDATE,     /* dst applies the update rule to its slice */
    COPSE_MOVE_BROADCAST,  /* src's new values go to dst */
    /* across workers: ranks are local, `worker` is the other side */
    COPSE_MOVE_PUSH,    /* src's sum over this worker goes to `worker` */
    COPSE_MOVE_PULL,    /* the sum over `worker` becomes readable by dst */
    COPSE_MOVE_JOIN,    /* dst sums the sums of all workers by the tree */
    COPSE_MOVE_PUBLISH, /* src's new values go to all other workers */
    COPSE_MOVE_ADOPT,   /* the new values from `worker` go to dst */
};

struct copse_move {
    enum copse_move_kind kind;
    uint32_t phase;        /* moves of a phase are independent; phases follow one another */
    uint32_t src, dst;     /* ranks; equal where only one is concerned */
    uint64_t first, count; /* elements; first is a multiple of COPSE_UNIT */
    uint32_t slice;        /* which slice of the bucket */
    uint32_t worker;
};

/* Elements of a bucket and the rank that reduces and updates them. */
struct copse_slice {
    uint64_t first, count;
    uint32_t owner;  /* rank within its worker */
    uint32_t worker; /* 0 where there is one worker only */
};

struct copse_schedule {
    struct {
        struct copse_slice *at;
        size_t count, room;
    } slices;
    struct {
        struct copse_move *at;
        size_t count, room;
    } moves;
    uint32_t phases;
};

/* Schedule of one bucket: elements [first, first + count), first a multiple of COPSE_UNIT. */
copse_status copse__schedule_make(struct copse_mem *mem, copse_reduce_algorithm reduction,
                                  uint32_t ranks, uint64_t first, uint64_t count,
                                  struct copse_schedule *out);
/* The same for one of several workers, with rank_counts[v] ranks each. The sum over all is the tree
   over the workers' sums; where every worker has the same power of two of ranks, that is the tree
   over all ranks in the order of the workers, and slices and owners are those of one worker with
   all ranks. */
struct copse_workers {
    uint32_t worker, count;      /* this one, and how many */
    const uint32_t *rank_counts; /* of each, >= 1; together at most COPSE_MAX_REPLICAS */
};
copse_status copse__schedule_make_workers(struct copse_mem *mem, copse_reduce_algorithm reduction,
                                          const struct copse_workers *workers, uint64_t first,
                                          uint64_t count, struct copse_schedule *out);
void copse__schedule_fini(struct copse_mem *mem, struct copse_schedule *s);

/* A bucket of gradients: a run of whole variables. `sizes` are padded element counts in store
   order; `cuts` receives the index after each bucket's last variable; returns the bucket count. */
uint32_t copse__bucket_plan(const uint64_t *sizes, size_t count, uint64_t bucket_elements,
                            size_t *cuts);

#endif
