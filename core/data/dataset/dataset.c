/* SPDX-License-Identifier: MIT */
/* Datasets: named columns with the same number of rows; splitting, gathering rows. Reads no
   files. */
#include "core/data/dataset/dataset.h"

#include <math.h>

#include "core/base/random.h"
#include "core/graph/op.h"
#include "core/graph/type.h"

/* Row numbers that are mapped at once, on the stack. */
#define MAPPED 1024u
/* Most classes of a split by class. */
#define CLASSES_MAX 65536

copse_status copse__dataset_add(copse_dataset *ds, const char *name, copse_type type,
                                copse_shape shape, copse_array *values)
{
    struct copse_row_source *rows;

    COPSE_TRY(copse__row_source_of_array(values, &rows));
    return copse__dataset_add_rows(ds, name, type, shape, rows);
}

copse_status copse__dataset_add_rows(copse_dataset *ds, const char *name, copse_type type,
                                     copse_shape shape, struct copse_row_source *values)
{
    /* owns `values` from here on */
    struct copse_dataset_column *c = &ds->columns[ds->info.columns++];
    c->values = values;
    c->name = copse__strdup(&copse__base(ds->ctx)->mem, name);
    if (c->name == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    c->is = (struct copse_column){ c->name, type, shape, NULL };
    c->row_bytes = (size_t)copse__elements(shape) * copse__type_bytes(type);
    return COPSE_OK;
}

copse_status copse__dataset_add_labels(copse_dataset *ds, copse_array *labels)
{
    const bool is_regression = ds->schema->is.task == COPSE_TASK_REGRESSION;

    ds->info.has_labels = true;
    ds->info.classes = is_regression ? 0 : ds->schema->is.outputs;
    return is_regression
               ? copse__dataset_add(ds, "y", COPSE_F32, COPSE_SHAPE(ds->schema->is.outputs), labels)
               : copse__dataset_add(ds, "y", COPSE_I32, COPSE_SCALAR, labels);
}

copse_status copse__dataset_new(copse_context *ctx, size_t rows, copse_dataset **out)
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

static copse_status check_column(const copse_dataset *ds, const struct copse_column *c, size_t i)
{
    if (!c->name || !c->name[0] || !c->data)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: column %zu has no name or no data", i);
    for (size_t k = 0; k < ds->info.columns; k++)
        if (strcmp(ds->columns[k].name, c->name) == 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "dataset: columns %zu and %zu are both named '%s'", k, i, c->name);
    return c->shape.rank < COPSE_MAX_RANK
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "dataset: column '%s': a row has at most %d axes",
                            c->name, COPSE_MAX_RANK - 1);
}

static copse_status copy_column(copse_dataset *ds, const struct copse_column *columns, size_t i)
{
    const struct copse_column *c = &columns[i];
    size_t shape[COPSE_ARRAY_MAX_RANK] = { ds->info.rows }, count, bytes;
    copse_array *values;

    COPSE_TRY(check_column(ds, c, i));
    COPSE_TRY(copse__type_need(c->type, "dataset: column", c->name));
    for (uint32_t k = 0; k < c->shape.rank; k++)
        shape[k + 1] = c->shape.dims[k];
    if (!copse__shape_size(c->shape.rank + 1, shape, copse_type_size(c->type), &count, &bytes))
        return copse_fail(COPSE_ERR_SHAPE, "dataset: column '%s' is too large", c->name);
    COPSE_TRY(copse__array_create(ds->ctx, c->type, c->shape.rank + 1, shape, NULL, &values));
    memcpy(values->data, c->data, values->bytes);
    return copse__dataset_add(ds, c->name, c->type, c->shape, values);
}

void copse__dataset_describe_row(copse_dataset *ds)
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
        copse__row_source_release(&ds->columns[i].values);
        copse__free(mem, ds->columns[i].name);
    }
    copse_schema_release(&ds->schema);
    copse__picture_list_release(&ds->pictures);
    copse__free(mem, ds->rows);
    copse__free(mem, ds);
    copse_context_release(&ctx);
}

void copse_dataset_describe(const copse_dataset *data, struct copse_dataset_info *out)
{
    if (out != NULL)
        *out = data != NULL ? data->info : (struct copse_dataset_info){ 0 };
}

