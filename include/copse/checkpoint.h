/* SPDX-License-Identifier: MIT */
/** @file
 * Named arrays in a file: safetensors, readable by every program that knows the format.
 *
 * A file appears under its name complete or not at all. Reading is strict: whatever breaks a rule
 * of the format is refused, also where other readers look away (a name twice, unknown fields, gaps
 * or overlaps between arrays, bytes at the end).
 */
#ifndef COPSE_PUBLIC_CHECKPOINT_H
#define COPSE_PUBLIC_CHECKPOINT_H

#include "copse/array.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** An array with a name. */
struct copse_named_array {
    const char *name;              /**< UTF-8, at most 1024 bytes, not "__metadata__" */
    struct copse_array_view array; /**< type, shape and elements */
};

/** A line of the file's metadata. */
struct copse_metadata {
    const char *key;   /**< UTF-8, at most 1024 bytes */
    const char *value; /**< UTF-8 */
};

/** What to write. */
struct copse_checkpoint_params {
    const struct copse_named_array *arrays; /**< in the order in which they go into the file */
    size_t array_count;                     /**< at most 1,000,000 */
    const struct copse_metadata *metadata;  /**< [NULL] */
    size_t metadata_count;                  /**< [0] */
};

/**
 * Write arrays to a file, which replaces an older one of that name only when all is on the disk.
 *
 * @param path  File, UTF-8.
 *
 * @retval COPSE_ERR_ARGUMENT   A name or key is not UTF-8, too long, or there twice; or an array is
 *                              missing its elements.
 * @retval COPSE_ERR_IO         The file cannot be written; what stood there is untouched.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Thread-safety: any. Blocking: until the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_checkpoint_write(
    copse_context *ctx, const char *path, const struct copse_checkpoint_params *params);

/** A file that was read: its arrays and its metadata. */
typedef struct copse_checkpoint copse_checkpoint;

/**
 * Read a file whole.
 *
 * @param path  File, UTF-8.
 * @param out   Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_IO         The file cannot be read.
 * @retval COPSE_ERR_FORMAT     It breaks a rule of the format; the text says which and where.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: retains the context. Thread-safety: any. Blocking: while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_checkpoint_read(copse_context *ctx, const char *path,
                                                           copse_checkpoint **out);

/** Add a reference. Thread-safety: any. */
COPSE_API copse_checkpoint *copse_checkpoint_retain(copse_checkpoint *checkpoint);

/** Drop a reference and set `*checkpoint` to NULL; NULL is fine. Thread-safety: any. */
COPSE_API void copse_checkpoint_release(copse_checkpoint **checkpoint);

/**
 * The arrays, in the order of the file.
 * Lifetime: that of the checkpoint. Thread-safety: any.
 */
COPSE_API const struct copse_named_array *
copse_checkpoint_arrays(const copse_checkpoint *checkpoint, size_t *count);

/**
 * The metadata, in the order of the file.
 * Lifetime: that of the checkpoint. Thread-safety: any.
 */
COPSE_API const struct copse_metadata *copse_checkpoint_metadata(const copse_checkpoint *checkpoint,
                                                                 size_t *count);

/** The array of that name, NULL when there is none. Lifetime: as above. Thread-safety: any. */
COPSE_API const struct copse_array_view *copse_checkpoint_find(const copse_checkpoint *checkpoint,
                                                               const char *name);

#if defined(__cplusplus)
}
#endif
#endif
