/* SPDX-License-Identifier: MIT */
/* The state of a program during recording, shared by its three passes. lifetime.c finds the needed
   nodes, the lifetime of values and the ends of segments; launches.c lowers nodes, those together
   that fusions.c and joins.c found, and schedule.c orders their launches; program.c allocates
   memory and records. */
#ifndef COPSE_RECORDER_H
#define COPSE_RECORDER_H

#include "core/graph/lowering.h"
#include "core/graph/plan.h"

#define COPSE_MAX_ARENAS 64

/* The location of a tensor's values. */
struct copse_home {
    enum { COPSE_HOME_NONE, COPSE_HOME_ARENA, COPSE_HOME_FIXED } kind;
    uint32_t allocation;        /* COPSE_HOME_ARENA */
    struct copse_binding fixed; /* COPSE_HOME_FIXED: placements and variables */
};

/* A launch before memory is assigned. */
struct copse_launch {
    enum { COPSE_LAUNCH_KERNEL, COPSE_LAUNCH_COPY, COPSE_LAUNCH_GEMM } kind;
    uint32_t node; /* while it is being lowered: offset from the node */
    enum copse_kernel_id id;
    int32_t spec[COPSE_MAX_SPECS];
    uint32_t params[COPSE_MAX_PARAM_WORDS];
    uint64_t groups, count; /* kernel: groups; copy: elements */
    struct copse_operand args[COPSE_MAX_BINDINGS];
    uint32_t arg_count;
    struct copse_command gemm;
};

struct copse_program {
    struct copse_mem *mem;
    copse_queue *queue;
    copse_buffer *arenas[COPSE_MAX_ARENAS];
    size_t arena_bytes[COPSE_MAX_ARENAS];
    uint32_t arena_count;
    struct copse_segment **segments;
    uint32_t *all_reduces; /* by segment */
    uint32_t segment_count;
    struct {
        const copse_tensor *tensor;
        struct copse_binding at;
    } *inputs; /* compared, never dereferenced */
    uint32_t input_count;
};

/* A node whose result comes from the exchange with the other replicas. */
struct copse_recorder_all_reduce {
    const copse_tensor *node;
    struct copse_binding operand, result;
    bool is_direct; /* the operand is computed at its location */
};

/* Nodes that are lowered together, at the place of the last one. */
#define COPSE_MOST_JOINED 4
struct copse_join {
    uint32_t at[COPSE_MOST_JOINED], count;
};

/* What a node is in a fusion. An inner one has no memory. */
enum { COPSE_NOT_FUSED, COPSE_FUSED, COPSE_FUSED_INNER };

struct copse_recorder {
    struct copse_lowering lowering; /* first */
    struct copse_mem *mem;
    const struct copse_program_params *params;
    copse_program *program;
    copse_graph *graph;
    uint32_t now;    /* node being lowered */
    bool *needed;    /* by node id */
    bool *joined;    /* by node id: of a join */
    uint8_t *fused;  /* by node id: of a fusion */
    uint32_t *place; /* by node id: the node at which it is computed, itself or of its fusion */
    struct copse_home *homes; /* by node id, roots only */
    uint32_t *last_use;       /* by node id, roots only */
    struct {
        struct copse_allocation *at;
        size_t count, room;
    } allocations;
    struct {
        uint32_t *at;
        size_t count, room;
    } scratch; /* scratch number -> allocation */
    struct {
        struct copse_launch *at;
        size_t count, room;
    } launches;
    struct {
        struct copse_command *at;
        size_t count, room;
    } commands;
    struct {
        struct copse_recorder_all_reduce *at;
        size_t count, room;
    } all_reduces;
    struct {
        struct copse_join *at;
        size_t count, room;
    } joins;
    struct {
        struct copse_fused *at;
        size_t count, room;
    } fusions;
    uint32_t *ends;      /* by bucket: last node of the bucket */
    uint32_t *cuts;      /* by segment: its last node */
    uint32_t *crossings; /* by segment: the all-reduce that it ends at, or COPSE_NO_ALL_REDUCE */
    uint32_t segment_count;
    /* Lifetimes of allocations count these times: nodes, or, if `node_at` is not NULL, groups of
       launches; then a node of each. */
    uint32_t times, *node_at;
    uint64_t most_bytes; /* that an order may need */
    bool is_plain;       /* of the parameters; or the device had no memory for more */
};

