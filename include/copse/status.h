/* SPDX-License-Identifier: MIT */
/** @file
 * Status codes and the text of the last error.
 *
 * Codes are for decisions, text is for people. Every function that can fail returns a
 * `copse_status`; the text of the newest failure of the calling thread is kept by the library.
 * Nothing needs to be freed, and the text is available after out-of-memory too.
 *
 * NULL, in all headers. A pointer is required unless its description says what NULL means, its list has no entries, or
 * the library only hands it on (`user`, objects).
 *  - A function with a status answers COPSE_ERR_ARGUMENT for NULL instead of a required pointer, and the text says so.
 *    For a replica context NULL means that the thread is in no replica: COPSE_ERR_CONTEXT.
 *  - A release function does nothing for NULL and for the address of NULL. A retain function returns NULL for NULL.
 *  - A getter of a NULL handle returns 0, false, NULL or an empty text, where an index has a value for "none" that
 *    value, and clears its results. Results that are not wanted may be NULL.
 */
#ifndef COPSE_PUBLIC_STATUS_H
#define COPSE_PUBLIC_STATUS_H

#if defined(_WIN32)
#    if defined(COPSE_BUILD)
#        define COPSE_API __declspec(dllexport)
#    else
#        define COPSE_API __declspec(dllimport)
#    endif
#else
#    define COPSE_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#    define COPSE_CHECKED __attribute__((warn_unused_result))
#else
#    define COPSE_CHECKED
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/** Every status: COPSE_STATUS_MAP(X) calls X(CODE, "what it means"). */
#define COPSE_STATUS_MAP(X)                                                                        \
    X(OK, "success")                                                                               \
    X(ERR_ARGUMENT, "an argument breaks a documented rule")                                        \
    X(ERR_SHAPE, "shapes or element types do not fit together")                                    \
    X(ERR_UNSUPPORTED, "this device or build cannot do it")                                        \
    X(ERR_NO_MEMORY, "host memory is exhausted")                                                   \
    X(ERR_NO_DEVICE_MEMORY, "device memory is exhausted")                                          \
    X(ERR_NO_DEVICE, "no such device")                                                             \
    X(ERR_DEVICE_LOST, "the device failed; release it and open it again")                          \
    X(ERR_COMPILE, "a kernel did not compile")                                                     \
    X(ERR_IO, "a file could not be read or written")                                               \
    X(ERR_FORMAT, "a file's content is not what its format promises")                              \
    X(ERR_COMM, "another worker failed or disagrees")                                              \
    X(ERR_TIMEOUT, "the deadline passed")                                                          \
    X(ERR_CANCELLED, "cancelled on request")                                                       \
    X(ERR_NONFINITE, "a value is NaN or infinite")                                                 \
    X(ERR_CONTEXT, "called from the wrong strategy context")                                       \
    X(ERR_END, "no more elements")                                                                 \
    X(ERR_INTERNAL, "a fault of the library itself")

/** Result of a call. */
typedef enum copse_status {
#define COPSE_STATUS_ENUM(code, text) COPSE_##code,
    COPSE_STATUS_MAP(COPSE_STATUS_ENUM)
#undef COPSE_STATUS_ENUM
} copse_status;

/** Name of a code, such as "ERR_SHAPE". Never NULL. Lifetime: static. Thread-safety: any. */
COPSE_API const char *copse_status_name(copse_status status);

/** One line that says what a code means. Never NULL. Lifetime: static. Thread-safety: any. */
COPSE_API const char *copse_status_text(copse_status status);

/**
 * Text of the newest failure in the calling thread; "" when there was none.
 * Lifetime: until the next failing call of this thread. Thread-safety: any.
 */
COPSE_API const char *copse_last_error(void);

/** Return from the calling function when `expr` fails. */
#define COPSE_TRY(expr)                                                                            \
    do {                                                                                           \
        copse_status copse_try_ = (expr);                                                          \
        if (copse_try_ != COPSE_OK)                                                                \
            return copse_try_;                                                                     \
    } while (0)

/** Store the status of `expr` in `s` and go to `label` when it fails. */
#define COPSE_TRY_OR(label, s, expr)                                                               \
    do {                                                                                           \
        (s) = (expr);                                                                              \
        if ((s) != COPSE_OK)                                                                       \
            goto label;                                                                            \
    } while (0)

#if defined(__cplusplus)
}
#endif
#endif
