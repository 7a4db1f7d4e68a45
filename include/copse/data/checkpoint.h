/* SPDX-License-Identifier: MIT */
/** @file
 * Named arrays in a file of the safetensors format.
 *
 * A file appears under its name complete or not at all. Reading is strict: duplicate names, unknown
 * fields, gaps, overlaps and trailing bytes are errors. A header has at most 100,000,000 bytes, as
 * in the format's reference.
 */
#ifndef COPSE_PUBLIC_CHECKPOINT_H
#define COPSE_PUBLIC_CHECKPOINT_H

#include "copse/array.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** An array with a name. */
struct copse_named_array {
    const char *name; /**< at most 1024 bytes, not "__metadata__" */
    struct copse_array_view array;
};

/** An entry of the file's metadata. */
struct copse_metadata {
    const char *key; /**< at most 1024 bytes */
    const char *value;
};

/** What to write. */
struct copse_checkpoint_params {
    const struct copse_named_array *arrays; /**< in the order of the file */
    size_t array_count;                     /**< at most 1,000,000 */
    const struct copse_metadata *metadata;  /**< [NULL] */
    size_t metadata_count;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Write arrays to a file, which replaces an older one when all bytes are on the disk. If the disk
 * reports an error, it is tried three times in about 0.1 s.
 * @retval COPSE_ERR_ARGUMENT  A name or key is not UTF-8, too long or used twice; or the data of an
 *                             array is missing.
 * @retval COPSE_ERR_IO        The file cannot be written; an older file is unchanged.
 * Any thread. Blocks until the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_checkpoint_write(
    copse_context *ctx, const char *path, const struct copse_checkpoint_params *params);

/** The content of a file. */
typedef struct copse_checkpoint copse_checkpoint;

/**
 * Read a file.
 * @retval COPSE_ERR_IO      The file cannot be read.
 * @retval COPSE_ERR_FORMAT  It breaks a rule of the format; the text says which and where.
 * Any thread. Blocks while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_checkpoint_read(copse_context *ctx, const char *path,
                                                           copse_checkpoint **out);
/**
 * Read the header of a file: names, types, shapes and metadata. `data` of the arrays is NULL until
 * copse_checkpoint_fetch; the file stays open. Otherwise as copse_checkpoint_read.
 */
COPSE_API COPSE_CHECKED copse_status copse_checkpoint_open(copse_context *ctx, const char *path,
                                                           copse_checkpoint **out);
/**
 * Read the elements of an array, unless they are there.
 * @retval COPSE_ERR_ARGUMENT  There is no array of this name.
 * @retval COPSE_ERR_IO        The file cannot be read, or changed meanwhile.
 * One thread at a time. Blocks while the array is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_checkpoint_fetch(copse_checkpoint *checkpoint,
                                                            const char *name);
COPSE_API copse_checkpoint *copse_checkpoint_retain(copse_checkpoint *checkpoint);
COPSE_API void copse_checkpoint_release(copse_checkpoint **checkpoint);

/** The arrays in the order of the file, borrowed. */
COPSE_API const struct copse_named_array *
copse_checkpoint_arrays(const copse_checkpoint *checkpoint, size_t *count);
/** The metadata in the order of the file, borrowed. */
COPSE_API const struct copse_metadata *copse_checkpoint_metadata(const copse_checkpoint *checkpoint,
                                                                 size_t *count);
/** The array of a name, borrowed, or NULL. */
COPSE_API const struct copse_array_view *copse_checkpoint_find(const copse_checkpoint *checkpoint,
                                                               const char *name);

#if defined(__cplusplus)
}
#endif
#endif
