/* SPDX-License-Identifier: MIT */
/** @file
 * Compiling kernels in other processes. Some drivers, such as PoCL, compile one kernel at a time in
 * a process; processes that share the kernel cache use all processors.
 */
#ifndef COPSE_PUBLIC_DEVICE_COMPILE_H
#define COPSE_PUBLIC_DEVICE_COMPILE_H

#include "copse/device/open.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Kernels that no cache has. It lives as long as the call of the function below. */
struct copse_compile_work {
    const char *device;         /**< its id, such as "opencl:0" */
    const char *const *kernels; /**< each is a text for copse_device_compile */
    size_t count;
    /** Call it once for each kernel that is compiled or cannot be, by the thread of the call: it
        reports progress (copse_progress_fn). */
    void (*done)(const struct copse_compile_work *work);
    void *self;           /**< the library's */
    uint64_t reserved[4]; /**< 0 */
};

/** Compile kernels in other processes, with the same cache folder, and return when they are done.
    Kernels that are not in the cache then are compiled in this process, so it may leave out any. It
    must not call the library, except copse_compile_work.done. */
typedef void copse_compile_fn(void *user, const struct copse_compile_work *work);

/**
 * Set who compiles, from now on. It is called where a program needs several kernels that no cache
 * has, the driver compiles one at a time in a process, and the context keeps its cache in a folder.
 * @param fn  NULL: this process [NULL].
 * Call it before other threads use the context.
 */
COPSE_API COPSE_CHECKED copse_status copse_context_compile_with(copse_context *ctx,
                                                                copse_compile_fn *fn, void *user);

/**
 * Compile a kernel, test it, and put it into the cache of the context.
 * @param kernel  A text of copse_compile_work.kernels, from the same version of the library.
 * @retval COPSE_ERR_ARGUMENT     The text names no kernel of this version.
 * @retval COPSE_ERR_UNSUPPORTED  The device cannot run the kernel, or it is blocked.
 * @retval COPSE_ERR_COMPILE      The driver refuses it, with its log.
 * Blocks while the driver compiles.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_compile(copse_device *dev, const char *kernel);

#if defined(__cplusplus)
}
#endif
#endif
