/* SPDX-License-Identifier: MIT */
/* The graph of one replica's computation, and programs: graphs planned, compiled and recorded. */
#ifndef COPSE_GRAPH_H
#define COPSE_GRAPH_H

#include "copse/device/function.h"
#include "core/graph/op.h"

/* bytes between the loss and the reports in the memory of a replica */
#define COPSE_REPORT_STRIDE COPSE_ALIGNMENT
#define COPSE_REPORT_BYTES  ((1 + COPSE_MAX_REPORTS) * COPSE_REPORT_STRIDE)

/* An assignment to a variable that the step executes after all reads of the variable
   (copse_update). */
struct copse_graph_update {
    struct copse_variable *variable;
    copse_tensor *value; /* if is_shared, the sum over replicas; otherwise this replica's value */
    bool is_shared;
    uint32_t all_reduce; /* its number, if is_shared */
};

struct copse_graph {
    copse_context *ctx;
    struct copse_arena arena;
    struct {
        copse_tensor **at;
        size_t count, room;
    } nodes; /* in order of creation */
    struct {
        const char *name;
        copse_tensor *tensor;
        bool is_loss; /* reduced over replicas like the loss, not as a mean */
    } reports[COPSE_MAX_REPORTS];
    size_t report_count;
    struct {
        struct copse_graph_update *at;
        size_t count, room;
    } updates;
    enum {
        COPSE_UPDATES_REFUSED,
        COPSE_UPDATES_IGNORED,
        COPSE_UPDATES_TAKEN, /* of a step: several replicas store the sum of their values */
        COPSE_UPDATES_OWN,   /* of a call: each replica has its value; of trained variables, too */
    } takes_updates;
    struct {
        const char *name;
        copse_tensor *tensor;     /* f32 or i32, of any shape */
        int reduction;            /* enum copse_output_reduction */
    } outputs[COPSE_MAX_OUTPUTS]; /* of the trainer's step */
    size_t output_count;
    copse_type precision; /* of products' operands: copse_set_precision */
    /* derivatives of leaves that take rows are gradients of rows; else they are dense */
    bool keeps_rows;
    uint32_t segments, segment; /* marked for recomputation; number of the open one, or 0 */
    bool is_backward;           /* the loss is differentiated: nodes belong to the backward pass */
    size_t ordered;             /* nodes whose order is settled (order.c) */
    copse_tensor failed;        /* the result of calls that failed */
    copse_status status;        /* of the first call that failed */
    char failure[COPSE_ERROR_BYTES], failure_place[96]; /* copse_last_error, _place */
    /* that compute this graph together; 0 and 1: no node is summed over replicas */
    uint32_t replicas;
    /* whether a parameter group freezes a variable: its layer computes as in an evaluation. NULL:
       none is frozen */
    bool (*freezes)(const void *freezer, const struct copse_variable *v);
    const void *freezer;
};

extern const struct copse_op copse_op_input, copse_op_variable;
/* for a variable that was released; not allowed as an operand */
extern const struct copse_op copse_op_released;
/* the result of a call that failed */
extern const struct copse_op copse_op_failed;

/* A leaf with values in the graph (constant.c): elements of its type. */
extern const struct copse_op copse_op_constant;
const void *copse__constant_values(const copse_tensor *t);

/* The graph's own node for `t` (a variable's tensor gets a leaf node on first use). */
copse_tensor *copse__own(copse_graph *g, copse_tensor *t);

/* copse_cast between f32 and 16 bits; a second call for the same tensor and type returns the first
   one's node. */
copse_tensor *copse__cast_once(copse_graph *g, copse_tensor *x, copse_type type);

/* Like copse_gradients, but dx[i] stays NULL if y does not depend on x[i]. */
void copse__gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy, copse_tensor *const *x,
                      size_t count, copse_tensor **dx);

/* The same for a function `gradient` that writes y, which it has added, with other ops: partial
   derivatives by operands x that may depend on each other. */
void copse__partials(copse_graph *g, copse_tensor *y, copse_tensor *dy, copse_tensor *const *x,
                     size_t count, copse_tensor **dx);

/* Settle the order of the nodes that were added since the last call, and the numbers of their random
   streams, so that they do not depend on the order in which a compiler evaluates arguments: inputs
   by name, then depth first, operands from the first to the last, from `roots`, reports, updates
   and outputs, then from the rest in order of creation. For a closed graph, and before it is differentiated. (order.c) */
copse_status copse__graph_order(copse_graph *g, copse_tensor *const *roots, size_t count);

/* Move the nodes from number `first` on to the earliest position where they can be computed: after
   their last operand among the earlier nodes, or to the front. Programs compute nodes in order.
   (hoist.c) */
copse_status copse__graph_hoist(copse_graph *g, size_t first);

/* ---- programs (program.c) ---- */

struct copse_choice; /* a forced kernel variant: variant.h */

/* A tensor whose result must be stored at a given location. Without a buffer: a result of an
   exchange between replicas that stays where the exchange stores it. */
