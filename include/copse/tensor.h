/* SPDX-License-Identifier: MIT */
/** @file
 * Shapes, element types, and the graph of symbolic tensors that a loss function builds.
 *
 * A tensor is the result of one node of a graph; building a graph computes nothing. Tensors are
 * dense, row-major, and live as long as their graph. A variable's tensor (copse_variable_tensor) is
 * legal in every graph.
 */
#ifndef COPSE_PUBLIC_TENSOR_H
#define COPSE_PUBLIC_TENSOR_H

#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_graph copse_graph;
typedef struct copse_tensor copse_tensor;

/** Element type. Those after COPSE_I64 are types of arrays (array.h) alone, as files have them. */
typedef enum copse_type {
    COPSE_F32,  /**< IEEE single */
    COPSE_I32,  /**< 32-bit integer */
    COPSE_U8,   /**< 0 to 255, of inputs: convert it (copse_cast) */
    COPSE_F16,  /**< IEEE half, computed in f32 */
    COPSE_BF16, /**< bfloat16, likewise */
    COPSE_I64,  /**< 64-bit integer of batches and datasets: the input is i32 */
    COPSE_BOOL, /**< a byte, 0 or 1 */
    COPSE_I8,
    COPSE_I16,
    COPSE_U16,
    COPSE_U32,
    COPSE_U64,
    COPSE_F64, /**< IEEE double */
} copse_type;

/** Size of an element [bytes], and name: "f32"; 0 and "?" outside the enum. Static. */
COPSE_API size_t copse_type_size(copse_type type);
COPSE_API const char *copse_type_name(copse_type type);

/** Most dimensions a tensor may have. */
#define COPSE_MAX_RANK 6

/** Dimensions, outermost first. Rank 0 is a scalar. A dimension may be 0. */
typedef struct copse_shape {
    uint32_t rank;
    uint32_t dims[COPSE_MAX_RANK];
} copse_shape;

/** Shape literal: COPSE_SHAPE(2, 3) has rank 2. For a scalar write COPSE_SCALAR. */
#if defined(__cplusplus)
extern "C++" template <typename... T> inline copse_shape copse_shape_of(T... dims)
{
    return { sizeof...(dims), { static_cast<uint32_t>(dims)... } };
}
#    define COPSE_SHAPE(...) copse_shape_of(__VA_ARGS__)
#    define COPSE_SCALAR     copse_shape_of()
#else
#    define COPSE_SHAPE(...) \
        ((copse_shape){ sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), { __VA_ARGS__ } })
#    define COPSE_SCALAR ((copse_shape){ 0, { 0 } })
#endif

/** Make an empty graph. */
COPSE_API COPSE_CHECKED copse_status copse_graph_create(copse_context *ctx, copse_graph **out);
COPSE_API void copse_graph_release(copse_graph **g);

/**
 * The status of a graph: that of the first call on it that failed, or COPSE_OK.
 *
 * A function that adds to a graph returns a tensor, never NULL. When it fails, the graph keeps
 * status and text, the result is a *failed tensor*, and no later call adds anything: calls with a
 * failed operand of the same graph add nothing and set no error text. So a loss function checks
 * nothing; the library asks for the status when the function returns, and the call that made it
 * build the graph (copse_trainer_step, ...) returns it. An operand that is NULL or belongs to
 * another graph is COPSE_ERR_ARGUMENT. The shape of a failed tensor is a scalar: ask before you
 * compute with the shape of a result.
 *
 * When not COPSE_OK, copse_last_error has the text of the failure.
 */
COPSE_API copse_status copse_graph_status(const copse_graph *g);
/** Fail a graph, for functions of the application that build one. `return copse_graph_fail(g,
    COPSE_ERR_ARGUMENT, "no such mode");` After a call that failed: its status, copse_last_error().
    Does nothing to a graph that has failed before.
    @param status  Not COPSE_OK. @param text  Copied. @return A failed tensor. */
COPSE_API copse_tensor *copse_graph_fail(copse_graph *g, copse_status status, const char *text);
/** In a function of the application that builds a graph and returns a tensor: evaluate a call that
    returns a status; where it failed, fail the graph with its text, and return. */
#define COPSE_GRAPH_TRY(g, call)                                    \
    do {                                                            \
        const copse_status try_ = (call);                           \
        if (try_ != COPSE_OK)                                       \
            return copse_graph_fail((g), try_, copse_last_error()); \
    } while (0)

/** Most reports of a graph. */
#define COPSE_MAX_REPORTS 31
/** Most outputs of a graph: copse_output, copse_step_output. */
#define COPSE_MAX_OUTPUTS 16
#define COPSE_MAX_OUTPUTS 16

/** Add a tensor whose values are given at each run. @param name  For messages. */
COPSE_API COPSE_CHECKED copse_tensor *copse_graph_input(copse_graph *g, const char *name,
                                                        copse_type type, copse_shape shape);

COPSE_API copse_shape copse_tensor_shape(const copse_tensor *t);
COPSE_API copse_type copse_tensor_type(const copse_tensor *t);

/**
 * Reverse-mode derivatives: adds the nodes that compute d(y)/d(x[i]) to the graph.
 *
 * @param y   f32 scalar; with `dy` any f32 tensor.
 * @param dy  Derivative to start from, of y's shape; NULL = 1.
 * @param x   Tensors of the same graph, or variables' tensors.
 * @param dx  One tensor for each x, of its shape; zeros where y does not depend on x.
 * @retval COPSE_ERR_SHAPE        `y` is not a scalar and `dy` is NULL, or shapes differ.
 * @retval COPSE_ERR_UNSUPPORTED  An op between x and y has no derivative; the text names it.
 *
 * What it adds can be differentiated again, but for attention, recurrent layers,
 * copse_dense_cross_entropy and overlapping copse_max_pool: the text says what to use.
 */
COPSE_API void copse_gradients(copse_graph *g, copse_tensor *y, copse_tensor *dy,
                               copse_tensor *const *x, size_t count, copse_tensor **dx);

/**
 * Report an f32 scalar with every step: its mean over the replicas, weighted by their shards of the
 * global batch. At most COPSE_MAX_REPORTS per graph. copse_step_report (trainer.h) reads it.
 */
COPSE_API void copse_report(copse_graph *g, const char *name, copse_tensor *t);

#if defined(__cplusplus)
}
#endif
#endif
