/* SPDX-License-Identifier: MIT */
/** @file
 * Conformance: whether the results of every kernel on a device can be trusted, and what the library
 * does about those that cannot.
 *
 * Functions declared with COPSE_CONFORMANCE_API, here and in conformance_job.h and
 * conformance_results.h, are in a library of their own, libcopse-conformance: link it as well
 * (CMake: `copse::conformance`; pkg-config: `copse-conformance`). Both libraries must be of the same
 * build. If they are not, these functions return COPSE_ERR_UNSUPPORTED, with both versions in the
 * text. What a program without it needs is in libcopse: block lists and the state of a device.
 */
#ifndef COPSE_PUBLIC_DEVICE_CONFORMANCE_H
#define COPSE_PUBLIC_DEVICE_CONFORMANCE_H

#include <stdint.h>

#include "copse/device.h"

#if !defined(_WIN32)
#    define COPSE_CONFORMANCE_API __attribute__((visibility("default")))
#elif defined(COPSE_STATIC)
#    define COPSE_CONFORMANCE_API
#elif defined(COPSE_CONFORMANCE_BUILD)
#    define COPSE_CONFORMANCE_API __declspec(dllexport)
#else
#    define COPSE_CONFORMANCE_API __declspec(dllimport)
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/** Every verdict: COPSE_VERDICT_MAP(X) calls X(NAME, "what it means"). */
#define COPSE_VERDICT_MAP(X)                                                  \
    X(PASS, "within the tolerance")                                           \
    X(FAIL, "outside the tolerance, or a write out of range")                 \
    X(SKIP, "not run; the text says why")                                     \
    X(UNSUPPORTED, "the device declares that it cannot")                      \
    X(XFAIL, "failed as known; the text has the reason and the driver range") \
    X(XPASS, "passed though known to fail: the list is out of date")          \
    X(MISTRUSTED, "agrees, but on results too poor to prove anything")        \
    X(TIMEOUT, "did not end within its time")                                 \
    X(OOM, "memory was exhausted")                                            \
    X(DEVICE_LOST, "the device failed")                                       \
    X(CRASH, "the process died in the driver")

typedef enum copse_verdict {
#define COPSE_VERDICT_ENUM(name, text) COPSE_VERDICT_##name,
    COPSE_VERDICT_MAP(COPSE_VERDICT_ENUM)
#undef COPSE_VERDICT_ENUM
        COPSE_VERDICT_COUNT
} copse_verdict;

/** Name of a verdict, such as "PASS". Lifetime: static. Thread-safety: any. */
COPSE_CONFORMANCE_API const char *copse_verdict_name(copse_verdict verdict);

/** What is checked: bits of `copse_conformance_params.modes`. */
typedef enum copse_conformance_mode {
    COPSE_CONFORM_RUN = 1 << 0,     /**< forward, against the double reference */
    COPSE_CONFORM_GRAD = 1 << 1,    /**< gradients; and the reference's own, against differences */
    COPSE_CONFORM_OPT = 1 << 2,     /**< optimizers after 1, 10 and 1000 steps */
    COPSE_CONFORM_REDUCE = 1 << 3,  /**< reduction schedules over sets of devices */
    COPSE_CONFORM_TRAIN = 1 << 4,   /**< a small training run; 1 against several replicas */
    COPSE_CONFORM_BITWISE = 1 << 5, /**< the same bits from run to run, and where promised */
    COPSE_CONFORM_ARGS = 1 << 6,    /**< invalid arguments get the right error */
    COPSE_CONFORM_PERF = 1 << 7,    /**< speed, no verdict of its own */
    COPSE_CONFORM_STRESS = 1 << 8,  /**< odd sizes, many groups, large offsets, memory exhausted */
    COPSE_CONFORM_LIMITS = 1 << 9,  /**< the same as other, smaller devices */
    COPSE_CONFORM_IMPORT = 1 << 10, /**< the same on a device that an application lends and uses */
    COPSE_CONFORM_TUNE = 1 << 11,   /**< how fast every variant is, for the library to choose by:
                                         see copse/device/tuning.h */
    COPSE_CONFORM_LAUNCH = 1 << 12, /**< each kernel alone: launch sizes and classes of values */
    COPSE_CONFORM_API = 1 << 13,    /**< queues, barriers, copies, reads, claimed limits */
    /** no mode, but a filter of the others: only cases that a kernel has failed on this device,
       and launches of kernels that failed their self-test */
    COPSE_CONFORM_FAILED = 1 << 14,
    COPSE_CONFORM_COMPILE = 1 << 15,  /**< how long each kernel compiles without a cache */
    COPSE_CONFORM_CEILINGS = 1 << 16, /**< copies, products, launches, waits and transfers at their
                                           fastest, no verdict of its own */
} copse_conformance_mode;

