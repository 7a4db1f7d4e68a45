/* SPDX-License-Identifier: MIT */
/** @file Data: datasets, read from files or made from arrays, and batches in a reproducible order.
 * data/readers.h reads single files.
 *
 * gzip (one member) is detected by content. A file is read whole or not at all. The text of
 * COPSE_ERR_FORMAT says where it is damaged.
 */
#ifndef COPSE_PUBLIC_DATA_H
#define COPSE_PUBLIC_DATA_H

#include "copse/array.h"
#include "copse/batch.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Whether the first line of a CSV file holds column names. */
typedef enum copse_csv_header {
    COPSE_CSV_HEADER_AUTO, /**< see data/readers.h */
    COPSE_CSV_HEADER_YES,
    COPSE_CSV_HEADER_NO,
} copse_csv_header;

/** How to read a CSV file; data/readers.h describes the format. Error texts count rows and columns
    from 1, header included. */
struct copse_csv_params {
    const char *label_name; /**< label column by its name in the header; data/schema.h [NULL] */
    uint32_t label_column;  /**< label column by position, from 1              [0 = the last] */
    copse_csv_header header;
    /** ',' ';' '|' or a tab [0 = that of the first line] */
    char delimiter;
    uint32_t classes;   /**< labels are 0..classes-1                       [0 = not checked] */
    uint64_t max_bytes; /**< most bytes after decompression                [0 = 8 GiB] */
    uint64_t reserved[4];
};

/** Columns with the same number of rows. Features are column "x", labels "y". Constant. */
typedef struct copse_dataset copse_dataset;

/** The meaning of its columns (data/schema.h). Constant. */
typedef struct copse_schema copse_schema;

/** Scaling of features when a dataset is made. */
typedef enum copse_feature_scale {
    /** tables: STANDARD; pictures: / 255 on the device; others: NONE */
    COPSE_SCALE_AUTO,
    COPSE_SCALE_NONE,     /**< leave them and regression targets unchanged */
    COPSE_SCALE_STANDARD, /**< each number of a row: mean 0, standard deviation 1 over all rows */
    COPSE_SCALE_MAX,      /**< divide all by the largest magnitude in the set */
} copse_feature_scale;

/** The use of labels. */
typedef enum copse_task {
    COPSE_TASK_AUTO,           /**< recognised from the labels, see data/schema.h */
    COPSE_TASK_CLASSIFICATION, /**< "y" is i32, a class */
    COPSE_TASK_REGRESSION,     /**< "y" is f32 [targets], scaled as the features */
    COPSE_TASK_SEQUENCE,       /**< data/text.h */
} copse_task;

/** Missing cells of a table: empty, NA, N/A, NaN, null or ?. */
typedef enum copse_missing {
    COPSE_MISSING_AUTO, /**< REFUSE; by a schema MEAN, with a warning */
    COPSE_MISSING_REFUSE,
    COPSE_MISSING_MEAN, /**< become the column's mean, or a category of their own */
} copse_missing;

/** Categories that a schema has not. */
typedef enum copse_unknown {
    COPSE_UNKNOWN_IGNORE, /**< count as none, with a warning */
    COPSE_UNKNOWN_REFUSE,
} copse_unknown;

/** How to make a dataset. */
struct copse_dataset_params {
    const char *labels; /**< file with the labels, IDX or .npy                 [NULL] */
    bool no_labels;     /**< the file has no labels                            [false] */
    uint32_t classes;   /**< labels are 0..classes-1   [0 = found from the labels; at most 65536] */
    copse_feature_scale scale;
    struct copse_csv_params csv; /**< of these not `classes` and `max_bytes` */
    uint64_t max_bytes; /**< most bytes per file after decompression           [0 = 8 GiB] */
    const copse_schema *schema; /**< how to read the columns                [NULL = decide it] */
    copse_task task;
    copse_missing missing;
    copse_unknown unknown;
    const char *ignore; /**< columns left out: names or positions, "id,3"     [NULL] */
    const struct copse_source_params *source; /**< data/source.h [NULL] */
};

