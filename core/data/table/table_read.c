/* SPDX-License-Identifier: MIT */
/* Second pass over a table: reads its rows by a schema, whose data it may be or not. */
#include <math.h>
#include <stdio.h>

#include "core/data/array.h"
#include "core/data/reader/number.h"
#include "core/data/table/table.h"

/* A use of a column of the file. */
struct use {
    const struct copse_schema_column *column; /* NULL: none */
    const struct copse_dictionary *codes;     /* of a category: entry i is category i */
};

struct reader {
    struct copse_mem *mem;
    struct copse_arena arena;
    const struct copse_dataset_params *params;
    const struct copse_schema_parts *schema;
    bool is_counted; /* classes are 0..outputs-1 */
    bool wants_labels;
    bool is_surveyed; /* the schema was made from these files */
    copse_csv_header header;
    struct copse_csv *csv;
    struct copse_dictionary *codes; /* for each column of the schema */
    struct copse_dictionary classes;
    struct use *uses; /* for each column of the file */
    size_t use_count;
    bool has_label; /* the files have the label column */
    size_t rows;
    struct {
        float *at;
        size_t count, room;
    } x;
    struct {
        int32_t *at;
        size_t count, room;
    } classes_of_rows;
    struct {
        float *at;
        size_t count, room;
    } targets;
};

static copse_status no_memory(const struct reader *r)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory at row %zu",
                      r->csv != NULL ? r->csv->path : "table", r->csv != NULL ? r->csv->row : 0);
}

/* ---- columns of the file ---- */

static bool is_feature(const struct copse_schema_column *c)
{
    return c->role == COPSE_COLUMN_NUMBER || c->role == COPSE_COLUMN_CATEGORY;
}

/* The number of columns with this name; *at is the last of them. */
static size_t count_named(const struct copse_csv_names *names, const char *name, size_t *at)
{
    size_t count = 0;

    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->at[i], name) == 0) {
            *at = i;
            count++;
        }
    return count;
}

/* Whether the first line of a file is a header, if the schema has names. Other names than those of
   the schema are a header, too: its columns are then reported as missing. */
static bool is_header(const struct reader *r, const struct copse_csv_names *names)
{
    const struct copse_schema_parts *s = r->schema;
    bool by_text, has_number = false;
    size_t at, found = 0;

    if (r->header != COPSE_CSV_HEADER_AUTO)
        return r->header == COPSE_CSV_HEADER_YES;
    for (uint32_t i = 0; i < s->column_count; i++) {
        found += s->has_header && is_feature(&s->columns[i]) &&
                 count_named(names, s->columns[i].name, &at) > 0;
        has_number |= s->columns[i].role == COPSE_COLUMN_NUMBER;
    }
    return found > 0 || (copse__csv_is_header(names, COPSE_CSV_HEADER_AUTO, &by_text) &&
                         (has_number || !by_text));
}

static void table_read_use(struct reader *r, size_t file_column, uint32_t i)
{
    r->uses[file_column] = (struct use){ &r->schema->columns[i], &r->codes[i] };
    r->has_label |= r->schema->columns[i].role == COPSE_COLUMN_LABEL;
}

static copse_status use_names(struct reader *r, const struct copse_csv_names *names)
{
    for (uint32_t i = 0; i < r->schema->column_count; i++) {
        const struct copse_schema_column *c = &r->schema->columns[i];
        const bool is_label = c->role == COPSE_COLUMN_LABEL;
        size_t at = 0;
        if (c->role == COPSE_COLUMN_IGNORED || (is_label && !r->wants_labels))
            continue;
        const size_t count = count_named(names, c->name, &at);
        if (count > 1)
            return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu: %zu columns are named \"%s\"",
                              r->csv->path, r->csv->row, count, c->name);
        if (count == 0 && !is_label)
            return copse_fail(COPSE_ERR_SHAPE,
                              "csv: %s, row %zu: there is no column \"%s\", which the schema has",
                              r->csv->path, r->csv->row, c->name);
        if (count > 0)
            table_read_use(r, at, i);
    }
    return COPSE_OK;
}

