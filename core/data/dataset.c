/* SPDX-License-Identifier: MIT */
/* Datasets: named columns in host memory with the same number of rows; checks, scaling, splitting, gathering rows.
   Reads no files. */
#include "core/data/dataset.h"

#include <math.h>

#include "core/base/random.h"
#include "core/graph/op.h"
#include "core/graph/type.h"

#define FOUND_CLASSES_MAX 65536u /* a larger number of classes must be given by the caller */

static copse_status add_column(copse_dataset *ds, const char *name, copse_type type, copse_shape shape, copse_array *values)
{
    struct copse_dataset_column *c = &ds->columns[ds->info.columns++]; /* owns `values` from here on */
    c->values = values;
    c->name = copse__strdup(&copse__base(ds->ctx)->mem, name);
    if (c->name == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    c->is = (struct copse_column){ c->name, type, shape, NULL };
    c->row_bytes = (size_t)copse__elements(shape) * copse__type_bytes(type);
    return COPSE_OK;
}

/* Of one row; surplus axes are merged into one. */
static copse_status row_shape(uint32_t rank, const size_t *axes, copse_shape *out)
{
    size_t all = 1;
    *out = (copse_shape){ rank, { 0 } };
    for (uint32_t i = 0; i < rank; i++) {
        all *= axes[i];
        if (rank < COPSE_MAX_RANK)
            out->dims[i] = (uint32_t)axes[i];
    }
    if (rank >= COPSE_MAX_RANK)
        *out = COPSE_SHAPE((uint32_t)all);
    return all <= UINT32_MAX ? COPSE_OK
                             : copse_fail(COPSE_ERR_SHAPE, "dataset: a row has %zu numbers, at most 2^32-1 are possible",
                                          all);
}

/* Column "x": F32, all finite, scaled. `from` is reused if it is F32 and the dataset is its only user. */
static copse_status set_features(copse_dataset *ds, const struct copse_array_view *from,
                                 copse_array *owner, copse_feature_scale scale, const char *name)
{
    size_t row_size = ds->info.row_size;
    float largest = 0;
    copse_array *features;
    copse_shape shape;

    COPSE_TRY(row_shape(ds->info.rank, ds->info.shape, &shape));
    if (owner != NULL && from->type == COPSE_ELEMENT_F32)
        features = copse_array_retain(owner);
    else
        COPSE_TRY(copse__array_create(ds->ctx, COPSE_ELEMENT_F32, from->rank, from->shape, NULL,
                                      &features));
    COPSE_TRY(add_column(ds, "x", COPSE_F32, shape, features));
    float *v = features->data;
    for (size_t i = 0; i < features->count; i++) {
        v[i] = (float)copse__element_load(from->type, from->data, i);
        if (!isfinite(v[i]))
            return copse_fail(COPSE_ERR_FORMAT, "dataset: %s: row %zu, value %zu is not finite",
                              name, i / row_size + 1, i % row_size + 1);
        largest = fmaxf(largest, fabsf(v[i]));
    }
    ds->info.scale = 1;
    if (scale == COPSE_SCALE_NONE || largest == 0)
        return COPSE_OK;
    ds->info.scale = largest;
    for (size_t i = 0; i < features->count; i++)
        v[i] /= largest;
    return COPSE_OK;
}

/* Labels that do not begin at 0, or have wide gaps, create classes without examples. */
static void warn_of_unused_classes(const copse_dataset *ds, const int32_t *labels, const char *name)
{
    uint64_t seen[FOUND_CLASSES_MAX / 64] = { 0 };
    uint32_t used = 0;
    int32_t least = INT32_MAX;

    for (size_t i = 0; i < ds->info.rows; i++) {
        const uint64_t bit = UINT64_C(1) << (labels[i] % 64);
        used += (seen[labels[i] / 64] & bit) == 0;
        seen[labels[i] / 64] |= bit;
        least = COPSE_MIN(least, labels[i]);
    }
    if (used < ds->info.classes - used)
        copse__log(&copse__base(ds->ctx)->log, COPSE_LOG_WARN,
                   "dataset: %s: labels are %d to %u, which makes %u classes, and %u of them never "
                   "occur: number labels from 0, or give the number of classes",
                   name, (int)least, ds->info.classes - 1, ds->info.classes,
                   ds->info.classes - used);
}

static copse_status set_labels(copse_dataset *ds, const struct copse_array_view *from,
                               uint32_t classes, const char *name)
{
    size_t rows = ds->info.rows;
    double limit = classes != 0 ? classes : FOUND_CLASSES_MAX;
    int32_t largest = 0;
    copse_array *labels;

    if (from->rank < 1 || from->rank > 2 || (from->rank == 2 && from->shape[1] != 1))
        return copse_fail(COPSE_ERR_SHAPE, "dataset: %s: labels must have the shape [rows]", name);
    if (from->shape[0] != rows)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: %s: %zu labels for %zu rows of features", name,
                          from->shape[0], rows);
    if (from->data == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: %s: labels without data", name);
    COPSE_TRY(copse__array_create(ds->ctx, COPSE_ELEMENT_I32, 1, &rows, NULL, &labels));
    COPSE_TRY(add_column(ds, "y", COPSE_I32, COPSE_SCALAR, labels));
    int32_t *to = labels->data;
    for (size_t i = 0; i < rows; i++) {
        double v = copse__element_load(from->type, from->data, i);
        if (!(v >= 0) || v > INT32_MAX || v != floor(v))
            return copse_fail(COPSE_ERR_FORMAT,
                              "dataset: %s: row %zu: the label %g is not a class (a whole number "
                              "from 0)",
                              name, i + 1, v);
        if (v >= limit)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "dataset: %s: row %zu: the label %.0f is out of range, %s %.0f classes", name,
                i + 1, v, classes != 0 ? "there are" : "by default at most", limit);
        to[i] = (int32_t)v;
        largest = COPSE_MAX(largest, to[i]);
    }
    ds->info.has_labels = true;
    ds->info.classes = classes != 0 ? classes : (uint32_t)largest + 1;
    if (classes == 0)
        warn_of_unused_classes(ds, to, name);
    return COPSE_OK;
}

