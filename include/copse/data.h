/* SPDX-License-Identifier: MIT */
/** @file
 * Data: readers for CSV, IDX, .npy and plain text, each also gzip-compressed; datasets of features
 * and labels in host memory; batches in a reproducible order.
 *
 * Compression is recognised by content, not by name: gzip, one member, once. More members behind
 * the first are refused on purpose, as any bytes there are, and so is gzip inside gzip. A reader
 * takes a whole file or nothing: a truncated or damaged file is COPSE_ERR_FORMAT and the text says
 * where. Nothing in a file is ever executed, and no memory is asked for that the length of the file
 * does not justify.
 */
#ifndef COPSE_PUBLIC_DATA_H
#define COPSE_PUBLIC_DATA_H

#include "copse/array.h"
#include "copse/batch.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Settings of the readers. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_read_params {
    uint64_t max_bytes; /**< most bytes that are taken in, after decompression     [0 = 8 GiB] */
};

/**
 * Read an IDX file (the format of MNIST).
 *
 * @param path    File, UTF-8; gzip or not.
 * @param params  Settings; NULL for defaults.
 * @param out     Receives one reference: 1 to 4 axes of U8, I8, I16, I32, F32 or F64.
 *
 * @retval COPSE_ERR_IO         The file cannot be read.
 * @retval COPSE_ERR_FORMAT     It is not a complete, undamaged IDX file.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: the array retains the context. Thread-safety: any. Blocking: while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_read_idx(copse_context *ctx, const char *path,
                                                    const struct copse_read_params *params,
                                                    copse_array **out);

/**
 * Read a .npy file, format versions 1.0 to 3.0. Fortran order becomes C order, big-endian becomes
 * the machine's order.
 *
 * @param path    File, UTF-8; gzip or not.
 * @param params  Settings; NULL for defaults.
 * @param out     Receives one reference: up to 8 axes of bool, integers or floats.
 *
 * @retval COPSE_ERR_IO         The file cannot be read.
 * @retval COPSE_ERR_FORMAT     It is not a complete .npy file, or holds objects, strings or
 * records.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: the array retains the context. Thread-safety: any. Blocking: while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_read_npy(copse_context *ctx, const char *path,
                                                    const struct copse_read_params *params,
                                                    copse_array **out);

/**
 * Read plain text as bytes, checked to be UTF-8 without NUL.
 *
 * @param path    File, UTF-8; gzip or not.
 * @param params  Settings; NULL for defaults.
 * @param out     Receives one reference: U8, one axis, the length of the text.
 *
 * @retval COPSE_ERR_IO         The file cannot be read.
 * @retval COPSE_ERR_FORMAT     Damaged gzip, NUL or invalid UTF-8; the text names the byte offset.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: the array retains the context. Thread-safety: any. Blocking: while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_read_text(copse_context *ctx, const char *path,
                                                     const struct copse_read_params *params,
                                                     copse_array **out);

/** Whether the first line of a CSV file holds column names. */
typedef enum copse_csv_header {
    COPSE_CSV_HEADER_AUTO, /**< it does when none of its cells is a number, or when there are three
                                or more and they count the columns: 0,1,2,... or 1,2,3,... A
                                leading column of row numbers is not guessed at: it is read as
                                any other */
    COPSE_CSV_HEADER_YES,  /**< it does */
    COPSE_CSV_HEADER_NO,   /**< it holds data */
} copse_csv_header;

/** How to read a CSV file. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_csv_params {
    const char *label_name;  /**< label column by its name in the header        [NULL] */
    uint32_t label_column;   /**< label column by position, from 1              [0 = the last] */
    copse_csv_header header; /**< column names in the first line                [detected] */
    char delimiter;          /**< between cells: ',' ';' '|' or a tab           [0 = detected] */
    uint32_t classes;        /**< labels are 0..classes-1                       [0 = not checked] */
    uint64_t max_bytes;      /**< most bytes taken in, after decompression      [0 = 8 GiB] */
};

/**
 * Read a CSV file of numbers. Numbers are decimal with '.', whatever the locale; a cell may be
 * quoted. Each line has the same number of cells and at most 1 MiB; empty lines are skipped,
 * comments are not. Values are rounded to f32. Rows and columns in error texts count from 1, the
 * header line included, so that they are the line and column an editor or a spreadsheet shows.
 *
 * When `params->delimiter` is 0, it is detected from the first line: the first of ',' ';' tab '|',
 * in this order, that stands there outside quotes; ',' when none does.
 *
 * @param path      File, UTF-8; gzip or not.
 * @param params    Settings; NULL for defaults.
 * @param features  Receives one reference: F32 [rows, columns without the label].
 * @param labels    Receives one reference: I32 [rows], whole numbers from 0. NULL: there is no
 *                  label column, all columns are features.
 *
 * @retval COPSE_ERR_ARGUMENT   `params` breaks a rule, or names a column that is not there.
 * @retval COPSE_ERR_IO         The file cannot be read.
 * @retval COPSE_ERR_FORMAT     Damaged gzip, a cell that is no number, a row of another length, a
 *                              label that is no class; the text names row and column.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: the arrays retain the context. Thread-safety: any. Blocking: while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_read_csv(copse_context *ctx, const char *path,
                                                    const struct copse_csv_params *params,
                                                    copse_array **features, copse_array **labels);

/** Columns in host memory with the same number of rows. Features are the column "x", labels the column "y". */
typedef struct copse_dataset copse_dataset;