static copse_status use_positions(struct reader *r)
{
    const uint32_t all = r->schema->column_count;
    bool has_label = false;
    size_t at = 0;

    for (uint32_t i = 0; i < all; i++)
        has_label |= r->schema->columns[i].role == COPSE_COLUMN_LABEL;

    if (r->use_count != all && (!has_label || r->use_count + 1 != all))
        return copse_fail(COPSE_ERR_SHAPE, "csv: %s, row %zu: %zu columns, the schema has %u%s",
                          r->csv->path, r->csv->row, r->use_count, all,
                          has_label ? " with the label" : "");
    for (uint32_t i = 0; i < all; i++) {
        const copse_column_role role = r->schema->columns[i].role;
        const bool is_label = role == COPSE_COLUMN_LABEL;
        if (is_label && r->use_count != all)
            continue;
        if (role != COPSE_COLUMN_IGNORED && (!is_label || r->wants_labels))
            table_read_use(r, at, i);
        at++;
    }
    return COPSE_OK;
}

/* Map the columns of a file to those of the schema; *skip: the line is a header. */
static copse_status first_line(struct reader *r, struct copse_cell line, bool *skip)
{
    struct copse_csv_names names;
    const bool had_label = r->has_label, is_first_file = r->rows == 0;

    COPSE_TRY(copse__csv_split(r->csv, line, &r->arena, &names));
    r->uses = copse__arena_alloc(&r->arena, names.count, sizeof *r->uses);
    if (r->uses == NULL)
        return no_memory(r);
    r->use_count = names.count;
    r->has_label = false;
    *skip = is_header(r, &names);
    COPSE_TRY(*skip && r->schema->has_header && !r->is_surveyed ? use_names(r, &names)
                                                                : use_positions(r));
    return is_first_file || had_label == r->has_label
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "csv: %s has %s label column, unlike the files before it", r->csv->path,
                            r->has_label ? "a" : "no");
}

/* ---- cells ---- */

static copse_status take_number(const struct reader *r, size_t column,
                                const struct copse_schema_column *c, const struct copse_cell *cell,
                                float *to)
{
    double v = c->fill;

    if (!copse__table_is_missing(cell))
        COPSE_TRY(copse__table_number(r->csv, column, c->name, cell, &v));
    else if (r->schema->missing != COPSE_MISSING_MEAN && r->params->missing != COPSE_MISSING_MEAN)
        return copse__table_fail_missing(r->csv, column, c->name, cell, false, true);
    if (c->mean == 0)
        v = (float)v; /* the bits of f32 numbers that are divided by the largest magnitude */
    *to = (float)((v - c->mean) / c->scale);
    if (!isfinite(*to))
        return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, c->name,
                                 "%.*s is too large after scaling", copse__csv_shown(cell),
                                 cell->text);
    return COPSE_OK;
}

static copse_status take_category(const struct reader *r, size_t column, const struct use *u,
                                  const struct copse_cell *cell, float *to)
{
    const struct copse_schema_column *c = u->column;
    const bool is_missing = copse__table_is_missing(cell);
    const struct copse_dictionary_entry *e =
        is_missing ? NULL : copse__dictionary_find(u->codes, cell->text, cell->size);

    if (is_missing && !c->has_missing)
        return copse__table_fail(
            COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, c->name,
            "the cell is empty, and no cell of the column was when the categories were made");
    if (!is_missing && e == NULL)
        return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, c->name,
                                 "\"%.*s\" is none of the %u categories of the column",
                                 copse__csv_shown(cell), cell->text, c->width - c->has_missing);
    const size_t code = is_missing ? c->width - 1 : (size_t)(e - u->codes->entries.at);
    memset(to, 0, c->width * sizeof *to);
    to[code] = 1;
    return COPSE_OK;
}

static copse_status refuse_label(const struct reader *r, size_t column, const char *name,
                                 const struct copse_cell *cell, bool is_number)
{
    const char *quote = is_number ? "" : "\"";
    const int size = copse__csv_shown(cell);
    double v = -1;

    if (!r->is_counted)
        return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, name,
                                 "the label %s%.*s%s is none of the %u classes", quote, size,
                                 cell->text, quote, r->schema->outputs);
    if (is_number && copse__number_parse(cell->text, cell->size, &v) && v >= 0 &&
        copse__table_is_whole(v))
        return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, name,
                                 "the label %.*s is out of range, there are %u classes (0 to %u)",
                                 size, cell->text, r->schema->outputs, r->schema->outputs - 1);
    return copse__csv_note_delimiter(
        r->csv, cell,
        copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, name,
                          "the label %s%.*s%s is not a class (a whole number from 0)", quote, size,
                          cell->text, quote));
}

