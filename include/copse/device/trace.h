/* SPDX-License-Identifier: MIT */
/** @file
 * Traces: what the host and the devices did, and when, as a file that ui.perfetto.dev and
 * chrome://tracing show. docs/tuning-speed.md explains the picture.
 */
#ifndef COPSE_PUBLIC_DEVICE_TRACE_H
#define COPSE_PUBLIC_DEVICE_TRACE_H

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How to trace. */
struct copse_trace_params {
    const char *path; /**< of the file, in JSON; an older regular file is replaced [NULL = none, the
                           summary alone] */
    /** most spans, about 150 bytes each; later ones are dropped and counted, at most 10^8
        [0 = 200,000] */
    size_t events;
    uint32_t worker;      /**< rank of this process in its job [0] */
    uint64_t reserved[4]; /**< 0 */
};

/** What a trace shows. Parts are between 0 and 1, of the time from the end of the first step, which
    compiles kernels, to the end of the last one; of a single step they are of its time. The parts
    of the thread that makes the steps add up to 1: a wait within an exchange counts as a wait. */
struct copse_trace_summary {
    uint64_t events, dropped; /**< spans in the file, and spans for which it had no room */
    uint64_t steps; /**< of trainers, runs of an accelerator, or slices (train/advance.h) */
    double seconds; /**< that time; 0 without a step, and all parts are 0 */
    /** the busiest queue computed, by the clock of its device; of a device without one: it had work
        as far as the host knew, which asks when it queues work and when it waits */
    double devices;
    double wait;       /**< the host waited for devices */
    double data;       /**< for the next batch */
    double upload;     /**< it queued inputs */
    double exchange;   /**< it exchanged sums of replicas or workers */
    double update;     /**< it queued updates */
    double compile;    /**< it compiled kernels and recorded graphs */
    double host;       /**< the rest: the application, and the queueing of work */
    const char *limit; /**< "devices", "data", "upload", ... : what took most. Static */
    uint64_t reserved[4];
};

/**
 * Begin to record. Nothing is written before copse_trace_stop.
 * @retval COPSE_ERR_ARGUMENT  `path` is empty, `events` is too large, or the context
 *                             is traced already.
 * @retval COPSE_ERR_IO        The file cannot be made, or the path is a folder, a pipe or a device.
 * Any thread.
 */
COPSE_API COPSE_CHECKED copse_status copse_trace_start(copse_context *ctx,
                                                       const struct copse_trace_params *params);

/**
 * End the recording and write the file: the whole of it, or an older file stays. The release of a
 * context stops, too, and writes nothing without a step.
 * @param out  NULL to skip.
 * @retval COPSE_ERR_ARGUMENT  Nothing is recorded.
 * @retval COPSE_ERR_IO        The file cannot be written. The recording is lost.
 * Any thread.
 */
COPSE_API COPSE_CHECKED copse_status copse_trace_stop(copse_context *ctx,
                                                      struct copse_trace_summary *out);

#if defined(__cplusplus)
}
#endif
#endif