/** How much is checked. */
typedef enum copse_conformance_tier {
    COPSE_CONFORM_QUICK,      /**< about 10 s with warm caches; says what it did not reach */
    COPSE_CONFORM_STANDARD,   /**< minutes */
    COPSE_CONFORM_FULL,       /**< hours */
    COPSE_CONFORM_EXHAUSTIVE, /**< every bit pattern of functions of one number */
} copse_conformance_tier;

/** Result of one case. Strings live during the callback only. */
struct copse_case_result {
    const char *mode;    /**< "run" */
    const char *op;      /**< "softmax" */
    const char *name;    /**< of the case: "row longer than a group" */
    const char *variant; /**< kernel variant that was forced, "" = the default choice */
    const char *type;    /**< element type: "f32" */
    const char *device;  /**< "opencl:0" */
    copse_verdict verdict;
    uint64_t seed;         /**< of the inputs; from the case's name and the run's seed */
    const char *metric;    /**< "ulp", "R", "bits", "norm", "" = no number */
    double worst, limit;   /**< in the metric; 0, 0 without one */
    double nmse;           /**< normalised mean square error, second alarm */
    uint64_t index;        /**< worst element */
    double got, expected;  /**< its values */
    double seconds;        /**< spent on the case */
    double gflops, gbytes; /**< per second, modes perf and tune; 0 = not measured */
    double library_gflops, library_gbytes; /**< the same with the library's kernel, a moment later;
                                                only beside `own` */
    const char *hash;     /**< hex digest of the result's bits, for comparing devices; "" = none */
    const char *text;     /**< reason or details in one line; "" = none */
    uint64_t reserved[4]; /**< 0 */
};

/** Called after (`result`) each case. Must not call back into the library. */
typedef void copse_case_result_fn(void *user, const struct copse_case_result *result);
/** Called before each case, so that a crash can be put to its account; false ends the run. */
typedef bool copse_case_begin_fn(void *user, const char *mode, const char *op, const char *name,
                                 const char *variant);

/** Called when the running case uses a kernel for the first time, before the kernel runs; from any
    thread, one at a time. Must not call back into the library. */
typedef void copse_case_uses_fn(void *user, const char *kernel);

/**
 * A kernel of the application's own, checked in the place of one of the library's. It keeps that
 * kernel's entry contract: the same name, buffers, parameters, specialisations and group size; see
 * `copse_kernel_contract` and docs/conformance.md.
 */
struct copse_own_kernel {
    /** whose place it takes: "softmax"; or "@" and the path of a file that describes a launch of
       its own, with its grid, signature, reference and tolerance: mode LAUNCH alone */
    const char *kernel;
    const void *code; /**< text in the dialect or in OpenCL C for OpenCL devices; SPIR-V words for
                             Vulkan devices. Copied. */
    size_t size;      /**< bytes of `code` */
};

/** What to check. A zeroed struct means the defaults in brackets. */
struct copse_conformance_params {
    const char *device; /**< id                                          ["host:0"] */
    unsigned modes;     /**< of `copse_conformance_mode`                 [0 = RUN and GRAD] */
    copse_conformance_tier tier;
    const char *ops;       /**< only these: "softmax,matmul"                [all] */
    const char *case_name; /**< only this case                              [all] */
    const char *variant;   /**< only this variant; "" = the default choice  [NULL = all] */
    const char *after;     /**< go on behind this case: "mode/op/name/variant" [from the start] */
    double seconds;        /**< time box; cases not reached are SKIP        [0 = none] */
    const struct copse_own_kernel *own; /**< checked instead of the library's [NULL] */
    copse_case_begin_fn *begin;
    copse_case_result_fn *result;
    void *user;
    copse_case_uses_fn *uses;
    /** other inputs for all cases [0 = those of the cases' names] */
    uint64_t seed;
    /** file of known failures, a line for each: "DEVICE | MODE/OP/CASE | REASON"; patterns may
       contain '*' [those of the library only] */
    const char *known;
    uint64_t reserved[1]; /**< 0 */
};