/**
 * Read a dataset: a CSV, .npy or IDX file, or a folder with an IDX pair `*images*idx3*` and
 * `*labels*idx1*`. The type is detected by content. data/schema.h: how the columns of a
 * table (CSV) become "x" and "y". Pictures: data/pictures.h.
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT  `params` breaks a rule, or names a column that is missing.
 * @retval COPSE_ERR_IO        A file cannot be read, or the folder has no IDX pair.
 * @retval COPSE_ERR_FORMAT    A file is damaged, a value is missing or not finite, or a label is
 *                             not a class.
 * @retval COPSE_ERR_SHAPE     Labels and features differ in number, or rows do not fit the schema.
 * Any thread. Blocks while files are read.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_open(copse_context *ctx, const char *path,
                                                        const struct copse_dataset_params *params,
                                                        copse_dataset **out);

/**
 * Make a dataset of features and labels in memory: columns "x", f32, and "y". Rows of more than 5
 * axes become rank 1.
 * @param features  Any element type; the first axis counts the rows, 1 to 2^32-1. u8 with 3 or more
 *                  axes are pictures: "x" is u8.
 * @param labels    Classes from 0, or values: any element type, [rows] or [rows, targets]; NULL for
 *                  none.
 * @param params    `classes`, `scale`, `schema` and `task` are used; NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT  An array is missing, or `params` breaks a rule.
 * @retval COPSE_ERR_SHAPE     Shapes do not fit together, or there is no row.
 * @retval COPSE_ERR_FORMAT    A value is not finite, or a label is not a class.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_create(copse_context *ctx,
                                                          const struct copse_array_view *features,
                                                          const struct copse_array_view *labels,
                                                          const struct copse_dataset_params *params,
                                                          copse_dataset **out);

/**
 * Make a dataset of named columns in memory, which keep their types.
 * @param columns  `data` holds [rows, shape...].
 * @param count    1 to COPSE_MAX_INPUTS.
 * @retval COPSE_ERR_ARGUMENT  A column has no name, no data or an unknown type, two have one name,
 *                             or there is none.
 * @retval COPSE_ERR_SHAPE     There is no row, or a row has too many axes.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_columns(copse_context *ctx,
                                                           const struct copse_column *columns,
                                                           size_t count, size_t rows,
                                                           copse_dataset **out);

/** Its schema, borrowed: of copse_dataset_open and copse_dataset_create. NULL: made otherwise. */
COPSE_API const copse_schema *copse_dataset_schema(const copse_dataset *data);
COPSE_API copse_dataset *copse_dataset_retain(copse_dataset *data);
COPSE_API void copse_dataset_release(copse_dataset **data);

/** What a dataset holds. */
struct copse_dataset_info {
    size_t rows;                        /**< examples */
    size_t columns;                     /**< see copse_dataset_column */
    uint32_t rank;                      /**< axes of one example of the first column */
    size_t shape[COPSE_ARRAY_MAX_RANK]; /**< of one example */
    size_t row_size;                    /**< numbers in one example */
    bool has_labels;                    /**< it was made with labels */
    uint32_t classes;                   /**< labels are 0..classes-1; 0: there are none */
    float scale;                        /**< divisor of COPSE_SCALE_MAX, otherwise 1 */
    uint64_t reserved[4];
};

/** Describe a dataset. */
COPSE_API void copse_dataset_describe(const copse_dataset *data, struct copse_dataset_info *out);
/** Describe column `i`: name, type and shape of one row; `out->data` becomes NULL.
    @retval COPSE_ERR_ARGUMENT  The dataset has no such column. */
COPSE_API COPSE_CHECKED copse_status copse_dataset_column(const copse_dataset *data, size_t i,
                                                          struct copse_column *out);
