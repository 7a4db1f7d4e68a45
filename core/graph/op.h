/* SPDX-License-Identifier: MIT */
/* The interface of an op, which makes the graph independent of the ops. An op file in core/ops
   defines a `static const struct copse_op`, a public function that adds a node, and the host
   functions of its kernels. */
#ifndef COPSE_OP_H
#define COPSE_OP_H

#include "copse/tensor.h"
#include "core/base/base.h"
#include "core/device/device.h"

struct copse_lowering;

/* Nodes that one launch computes, each in the place that its op gives it. */
#define COPSE_MOST_FUSED 4
struct copse_fused {
    const copse_tensor *at[COPSE_MOST_FUSED]; /* NULL: none in this place */
    bool is_inner[COPSE_MOST_FUSED];          /* only the others read it, and it is not stored */
    /* bit k: the launch computes operand k itself, another of the nodes. No other operand of a node
       may be one of them: the launch would read what it writes. */
    uint32_t inside[COPSE_MOST_FUSED];
    /* it needs no more memory than its nodes alone: programs without other fusions have it, too */
    bool is_free;
};

struct copse_op {
    const char *name;
    size_t attr_size; /* bytes of attributes that copse__node copies into the graph */

    /* Shape and type of the result from y->in and y->attr. On a mismatch return copse__shape_error,
       whose text names the op, the operand shapes and the expected shapes. */
    copse_status (*infer)(const copse_tensor *y, copse_shape *shape, copse_type *type);

    /* Add the nodes for the derivatives: set dx[i] for every i with y->in[i]->needs_gradient
       (others are ignored); leave NULL if the derivative is zero. A failure stays in the graph.
       NULL function = the one of struct copse_second, else no derivative (integer results: the graph
       never calls it). */
    void (*gradient)(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx);

    /* What to use instead of the op where its derivative is needed and there is none: the end of
       the error's text, as in "write an attention that is differentiated twice with
       copse_matmul". [NULL] */
    const char *advice;

    /* Append the launches that compute y. NULL = a view of in[0] with another shape, or a leaf. */
    copse_status (*lower)(struct copse_lowering *l, const copse_tensor *y);

    /* NULL, or several nodes of the op may be computed by one call at the place of the last one:
       their attributes and the types of their operands are equal, and so are the shapes, or what
       `joins` wants of two of them [NULL: the shapes]. `most`: how many, with nodes like y; below
       2: each alone. */
    copse_status (*lower_many)(struct copse_lowering *l, const copse_tensor *const *y,
                               uint32_t count);
    uint32_t (*most)(const struct copse_lowering *l, const copse_tensor *y);
    bool (*joins)(const copse_tensor *a, const copse_tensor *b);

    /* NULL, or one launch may compute y and nodes around it, such as the addition of its result:
       `fuse` names them, `turn` after `turn` from the best choice on, and returns false after the
       last one; lower_fused computes what was chosen (fusions.c). out->at[0] is y. */
    bool (*fuse)(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                 struct copse_fused *out);
    copse_status (*lower_fused)(struct copse_lowering *l, const struct copse_fused *f);

    /* y is the sum of in[0] over the replicas, computed by an exchange between them: a program ends
       a segment here instead of lowering the node. */
    bool crosses;

    /* NULL, or y is a gradient of rows: those of the leaf that the derivative names, whose shape is
       not y's. Adds another gradient of rows of the same leaf. */
    copse_tensor *(*join)(copse_graph *g, copse_tensor *a, copse_tensor *b);

    /* An elementwise op that may be a link of a chain (core/ops/elementwise/elementwise_chain.h); its
       attributes say which function it is. */
    enum copse_chain_kind {
        COPSE_CHAIN_NONE,
        COPSE_CHAIN_UNARY,
        COPSE_CHAIN_UNARY_SLOPE,
        COPSE_CHAIN_BINARY,
        COPSE_CHAIN_BINARY_SLOPE
    } chain;

    /* It reads operands of types that are stored but not computed. Otherwise f16 and bf16 are
       converted to f32 before the node, and u8 is refused. */
    bool takes_stored;

    /* 0: the op draws no random numbers. Else 1 + the offset in `attr` of a uint32_t, the number of
       its random stream (copse__graph_draw), which copse__graph_order settles. */
    size_t stream_at;
};

/* The `gradient` of an op whose own file cannot have it: it calls ops whose derivatives call the op.
   core/ops/<family>/<name>_second.c defines one; the build finds the files. */
struct copse_second {
    const struct copse_op *op;
    void (*gradient)(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx);
};
/* NULL-terminated. */
extern const struct copse_second *const copse_seconds[];

