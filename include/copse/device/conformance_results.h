/* SPDX-License-Identifier: MIT */
/** @file Results of a conformance run: cases, devices, counts; written as device cards and as files
 * for other programs.
 * The functions are in libcopse-conformance: see conformance.h.
 */
#ifndef COPSE_PUBLIC_DEVICE_CONFORMANCE_RESULTS_H
#define COPSE_PUBLIC_DEVICE_CONFORMANCE_RESULTS_H

#include "copse/device/conformance.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Results. They do not change when a job has ended or after they were read from a file; then any
    thread may read them. */
typedef struct copse_conformance_results copse_conformance_results;

/** A device of a run. Lifetime of the texts: that of the results. */
struct copse_checked_device {
    const char *id, *name, *driver, *api_version;
    /** one JSON object: identity, `limits`, `blocked` kernels with their reasons */
    const char *json;
    uint64_t reserved[4]; /**< 0 */
};

/** A file format of results. */
typedef enum copse_conformance_format {
    COPSE_CONFORM_HTML,     /**< device cards: one page without scripts or other files */
    COPSE_CONFORM_MARKDOWN, /**< device cards */
    COPSE_CONFORM_JUNIT,    /**< JUnit XML */
    COPSE_CONFORM_CSV,      /**< a table: one row for each case */
    /** one JSON object in each line, as `copse conformance --json` prints them */
    COPSE_CONFORM_JSON,
} copse_conformance_format;

/**
 * Read the output of `copse conformance --json`.
 * @retval COPSE_ERR_IO      The file cannot be read.
 * @retval COPSE_ERR_FORMAT  A line is not such an object, or the file has no case. The text names
 *                           file and line.
 */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status copse_conformance_results_read(
    copse_context *ctx, const char *path, copse_conformance_results **out);
COPSE_CONFORMANCE_API void copse_conformance_results_release(copse_conformance_results **results);

/** Write a file, completely or not at all. COPSE_ERR_IO: it cannot be written. */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status copse_conformance_results_write(
    const copse_conformance_results *results, copse_conformance_format format, const char *path);

COPSE_CONFORMANCE_API size_t copse_conformance_case_count(const copse_conformance_results *results);
/** A case in the order in which it ended; NULL from the count on. Absent texts are "". */
COPSE_CONFORMANCE_API const struct copse_case_result *
copse_conformance_case(const copse_conformance_results *results, size_t index);
COPSE_CONFORMANCE_API size_t
copse_conformance_device_count(const copse_conformance_results *results);
/** False, and a zeroed struct, from the count on. */
COPSE_CONFORMANCE_API bool copse_conformance_device(const copse_conformance_results *results,
                                                    size_t index, struct copse_checked_device *out);
/** Counts of verdicts and the time of the run. */
COPSE_CONFORMANCE_API void
copse_conformance_results_summary(const copse_conformance_results *results,
                                  struct copse_conformance_summary *out);
/** Version of the library that made the results: "0.1.0". */
COPSE_CONFORMANCE_API const char *
copse_conformance_library(const copse_conformance_results *results);
/** Names of the modes of the run: "run grad". */
COPSE_CONFORMANCE_API const char *copse_conformance_modes(const copse_conformance_results *results);

/** Whether this verdict makes a run fail: FAIL, XPASS, CRASH, TIMEOUT, DEVICE_LOST, MISTRUSTED. */
COPSE_CONFORMANCE_API bool copse_verdict_fails(copse_verdict verdict);
/** The error of a case as a fraction of its tolerance: 1 is the limit; 0 without a number. */
COPSE_CONFORMANCE_API double copse_case_share(const struct copse_case_result *result);

/**
 * A device of the context as a JSON object: identity, limits, blocked kernels.
 *
 * @param text    Receives at most `room` bytes with the final NUL; NULL to ask for the size.
 * @param needed  Receives the bytes needed with the final NUL.
 * @retval COPSE_ERR_ARGUMENT   `room` is too small.
 * @retval COPSE_ERR_NO_DEVICE  No such device.
 */
COPSE_CONFORMANCE_API COPSE_CHECKED copse_status copse_device_json(copse_context *ctx,
                                                                   const char *device, char *text,
                                                                   size_t room, size_t *needed);

#if defined(__cplusplus)
}
#endif
#endif
