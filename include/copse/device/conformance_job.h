/* SPDX-License-Identifier: MIT */
/** @file Conformance in helper processes. A driver that crashes or hangs ends its helper process,
 * and the application goes on.
 *
 * A helper process is a program that calls `copse_conformance_helper` first in its `main`: the
 * application's own executable or the command `copse`. The library starts it, reads its events from
 * a pipe and waits for this process only; it installs no signal handlers. A helper process ends
 * with the process that started it.
 * The functions are in libcopse-conformance: see conformance.h.
 */
#ifndef COPSE_PUBLIC_DEVICE_CONFORMANCE_JOB_H
#define COPSE_PUBLIC_DEVICE_CONFORMANCE_JOB_H

#include "copse/device/conformance_results.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_conformance_job copse_conformance_job;

/** What a job does. */
typedef enum copse_conformance_work {
    COPSE_CONFORM_CHECK,    /**< run the cases */
    COPSE_CONFORM_PLAN,     /**< list the cases of the first device; run none */
    COPSE_CONFORM_DESCRIBE, /**< describe the devices */
} copse_conformance_work;

typedef enum copse_conformance_event_kind {
    COPSE_CONFORM_STARTED, /**< first */
    /** a device was described: before the first case, and again after the last */
    COPSE_CONFORM_DEVICE,
    COPSE_CONFORM_READY,   /**< all devices are known */
    COPSE_CONFORM_PLANNED, /**< `result`: a case that would run */
    COPSE_CONFORM_BEGIN,   /**< `result`: a case begins */
    COPSE_CONFORM_RESULT,  /**< `result`: a case has ended */
    COPSE_CONFORM_MODE,    /**< all cases of a device and mode have ended */
    COPSE_CONFORM_SUMMARY, /**< last; files are written afterwards */
    /** kernels are compiled ahead: `json` has device, kernels and how many are done */
    COPSE_CONFORM_COMPILING,
} copse_conformance_event_kind;

/** An event of a job. Texts live during the call. */
struct copse_conformance_event {
    copse_conformance_event_kind kind;
    /** NULL without a case. BEGIN: only device, mode, op, name, variant are set; the other texts
       are "" */
    const struct copse_case_result *result;
    /** RESULT: "4.1 ulp of 5 at element 77: got 1, expected 2"; "" = no number */
    const char *measure;
    const char *again; /**< RESULT: the command line that repeats the case; "" for other kinds */
    const copse_conformance_results *results; /**< so far; for use during the call */
    size_t first;                             /**< MODE: its first case in `results` */
    size_t done, planned;                     /**< cases */
    const char *json; /**< one JSON object, as `copse conformance --json` prints it; "" = none */
    uint64_t reserved[4]; /**< 0 */
};
/** Called on the job's thread, one event at a time. It must not call functions of the job but
    `copse_conformance_cancel` and `copse_conformance_job_progress`. A slow callback delays the
    job. */
typedef void copse_conformance_event_fn(void *user, const struct copse_conformance_event *event);

