/* SPDX-License-Identifier: MIT */
/** @file
 * Finding the checkpoints of a running job, for an evaluator beside it.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_EVALUATOR_H
#define COPSE_PUBLIC_DISTRIBUTE_EVALUATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** A checkpoint in a monitor's folder. */
struct copse_found_checkpoint {
    uint64_t progress; /**< of the step, from the file's name */
    char path[4096];
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Find a checkpoint in a monitor's folder, for another process such as an evaluator. Nothing is
 * opened or changed. The monitor may remove the file before it is read (`keep`): reading then gives
 * COPSE_ERR_IO, and the next call finds another one.
 * @param from       Lowest progress.
 * @param is_newest  The newest of these, else the oldest.
 * @retval COPSE_ERR_END       There is none now. The text of the last error stays.
 * @retval COPSE_ERR_IO        The folder cannot be listed, for example because it does not exist
 *                             yet.
 * @retval COPSE_ERR_ARGUMENT  The path is empty, or too long for `path`.
 * Any thread.
 */
COPSE_API COPSE_CHECKED copse_status copse_monitor_find(copse_context *ctx, const char *folder,
                                                        uint64_t from, bool is_newest,
                                                        struct copse_found_checkpoint *out);

#if defined(__cplusplus)
}
#endif
#endif