struct copse_placement {
    copse_tensor *tensor;
    struct copse_binding at;
    uint32_t bucket; /* its segment must not end before the result: 0 .. bucket_count-1 */
};

struct copse_program_params {
    copse_graph *graph;
    copse_queue *queue;
    const struct copse_placement *placements;
    size_t placement_count;
    /* inputs whose values are stored at a given location, not in the program's memory */
    const struct copse_placement *inputs;
    size_t input_count;
    uint32_t bucket_count; /* segments that end with a bucket; 0 = 1 */
    /* The location of the operand of the index-th node that is summed over replicas (its segment
       ends after it), and that of its result for later segments. NULL: no such node is allowed. */
    copse_status (*all_reduce)(void *user, const copse_tensor *y, uint32_t index,
                               struct copse_binding *operand, struct copse_binding *result);
    struct copse_binding step; /* the step buffer */
    /* The location of a variable's values on this replica. */
    copse_status (*locate)(void *user, struct copse_variable *v, struct copse_binding *out);
    /* The bucket whose exchange updates a variable: its segment must not end before the variable's
       last reader. UINT32_MAX: never updated. NULL: no variable is updated between segments. */
    uint32_t (*bucket_of)(void *user, const struct copse_variable *v);
    void *user;
    const struct copse_choice *choices;
    size_t choice_count;
    uint32_t max_groups; /* split longer dispatches [0 = never] */
    bool is_sliced;      /* segments are divided into slices of one command each */
    /* bytes of device memory for its values, for copse__recompute_fit [0 = no limit] */
    size_t budget;
    /* in the order of the nodes, and none together: the least memory. Without it, launches may be
       ordered and joined where that costs at most a 16th, and keeps the budget. */
    bool is_plain;
};

typedef struct copse_program copse_program;

/* Plan, compile and record. Later replays allocate nothing. */
copse_status copse__program_create(const struct copse_program_params *params, copse_program **out);

/* Add the kernels of a program, with their specialisations, to a list of kernels, each once; it
   compiles nothing. The caller frees out->at. */
copse_status copse__program_kernels(const struct copse_program_params *params,
                                    struct copse_kernel_wants *out);

/* The memory of a program for its values [bytes]. */
struct copse_program_memory {
    size_t bytes; /* of the device's buffers for them */
    size_t peak;  /* the most that is in use at once */
    size_t kept;  /* results of the forward pass that later nodes read */
    /* the node at which `peak` is in use; NULL: the program has no values */
    const copse_tensor *at;
};
/* Plan a program. Compiles and allocates nothing on the device. If `peak` is above `limit`, the
   buffers are not planned, and `bytes` is `peak`. (measure.c) */
copse_status copse__program_measure(const struct copse_program_params *params, size_t limit,
                                    struct copse_program_memory *out);
void copse__program_release(copse_program **p);
/* The location to which the host writes an input's values before a replay; false if the program
   does not use it. */
bool copse__program_input(const copse_program *p, const copse_tensor *input,
                          struct copse_binding *out);
uint32_t copse__program_segments(const copse_program *p); /* buckets and exchanges of nodes, >= 1 */
/* The action between segment `i` and the next: the exchange of an all-reduce, by number from 0, or
   COPSE_NO_ALL_REDUCE if the segment ends with a bucket. The last one always does. */
#define COPSE_NO_ALL_REDUCE UINT32_MAX
uint32_t copse__program_all_reduce(const copse_program *p, uint32_t i);
/* Append segment `i` to the queue (no submit). */
COPSE_PRIVATE copse_status copse__program_replay(copse_program *p, uint32_t i);
/* Segment `i` in slices: their number, at least 1, and the replay of one. */
uint32_t copse__program_slices(const copse_program *p, uint32_t i);
copse_status copse__program_replay_slice(copse_program *p, uint32_t i, uint32_t slice);
/* The segments; they live as long as the program. */
struct copse_segment *const *copse__program_list(const copse_program *p);
/* Wait until its replays have completed. */
copse_status copse__program_settle(copse_program *p);
size_t copse__program_arena_bytes(const copse_program *p);
/* of its buffers, which may be larger than what is planned */
size_t copse__program_bytes(const copse_program *p);

/* ---- the double-precision evaluation of a graph, without a device (reference.c) ---- */

struct copse_reference_params {
    copse_graph *graph;
    /* Values of an input or variable: `count` doubles (f32), or elements of the tensor's type. */
    copse_status (*feed)(void *user, const copse_tensor *leaf, void *values, size_t count);
    void *user;
    const uint32_t *step; /* COPSE_STEP_WORDS words, or NULL for zeros with part 1 */
};
/* Evaluate; values[i] receives the result of wanted[i] as doubles (i32 converted). The arrays must
   have space for its elements. */
COPSE_PRIVATE copse_status copse__reference_run(const struct copse_reference_params *params,
                                                copse_tensor *const *wanted, size_t count,
                                                double *const *values);

#endif
