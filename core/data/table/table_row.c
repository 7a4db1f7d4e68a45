/* SPDX-License-Identifier: MIT */
/* The numbers of a row of a table by a schema. Cells that the schema does not know are replaced or
   refused. */
#include "core/data/table/table_row.h"

#include <math.h>
#include <stdio.h>

#include "core/data/array.h"
#include "core/data/reader/number.h"

/* ---- cells that the schema does not know ---- */

/* Remember a cell that was replaced; `is_told`: it belongs to a warning. */
static void note_replaced(struct copse_replaced *to, const struct copse_csv *csv, size_t column,
                          const char *name, const struct copse_cell *cell, bool is_told)
{
    const struct copse_cell title = copse__cell_of(name);
    char text[48] = "";

    to->count++;
    if (!is_told || to->told++ > 0)
        return;
    if (cell->size > 0)
        snprintf(text, sizeof text, "\"%.*s\" in ", copse__csv_shown(cell), cell->text);
    snprintf(to->first, sizeof to->first, "%srow %zu, column %zu%s%.*s%s", text, csv->row,
             column + 1, name[0] ? " (\"" : "", copse__csv_shown(&title), name,
             name[0] ? "\")" : "");
}

/* A missing cell; `is_known`: training had them in this column. */
static copse_status take_missing(struct copse_row_reader *r, size_t column,
                                 const struct copse_schema_column *c, const struct copse_cell *cell,
                                 bool is_known)
{
    if (r->missing == COPSE_MISSING_REFUSE && !r->is_surveyed)
        return copse__table_fail_missing(r->csv, column, c->name, cell, false, true);
    note_replaced(&r->missing_cells, r->csv, column, c->name, cell,
                  !is_known && r->missing == COPSE_MISSING_AUTO);
    return COPSE_OK;
}

static copse_status take_unknown(struct copse_row_reader *r, size_t column,
                                 const struct copse_schema_column *c, const struct copse_cell *cell)
{
    if (r->unknown == COPSE_UNKNOWN_REFUSE)
        return copse__table_fail(
            COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, c->name,
            "\"%.*s\" is not one of the %u categories that training had; correct it, "
            "or let it count as none of them (unknown: ignore, --unknown ignore)",
            copse__csv_shown(cell), cell->text, c->width - c->has_missing);
    note_replaced(&r->unknown_cells, r->csv, column, c->name, cell, true);
    return COPSE_OK;
}

void copse__row_report(struct copse_row_reader *r, const char *path)
{
    if (r->missing_cells.told > 0)
        copse__log(r->log, COPSE_LOG_WARN,
                   "csv: %s: missing cells: %zu, the first is %s; a number becomes the mean of its "
                   "column, a category none of the column's",
                   path, r->missing_cells.told, r->missing_cells.first);
    if (r->unknown_cells.told > 0)
        copse__log(r->log, COPSE_LOG_WARN,
                   "csv: %s: cells with a category that training did not have: %zu, the first is "
                   "%s; they count as missing, or as none of the column's categories",
                   path, r->unknown_cells.told, r->unknown_cells.first);
    if (r->date_cells.told > 0)
        copse__log(r->log, COPSE_LOG_WARN,
                   "csv: %s: cells of dates that cannot be read: %zu, the first is %s, %s; %s had "
                   "dates as %s; such a cell becomes the mean of its column",
                   path, r->date_cells.told, r->date_cells.first, r->date_fault,
                   r->is_surveyed ? "the column" : "training", r->date_form);
    if (r->time_cells.told > 0)
        copse__log(r->log, COPSE_LOG_WARN,
                   "csv: %s: dates without a time, where training had times: %zu, the first is %s; "
                   "their time is 00:00",
                   path, r->time_cells.told, r->time_cells.first);
    copse__row_forget(r);
}

void copse__row_forget(struct copse_row_reader *r)
{
    r->missing_cells = r->unknown_cells = r->date_cells = r->time_cells =
        (struct copse_replaced){ .count = 0 };
}

copse_status copse__row_check_dates(const struct copse_row_reader *r)
{
    for (size_t i = 0; i < r->uses.count && r->missing != COPSE_MISSING_MEAN; i++) {
        const struct copse_table_use *u = &r->uses.at[i];
        if (u->date_fault != NULL && u->dates == 0)
            return copse__table_fail(
                COPSE_ERR_FORMAT, r->csv->path, u->fault_row, i, u->column->name,
                "the cell is %s, and no cell of the column is a date as %s, which training had: "
                "write them so, or let the mean replace them (missing: mean, --missing mean)",
                u->date_fault,
                copse__date_form(u->column->order, u->column->width == COPSE_DATE_PLACES));
    }
    return COPSE_OK;
}

static copse_status refuse_scaled(const struct copse_row_reader *r, size_t column, const char *name,
                                  const struct copse_cell *cell)
{
    char room[COPSE_NUMBER_TEXT];
    const struct copse_cell shown = copse__cell_with_text(cell, room);

    return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, name,
                             "%.*s is too large after scaling", copse__csv_shown(&shown),
                             shown.text);
}

/* ---- features ---- */