/**
 * Copy rows of a column, in the column's type.
 * @param rows  Row numbers; NULL for 0..count-1.
 * @param out   [count, shape...].
 * @retval COPSE_ERR_ARGUMENT  The dataset has no such column or row.
 * @retval COPSE_ERR_IO, COPSE_ERR_FORMAT  A file.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_gather(const copse_dataset *data,
                                                          const char *column, const uint32_t *rows,
                                                          size_t count, void *out);

/** How to split a dataset. */
struct copse_split_params {
    double train_fraction; /**< part of the rows for training, above 0 and below 1 [0 = 0.8] */
    uint64_t seed;         /**< of the order of the rows before the cut            [0] */
    /** divide each class alike, into both parts where rows suffice [false] */
    bool stratify;
    uint64_t reserved[3];
};

/**
 * Shuffle the rows, then cut them into a training part and a held-out part. Seed, number of rows
 * and classes (`stratify`) alone decide the cut.
 * @param params  NULL for defaults.
 * @param train   round(rows * train_fraction) rows.
 * @param test    The other rows.
 * @retval COPSE_ERR_ARGUMENT  A part would be empty, or a row has no class to `stratify`.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_split(copse_dataset *data,
                                                         const struct copse_split_params *params,
                                                         copse_dataset **train,
                                                         copse_dataset **test);

/* ---- batches ---- */

#define COPSE_PREFETCH_MAX 64

/** Gives the batches of a dataset one after the other. */
typedef struct copse_loader copse_loader;

/** How to make a loader. */
struct copse_loader_params {
    size_t batch;    /**< examples in a batch, 1 to the rows of the dataset; required */
    uint64_t seed;   /**< of the order                                            [0] */
    bool no_shuffle; /**< keep the order of the dataset in every epoch            [false] */
    bool drop_last;  /**< leave out a last batch that is not full                 [false] */
    /** batches that a thread prepares ahead, at most COPSE_PREFETCH_MAX [0 = no thread] */
    uint32_t prefetch;
    const char *augment; /**< random changes of pictures: data/pictures.h           [NULL] */
    uint64_t reserved[3];
};

/**
 * Make a loader at the start of epoch 0. The order depends on seed, epoch and number of rows
 * alone.
 * @retval COPSE_ERR_ARGUMENT  `params` breaks a rule, such as a batch larger than the dataset.
 */
COPSE_API COPSE_CHECKED copse_status copse_loader_create(copse_dataset *data,
                                                         const struct copse_loader_params *params,
                                                         copse_loader **out);
/** Free it. */
COPSE_API void copse_loader_release(copse_loader **loader);

/** Batches in an epoch. Any thread. */
COPSE_API size_t copse_loader_count(const copse_loader *loader);
/**
 * Go to a batch of an epoch.
 * @param epoch  Below 2^32-1.
 * @param index  The next batch, 0 to copse_loader_count.
 * @retval COPSE_ERR_ARGUMENT  There is no such batch.
 * @retval COPSE_ERR_TIMEOUT   The thread did not stop within 120 s.
 */
COPSE_API COPSE_CHECKED copse_status copse_loader_start(copse_loader *loader, uint32_t epoch,
                                                        size_t index);
/** The next batch, as copse_loader_start takes it. */
COPSE_API void copse_loader_position(const copse_loader *loader, uint32_t *epoch, size_t *index);
/**
 * Take the next batch.
 * @param out  One input for each column, valid until the next call on `loader`; zeroed on failure.
 *             Only the last batch may have fewer than `params.batch` examples.
 * @retval COPSE_ERR_END      The epoch is over, until copse_loader_start. The text of the last
 *                            error stays.
 * @retval COPSE_ERR_TIMEOUT  The thread did not deliver within 120 s. Or as copse_dataset_gather.
 * Blocks while the batch is prepared.
 */
COPSE_API COPSE_CHECKED copse_status copse_loader_next(copse_loader *loader,
                                                       struct copse_host_batch *out);

#if defined(__cplusplus)
}
#endif
#endif