/** What happens to features when a dataset is made. */
typedef enum copse_feature_scale {
    COPSE_SCALE_MAX,  /**< all are divided by the largest magnitude found in the whole set: 0..1, or
                           -1..1 where there are negative values */
    COPSE_SCALE_NONE, /**< they stay as they are */
} copse_feature_scale;

/** How to make a dataset. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_dataset_params {
    const char *labels; /**< file with the labels, IDX or .npy                 [NULL] */
    bool no_labels;     /**< the file has no labels                            [false] */
    uint32_t classes;   /**< labels are 0..classes-1    [0 = largest label + 1, at most 65536; a
                             warning is logged when more than half of them never occur] */
    copse_feature_scale scale;  /**< what happens to features                          [COPSE_SCALE_MAX] */
    struct copse_csv_params csv; /**< for CSV; its `classes` and `max_bytes` are not used */
    uint64_t max_bytes; /**< most bytes taken in per file, after decompression [0 = 8 GiB] */
};

/**
 * Read a dataset.
 *
 * @param path    A CSV, .npy or IDX file, gzip or not, told apart by content; or a folder with an
 *                IDX pair `*images*idx3*` and `*labels*idx1*`. Of several pairs the one whose name
 *                begins with "train" is taken, then unpacked before gzip, then the first by name;
 *                images without their label file count only where its labels are not needed. The
 *                label file is found by its name, "labels" for "images" and "idx1" for "idx3",
 *                gzip or not. So it is beside a single IDX file named `*images*idx3*`; without
 *                it, and for other IDX and .npy files, there are labels only when
 *                `params->labels` names them.
 * @param params  Settings; NULL for defaults.
 * @param out     Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_ARGUMENT   `params` breaks a rule.
 * @retval COPSE_ERR_IO         A file cannot be read, or the folder has no IDX pair.
 * @retval COPSE_ERR_FORMAT     A file is damaged, a value is not finite, a label is no class; the
 *                              text names file and row.
 * @retval COPSE_ERR_SHAPE      Labels and features differ in number.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: retains the context. Thread-safety: any. Blocking: while files are read.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_open(copse_context *ctx, const char *path,
                                                        const struct copse_dataset_params *params,
                                                        copse_dataset **out);

/**
 * Make a dataset of features and labels in memory, which are copied: columns "x", f32, and "y", i32. Rows of more than
 * 5 axes become a list of numbers.
 *
 * @param features  Any element type, at least one axis; the first axis counts the rows, 1 to
 * 2^32-1.
 * @param labels    Whole numbers of any element type, shape [rows] or [rows, 1]; NULL for none.
 * @param params    `classes` and `scale` are used; NULL for defaults.
 * @param out       Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_ARGUMENT   An array is missing, or `params` breaks a rule.
 * @retval COPSE_ERR_SHAPE      Shapes do not fit together, or there is no row.
 * @retval COPSE_ERR_FORMAT     A value is not finite, a label is no class; the text names the row.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: retains the context. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_create(copse_context *ctx,
                                                          const struct copse_array_view *features,
                                                          const struct copse_array_view *labels,
                                                          const struct copse_dataset_params *params,
                                                          copse_dataset **out);

/**
 * Make a dataset of named columns in memory, which are copied and keep their types.
 *
 * @param columns  Names unique and not empty; `data` holds [rows, shape...].
 * @param count    1 to COPSE_MAX_INPUTS.
 * @param rows     1 to 2^32-1.
 * @param out      Receives one reference; NULL on failure.
 *
 * @retval COPSE_ERR_ARGUMENT   A column without name or data, two of one name, an unknown type, no column.
 * @retval COPSE_ERR_SHAPE      There is no row, or a row has too many axes.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: retains the context. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_columns(copse_context *ctx, const struct copse_column *columns,
                                                           size_t count, size_t rows, copse_dataset **out);

/** Add a reference. Thread-safety: any. */
COPSE_API copse_dataset *copse_dataset_retain(copse_dataset *data);

/** Drop a reference and set `*data` to NULL; NULL is fine. Thread-safety: any. */
COPSE_API void copse_dataset_release(copse_dataset **data);

/** What a dataset holds. */
struct copse_dataset_info {
    size_t rows;                        /**< examples */
    size_t columns;                     /**< see copse_dataset_column */
    uint32_t rank;                      /**< of the first column: axes of one example, 0 = a single number */
    size_t shape[COPSE_ARRAY_MAX_RANK]; /**< of one example */
    size_t row_size;                    /**< numbers in one example */
    bool has_labels;                    /**< it was made with labels, which are the column "y" */
    uint32_t classes;                   /**< labels are 0..classes-1; 0 without labels */
    float scale;                        /**< features were divided by this, 1 = unchanged */
};

