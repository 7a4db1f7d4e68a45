/* SPDX-License-Identifier: MIT */
/** @file
 * A graph as a function on one device: the host writes inputs, runs it, and reads outputs.
 */
#ifndef COPSE_PUBLIC_DEVICE_FUNCTION_H
#define COPSE_PUBLIC_DEVICE_FUNCTION_H

#include "copse/device/open.h"
#include "copse/device/queue.h"
#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_function copse_function;

/** How to make a function. */
struct copse_function_params {
    copse_graph *graph;           /**< without variables; need not outlive the function */
    copse_tensor *const *outputs; /**< tensors of the graph */
    size_t output_count;          /**< 1 to 64 */
    /** forced kernel variants: "matmul=wide", see copse/device/tuning.h [NULL = none] */
    const char *kernels;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Plan, compile and record a graph for a device.
 *
 * @retval COPSE_ERR_ARGUMENT     No outputs, or one of another graph; no such kernel variant.
 * @retval COPSE_ERR_UNSUPPORTED  A tensor or kernel exceeds the device's limits; the text says
 *                                which.
 *
 * Blocks while kernels are compiled.
 */
COPSE_API COPSE_CHECKED copse_status copse_function_create(
    copse_device *dev, const struct copse_function_params *params, copse_function **out);
COPSE_API void copse_function_release(copse_function **f);

/**
 * Set the values of an input.
 * @param input   A tensor made by copse_graph_input; one that no output depends on is ignored.
 * @param values  Every element, row-major, in the type of the input.
 */
COPSE_API COPSE_CHECKED copse_status copse_function_write(copse_function *f,
                                                          const copse_tensor *input,
                                                          const void *values);
/** Queue one run. Inputs keep their values from run to run. */
COPSE_API COPSE_CHECKED copse_status copse_function_run(copse_function *f);
/** The queue of the runs, for stamps; not a reference. Lifetime: the function. */
COPSE_API copse_queue *copse_function_queue(copse_function *f);
/** Wait for all queued runs, at most as long as copse_queue_finish. */
COPSE_API COPSE_CHECKED copse_status copse_function_wait(copse_function *f);
/** Copy an output of the newest run to host memory. Blocks until it is computed. */
COPSE_API COPSE_CHECKED copse_status copse_function_read(copse_function *f, size_t output,
                                                         void *values);

#if defined(__cplusplus)
}
#endif
#endif
