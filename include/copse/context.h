/* SPDX-License-Identifier: MIT */
/** @file
 * The context: allocator, log, kernel cache and the list of devices. Everything else hangs on one.
 */
#ifndef COPSE_PUBLIC_CONTEXT_H
#define COPSE_PUBLIC_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "copse/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_context copse_context;

/** Level of a log line. */
typedef enum copse_log_level {
    COPSE_LOG_NONE,  /**< no choice: COPSE_LOG_WARN; to log nothing, pass no log callback */
    COPSE_LOG_ERROR, /**< something failed that no call can return, such as a lost device */
    COPSE_LOG_WARN,  /**< it works, but not as it should: a rejected device, a damaged cache entry */
    COPSE_LOG_INFO,  /**< once per object: what was found and chosen */
    COPSE_LOG_DEBUG, /**< per program or kernel */
    COPSE_LOG_TRACE, /**< per submission */
} copse_log_level;

/**
 * Host memory callback. `block` NULL allocates, `size` 0 frees (result ignored), else it resizes.
 * Must return memory aligned for any type (16 bytes), or NULL when there is none.
 * Thread-safety: must accept calls from any thread.
 */
typedef void *copse_resize_fn(void *user, void *block, size_t size);

/** Log callback. `line` has no newline and is only valid during the call. May come from any thread. */
typedef void copse_log_fn(void *user, copse_log_level level, const char *line);

/**
 * Kernel cache, filled with compiled kernels so that the next start is quick. The library checks
 * what it gets back (length, digest, device, driver, version) and rebuilds on any mismatch.
 */
struct copse_cache_params {
    /** Look `key` (letters, digits, '-') up; when present call `take(to, bytes, size)` once. */
    void (*get)(void *user, const char *key,
                void (*take)(void *to, const void *bytes, size_t size), void *to);
    /** Keep a copy of `bytes` under `key`. Failure is the callback's own affair. */
    void (*put)(void *user, const char *key, const void *bytes, size_t size);
    void *user;
    /** For a store that other contexts or processes share: nobody else is between `lock` and `unlock` of
        the key, where a small list (blocked kernels, tuning) is got, changed and put. `lock` returns what
        `unlock` gets, and comes back within seconds, if need be without having locked. [none: of two
        that change a list at the same moment one may be lost] */
    void *(*lock)(void *user, const char *key);
    void (*unlock)(void *user, void *locked);
};

/** Context settings. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_context_params {
    copse_resize_fn *resize;  /**< host memory                       [realloc and free] */
    void *resize_user;        /**< passed to `resize` */
    copse_log_fn *log;        /**< log lines                         [silent] */
    void *log_user;           /**< passed to `log` */
    copse_log_level log_level; /**< most detailed level to log       [COPSE_LOG_WARN] */
    struct copse_cache_params cache; /**< compiled kernels           [kept in memory only] */
    const char *disable;      /**< backends not to load, "opencl,vulkan"; their devices can be lent all
                                   the same                          [none] */
    bool no_env;              /**< ignore the environment variables COPSE_DISABLE and
                                   COPSE_NO_SELF_TEST               [false] */
    bool no_self_test;        /**< use kernels without the check of a few numbers that each of them
                                   must pass on a device first; also when the environment variable
                                   COPSE_NO_SELF_TEST is set        [false] */
};

/**
 * Create a context and look for devices. Succeeds on a machine without any driver: `host:0` is
 * always there.
 *
 * @param params  Settings, copied; NULL for defaults.
 * @param out     Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_ARGUMENT   `disable` names an unknown backend.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: until `copse_context_release` and the release of all that was made from it.
 * Thread-safety: a context may be used from any thread. Blocking: while drivers are loaded.
 */
COPSE_API COPSE_CHECKED copse_status copse_context_create(const struct copse_context_params *params,
                                                          copse_context **out);

/** Add a reference. Thread-safety: any. */
COPSE_API copse_context *copse_context_retain(copse_context *ctx);

/** Drop a reference and set `*ctx` to NULL; NULL is fine. Thread-safety: any. */
COPSE_API void copse_context_release(copse_context **ctx);

/** What the context's allocator has given out. */
struct copse_memory_stats {
    size_t live_blocks;       /**< blocks not yet freed, without the room for handles of variables, 128 at
                                   a time, which the context keeps */
    unsigned long long calls; /**< allocations and resizes since the context was made */
    unsigned long long device_allocations; /**< device buffers made since then, pool misses only */
};

/** Read the counters, for tests and leak hunts. Thread-safety: any. */
COPSE_API void copse_context_memory(copse_context *ctx, struct copse_memory_stats *out);

#if defined(__cplusplus)
}
#endif
#endif