struct copse_tensor {
    copse_graph *graph; /* NULL: a variable's own tensor, valid in every graph */
    const struct copse_op *op;
    uint32_t id; /* position in the graph: operands precede it */
    copse_type type;
    copse_shape shape;
    uint32_t in_count;
    copse_tensor **in;
    const void *attr; /* attr_size bytes in the graph's arena */
    const char *name; /* of inputs and variables; else NULL */
    bool is_cast;     /* made by copse__cast_once */
    bool is_backward; /* added behind the loss, by its differentiation or later */
    /* number of the marked segment that it is in; 0: none (copse_recompute_begin) */
    uint32_t segment;
    bool needs_gradient; /* f32, f16 or bf16, and depends on a variable or a requested tensor */
    struct copse_variable *variable; /* of variable leaves */
    bool takes_rows; /* of variable leaves: a gradient of rows, where the graph keeps these */
};

/* Add a node. Operands may be variables' own tensors. `attr` is copied. */
copse_tensor *copse__node(copse_graph *g, const struct copse_op *op, const void *attr,
                          copse_tensor *const *in, uint32_t in_count);
#define COPSE_NODE(g, op, attr, ...)                            \
    copse__node(g, op, attr, (copse_tensor *[]){ __VA_ARGS__ }, \
                sizeof((copse_tensor *[]){ __VA_ARGS__ }) / sizeof(copse_tensor *))

/* ---- failures (graph.c): a graph keeps its first one, and adds no node afterwards ---- */

/* Keep a status other than COPSE_OK, and the text of copse_last_error, unless an earlier failure is
   kept. COPSE_OK: keep nothing. Returns the failed tensor of the graph, or of no graph where `g`
   is NULL. */
COPSE_PRIVATE copse_tensor *copse__failed(copse_graph *g, copse_status s);
/* copse_fail in a function that returns a tensor. */
#define copse__refuse(g, ...) copse__failed(g, copse_fail(__VA_ARGS__))
COPSE_PRIVATE bool copse__is_failed(const copse_tensor *t);
/* t; where it is failed, the kept text gets a prefix, as from copse_note. Only for the failure of a
   call whose operands were not failed. */
copse_tensor *copse__noted(copse_graph *g, copse_tensor *t, const char *fmt, ...)
    COPSE_PRINTF(3, 4);
/* Return the failed tensor from the enclosing function where a status is not COPSE_OK. */
#define COPSE_LATCH(g, status)                \
    do {                                      \
        const copse_status latch_ = (status); \
        if (latch_ != COPSE_OK)               \
            return copse__failed(g, latch_);  \
    } while (0)
/* The same in a function without a result. */
#define COPSE_LATCH_VOID(g, status)           \
    do {                                      \
        const copse_status latch_ = (status); \
        if (latch_ != COPSE_OK) {             \
            (void)copse__failed(g, latch_);   \
            return;                           \
        }                                     \
    } while (0)
/* Take the failure of a graph off it, for callers that go on: its status and copse_last_error. */
COPSE_PRIVATE copse_status copse__graph_take_failure(copse_graph *g);

/* ---- order (order.c) ---- */

/* A number for the random stream of a new node. It is provisional: C evaluates the arguments of a
   call in any order. */
uint32_t copse__graph_draw(const copse_graph *g);
#define COPSE_STREAM_PROVISIONAL 0x80000000u
/* The stream for a launch. */
static inline uint32_t copse__stream_of(uint32_t stream)
{
    return stream & ~COPSE_STREAM_PROVISIONAL;
}

/* ---- shapes (shape.c) ---- */

/* 1 for a scalar; UINT64_MAX on overflow. Shapes of graph tensors have < 2^31. */
COPSE_PRIVATE uint64_t copse__elements(copse_shape s);
COPSE_PRIVATE bool copse__shape_equal(copse_shape a, copse_shape b);
/* [rows, row...]; the rank of `row` is less than COPSE_MAX_RANK. */
copse_shape copse__shape_of_rows(size_t rows, copse_shape row);
/* Elements of a row, an entry of axis 0; of a scalar 1. */
static inline size_t copse__row_elements(copse_shape s)
{
    if (s.rank > 0)
        s.dims[0] = 1;
    return (size_t)copse__elements(s);
}
/* NumPy rule; false if they are incompatible. */
bool copse__broadcast(copse_shape a, copse_shape b, copse_shape *out);
/* "[64, 10]" into `text` (>= COPSE_SHAPE_BYTES); returns text. */
#define COPSE_SHAPE_BYTES 96
char *copse__shape_text(copse_shape s, char *text);
/* The same in memory that is valid until the end of the block. */
#define COPSE_SHAPE_TEXT(s) copse__shape_text(s, (char[COPSE_SHAPE_BYTES]){ 0 })
/* COPSE_ERR_SHAPE: "matmul: operands f32[64, 10] and f32[12, 3]: <expected...>". */
copse_status copse__shape_error(const copse_tensor *y, const char *expected, ...)
    COPSE_PRINTF(2, 3);

/* ---- lowering: what `lower` may call ---- */

/* The binding of a kernel argument. */
struct copse_operand {
    enum { COPSE_OPERAND_TENSOR, COPSE_OPERAND_SCRATCH, COPSE_OPERAND_STEP } kind;
    const copse_tensor *tensor;
    uint32_t scratch;
    uint64_t first, count; /* elements; count 0 = all from `first` on */
};
static inline struct copse_operand copse__of(const copse_tensor *t)
{
    return (struct copse_operand){ COPSE_OPERAND_TENSOR, t, 0, 0, 0 };
}
/* The step buffer: values that change from step to step, as 32-bit words (enum copse_step_word). */
static inline struct copse_operand copse__step(void)
{
    return (struct copse_operand){ COPSE_OPERAND_STEP, NULL, 0, 0, 0 };
}