static copse_status take_class(struct reader *r, size_t column, const char *name,
                               const struct copse_cell *cell)
{
    const struct copse_dictionary_entry *e = NULL;
    char digits[32];
    double v = -1;
    int32_t class = -1;
    const bool is_number = copse__number_parse(cell->text, cell->size, &v);

    if (r->is_counted) {
        if (is_number && v >= 0 && v < r->schema->outputs && copse__table_is_whole(v))
            class = (int32_t)v;
    } else if (r->schema->is_numbered && is_number && copse__table_is_whole(v)) {
        snprintf(digits, sizeof digits, "%.0f", v + 0.0);
        e = copse__dictionary_find(&r->classes, digits, strlen(digits));
    } else if (!r->schema->is_numbered) {
        e = copse__dictionary_find(&r->classes, cell->text, cell->size);
    }
    if (e != NULL)
        class = (int32_t)(e - r->classes.entries.at);
    if (class < 0)
        return refuse_label(r, column, name, cell, is_number);
    return COPSE_PUSH(r->mem, &r->classes_of_rows, class) ? COPSE_OK : no_memory(r);
}

static copse_status take_label(struct reader *r, size_t column, const char *name,
                               const struct copse_cell *cell)
{
    double v;

    if (copse__table_is_missing(cell))
        return copse__table_fail_missing(r->csv, column, name, cell, true, true);
    if (r->schema->task != COPSE_TASK_REGRESSION)
        return take_class(r, column, name, cell);
    COPSE_TRY(copse__table_number(r->csv, column, name, cell, &v));
    const float y = (float)((v - r->schema->targets[0].mean) / r->schema->targets[0].scale);
    if (!isfinite(y))
        return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, name,
                                 "%.*s is too large after scaling", copse__csv_shown(cell),
                                 cell->text);
    return COPSE_PUSH(r->mem, &r->targets, y) ? COPSE_OK : no_memory(r);
}

/* Into `row`, which has the order of the schema. */
static copse_status take_cell(struct reader *r, size_t column, const struct copse_cell *cell,
                              float *row)
{
    const struct use *u = &r->uses[column];
    const struct copse_schema_column *c = u->column;

    if (c == NULL)
        return COPSE_OK;
    if (c->role == COPSE_COLUMN_LABEL)
        return take_label(r, column, c->name, cell);
    return c->role == COPSE_COLUMN_NUMBER ? take_number(r, column, c, cell, row + c->first)
                                          : take_category(r, column, u, cell, row + c->first);
}

static copse_status take_row(struct reader *r, struct copse_cell rest)
{
    const size_t first = r->x.count, width = r->schema->shape.dims[0];
    struct copse_cell cell;
    size_t column = 0;
    bool more = true;

    if (!COPSE_RESERVE(r->mem, &r->x, first + width))
        return no_memory(r);
    for (; more && column < r->use_count; column++) {
        COPSE_TRY(copse__csv_cell(r->csv, column, &rest, &cell, &more));
        COPSE_TRY(take_cell(r, column, &cell, r->x.at + first));
    }
    if (column != r->use_count || more)
        return copse__csv_wrong_length(r->csv, more, r->use_count);
    r->x.count = first + width;
    r->rows++;
    return COPSE_OK;
}

/* ---- files ---- */

static copse_status read_file(struct reader *r, const char *path)
{
    const struct copse_csv_params *p = &r->params->csv;
    struct copse_csv csv;
    struct copse_cell line;
    bool has = true, skip = false;

    r->csv = &csv;
    copse_status s = copse__csv_open(&csv, r->mem, path, r->params->max_bytes, p->delimiter);
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
    copse__csv_close(&csv);
    r->csv = NULL;
    return s;
}