/** How a helper process does its work. A zeroed struct means the defaults in brackets. */
struct copse_conformance_helper_params {
    /** Makes the context of the helper process. `params` has the job's cache folder.  [copse_context_create] */
    copse_status (*open)(void *user, const struct copse_context_params *params, bool is_verbose,
                         copse_context **out);
    /** Turns the file of a user kernel into code for a device. After a failure `why` has the reason
        in one line, or
        copse_last_error. The library calls `free` for `*code`.          [the file as it is] */
    copse_status (*read_kernel)(void *user, const char *path, const char *device, void **code,
                                size_t *size, char *why, size_t room);
    void *user;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Do the work of a helper process, if this process was started as one. Call it first in `main`:
 * `if ((code = copse_conformance_helper(argc, argv, NULL)) >= 0) return code;`
 * @return -1 if this process is no helper process; else the exit code of the process.
 */
COPSE_CONFORMANCE_API int
copse_conformance_helper(int argc, char **argv,
                         const struct copse_conformance_helper_params *params);

/** A job. A zeroed struct means the defaults in brackets. Texts are copied. */
struct copse_conformance_job_params {
    const char *devices; /**< "auto", "all", "vulkan", "opencl:0,vulkan:0", ...  ["all"] */
    copse_conformance_work work;
    unsigned modes; /**< of `copse_conformance_mode`                 [0 = RUN and GRAD] */
    copse_conformance_tier tier;
    const char *ops;       /**< only these: "softmax,matmul"                [all] */
    const char *case_name; /**< only this case                              [all] */
    const char *variant;   /**< only this variant; "" = the default choice  [NULL = all] */
    /** file of a user kernel, and the kernel that it replaces, or "@" and the file that describes
       its launch (conformance.h) [none] */
    const char *own_path, *own_kernel;
    double seconds; /**< for each device; cases not reached are SKIP  [0 = no limit] */
    /** for each case before it counts as hung [s]; at least 60 before the first case [60; from
       tier full on 600] */
    double deadline;
    /** program of the helper process: a path, or a name to look up in PATH; the application's
       own: "/proc/self/exe" on Linux [the command `copse` beside the library, else in PATH] */
    const char *helper;
    /** of the helper process, as in copse_context_params; its list of blocked kernels is changed
       [that of the context; else none] */
    const char *cache_folder;
    /** do the work in this process: for debuggers; without a deadline. It lives as long as the
       job [NULL = in helper processes] */
    const struct copse_conformance_helper_params *in_process;
    copse_conformance_event_fn *event;
    void *user;
    const char *html, *markdown, *junit, *csv, *json; /**< files to write at the end  [none] */
    /** command line of the run, for the card [that of `copse conformance`] */
    const char *command;
    bool is_verbose; /**< for `open`: log more */
    /** as in copse_conformance_params [0 = inputs of the cases' names] */
    uint64_t seed;
    /** file of known failures, as in copse_conformance_params; crashes and hangs count, too
       [none] */
    const char *known;
    /** go on after this case of the first device, in its mode: "mode/op/name/variant"; earlier
       modes are not run [from the start] */
    const char *after;
    uint64_t reserved[5]; /**< 0 */
};

/**
 * Start a job on a thread of its own. Kernels that fail, crash or hang are blocked as
 * copse_conformance_run and copse_device_block_case do, in the cache folder and, where `ctx` has
 * the device, in `ctx`. Blocks that passing cases take back are seen by contexts that are made
 * later. Jobs are independent: several may run at a time.
 *
 * @retval COPSE_ERR_ARGUMENT     A wrong parameter; two files have one name; or this process is
 *                                itself a helper process, whose `main` does not call
 *                                copse_conformance_helper.
 * @retval COPSE_ERR_IO           There is no helper program, or a file cannot be written.
 */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status
copse_conformance_start(copse_context *ctx, const struct copse_conformance_job_params *params,
                        copse_conformance_job **out);

/** How far a job is. */
struct copse_conformance_progress {
    size_t done, planned; /**< cases; `planned` grows with each device */
    double seconds;       /**< since the start */
    bool is_finished;     /**< copse_conformance_wait returns at once */
    char running[320];    /**< "opencl:0 run softmax: usual range"; "" = none */
    uint64_t reserved[4]; /**< 0 */
};
COPSE_CONFORMANCE_API void copse_conformance_job_progress(copse_conformance_job *job,
                                                          struct copse_conformance_progress *out);

/** Request the end of a job and return. The helper process is killed within a second; in_process:
    the job ends after the case. Results so far are kept; no file is written. Thread-safety: any. */
COPSE_CONFORMANCE_API void copse_conformance_cancel(copse_conformance_job *job);

/** How a job ended. */
struct copse_conformance_outcome {
    struct copse_conformance_summary summary;
    uint64_t failed;      /**< cases whose verdict makes the run fail */
    uint64_t not_reached; /**< cases that the time or a crash left out */
    bool is_trusted;      /**< failed = 0, at least one case passed */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Wait for the end of a job.
 *
 * @param seconds  Negative: no limit.
 * @param out      May be NULL.
 * @retval COPSE_OK             All devices and modes were run; verdicts and counts are in `out`.
 * @retval COPSE_ERR_TIMEOUT    It goes on; wait again.
 * @retval COPSE_ERR_CANCELLED  By copse_conformance_cancel; `out` has the counts so far.
 * @retval COPSE_ERR_NO_DEVICE  `devices` selects none.
 * @retval COPSE_ERR_ARGUMENT   Unknown op, case or variant; or called by the job's callback.
 * @retval COPSE_ERR_IO         A file could not be written, or the helper program could not be
 *                              started.
 * @retval COPSE_ERR_INTERNAL   The helper process ended before it found a device, or is no helper
 *                              program.
 *
 * Thread-safety: any.
 */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status copse_conformance_wait(
    copse_conformance_job *job, double seconds, struct copse_conformance_outcome *out);
/** The results of a finished job; NULL before. Lifetime: that of the job. */
COPSE_CONFORMANCE_API const copse_conformance_results *
copse_conformance_job_results(const copse_conformance_job *job);
/** Cancel the job if it runs, wait for its end and free it. Not from its callback. */
COPSE_CONFORMANCE_API void copse_conformance_job_release(copse_conformance_job **job);

/** Name of a mode, such as "run", and of a tier; "" for others. Lifetime: static. */
COPSE_CONFORMANCE_API const char *copse_conformance_mode_name(unsigned mode);
COPSE_CONFORMANCE_API const char *copse_conformance_tier_name(copse_conformance_tier tier);

#if defined(__cplusplus)
}
#endif
#endif