const copse_schema *copse_dataset_schema(const copse_dataset *data)
{
    return data != NULL ? data->schema : NULL;
}

copse_status copse_dataset_columns(copse_context *ctx, const struct copse_column *columns,
                                   size_t count, size_t rows, copse_dataset **out)
{
    COPSE_TRY(copse_need("dataset", ctx, columns, out));
    *out = NULL;
    if (count == 0 || count > COPSE_MAX_INPUTS)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "dataset: has 1 to %d columns (COPSE_MAX_INPUTS), not %zu; join columns of one "
            "type along an axis",
            COPSE_MAX_INPUTS, count);
    if (rows == 0 || rows > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: there must be 1 to 2^32-1 rows, not %zu",
                          rows);
    copse_dataset *ds;
    copse_status s = copse__dataset_new(ctx, rows, &ds);
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        s = copy_column(ds, columns, i);
    if (s == COPSE_OK)
        copse__dataset_describe_row(ds);
    else
        copse_dataset_release(&ds);
    *out = ds;
    return s;
}

copse_status copse_dataset_column(const copse_dataset *data, size_t i, struct copse_column *out)
{
    COPSE_TRY(copse_need("dataset", data, out));
    if (i >= data->info.columns)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: there is no column %zu of %zu", i,
                          data->info.columns);
    *out = data->columns[i].is;
    return COPSE_OK;
}

/* The next of `count` rows as the columns number them: at most MAPPED, in `to`. */
static size_t map_rows(const copse_dataset *ds, const uint32_t *rows, size_t count,
                       uint32_t to[MAPPED])
{
    const size_t n = COPSE_MIN(count, (size_t)MAPPED);

    for (size_t i = 0; i < n; i++)
        to[i] = ds->rows[rows[i]];
    return n;
}

copse_status copse__dataset_gather(const copse_dataset *ds, size_t c, const uint32_t *rows,
                                   size_t count, void *out)
{
    struct copse_row_source *from = ds->columns[c].values;
    uint32_t mapped[MAPPED];

    if (ds->rows == NULL || rows == NULL)
        return from->table->read(from, ds->rows == NULL ? rows : ds->rows, count, out);
    for (size_t i = 0, n; i < count; i += n) {
        n = map_rows(ds, rows + i, count - i, mapped);
        COPSE_TRY(from->table->read(from, mapped, n, (char *)out + i * ds->columns[c].row_bytes));
    }
    return COPSE_OK;
}

void copse__dataset_ahead(const copse_dataset *ds, const uint32_t *rows, size_t count)
{
    uint32_t mapped[MAPPED];

    for (size_t c = 0; c < ds->info.columns; c++) {
        struct copse_row_source *from = ds->columns[c].values;
        if (from->table->ahead == NULL)
            continue;
        if (ds->rows == NULL)
            from->table->ahead(from, rows, count);
        for (size_t i = 0, n; ds->rows != NULL && i < count; i += n) {
            n = map_rows(ds, rows + i, count - i, mapped);
            from->table->ahead(from, mapped, n);
        }
    }
}

copse_status copse_dataset_gather(const copse_dataset *data, const char *column,
                                  const uint32_t *rows, size_t count, void *out)
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
    return copse__dataset_gather(data, c, rows, count, out);
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