/* The node that owns a tensor's memory: itself, or the root of a view. */
static inline const copse_tensor *copse__root(const copse_tensor *t)
{
    while (!t->op->lower && t->in_count == 1)
        t = t->in[0];
    return t;
}

/* Inputs, variables and constants: no launch computes them. */
static inline bool copse__is_leaf(const copse_tensor *t)
{
    return !t->op->lower && t->in_count == 0;
}

/* The first placement of a tensor in a list, or of the program's; NULL: none. */
const struct copse_placement *copse__placement_find(const struct copse_placement *list,
                                                    size_t count, const copse_tensor *t);
const struct copse_placement *copse__placement_of(const struct copse_recorder *r,
                                                  const copse_tensor *t);

/* Before and after the passes (recorder.c). The first two passes and the plan need no program. */
copse_status copse__recorder_begin(const struct copse_program_params *params,
                                   struct copse_recorder *r);
copse_status copse__recorder_plan(struct copse_recorder *r, size_t *bytes, uint32_t *count);
void copse__recorder_end(struct copse_recorder *r);
/* Bytes of the buffers that a list of r->allocations.count needs; UINT64_MAX: it does not fit. */
static inline copse_status copse__bytes_needed(const struct copse_recorder *r,
                                               struct copse_allocation *list, uint64_t *bytes)
{
    size_t arenas[COPSE_MAX_ARENAS];
    uint32_t count = 0;
    const copse_status s =
        copse__plan(r->mem, list, r->allocations.count,
                    (size_t)COPSE_MIN(r->lowering.limits->max_buffer_bytes, SIZE_MAX), arenas,
                    COPSE_MAX_ARENAS, &count);
    *bytes = s == COPSE_OK ? 0 : UINT64_MAX;
    for (uint32_t i = 0; s == COPSE_OK && i < count; i++)
        *bytes += copse__buffer_room(r->params->queue->dev, arenas[i]);
    return s == COPSE_ERR_NO_DEVICE_MEMORY ? COPSE_OK : s;
}

/* Pass 1 (lifetime.c), in this order. The last one needs no program. */
void copse__lifetimes(struct copse_recorder *r);
copse_status copse__all_reduces_find(struct copse_recorder *r);
copse_status copse__segments_cut(struct copse_recorder *r);

/* How many of the program's placements a tensor has, and the segment of a node. */
static inline uint32_t copse__places_of(const struct copse_recorder *r, const copse_tensor *t)
{
    uint32_t count = 0;
    for (size_t i = 0; i < r->params->placement_count; i++)
        count += r->params->placements[i].tensor == t;
    return count;
}
static inline uint32_t copse__segment_of(const struct copse_recorder *r, uint32_t n)
{
    uint32_t i = 0;
    while (i + 1 < r->segment_count && r->cuts[i] < n)
        i++;
    return i;
}

/* Before pass 2 and before joins (fusions.c): the nodes that one launch computes, all or only those
   that are free, or none; the fusion that is computed at a node, or NULL. */
copse_status copse__fusions_find(struct copse_recorder *r, bool only_free);
void copse__fusions_drop(struct copse_recorder *r);
const struct copse_fused *copse__fusion_at(const struct copse_recorder *r, uint32_t place);

/* Before pass 2 (joins.c): the nodes that are lowered together, or none; a join by its last node,
   or NULL. */
copse_status copse__joins_find(struct copse_recorder *r);
void copse__joins_drop(struct copse_recorder *r);
const struct copse_join *copse__join_of(const struct copse_recorder *r, uint32_t last);

/* Pass 2 (launches.c): the functions that ops call while lowering; and the lowering of all needed
   nodes. */
void copse__lower_init(struct copse_recorder *r);
copse_status copse__lower(struct copse_recorder *r);

/* The end of pass 2 (schedule.c): the order of the launches of each segment, and lifetimes in this
   order. */
copse_status copse__schedule(struct copse_recorder *r);
/* Whether an order can save barriers; the order of the nodes. */
bool copse__schedule_helps(const struct copse_recorder *r);
void copse__schedule_none(struct copse_recorder *r);

#endif