/** Describe a dataset. Thread-safety: any. */
COPSE_API void copse_dataset_describe(const copse_dataset *data, struct copse_dataset_info *out);

/**
 * Describe column `i`: name, type and shape of one row; `out->data` becomes NULL.
 * @retval COPSE_ERR_ARGUMENT  There is no such column.
 * Lifetime of the name: that of the dataset. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_column(const copse_dataset *data, size_t i,
                                                          struct copse_column *out);

/**
 * Copy rows of a column out.
 *
 * @param column    Its name.
 * @param rows      Which rows, each < `info.rows`; NULL for 0..count-1.
 * @param count     How many.
 * @param out       Receives them one behind another, in the column's type.
 *
 * @retval COPSE_ERR_ARGUMENT   There is no such column or row.
 *
 * Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_gather(const copse_dataset *data, const char *column,
                                                          const uint32_t *rows, size_t count, void *out);

/** How to split a dataset. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_split_params {
    double train_fraction; /**< share of the rows for training, 0..1 exclusive     [0 = 0.8] */
    uint64_t seed;         /**< order of the rows before the cut                   [0] */
};

/**
 * Shuffle the rows with the seed, then cut: a training part and a held-out part. The same seed and
 * number of rows give the same cut on every machine. No feature is copied.
 *
 * @param params  Settings; NULL for defaults.
 * @param train   Receives one reference: round(rows * train_fraction) rows.
 * @param test    Receives one reference: the others.
 *
 * @retval COPSE_ERR_ARGUMENT   A part would be empty.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: both parts share and keep the features. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_split(copse_dataset *data,
                                                         const struct copse_split_params *params,
                                                         copse_dataset **train,
                                                         copse_dataset **test);

/** Walks over a dataset in batches. */
typedef struct copse_batches copse_batches;

/** How to make batches. Fields in brackets are defaults for zero. */
struct copse_batches_params {
    size_t batch;    /**< examples in a batch, 1 to the rows of the dataset; required */
    uint64_t seed;   /**< of the order                                            [0] */
    bool no_shuffle; /**< keep the order of the dataset in every epoch            [false] */
    bool drop_last;  /**< leave out a last batch that is not full                 [false] */
    uint32_t
        prefetch; /**< batches that a thread prepares ahead, at most 64        [0 = no thread] */
};

/**
 * Make a walk, ready at the start of epoch 0. The order depends on seed, epoch and number of rows
 * alone: not on batch size, prefetch, machine or what was read before.
 *
 * @retval COPSE_ERR_ARGUMENT   A rule of the params is broken, such as a batch larger than the
 * data.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: retains the dataset. Thread-safety: one thread at a time.
 */
COPSE_API COPSE_CHECKED copse_status copse_batches_create(copse_dataset *data,
                                                          const struct copse_batches_params *params,
                                                          copse_batches **out);

/** Stop the thread, if any, and free the walk; sets `*batches` to NULL; NULL is fine. */
COPSE_API void copse_batches_release(copse_batches **batches);

/** Batches in an epoch. Thread-safety: any. */
COPSE_API size_t copse_batches_count(const copse_batches *batches);

/**
 * Go to a batch of an epoch: to begin the next epoch, or to go on where a run was cut.
 *
 * @param epoch  Number of the epoch, < 2^32-1.
 * @param index  The batch that comes next, 0 to `copse_batches_count`.
 *
 * @retval COPSE_ERR_ARGUMENT   There is no such batch.
 * @retval COPSE_ERR_TIMEOUT    The thread did not stop within 120 s.
 *
 * Lifetime: ends that of the last batch. Thread-safety: one thread at a time.
 */
COPSE_API COPSE_CHECKED copse_status copse_batches_start(copse_batches *batches, uint32_t epoch,
                                                         size_t index);

/** Which batch comes next: what `copse_batches_start` takes to come back here. */
COPSE_API void copse_batches_position(const copse_batches *batches, uint32_t *epoch, size_t *index);

/**
 * Take the next batch.
 *
 * @param out  Receives the batch, one input for each column; zeroed unless the result is COPSE_OK. `count` is
 *             less than `params.batch` only in the last batch; `first` is index * params.batch.
 *
 * @retval COPSE_ERR_END      The epoch is over; stays so until `copse_batches_start`. Leaves the
 *                            text of the last error as it was.
 * @retval COPSE_ERR_TIMEOUT  The thread did not deliver within 120 s.
 *
 * Lifetime: what `out` points to is valid until the next call on `batches`.
 * Thread-safety: one thread at a time. Blocking: while the batch is prepared.
 */
COPSE_API COPSE_CHECKED copse_status copse_batches_next(copse_batches *batches,
                                                        struct copse_host_batch *out);

#if defined(__cplusplus)
}
#endif
#endif