copse_status copse__dataset_part(copse_dataset *ds, const uint32_t *rows, size_t count,
                                 copse_dataset **out)
{
    struct copse_mem *mem = &copse__base(ds->ctx)->mem;

    copse_dataset *part;
    COPSE_TRY(copse__dataset_new(ds->ctx, count, &part));
    copse_status s = COPSE_OK;
    for (size_t i = 0; s == COPSE_OK && i < ds->info.columns; i++) {
        const struct copse_dataset_column *c = &ds->columns[i];
        s = copse__dataset_add_rows(part, c->name, c->is.type, c->is.shape,
                                    copse__row_source_retain(c->values));
    }
    part->info = ds->info;
    part->schema = copse_schema_retain(ds->schema);
    part->pictures = copse__picture_list_retain(ds->pictures);
    part->info.rows = count;
    part->is_ordered = ds->is_ordered;
    part->gap = ds->gap;
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

/* The order of the rows before the cut. */
static void order_rows(const copse_dataset *ds, uint64_t seed, uint32_t *order)
{
    if (!ds->is_ordered) {
        copse__shuffle(order, (uint32_t)ds->info.rows, seed, COPSE_STREAM_SPLIT);
        return;
    }
    for (size_t i = 0; i < ds->info.rows; i++)
        order[i] = (uint32_t)i;
}

copse_status copse__dataset_classes(const copse_dataset *data, int32_t *labels, size_t *classes)
{
    struct copse_column y = { .name = NULL };
    for (size_t i = 0; i < data->info.columns && (!y.name || strcmp(y.name, "y") != 0); i++)
        COPSE_TRY(copse_dataset_column(data, i, &y));
    if (!y.name || strcmp(y.name, "y") != 0 || y.type != COPSE_I32 || y.shape.rank != 0 ||
        data->is_ordered)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: `stratify` needs a column \"y\" with a class for each row: "
                          "leave it out for values and texts");
    COPSE_TRY(copse_dataset_gather(data, "y", NULL, data->info.rows, labels));
    *classes = 0;
    for (size_t i = 0; i < data->info.rows; i++) {
        if (labels[i] < 0 || labels[i] >= CLASSES_MAX)
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "dataset: `stratify`: the label of row %zu is %d; classes are 0 to %d", i + 1,
                (int)labels[i], CLASSES_MAX - 1);
        *classes = COPSE_MAX(*classes, (size_t)labels[i] + 1);
    }
    return COPSE_OK;
}

static copse_status order_by_class(const copse_dataset *data, uint32_t *order, size_t cut)
{
    struct copse_mem *mem = &copse__base(data->ctx)->mem;
    size_t classes = 0;
    int32_t *labels = copse__alloc(mem, data->info.rows, sizeof *labels);
    copse_status s = copse_need_memory(labels, "dataset");
    if (s == COPSE_OK)
        s = copse__dataset_classes(data, labels, &classes);
    if (s == COPSE_OK)
        s = copse__stratify(mem, labels, classes, order, data->info.rows, cut);
    copse__free(mem, labels);
    return s;
}

static copse_status cut_rows(copse_dataset *data, const uint32_t *order, size_t cut, size_t gap,
                             copse_dataset **train, copse_dataset **test)
{
    COPSE_TRY(copse__dataset_part(data, order, cut, train));
    const copse_status s =
        copse__dataset_part(data, order + cut + gap, data->info.rows - cut - gap, test);
    if (s != COPSE_OK)
        copse_dataset_release(train);
    return s;
}

copse_status copse_dataset_split(copse_dataset *data, const struct copse_split_params *params,
                                 copse_dataset **train, copse_dataset **test)
{
    COPSE_TRY(copse_need("dataset", data, train, test));
    COPSE_TRY(copse_no_reserved(copse_split_params, params));
    struct copse_mem *mem = &copse__base(data->ctx)->mem;
    double fraction = params != NULL && params->train_fraction != 0 ? params->train_fraction : 0.8;
    const size_t rows = data->info.rows, gap = data->is_ordered ? COPSE_MIN(data->gap, rows) : 0;

    *train = *test = NULL;
    if (!(fraction > 0 && fraction < 1))
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: train_fraction is %g, not between 0 and 1",
                          fraction);
    size_t cut = (size_t)floor((double)(rows - gap) * fraction + 0.5);
    cut = data->learned > gap ? COPSE_MAX(cut, data->learned - gap) : cut;
    if (cut == 0 || cut >= rows - gap)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: %zu rows cannot be split at %g, one part would be empty%s",
                          rows, fraction,
                          gap > 0 ? "; rows that overlap the cut are left out" : "");
    uint32_t *order = copse__alloc(mem, rows, sizeof *order);
    if (order == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    order_rows(data, params != NULL ? params->seed : 0, order);
    copse_status s = COPSE_OK;
    if (params != NULL && params->stratify)
        s = order_by_class(data, order, cut);
    if (s == COPSE_OK)
        s = cut_rows(data, order, cut, gap, train, test);
    copse__free(mem, order);
    return s;
}
