/* SPDX-License-Identifier: MIT */
/** @file The context: allocator, log, kernel cache and the list of devices. Every other object
 * belongs to one.
 */
#ifndef COPSE_PUBLIC_CONTEXT_H
#define COPSE_PUBLIC_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_context copse_context;

/** Level of a log line. */
typedef enum copse_log_level {
    COPSE_LOG_NONE,  /**< not set: COPSE_LOG_WARN; to log nothing, give no log callback */
    COPSE_LOG_ERROR, /**< a failure that no call can return, such as a lost device */
    /** a problem with a way around: a rejected device, a damaged cache entry */
    COPSE_LOG_WARN,
    COPSE_LOG_INFO,  /**< once per object: what was found and chosen */
    COPSE_LOG_DEBUG, /**< per program or kernel */
    COPSE_LOG_TRACE, /**< per submission */
} copse_log_level;

/**
 * Host memory. `block` NULL allocates, `size` 0 frees (the result is ignored), otherwise the
 * function resizes. Returns memory aligned to 16 bytes, or NULL when it has none. Called from any
 * thread.
 */
typedef void *copse_resize_fn(void *user, void *block, size_t size);

/** Log. `line` has no newline and is valid during the call. Called from any thread. */
typedef void copse_log_fn(void *user, copse_log_level level, const char *line);

/**
 * A store for compiled kernels, which shortens the next start. The library checks each entry
 * (length, digest, device, driver, version) and rebuilds it on a mismatch. These
 * callbacks must not call the library.
 */
struct copse_cache_params {
    /** Look up `key` (letters, digits, '-') and, if it is present, call `take(to, bytes, size)`
        once. */
    void (*get)(void *user, const char *key, void (*take)(void *to, const void *bytes, size_t size),
                void *to);
    /** Keep a copy of `bytes` under `key`. The library ignores failures. */
    void (*put)(void *user, const char *key, const void *bytes, size_t size);
    void *user;
    /** For a shared store: excludes others while the library changes a list (blocked kernels,
        tuning). Returns what `unlock` receives, within seconds, if necessary without the lock.
        [none: one of two simultaneous changes may be lost] */
    void *(*lock)(void *user, const char *key);
    void (*unlock)(void *user, void *locked);
    uint64_t reserved[4];
};

/** Kernels that a driver compiles. */
struct copse_progress {
    const char *device; /**< "opencl:0" */
    const char *kernel; /**< compiled last; "" at first */
    uint32_t done, total;
    uint64_t reserved[4];
};

/** Called by the waiting thread, with done 0 before long work, then for each part. It must not
    call the library. */
typedef void copse_progress_fn(void *user, const struct copse_progress *progress);

/** Settings of a context. */
struct copse_context_params {
    copse_resize_fn *resize; /**< host memory                    [realloc and free] */
    void *resize_user;
    copse_log_fn *log; /**< log lines                      [silent] */
    void *log_user;
    copse_log_level log_level;       /**< most detailed level to log     [COPSE_LOG_WARN] */
    struct copse_cache_params cache; /**< compiled kernels               [in memory only] */
    /** backends not to load: "opencl,vulkan"; the application can still lend their devices
       [none] */
    const char *disable;
    /** ignore the environment variables COPSE_DISABLE and COPSE_NO_SELF_TEST */
    bool no_env;
    /** skip the small test that each kernel must pass on a device before its first use
       [COPSE_NO_SELF_TEST is set] */
    bool no_self_test;
    /** without `cache`: keep compiled kernels in this folder; "": in $XDG_CACHE_HOME/copse or
       ~/.cache/copse [NULL = in memory only] */
    const char *cache_folder;
    copse_progress_fn *progress; /**< compilation of kernels         [silent] */
    void *progress_user;
    uint64_t reserved[5];
};

/**
 * Create a context and look for devices. It succeeds without any driver: `host:0` is always
 * present.
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT  `disable` names an unknown backend.
 * Blocks while drivers are loaded.
 */
COPSE_API COPSE_CHECKED copse_status copse_context_create(const struct copse_context_params *params,
                                                          copse_context **out);
COPSE_API copse_context *copse_context_retain(copse_context *ctx);
COPSE_API void copse_context_release(copse_context **ctx);

/** What the context's allocator has given out. */
struct copse_memory_stats {
    /** blocks in use, except room for handles of variables */
    size_t live_blocks;
    unsigned long long calls; /**< allocations and resizes so far */
    /** device buffers made so far, not from the pool */
    unsigned long long device_allocations;
    uint64_t reserved[4];
};

COPSE_API void copse_context_memory(copse_context *ctx, struct copse_memory_stats *out);

#if defined(__cplusplus)
}
#endif
#endif