/* A dataset without columns. */
static copse_status make(copse_context *ctx, size_t rows, copse_dataset **out)
{
    copse_dataset *ds = copse__alloc(&copse__base(ctx)->mem, 1, sizeof *ds);
    *out = ds;
    if (ds == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    atomic_init(&ds->refs, 1);
    ds->ctx = copse_context_retain(ctx);
    ds->info.rows = rows;
    ds->info.scale = 1;
    return COPSE_OK;
}

copse_status copse__dataset_make(copse_context *ctx, const struct copse_array_view *features,
                                 copse_array *owner, const struct copse_array_view *labels,
                                 const struct copse_dataset_params *params, const char *name,
                                 copse_dataset **out)
{
    static const struct copse_dataset_params defaults = { 0 };
    size_t count, bytes;
    copse_status s;

    *out = NULL;
    if (params == NULL)
        params = &defaults;
    if (params->classes > INT32_MAX || params->scale > COPSE_SCALE_NONE)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: classes or scale out of range");
    if (copse_element_size(features->type) == 0 || features->data == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: %s: features without type or data", name);
    if (features->rank < 1 || features->rank > COPSE_ARRAY_MAX_RANK ||
        !copse__shape_size(features->rank, features->shape, sizeof(double), &count, &bytes))
        return copse_fail(COPSE_ERR_SHAPE,
                          "dataset: %s: features need 1 to %d axes, the rows first", name,
                          COPSE_ARRAY_MAX_RANK);
    if (count == 0 || features->shape[0] > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: %s: there must be 1 to 2^32-1 rows, not empty",
                          name);

    copse_dataset *ds;
    COPSE_TRY(make(ctx, features->shape[0], &ds));
    ds->info.rank = features->rank - 1;
    memcpy(ds->info.shape, features->shape + 1, ds->info.rank * sizeof *ds->info.shape);
    ds->info.row_size = count / ds->info.rows;
    COPSE_TRY_OR(fail, s, set_features(ds, features, owner, params->scale, name));
    if (labels != NULL)
        COPSE_TRY_OR(fail, s, set_labels(ds, labels, params->classes,
                                     owner != NULL && params->labels != NULL ? params->labels
                                                                             : name));
    *out = ds;
    return COPSE_OK;

fail:
    copse_dataset_release(&ds);
    return s;
}

copse_status copse_dataset_create(copse_context *ctx, const struct copse_array_view *features,
                                  const struct copse_array_view *labels,
                                  const struct copse_dataset_params *params, copse_dataset **out)
{
    COPSE_TRY(copse_need("dataset", ctx, features, out));
    COPSE_TRY(copse_no_reserved(copse_dataset_params, params));
    if (params)
        COPSE_TRY(copse_no_reserved(copse_csv_params, &params->csv));
    return copse__dataset_make(ctx, features, NULL, labels, params, "arrays", out);
}

static copse_status check_column(const copse_dataset *ds, const struct copse_column *c, size_t i)
{
    if (!c->name || !c->name[0] || !c->data)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: column %zu has no name or no data", i);
    for (size_t k = 0; k < ds->info.columns; k++)
        if (strcmp(ds->columns[k].name, c->name) == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "dataset: columns %zu and %zu are both named '%s'", k, i, c->name);
    return c->shape.rank < COPSE_MAX_RANK
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "dataset: column '%s': a row has at most %d axes", c->name,
                            COPSE_MAX_RANK - 1);
}

static copse_status copy_column(copse_dataset *ds, const struct copse_column *columns, size_t i)
{
    const struct copse_column *c = &columns[i];
    size_t shape[COPSE_ARRAY_MAX_RANK] = { ds->info.rows }, count, bytes;
    copse_array *values;

    COPSE_TRY(check_column(ds, c, i));
    if (!copse__type_is_known(c->type))
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: column '%s': there is no element type %d", c->name,
                          (int)c->type);
    for (uint32_t k = 0; k < c->shape.rank; k++)
        shape[k + 1] = c->shape.dims[k];
    const copse_element element = copse__type(c->type)->element;
    if (!copse__shape_size(c->shape.rank + 1, shape, copse_element_size(element), &count, &bytes))
        return copse_fail(COPSE_ERR_SHAPE, "dataset: column '%s' is too large", c->name);
    COPSE_TRY(copse__array_create(ds->ctx, element, c->shape.rank + 1, shape, NULL, &values));
    memcpy(values->data, c->data, values->bytes);
    return add_column(ds, c->name, c->type, c->shape, values);
}

