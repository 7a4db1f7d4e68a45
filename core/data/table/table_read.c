/* SPDX-License-Identifier: MIT */
/* Second pass over a table: reads its rows by a schema. */
#include "core/data/array.h"
#include "core/data/table/table_row.h"

struct reader {
    struct copse_row_reader row;
    const struct copse_table_source *from;
    size_t rows;
    struct {
        float *at;
        size_t count, room;
    } x;
    struct {
        int32_t *at;
        size_t count, room;
    } classes;
    struct {
        float *at;
        size_t count, room;
    } targets;
};

static copse_status no_memory(const struct reader *r)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory at row %zu",
                      r->row.csv != NULL ? r->row.csv->path : "table",
                      r->row.csv != NULL ? r->row.csv->row : 0);
}

/* Map the columns of a file to those of the schema; *skip: the line is a header. */
static copse_status first_line(struct reader *r, struct copse_cell line, bool *skip)
{
    struct copse_csv_names names;
    const bool had_label = r->row.has_label, is_first_file = r->rows == 0;

    COPSE_TRY(copse__csv_split(r->row.csv, line, &r->row.arena, &names));
    COPSE_TRY(copse__row_columns(&r->row, &names, skip));
    return is_first_file || had_label == r->row.has_label
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "csv: %s has %s label column, unlike the files before it",
                            r->row.csv->path, r->row.has_label ? "a" : "no");
}

static copse_status take_row(struct reader *r, struct copse_cell line)
{
    const size_t first = r->x.count, width = r->row.schema->shape.dims[0];

    if (!COPSE_RESERVE(r->row.mem, &r->x, first + width))
        return no_memory(r);
    COPSE_TRY(copse__row_read(&r->row, line, r->x.at + first));
    r->x.count = first + width;
    r->rows++;
    if (!r->row.has_label)
        return COPSE_OK;
    if (r->row.schema->task != COPSE_TASK_REGRESSION)
        return COPSE_PUSH(r->row.mem, &r->classes, r->row.class) ? COPSE_OK : no_memory(r);
    bool ok = true;
    for (uint32_t i = 0; ok && i < r->row.schema->outputs; i++)
        ok = COPSE_PUSH(r->row.mem, &r->targets, r->row.targets[i]);
    return ok ? COPSE_OK : no_memory(r);
}

static copse_status read_part(struct reader *r, size_t part)
{
    struct copse_csv csv;
    struct copse_cell line;
    bool has = true, skip = false;

    r->row.csv = &csv;
    copse_status s = copse__table_open(&csv, r->row.mem, r->from, part);
    if (s == COPSE_OK)
        s = copse__csv_next(&csv, &line, &has);
    if (s == COPSE_OK && has)
        s = first_line(r, line, &skip);
    while (s == COPSE_OK && has) {
        if (!skip)
            s = take_row(r, line);
        skip = false;
        if (s == COPSE_OK)
            s = copse__csv_next(&csv, &line, &has);
    }
    if (s == COPSE_OK)
        s = copse__row_check_dates(&r->row);
    copse__csv_close(&csv);
    r->row.csv = NULL;
    if (s == COPSE_OK)
        copse__row_report(&r->row, csv.path);
    return s;
}

static copse_status read_all(struct reader *r, size_t rows)
{
    const char *path = r->from->paths[0];
    size_t numbers;

    if (rows > 0 && (!copse__mul(rows, r->row.schema->shape.dims[0], &numbers) ||
                     !COPSE_RESERVE(r->row.mem, &r->x, numbers)))
        return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory for %zu rows of %u numbers",
                          path, rows, r->row.schema->shape.dims[0]);
    for (size_t i = 0; i < r->from->count; i++)
        COPSE_TRY(read_part(r, i));
    if (r->rows == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has no rows of data", path);
    if (r->rows > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "csv: %s has more than 2^32-1 rows", path);
    return rows == 0 || rows == r->rows
               ? COPSE_OK
               : copse_fail(COPSE_ERR_IO, "file: %s changed while it was read", path);
}

/* Hand the memory of a vector to an array, without its surplus. */
static copse_status make_array(const struct reader *r, copse_context *ctx, copse_type type,
                               uint32_t rank, size_t width, void **at, copse_array **out)
{
    const size_t shape[2] = { r->rows, width };
    void *fitted = copse__resize(r->row.mem, *at, r->rows * width, copse_type_size(type));

    if (fitted != NULL)
        *at = fitted;
    COPSE_TRY(copse__array_create(ctx, type, rank, shape, *at, out));
    *at = NULL;
    return COPSE_OK;
}

copse_status copse__table_read(copse_context *ctx, const struct copse_table_source *from,
                               const copse_schema *schema, copse_csv_header header, size_t rows,
                               copse_array **x, copse_array **y)
{
    struct reader r = { .from = from };

    *x = *y = NULL;
    copse_status s = copse__row_reader_init(&r.row, ctx, schema, from->params);
    r.row.is_surveyed = rows > 0;
    r.row.header = header;
    if (s == COPSE_OK)
        s = copse__csv_check(&from->params->csv, true);
    if (s == COPSE_OK)
        s = read_all(&r, rows);
    if (s == COPSE_OK)
        s = make_array(&r, ctx, COPSE_F32, 2, schema->is.shape.dims[0], (void **)&r.x.at, x);
    if (s == COPSE_OK && r.row.has_label && schema->is.task == COPSE_TASK_REGRESSION)
        s = make_array(&r, ctx, COPSE_F32, 2, schema->is.outputs, (void **)&r.targets.at, y);
    else if (s == COPSE_OK && r.row.has_label)
        s = make_array(&r, ctx, COPSE_I32, 1, 1, (void **)&r.classes.at, y);
    if (s != COPSE_OK)
        copse_array_release(x);
    copse__free(&copse__base(ctx)->mem, r.x.at);
    copse__free(&copse__base(ctx)->mem, r.classes.at);
    copse__free(&copse__base(ctx)->mem, r.targets.at);
    copse__row_reader_fini(&r.row);
    return s;
}
