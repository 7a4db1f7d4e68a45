/* SPDX-License-Identifier: MIT */
/* Predictions of a model for rows of cells in memory. What is prepared for them is kept in the
   model: a call with the names of the call before allocates nothing. */
#include "copse/train/predict_cells.h"

#include "core/data/table/table_row.h"
#include "core/model/model.h"

struct copse_model_cells {
    struct copse_row_reader reader;
    /* of the newest call, one after another; NULL: none, or columns by position */
    char *names;
    size_t columns; /* 0: the columns are not mapped */
    float *x;       /* [room, width] */
    size_t room;
    double *row; /* outputs of a row */
};

void copse__model_cells_release(copse_model *m)
{
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    struct copse_model_cells *c = m->cells;
    if (!c)
        return;
    copse__row_reader_fini(&c->reader);
    copse__free(mem, c->names);
    copse__free(mem, c->x);
    copse__free(mem, c->row);
    copse__free(mem, c);
    m->cells = NULL;
}

static copse_status cells_prepare(copse_model *m)
{
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    if (m->cells)
        return COPSE_OK;
    if (m->is.kind != COPSE_DATA_TABLE)
        return copse_fail(COPSE_ERR_ARGUMENT, "model: it is not of a table, and has no cells");
    m->cells = copse__alloc(mem, 1, sizeof *m->cells);
    COPSE_TRY(copse_need_memory(m->cells, "model"));
    m->cells->row = copse__alloc(mem, m->is.outputs, sizeof *m->cells->row);
    copse_status s = copse_need_memory(m->cells->row, "model");
    if (s == COPSE_OK)
        s = copse__row_reader_init(&m->cells->reader, m->strategy->ctx, m->schema,
                                   &(struct copse_dataset_params){ .no_labels = true });
    if (s != COPSE_OK)
        copse__model_cells_release(m);
    return s;
}

/* ---- columns ---- */

static bool has_names(const struct copse_model_cells *c, const struct copse_cells *from)
{
    const char *known = c->names;
    if (c->columns != from->columns || !c->names != !from->names)
        return false;
    for (size_t i = 0; known && i < from->columns; i++) {
        const size_t size = strlen(known) + 1;
        if (strcmp(known, from->names[i]) != 0)
            return false;
        known += size;
    }
    return true;
}

static copse_status keep_names(struct copse_model_cells *c, const struct copse_cells *from)
{
    size_t bytes = 0;
    copse__free(c->reader.mem, c->names);
    c->names = NULL;
    for (size_t i = 0; from->names && i < from->columns; i++)
        bytes += strlen(from->names[i]) + 1;
    char *to = c->names = from->names ? copse__alloc(c->reader.mem, bytes, 1) : NULL;
    if (from->names)
        COPSE_TRY(copse_need_memory(to, "model"));
    for (size_t i = 0; from->names && i < from->columns; i++) {
        memcpy(to, from->names[i], strlen(from->names[i]) + 1);
        to += strlen(to) + 1;
    }
    c->columns = from->columns;
    return COPSE_OK;
}

/* Map the columns, unless they are the columns of the call before. */
static copse_status map_columns(struct copse_model_cells *c, struct copse_csv *csv,
                                const struct copse_cells *from)
{
    struct copse_arena arena = { .mem = c->reader.mem };
    struct copse_csv_names line = { .count = 0 };
    struct copse_cell text;
    bool has, is_header;
    if (from->names)
        COPSE_TRY(copse__csv_next(csv, &text, &has)); /* the line of the names */
    if (has_names(c, from))
        return COPSE_OK;
    c->columns = 0;
    c->reader.header = from->names ? COPSE_CSV_HEADER_YES : COPSE_CSV_HEADER_NO;
    text = copse__cell_of("");
    csv->row += !from->names; /* without names the first row is looked at */
    copse_status s = copse__csv_split(csv, text, &arena, &line);
    csv->row -= !from->names;
    if (s == COPSE_OK)
        s = copse__row_columns(&c->reader, &line, &is_header);
    copse__arena_fini(&arena);
    return s == COPSE_OK ? keep_names(c, from) : s;
}

/* ---- rows ---- */

static copse_status reserve_rows(struct copse_model_cells *c, size_t rows, size_t width)
{
    size_t numbers;
    if (rows <= c->room)
        return COPSE_OK;
    float *x = copse__mul(rows, width, &numbers)
                   ? copse__resize(c->reader.mem, c->x, numbers, sizeof *x)
                   : NULL;
    COPSE_TRY(copse_need_memory(x, "model: %zu rows", rows));
    c->x = x;
    c->room = rows;
    return COPSE_OK;
}

static copse_status predict_part(copse_model *m, struct copse_csv *csv, size_t rows, float *values)
{
    struct copse_model_cells *c = m->cells;
    const struct copse_column x = { "x", COPSE_F32, m->is.shape, c->x };
    const struct copse_host_batch batch = { .columns = &x, .column_count = 1, .count = rows };
    struct copse_cell line;
    bool has;
    for (size_t i = 0; i < rows; i++) {
        COPSE_TRY(copse__csv_next(csv, &line, &has));
        COPSE_TRY(copse__row_read(&c->reader, line, c->x + i * m->is.shape.dims[0]));
    }
    COPSE_TRY(copse__model_outputs(m, &batch, true, values));
    copse__model_convert(m, values, rows, c->row);
    return COPSE_OK;
}

static copse_status predict_all(copse_model *m, const struct copse_cells *cells, float *values)
{
    struct copse_model_cells *c = m->cells;
    const size_t most = COPSE_MIN(cells->rows, copse__model_rows(m));
    struct copse_csv csv;
    copse__csv_open_cells(&csv, c->reader.mem, COPSE_CELLS_NAME, cells);
    c->reader.csv = &csv;
    COPSE_TRY(map_columns(c, &csv, cells));
    COPSE_TRY(reserve_rows(c, most, m->is.shape.dims[0]));
    for (size_t at = 0, rows; at < cells->rows; at += rows) {
        rows = COPSE_MIN(most, cells->rows - at);
        COPSE_TRY(predict_part(m, &csv, rows, values + at * m->is.outputs));
    }
    return COPSE_OK;
}

copse_status copse_model_predict_cells(copse_model *m, const struct copse_cells *cells,
                                       const struct copse_predict_cells_params *params,
                                       float *values)
{
    static const struct copse_predict_cells_params defaults = { .counts = NULL };
    COPSE_TRY(copse_need("model", m, cells, values));
    COPSE_TRY(copse_no_reserved(copse_predict_cells_params, params));
    COPSE_TRY(copse__require_no_replica("copse_model_predict_cells", m));
    const struct copse_predict_cells_params *p = params ? params : &defaults;
    if (p->counts)
        *p->counts = (struct copse_cell_counts){ .missing = 0 };
    COPSE_TRY(copse__table_check_policy(p->missing, p->unknown));
    COPSE_TRY(copse__cells_check(cells));
    COPSE_TRY(cells_prepare(m));
    struct copse_row_reader *r = &m->cells->reader;
    r->missing = p->missing;
    r->unknown = p->unknown;
    copse__row_forget(r);
    const copse_status s = predict_all(m, cells, values);
    r->csv = NULL;
    if (p->counts)
        *p->counts =
            (struct copse_cell_counts){ .missing = r->missing_cells.count + r->date_cells.count,
                                        .unknown = r->unknown_cells.count };
    if (s == COPSE_OK)
        copse__row_report(r, COPSE_CELLS_NAME);
    return s;
}