/* Its first column. */
static void describe(copse_dataset *ds)
{
    const copse_shape s = ds->columns[0].is.shape;
    ds->info.rank = s.rank;
    ds->info.row_size = (size_t)copse__elements(s);
    for (uint32_t k = 0; k < s.rank; k++)
        ds->info.shape[k] = s.dims[k];
}

copse_dataset *copse_dataset_retain(copse_dataset *data)
{
    if (data != NULL)
        copse__ref(&data->refs);
    return data;
}

void copse_dataset_release(copse_dataset **data)
{
    if (data == NULL || *data == NULL)
        return;
    copse_dataset *ds = *data;
    *data = NULL;
    if (!copse__unref(&ds->refs))
        return;
    copse_context *ctx = ds->ctx;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    for (size_t i = 0; i < ds->info.columns; i++) {
        copse_array_release(&ds->columns[i].values);
        copse__free(mem, ds->columns[i].name);
    }
    copse__free(mem, ds->rows);
    copse__free(mem, ds);
    copse_context_release(&ctx);
}

void copse_dataset_describe(const copse_dataset *data, struct copse_dataset_info *out)
{
    if (out != NULL)
        *out = data != NULL ? data->info : (struct copse_dataset_info){ 0 };
}

copse_status copse_dataset_columns(copse_context *ctx, const struct copse_column *columns, size_t count, size_t rows,
                                   copse_dataset **out)
{
    COPSE_TRY(copse_need("dataset", ctx, columns, out));
    *out = NULL;
    if (count == 0 || count > COPSE_MAX_INPUTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: has 1 to %d columns, not %zu", COPSE_MAX_INPUTS, count);
    if (rows == 0 || rows > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: there must be 1 to 2^32-1 rows, not %zu", rows);
    copse_dataset *ds;
    copse_status s = make(ctx, rows, &ds);
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        s = copy_column(ds, columns, i);
    if (s == COPSE_OK)
        describe(ds);
    else
        copse_dataset_release(&ds);
    *out = ds;
    return s;
}

copse_status copse_dataset_column(const copse_dataset *data, size_t i, struct copse_column *out)
{
    COPSE_TRY(copse_need("dataset", data, out));
    if (i >= data->info.columns)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: there is no column %zu of %zu", i, data->info.columns);
    *out = data->columns[i].is;
    return COPSE_OK;
}

void copse__dataset_gather(const copse_dataset *ds, size_t c, const uint32_t *rows, size_t count, void *out)
{
    const size_t width = ds->columns[c].row_bytes;
    const char *from = ds->columns[c].values->data;

    for (size_t i = 0; i < count; i++) {
        size_t row = rows != NULL ? rows[i] : i;
        if (ds->rows != NULL)
            row = ds->rows[row];
        memcpy((char *)out + i * width, from + row * width, width);
    }
}

copse_status copse_dataset_gather(const copse_dataset *data, const char *column, const uint32_t *rows, size_t count,
                                  void *out)
{
    size_t c = 0;
    COPSE_TRY(copse_need("dataset", data, column, out));
    while (c < data->info.columns && strcmp(data->columns[c].name, column) != 0)
        c++;
    if (c == data->info.columns)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: there is no column '%s'", column);
    if (rows == NULL && count > data->info.rows)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: %zu rows asked for, there are %zu", count,
                          data->info.rows);
    for (size_t i = 0; rows != NULL && i < count; i++)
        if (rows[i] >= data->info.rows)
            return copse_fail(COPSE_ERR_ARGUMENT, "dataset: no row %u, there are %zu", rows[i],
                              data->info.rows);
    copse__dataset_gather(data, c, rows, count, out);
    return COPSE_OK;
}

void copse__shuffle(uint32_t *rows, uint32_t count, uint64_t seed, uint32_t stream)
{
    struct copse_stream random;

    /* Must differ from the key of the initial weights with the same seed. */
    copse__stream_init(&random, copse__hash(seed ^ COPSE_HASH_START, "rows", 4), stream);
    for (uint32_t i = 0; i < count; i++)
        rows[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = copse__stream_below(&random, i), t = rows[i - 1];
        rows[i - 1] = rows[k];
        rows[k] = t;
    }
}

/* A part of `ds`: `count` of the shuffled rows. */
static copse_status make_part(copse_dataset *ds, const uint32_t *rows, size_t count,
                              copse_dataset **out)
{
    struct copse_mem *mem = &copse__base(ds->ctx)->mem;

    copse_dataset *part;
    COPSE_TRY(make(ds->ctx, count, &part));
    copse_status s = COPSE_OK;
    for (size_t i = 0; s == COPSE_OK && i < ds->info.columns; i++) {
        const struct copse_dataset_column *c = &ds->columns[i];
        s = add_column(part, c->name, c->is.type, c->is.shape, copse_array_retain(c->values));
    }
    part->info = ds->info;
    part->info.rows = count;
    part->rows = s == COPSE_OK ? copse__alloc(mem, count, sizeof *part->rows) : NULL;
    if (part->rows == NULL) {
        copse_dataset_release(&part);
        return s != COPSE_OK ? s : copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    }
    for (size_t i = 0; i < count; i++)
        part->rows[i] = ds->rows != NULL ? ds->rows[rows[i]] : rows[i];
    *out = part;
    return COPSE_OK;
}

copse_status copse_dataset_split(copse_dataset *data, const struct copse_split_params *params,
                                 copse_dataset **train, copse_dataset **test)
{
    COPSE_TRY(copse_need("dataset", data, train, test));
    COPSE_TRY(copse_no_reserved(copse_split_params, params));
    struct copse_mem *mem = &copse__base(data->ctx)->mem;
    double fraction = params != NULL && params->train_fraction != 0 ? params->train_fraction : 0.8;
    size_t rows = data->info.rows;

    *train = *test = NULL;
    if (!(fraction > 0 && fraction < 1))
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: train_fraction is %g, not between 0 and 1",
                          fraction);
    size_t cut = (size_t)floor((double)rows * fraction + 0.5);
    if (cut == 0 || cut >= rows)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: %zu rows cannot be split at %g, one part would be empty", rows,
                          fraction);
    uint32_t *order = copse__alloc(mem, rows, sizeof *order);
    if (order == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    copse__shuffle(order, (uint32_t)rows, params != NULL ? params->seed : 0, COPSE_STREAM_SPLIT);
    copse_status s = make_part(data, order, cut, train);
    if (s == COPSE_OK)
        s = make_part(data, order + cut, rows - cut, test);
    copse__free(mem, order);
    if (s != COPSE_OK)
        copse_dataset_release(train);
    return s;
}