static copse_status take_number(struct copse_row_reader *r, size_t column,
                                const struct copse_schema_column *c, const struct copse_cell *cell,
                                float *to)
{
    double v = c->fill;

    if (copse__table_is_missing(cell))
        COPSE_TRY(take_missing(r, column, c, cell, r->schema->missing == COPSE_MISSING_MEAN));
    else
        COPSE_TRY(copse__table_number(r->csv, column, c->name, cell, &v));
    if (c->mean == 0)
        v = (float)v; /* the bits of f32 numbers that are divided by the largest magnitude */
    *to = (float)((v - c->mean) / c->scale);
    return isfinite(*to) ? COPSE_OK : refuse_scaled(r, column, c->name, cell);
}

/* The category of a cell; NULL: it is not known. A number may have been written as "1" or "1.0". */
static const struct copse_dictionary_entry *
find_category(const struct copse_dictionary *codes, const struct copse_cell *cell, bool is_number)
{
    char with_point[COPSE_NUMBER_TEXT + 2];
    const struct copse_dictionary_entry *e = copse__dictionary_find(codes, cell->text, cell->size);

    if (e != NULL || !is_number)
        return e;
    snprintf(with_point, sizeof with_point, "%.*s.0", (int)cell->size, cell->text);
    return copse__dictionary_find(codes, with_point, strlen(with_point));
}

/* 1 in the place of the category. One that is not known has the place of missing cells, or none. */
static copse_status take_category(struct copse_row_reader *r, size_t column,
                                  const struct copse_table_use *u, const struct copse_cell *from,
                                  float *to)
{
    char room[COPSE_NUMBER_TEXT];
    const struct copse_cell text = copse__cell_with_text(from, room), *cell = &text;
    const struct copse_schema_column *c = u->column;
    const struct copse_dictionary_entry *e = NULL;

    if (copse__table_is_missing(cell))
        COPSE_TRY(take_missing(r, column, c, cell, c->has_missing));
    else if ((e = find_category(u->codes, cell, from->number != NULL)) == NULL)
        COPSE_TRY(take_unknown(r, column, c, cell));
    memset(to, 0, c->width * sizeof *to);
    if (e != NULL)
        to[e - u->codes->entries.at] = 1;
    else if (c->has_missing)
        to[c->width - 1] = 1;
    return COPSE_OK;
}

/* A cell that is no date counts as a missing one. */
static copse_status take_date(struct copse_row_reader *r, size_t column, struct copse_table_use *u,
                              const struct copse_cell *from, float *to)
{
    char room[COPSE_NUMBER_TEXT];
    const struct copse_cell text = copse__cell_with_text(from, room), *cell = &text;
    const struct copse_schema_column *c = u->column;
    const bool has_times = c->width == COPSE_DATE_PLACES;
    const char *form = copse__date_form(c->order, has_times);
    bool has_time;

    if (copse__date_numbers(c, cell->text, cell->size, to, &has_time)) {
        u->dates++;
        if (has_times && !has_time)
            note_replaced(&r->time_cells, r->csv, column, c->name, cell, !r->is_surveyed);
        return COPSE_OK;
    }
    if (copse__table_is_missing(cell))
        return take_missing(r, column, c, cell, r->schema->missing == COPSE_MISSING_MEAN);
    const char *fault = copse__date_fault(cell->text, cell->size, c->order);
    if (!r->is_surveyed &&
        (r->unknown == COPSE_UNKNOWN_REFUSE || r->missing == COPSE_MISSING_REFUSE))
        return copse__table_fail(COPSE_ERR_FORMAT, r->csv->path, r->csv->row, column, c->name,
                                 "\"%.*s\" is %s; training had dates as %s: correct it, or let it "
                                 "count as missing (%s)",
                                 copse__csv_shown(cell), cell->text, fault, form,
                                 r->unknown == COPSE_UNKNOWN_REFUSE
                                     ? "unknown: ignore, --unknown ignore"
                                     : "missing: mean, --missing mean");
    if (u->date_fault == NULL) {
        u->date_fault = fault;
        u->fault_row = r->csv->row;
    }
    if (r->date_cells.count == 0) {
        r->date_form = form;
        r->date_fault = fault;
    }
    note_replaced(&r->date_cells, r->csv, column, c->name, cell, true);
    return COPSE_OK;
}

/* ---- labels ---- */