/** How many cases came to what. */
struct copse_conformance_summary {
    uint64_t counts[COPSE_VERDICT_COUNT];
    double seconds;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Run cases on one device, in this process: a driver that crashes or hangs takes it along.
 * copse_conformance_start (conformance_job.h) runs them in helper processes. Kernel variants that
 * fail are blocked there, and used again when a run passes: see below.
 *
 * @retval COPSE_OK              The cases were run; their verdicts are in `out`.
 * @retval COPSE_ERR_ARGUMENT    Unknown op, case or variant.
 * @retval COPSE_ERR_NO_DEVICE   No such device.
 * @retval COPSE_ERR_FORMAT      `own` is not what its contract asks for; the text says where.
 * @retval COPSE_ERR_CANCELLED   `begin` returned false.
 *
 * Thread-safety: one run at a time per context. Blocking: for the whole run; applications call it
 * on a thread of their own.
 */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status
copse_conformance_run(copse_context *ctx, const struct copse_conformance_params *params,
                      struct copse_conformance_summary *out);

/** Describe every case that the parameters select, by `result` with verdict SKIP; runs nothing. */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status
copse_conformance_list(copse_context *ctx, const struct copse_conformance_params *params);

/** A cell of the coverage table: a kernel, with a launch of a size and a class of values. It has
    cases, or a reason why they cannot exist. Strings live during the callback only. */
struct copse_coverage_cell {
    const char *kernel; /**< "adam" */
    const char *mode;   /**< that runs the cases: "launch" */
    const char *regime; /**< "one group", "more than an axis"; "any" */
    const char *values; /**< "NaN"; of regime "any": "long line" */
    const char *cases;  /**< names, separated by "; ", as many as fit in 255 bytes; "" = none */
    const char *reason; /**< why there can be no case; "" = there can */
    uint32_t case_count;
    copse_conformance_tier tier; /**< the lowest of the cases */
    /** of a cell without cases and reason: what they lack, "REVERSE 1, LATER 1"; "" */
    const char *missing;
    uint64_t reserved[3]; /**< 0 */
};
typedef void copse_coverage_fn(void *user, const struct copse_coverage_cell *cell);

/** Describe every cell of the coverage table, kernel by kernel. Uses no device. Thread-safety:
    any. */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status copse_conformance_coverage(copse_coverage_fn *cell,
                                                                            void *user);

/**
 * The entry contract of a kernel in words: buffers in order with their types and which are written,
 * parameter words, specialisation constants, group size.
 *
 * @param text  Receives at most `room` bytes with the final NUL.
 * @retval COPSE_ERR_ARGUMENT  No such kernel; the text of the error lists them.
 */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status copse_kernel_contract(const char *kernel,
                                                                       char *text, size_t room);

/** A language that the dialect is spelled in. */
typedef enum copse_kernel_language {
    COPSE_KERNEL_CL_C, /**< OpenCL C 1.2 */
    COPSE_KERNEL_GLSL, /**< GLSL 4.50 for Vulkan 1.1: to be compiled to SPIR-V by the caller */
} copse_kernel_language;

/**
 * Complete a kernel in the dialect to a text that a compiler takes: the prelude of the language in
 * front, the dialect's own `#include` lines resolved. Lines are numbered as in `source`, by
 * `#line`.
 *
 * @param source  NUL-terminated.
 * @param text    Receives at most `room` bytes with the final NUL; NULL to ask for the size.
 * @param needed  Receives the bytes needed with the final NUL.
 * @retval COPSE_ERR_ARGUMENT  `room` is too small.
 * @retval COPSE_ERR_FORMAT    An include that is not of the dialect; the text names it.
 */
COPSE_API COPSE_CHECKED copse_status copse_kernel_complete(copse_kernel_language language,
                                                           const char *source, char *text,
                                                           size_t room, size_t *needed);

/* ---- the verdict is used ---- */

/** What a context does although kernels or devices have failed: bits for copse_context_allow. */
typedef enum copse_allowed {
    /** where no variant of a kernel is left, the host computes the launch with the functions of
       `host:0`: right, but slow, with a wait in each step */
    COPSE_ALLOW_HOST = 1 << 0,
    COPSE_ALLOW_UNRELIABLE = 1 << 1, /**< strategies use devices whose faults come and go */
} copse_allowed;

/**
 * Set what the context allows [nothing]. It applies to programs, trainers and strategies that are
 * made afterwards.
 * @param what  bits of `copse_allowed`
 * @retval COPSE_ERR_ARGUMENT  Another bit is set.
 * Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_context_allow(copse_context *ctx, unsigned what);

/** A kernel that the library does not use on a device, and why. */
struct copse_blocked_kernel {
    char kernel[48];  /**< "matmul_wide"; "matmul_clblast": the vendor's library */
    char reason[160]; /**< the case that failed, or what the application said */
    /** until `copse_device_unblock`: by the application. Else three runs of
       `copse_conformance_run` in a row take it back: runs in which all cases that failed pass, in
       the same tier or a higher one */
    bool is_lasting;
    /** the kernel failed its self-test; three runs in a row in which all of its cases pass take
       it back */
    bool by_self_test;
    uint32_t passes;      /**< runs in a row that passed since */
    uint64_t reserved[4]; /**< 0 */
};

/** What conformance has found out about a device, with its present driver. */
struct copse_device_state {
    /** "run grad (quick, 2026-11-23); run of softmax (standard, 2026-11-30)": the modes that were
       run, the ops if not all of them, the tier and the day (UTC); "" = never tested */
    char modes[256];
    /** its faults come and go: strategies refuse it, and "auto" omits it. A case failed and
       passed since, or when it was repeated. Three runs in a row in which all such cases pass make
       the device reliable again; after three such faults only `copse_device_unblock` for all
       kernels does */
    bool is_unreliable;
    uint32_t flips;       /**< faults that came and went */
    char reason[256];     /**< why it is unreliable */
    uint64_t reserved[4]; /**< 0 */
};
/** Lifetime: a copy. @retval COPSE_ERR_NO_DEVICE  No such device. */
COPSE_API COPSE_CHECKED copse_status copse_device_state(copse_context *ctx, const char *device,
                                                        struct copse_device_state *out);

/** The kernels blocked on a device. Lifetime: until the next block or unblock. */
COPSE_API COPSE_CHECKED copse_status copse_device_blocked(copse_context *ctx, const char *device,
                                                          const struct copse_blocked_kernel **list,
                                                          size_t *count);
/** Block a kernel on a device until it is unblocked, here and, through the kernel cache, in later
    contexts: the next variant is used instead. `reason` NULL: "blocked by the application". */
COPSE_API COPSE_CHECKED copse_status copse_device_block(copse_context *ctx, const char *device,
                                                        const char *kernel, const char *reason);
/**
 * What `copse_conformance_run` does about a kernel variant that failed a case, for a caller that
 * ran it in a process which died or was killed in that case. With verdict COPSE_VERDICT_TIMEOUT the
 * kernel is blocked when it is the second time for this case: an overloaded machine is late, too.
 *
 * @param failed  mode, op, name, variant (the kernel), verdict and text are read.
 * @param tier    Of the run; a pass in a lower one does not take the block back.
 *
 * @retval COPSE_ERR_ARGUMENT   No such kernel, or something is missing.
 * @retval COPSE_ERR_NO_DEVICE, COPSE_ERR_NO_MEMORY
 *
 * Thread-safety: any. Blocking: while the kernel cache is read and written.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_block_case(copse_context *ctx, const char *device,
                                                             const struct copse_case_result *failed,
                                                             copse_conformance_tier tier);
/** Take a block back, whatever it is for, and forget the cases; `kernel` NULL = all. */
COPSE_API COPSE_CHECKED copse_status copse_device_unblock(copse_context *ctx, const char *device,
                                                          const char *kernel);

#if defined(__cplusplus)
}
#endif
#endif
