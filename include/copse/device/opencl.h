/* SPDX-License-Identifier: MIT */
/** @file
 * An application's own OpenCL context, lent to Copse. Not part of copse/copse.h: it needs OpenCL's
 * headers. Only in builds with the OpenCL backend. See docs/embedding.md.
 */
#ifndef COPSE_PUBLIC_DEVICE_OPENCL_H
#define COPSE_PUBLIC_DEVICE_OPENCL_H

#if !defined(CL_TARGET_OPENCL_VERSION)
#    define CL_TARGET_OPENCL_VERSION 300 /* cl.h's own default, without its remark */
#endif
#if defined(__APPLE__)
#    include <OpenCL/cl.h>
#else
#    include <CL/cl.h>
#endif

#include "copse/device/open.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** An OpenCL function of any type. */
typedef void (*copse_opencl_fn)(void);

/** What the application lends. A zeroed member means the value in brackets; a member without
    brackets is required. */
struct copse_opencl_handles {
    cl_context context;
    cl_device_id device; /**< one of the context's; may be a sub-device */
    /** an in-order queue of this context and device [NULL = queues of Copse's own in the context,
       which need no lock] */
    cl_command_queue queue;

    /** Where the functions of OpenCL are: `name` is such as "clCreateBuffer". Only called during
        calls that import or open a device, with `user`
        [NULL = in the system's OpenCL loader, where handles of every driver are understood] */
    copse_opencl_fn (*get_proc)(void *user, const char *name);

    /** Called around everything that goes into `queue`, by any thread that works with Copse, in
        pairs, never one pair inside another. They must not call Copse. OpenCL itself needs no such
        lock; it is for applications that want their own commands to stay together. Both or none
        [NULL = no lock] */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *user; /**< passed to all of these */

    uint64_t memory_limit; /**< most bytes of buffers on this device, over all that is made from it
                                [0 = what the driver gives] */
    uint64_t reserved[4];  /**< 0 */
};

/**
 * Make a device of an OpenCL context that the application made.
 *
 * The description of the result carries an id of its own, "import:0", which every function that
 * takes a device id accepts in this context, for as long as any device of that import is open:
 * replicas of a strategy, conformance runs, further `copse_device_open`. It is not in the list of
 * `copse_context_devices`, and `auto` or `all` never mean it.
 *
 * Copse retains context, device and queue (clRetain...) for as long as it needs them, and releases
 * them again. With `queue` given, waiting for Copse's work includes what the application put into
 * the queue before it.
 *
 * @param handles  Copied.
 * @param out      Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_ARGUMENT     A handle is missing, the device is not one of the context's, the
 *                                queue is not of this context and device, only one of the two lock
 *                                functions is given.
 * @retval COPSE_ERR_UNSUPPORTED  The queue runs commands out of order, the device is older than
 *                                OpenCL 1.2 or has no compiler, a function of OpenCL 1.2 is
 *                                missing; the text says which.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Thread-safety: any. Blocking: while a few words of host memory are tried out on the device.
 */
COPSE_API COPSE_CHECKED copse_status copse_opencl_import(copse_context *ctx,
                                                         const struct copse_opencl_handles *handles,
                                                         copse_device **out);

#if defined(__cplusplus)
}
#endif
#endif