static copse_status fill_dictionary(const struct reader *r, struct copse_dictionary *d,
                                    const char *const *texts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!copse__dictionary_add(d, texts[i], strlen(texts[i]), "", 0))
            return no_memory(r);
    return COPSE_OK;
}

static copse_status make_dictionaries(struct reader *r)
{
    const struct copse_schema_parts *s = r->schema;

    r->codes = copse__arena_alloc(&r->arena, s->column_count, sizeof *r->codes);
    if (r->codes == NULL)
        return no_memory(r);
    for (uint32_t i = 0; i < s->column_count; i++) {
        r->codes[i].arena = &r->arena;
        if (s->columns[i].role == COPSE_COLUMN_CATEGORY)
            COPSE_TRY(fill_dictionary(r, &r->codes[i], s->columns[i].categories,
                                      s->columns[i].width - s->columns[i].has_missing));
    }
    r->classes.arena = &r->arena;
    return s->task == COPSE_TASK_REGRESSION || r->is_counted || s->classes == NULL
               ? COPSE_OK
               : fill_dictionary(r, &r->classes, s->classes, s->outputs);
}

static copse_status read_all(struct reader *r, const char *const *paths, size_t count, size_t rows)
{
    size_t numbers;

    COPSE_TRY(make_dictionaries(r));
    if (rows > 0 && (!copse__mul(rows, r->schema->shape.dims[0], &numbers) ||
                     !COPSE_RESERVE(r->mem, &r->x, numbers)))
        return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory for %zu rows of %u numbers",
                          paths[0], rows, r->schema->shape.dims[0]);
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(read_file(r, paths[i]));
    if (r->rows == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has no rows of data", paths[0]);
    if (r->rows > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "csv: %s has more than 2^32-1 rows", paths[0]);
    return rows == 0 || rows == r->rows
               ? COPSE_OK
               : copse_fail(COPSE_ERR_IO, "file: %s changed while it was read", paths[0]);
}

/* Hand the memory of a vector to an array, without its surplus. */
static copse_status make_array(const struct reader *r, copse_context *ctx, copse_type type,
                               uint32_t rank, size_t width, void **at, copse_array **out)
{
    const size_t shape[2] = { r->rows, width };
    void *fitted = copse__resize(r->mem, *at, r->rows * width, copse_type_size(type));

    if (fitted != NULL)
        *at = fitted;
    COPSE_TRY(copse__array_create(ctx, type, rank, shape, *at, out));
    *at = NULL;
    return COPSE_OK;
}

copse_status copse__table_read(copse_context *ctx, const char *const *paths, size_t count,
                               const struct copse_dataset_params *params,
                               const copse_schema *schema, copse_csv_header header, size_t rows,
                               copse_array **x, copse_array **y)
{
    struct reader r = {
        .mem = &copse__base(ctx)->mem,
        .params = params,
        .schema = &schema->is,
        .is_counted = schema->is_counted,
        .is_surveyed = rows > 0,
        .wants_labels = !params->no_labels && params->labels == NULL,
        .header = header,
    };

    *x = *y = NULL;
    r.arena.mem = r.mem;
    copse_status s = copse__csv_check(&params->csv);
    if (s == COPSE_OK)
        s = read_all(&r, paths, count, rows);
    if (s == COPSE_OK)
        s = make_array(&r, ctx, COPSE_F32, 2, schema->is.shape.dims[0], (void **)&r.x.at, x);
    if (s == COPSE_OK && r.has_label && schema->is.task == COPSE_TASK_REGRESSION)
        s = make_array(&r, ctx, COPSE_F32, 2, 1, (void **)&r.targets.at, y);
    else if (s == COPSE_OK && r.has_label)
        s = make_array(&r, ctx, COPSE_I32, 1, 1, (void **)&r.classes_of_rows.at, y);
    if (s != COPSE_OK)
        copse_array_release(x);
    for (uint32_t i = 0; r.codes != NULL && i < schema->is.column_count; i++)
        copse__dictionary_fini(&r.codes[i]);
    copse__dictionary_fini(&r.classes);
    copse__arena_fini(&r.arena);
    copse__free(r.mem, r.x.at);
    copse__free(r.mem, r.classes_of_rows.at);
    copse__free(r.mem, r.targets.at);
    return s;
}