static copse_status refuse_label(const struct copse_row_reader *r, size_t column, const char *name,
                                 const struct copse_cell *from, bool is_number)
{
    char room[COPSE_NUMBER_TEXT];
    const struct copse_cell text = copse__cell_with_text(from, room), *cell = &text;
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

static copse_status take_class(struct copse_row_reader *r, size_t column, const char *name,
                               const struct copse_cell *cell)
{
    const struct copse_dictionary_entry *e = NULL;
    char digits[COPSE_NUMBER_TEXT];
    double v = -1;
    int32_t class = -1;
    const bool is_number = copse__cell_number(cell, &v);

    if (r->is_counted) {
        if (is_number && v >= 0 && v < r->schema->outputs && copse__table_is_whole(v))
            class = (int32_t)v;
    } else if (r->schema->is_numbered && is_number && copse__table_is_whole(v)) {
        snprintf(digits, sizeof digits, "%.0f", v + 0.0);
        e = copse__dictionary_find(&r->classes, digits, strlen(digits));
    } else if (!r->schema->is_numbered) {
        const struct copse_cell text = copse__cell_with_text(cell, digits);
        e = find_category(&r->classes, &text, cell->number != NULL);
    }
    if (e != NULL)
        class = (int32_t)(e - r->classes.entries.at);
    if (class < 0)
        return refuse_label(r, column, name, cell, is_number);
    r->class = class;
    return COPSE_OK;
}

static copse_status take_label(struct copse_row_reader *r, size_t column, uint32_t target,
                               const char *name, const struct copse_cell *cell)
{
    double v;

    if (copse__table_is_missing(cell))
        return copse__table_fail_missing(r->csv, column, name, cell, true, true);
    if (r->schema->task != COPSE_TASK_REGRESSION)
        return take_class(r, column, name, cell);
    COPSE_TRY(copse__table_number(r->csv, column, name, cell, &v));
    const struct copse_schema_target *t = &r->schema->targets[target];
    r->targets[target] = (float)((v - t->mean) / t->scale);
    if (!isfinite(r->targets[target]))
        return refuse_scaled(r, column, name, cell);
    return COPSE_OK;
}

/* ---- rows ---- */

/* Into `row`, which has the order of the schema. */
static copse_status take_cell(struct copse_row_reader *r, size_t column,
                              const struct copse_cell *cell, float *row)
{
    struct copse_table_use *u = &r->uses.at[column];
    const struct copse_schema_column *c = u->column;

    if (c == NULL)
        return COPSE_OK;
    if (c->role == COPSE_COLUMN_LABEL)
        return take_label(r, column, u->target, c->name, cell);
    if (c->role == COPSE_COLUMN_DATE)
        return take_date(r, column, u, cell, row + c->first);
    return c->role == COPSE_COLUMN_NUMBER ? take_number(r, column, c, cell, row + c->first)
                                          : take_category(r, column, u, cell, row + c->first);
}

copse_status copse__row_read(struct copse_row_reader *r, struct copse_cell line, float *to)
{
    struct copse_cell cell;
    size_t column = 0;
    bool more = true;

    for (; more && column < r->uses.count; column++) {
        COPSE_TRY(copse__csv_cell(r->csv, column, &line, &cell, &more));
        COPSE_TRY(take_cell(r, column, &cell, to));
    }
    return column == r->uses.count && !more ? COPSE_OK
                                            : copse__csv_wrong_length(r->csv, more, r->uses.count);
}

/* ---- life ---- */

static copse_status fill_dictionary(struct copse_dictionary *d, const char *const *texts,
                                    uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!copse__dictionary_add(d, texts[i], strlen(texts[i]), "", 0))
            return copse_no_memory("table");
    return COPSE_OK;
}

static copse_status make_dictionaries(struct copse_row_reader *r)
{
    const struct copse_schema_parts *s = r->schema;

    r->codes = copse__arena_alloc(&r->arena, s->column_count, sizeof *r->codes);
    r->targets = copse__arena_alloc(&r->arena, COPSE_MAX(s->outputs, 1), sizeof *r->targets);
    if (r->codes == NULL || r->targets == NULL)
        return copse_no_memory("table");
    for (uint32_t i = 0; i < s->column_count; i++) {
        r->codes[i].arena = &r->arena;
        r->labels += s->columns[i].role == COPSE_COLUMN_LABEL;
        if (s->columns[i].role == COPSE_COLUMN_CATEGORY)
            COPSE_TRY(fill_dictionary(&r->codes[i], s->columns[i].categories,
                                      s->columns[i].width - s->columns[i].has_missing));
    }
    r->classes.arena = &r->arena;
    return s->task == COPSE_TASK_REGRESSION || r->is_counted || s->classes == NULL
               ? COPSE_OK
               : fill_dictionary(&r->classes, s->classes, s->outputs);
}

copse_status copse__row_reader_init(struct copse_row_reader *r, copse_context *ctx,
                                    const copse_schema *schema,
                                    const struct copse_dataset_params *params)
{
    struct copse_base *base = copse__base(ctx);

    *r = (struct copse_row_reader){
        .mem = &base->mem,
        .log = &base->log,
        .arena = { .mem = &base->mem },
        .schema = &schema->is,
        .is_counted = schema->is_counted,
        .wants_labels = !params->no_labels && params->labels == NULL,
        .missing = params->missing,
        .unknown = params->unknown,
        .header = params->csv.header,
    };
    return make_dictionaries(r);
}

void copse__row_reader_fini(struct copse_row_reader *r)
{
    for (uint32_t i = 0; r->codes != NULL && i < r->schema->column_count; i++)
        copse__dictionary_fini(&r->codes[i]);
    copse__dictionary_fini(&r->classes);
    if (r->mem != NULL) {
        copse__arena_fini(&r->arena);
        copse__free(r->mem, r->uses.at);
    }
    *r = (struct copse_row_reader){ .mem = NULL };
}