enum copse_step_word {
    COPSE_STEP_NUMBER,        /* uint: 1 for the first step */
    COPSE_STEP_SEED_LO,       /* uint */
    COPSE_STEP_SEED_HI,       /* uint */
    COPSE_STEP_FIRST_EXAMPLE, /* uint: global index of the replica's first example in the epoch */
    COPSE_STEP_EPOCH,         /* uint */
    /* float bits: the initial derivative of the replica: its examples / global examples, or 1 if
       losses are summed */
    COPSE_STEP_SHARE,
    COPSE_STEP_RATE,  /* float bits: learning rate of this step */
    COPSE_STEP_BIAS1, /* float bits: 1 - beta1^step, from doubles on the host */
    COPSE_STEP_BIAS2, /* float bits: 1 - beta2^step */
    COPSE_STEP_SCALE, /* float bits: factor on gradients before the update (1 = none) */
    COPSE_STEP_PART,  /* float bits: replica's examples / examples of this (micro-)batch */
    /* float bits: weight of the new values in moving averages of the variables */
    COPSE_STEP_AVERAGE,
    /* float bits: 1 on the first replica with examples of this (micro-)batch, else 0 */
    COPSE_STEP_IS_FIRST,
    /* float bits: NAdam's factors on the gradient and on the mean of gradients; another rule may
       have two numbers of its own there (struct copse_rule_kernel) */
    COPSE_STEP_NESTEROV_GRADIENT,
    COPSE_STEP_NESTEROV_MEAN,
    COPSE_STEP_SHRINK, /* float bits: 1 / (1 + rate l2) */
    /* added to RATE and SHRINK: those of the first parameter group (core/rule/groups.h) */
    COPSE_STEP_GROUP = 16,
    COPSE_STEP_WORDS = 64, /* size of the buffer: 256 bytes */
};

/* Temporary f32 words that live during this node only (32-bit words of any type). */
copse_status copse__scratch(struct copse_lowering *l, uint64_t words, struct copse_operand *out);
/* Begin a round of a loop of launches: it gets the scratch of the round before, block by block,
   where that is large enough. */
void copse__scratch_round(struct copse_lowering *l);
/* After the last round. */
void copse__scratch_rounds_end(struct copse_lowering *l);

/* Launch a kernel over `groups` flat groups. Operands in the order of the kernel's arguments. */
copse_status copse__launch(struct copse_lowering *l, enum copse_kernel_id id, const int32_t *spec,
                           const void *params, uint64_t groups, const struct copse_operand *args,
                           uint32_t arg_count);
/* COPSE_LAUNCH(l, softmax, spec_or_NULL, params_struct, groups, copse__of(x), copse__of(y)) */
#define COPSE_LAUNCH(l, kernel, spec, params, groups, ...)           \
    copse__launch(l, COPSE_KERNEL_##kernel, spec, &(params), groups, \
                  (struct copse_operand[]){ __VA_ARGS__ },           \
                  sizeof((struct copse_operand[]){ __VA_ARGS__ }) / sizeof(struct copse_operand))
/* Same-device copy of `count` elements. */
copse_status copse__launch_copy(struct copse_lowering *l, struct copse_operand from,
                                struct copse_operand to, uint64_t count);
/* Scratch memory for products by the vendor's library of this shape, or of one with fewer terms; sets
   g->has_scratch. */
copse_status copse__gemm_scratch(struct copse_lowering *l, struct copse_gemm *g,
                                 struct copse_operand *out);
/* Matrix products by the vendor's library. */
copse_status copse__launch_gemm(struct copse_lowering *l, const struct copse_gemm *g,
                                const struct copse_operand args[COPSE_GEMM_BINDINGS]);

/* For `fuse`: the i-th needed node that reads t itself, in the order of the nodes; NULL: it has no
   more. */
const copse_tensor *copse__reader(const struct copse_lowering *l, const copse_tensor *t,
                                  uint32_t i);

/* The device's limits, for the choice of a variant (decide by limits, never by the name of a
   backend). */
const struct copse_limits *copse__limits(const struct copse_lowering *l);
/* Whether a kernel can run on the device (embedded for its API, within limits, not blocked). */
bool copse__can_launch(const struct copse_lowering *l, enum copse_kernel_id id);
/* Group size of launches of `id` (x*y), for group counts. */
uint32_t copse__group_size(const struct copse_lowering *l, enum copse_kernel_id id);
/* Groups for `n` invocations of kernel `id`, one invocation each. */
static inline uint64_t copse__groups_for(const struct copse_lowering *l, enum copse_kernel_id id,
                                         uint64_t n)
{
    const uint32_t size = copse__group_size(l, id);
    return (n + size - 1) / size;
}

#endif
