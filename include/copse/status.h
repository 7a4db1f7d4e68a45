/* SPDX-License-Identifier: MIT */
/** @file
 * Status codes, the text of the last error, and the rules that hold in every header.
 *
 * **Errors.** A function that can fail returns a `copse_status`; copse_last_error gives one line of
 * text for people. A function that makes an object sets `*out` to NULL when it fails.
 * COPSE_ERR_NO_MEMORY is possible everywhere; COPSE_ERR_NO_DEVICE_MEMORY, COPSE_ERR_DEVICE_LOST and
 * COPSE_ERR_TIMEOUT wherever a device works. Descriptions list the others.
 *
 * **NULL.** A pointer is required unless its description says what NULL means, its list has no
 * entries, or the library only passes it on (`user`).
 *  - A function with a status returns COPSE_ERR_ARGUMENT for a required pointer that is NULL; for a
 *    replica context it returns COPSE_ERR_CONTEXT.
 *  - A release function does nothing for NULL and for the address of NULL. A retain function
 *    returns NULL for NULL.
 *  - A getter of a NULL handle returns 0, false, NULL, an empty text or the index that means
 *    "none", and clears its results. Results may be NULL where they are not wanted.
 *
 * **Lifetime.** An object lives until its last reference is released. The function that makes it
 * gives one reference, `_retain` adds one, `_release` drops one and sets the pointer to NULL. An
 * object retains the objects that it was made from. A returned pointer without a reference is
 * *borrowed*: it lives as long as the object it came from. Arguments are copied unless their
 * description says otherwise.
 *
 * **Threads.** Calls on one object must not overlap; a strategy and all that was made from it count
 * as one object. "Any thread" marks the exceptions. Contexts, devices, arrays, datasets,
 * checkpoints and the retaining and releasing of them are safe in any thread. A call waits for
 * devices, files or other workers only where its description says "Blocks".
 *
 * **Settings.** A zeroed `..._params` struct selects the defaults, which are in [brackets]; where
 * NULL is allowed, it selects them, too. A setting marked "required" has none. Paths and texts are
 * UTF-8.
 *
 * **Growth.** A struct keeps its size and the places of its members within a SOVERSION. New members
 * replace words of `reserved`, with 0 for the earlier behaviour. Programs leave these words 0: a
 * function that gets another value returns COPSE_ERR_UNSUPPORTED, since the program is newer than
 * the library. The library writes 0 there in results. Structs without `reserved` never change.
 */
#ifndef COPSE_PUBLIC_STATUS_H
#define COPSE_PUBLIC_STATUS_H

#if !defined(_WIN32)
#    define COPSE_API __attribute__((visibility("default")))
#elif defined(COPSE_STATIC)
#    define COPSE_API
#elif defined(COPSE_BUILD)
#    define COPSE_API __declspec(dllexport)
#else
#    define COPSE_API __declspec(dllimport)
#endif

#if defined(__GNUC__)
#    define COPSE_CHECKED __attribute__((warn_unused_result))
#else
#    define COPSE_CHECKED
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/** Every status: COPSE_STATUS_MAP(X) calls X(CODE, "meaning"). */
#define COPSE_STATUS_MAP(X)                                               \
    X(OK, "success")                                                      \
    X(ERR_ARGUMENT, "an argument breaks a documented rule")               \
    X(ERR_SHAPE, "shapes or element types do not fit together")           \
    X(ERR_UNSUPPORTED, "this device or build cannot do it")               \
    X(ERR_NO_MEMORY, "host memory is exhausted")                          \
    X(ERR_NO_DEVICE_MEMORY, "device memory is exhausted")                 \
    X(ERR_NO_DEVICE, "no such device")                                    \
    X(ERR_DEVICE_LOST, "the device failed; release it and open it again") \
    X(ERR_COMPILE, "a kernel did not compile")                            \
    X(ERR_IO, "a file could not be read or written")                      \
    X(ERR_FORMAT, "a file's content is not what its format promises")     \
    X(ERR_COMM, "another worker failed or disagrees")                     \
    X(ERR_TIMEOUT, "the deadline passed")                                 \
    X(ERR_CANCELLED, "cancelled on request")                              \
    X(ERR_NONFINITE, "a value is NaN or infinite")                        \
    X(ERR_CONTEXT, "called from the wrong strategy context")              \
    X(ERR_END, "no more elements")                                        \
    X(ERR_INTERNAL, "a fault of the library itself")                      \
    X(ERR_UNRELIABLE, "a device computed wrong results")

/** Result of a call. */
typedef enum copse_status {
#define COPSE_STATUS_ENUM(code, text) COPSE_##code,
    COPSE_STATUS_MAP(COPSE_STATUS_ENUM)
#undef COPSE_STATUS_ENUM
} copse_status;

/** Name of a code: "ERR_SHAPE". Never NULL. Static; any thread. */
COPSE_API const char *copse_status_name(copse_status status);

/** Meaning of a code in one line. Never NULL. Static; any thread. */
COPSE_API const char *copse_status_text(copse_status status);

/** Text of the newest failure in the calling thread, or "". Valid until the next failing call of
    this thread. */
COPSE_API const char *copse_last_error(void);

/** Where the library detected it, for reports of faults: "shape.c:60", or "" if unknown. Same
    lifetime. */
COPSE_API const char *copse_last_error_place(void);

/** Return from the calling function when `expr` fails. */
#define COPSE_TRY(expr)                   \
    do {                                  \
        copse_status copse_try_ = (expr); \
        if (copse_try_ != COPSE_OK)       \
            return copse_try_;            \
    } while (0)

/** Store the status of `expr` in `s` and go to `label` when it fails. */
#define COPSE_TRY_OR(label, s, expr) \
    do {                             \
        (s) = (expr);                \
        if ((s) != COPSE_OK)         \
            goto label;              \
    } while (0)

#if defined(__cplusplus)
}
#endif
#endif
