/* SPDX-License-Identifier: MIT */
/** @file
 * Single files: CSV, IDX, .npy and plain text are read, .npy is written. The rules of data.h hold here
 * too.
 */
#ifndef COPSE_PUBLIC_DATA_READERS_H
#define COPSE_PUBLIC_DATA_READERS_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Settings of the readers. */
struct copse_read_params {
    uint64_t max_bytes;   /**< most bytes after decompression                        [0 = 8 GiB] */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Read an IDX file (the format of MNIST): 1 to 4 axes of U8, I8, I16, I32, F32 or F64.
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_IO      The file cannot be read.
 * @retval COPSE_ERR_FORMAT  The file is not a complete IDX file.
 * Any thread. Blocks while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_read_idx(copse_context *ctx, const char *path,
                                                    const struct copse_read_params *params,
                                                    copse_array **out);
/** Read a .npy file, versions 1.0 to 3.0: up to 8 axes of bool, integers or floats, in C order and
    the machine's byte order afterwards. Objects, strings and records are COPSE_ERR_FORMAT.
    Otherwise as copse_read_idx. */
COPSE_API COPSE_CHECKED copse_status copse_read_npy(copse_context *ctx, const char *path,
                                                    const struct copse_read_params *params,
                                                    copse_array **out);
/**
 * Write an array as a .npy file, version 1.0, in C order and little-endian; complete or not at all.
 * NumPy has no bf16: it becomes f32, without loss.
 * @retval COPSE_ERR_ARGUMENT  It is no array: its type, rank or shape.
 * @retval COPSE_ERR_IO        The file cannot be written.
 * Any thread. Blocks while the file is written.
 */
COPSE_API COPSE_CHECKED copse_status copse_write_npy(copse_context *ctx, const char *path,
                                                     const struct copse_array_view *array);
/** Read plain text as U8 [length]. NUL and invalid UTF-8 are COPSE_ERR_FORMAT. Otherwise as
    copse_read_idx. */
COPSE_API COPSE_CHECKED copse_status copse_read_text(copse_context *ctx, const char *path,
                                                     const struct copse_read_params *params,
                                                     copse_array **out);

/**
 * Read a CSV file of numbers: decimal with '.' in every locale, cells may be quoted, all lines have
 * the same number of cells and at most 1 MiB, empty lines are skipped.
 *
 * COPSE_CSV_HEADER_AUTO: the first line is a header when none of its cells is a number (for a
 * dataset: unless most occur again in their columns), or when it has at least three, which count
 * the columns: 0,1,2,... or 1,2,3,... Without a given delimiter it is the first of , ; tab | that
 * occurs outside quotes in the first line, else ','.
 * @param params    NULL for defaults.
 * @param features  F32 [rows, columns without the label].
 * @param labels    I32 [rows], whole numbers from 0. NULL: the file has no label column.
 * @retval COPSE_ERR_ARGUMENT  `params` breaks a rule, or names a column that is missing.
 * @retval COPSE_ERR_IO        The file cannot be read.
 * @retval COPSE_ERR_FORMAT    A cell is not a number, a row has another length, or a label is not a
 *                             class; the text names row and column.
 * Any thread. Blocks while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_read_csv(copse_context *ctx, const char *path,
                                                    const struct copse_csv_params *params,
                                                    copse_array **features, copse_array **labels);

#if defined(__cplusplus)
}
#endif
#endif
