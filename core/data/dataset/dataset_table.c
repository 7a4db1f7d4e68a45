/* SPDX-License-Identifier: MIT */
/* Datasets of tables: a survey and its schema, or a schema that is given, then the rows. */
#include "copse/data/source.h"
#include "core/data/dataset/dataset.h"
#include "core/data/dataset/label_array.h"
#include "core/data/table/table.h"

/* The schema of these rows. */
static copse_status dataset_table_survey(copse_context *ctx, const struct copse_table_source *from,
                                         const struct copse_array_view *labels, copse_schema **out,
                                         size_t *rows)
{
    const struct copse_dataset_params *p = from->params;
    struct copse_table_facts facts;
    struct copse_schema_parts outputs = { 0 };

    copse_status s = copse__table_survey(&facts, ctx, from);
    *rows = facts.rows;
    if (s == COPSE_OK && labels != NULL)
        s = copse__label_array_parts(ctx, labels, facts.rows, p, p->scale != COPSE_SCALE_NONE,
                                     p->labels, &facts.arena, &outputs);
    if (s == COPSE_OK)
        s = copse__table_schema(ctx, &facts, &outputs, out);
    copse__table_facts_fini(&facts);
    return s;
}

static copse_status dataset_table_fill(copse_dataset *ds, copse_schema *schema, copse_array *x,
                                       copse_array *y, const struct copse_dataset_params *p)
{
    const struct copse_schema_parts *s = &schema->is;

    ds->schema = copse_schema_retain(schema);
    ds->info.rank = 1;
    ds->info.shape[0] = ds->info.row_size = s->shape.dims[0];
    for (uint32_t i = 0; p->schema == NULL && p->scale == COPSE_SCALE_MAX && i < s->column_count;
         i++)
        if (s->columns[i].role == COPSE_COLUMN_NUMBER)
            ds->info.scale = (float)s->columns[i].scale;
    COPSE_TRY(copse__dataset_add(ds, "x", s->type, s->shape, copse_array_retain(x)));
    return y != NULL ? copse__dataset_add_labels(ds, copse_array_retain(y)) : COPSE_OK;
}

static copse_status make_table(copse_context *ctx, const struct copse_table_source *from,
                               const copse_array *labels, copse_dataset **out)
{
    const struct copse_dataset_params *p = from->params;
    const struct copse_array_view *label_view = copse_array_view(labels);
    copse_schema *schema = copse_schema_retain((copse_schema *)(uintptr_t)p->schema);
    copse_array *x = NULL, *y = NULL;
    copse_csv_header header = p->csv.header;
    copse_status s = copse__dataset_check(p);
    copse_dataset *ds = NULL;
    size_t rows = 0;

    if (s == COPSE_OK)
        s = copse__table_check_policy(p->missing, p->unknown);
    if (s == COPSE_OK && schema != NULL && schema->is.kind != COPSE_DATA_TABLE)
        s = copse_fail(COPSE_ERR_SHAPE,
                       "dataset: %s is a table, and the model was not trained on one",
                       from->paths[0]);
    if (s == COPSE_OK && schema == NULL) {
        s = dataset_table_survey(ctx, from, label_view, &schema, &rows);
        if (s == COPSE_OK)
            header = schema->is.has_header ? COPSE_CSV_HEADER_YES : COPSE_CSV_HEADER_NO;
    }
    if (s == COPSE_OK)
        s = copse__table_read(ctx, from, schema, header, rows, &x, &y);
    if (s == COPSE_OK && label_view != NULL && schema->is.task != COPSE_TASK_AUTO)
        s = copse__label_array_read(ctx, label_view, copse_array_view(x)->shape[0], schema,
                                    p->labels, &y);
    if (s == COPSE_OK)
        s = copse__dataset_new(ctx, copse_array_view(x)->shape[0], &ds);
    if (s == COPSE_OK)
        s = dataset_table_fill(ds, schema, x, y, p);
    if (s != COPSE_OK)
        copse_dataset_release(&ds);
    copse_array_release(&x);
    copse_array_release(&y);
    copse_schema_release(&schema);
    *out = ds;
    return s;
}

copse_status copse__dataset_table(copse_context *ctx, const char *const *paths, size_t count,
                                  const copse_array *labels, const struct copse_dataset_params *p,
                                  copse_dataset **out)
{
    return make_table(ctx, &(struct copse_table_source){ paths, count, NULL, p }, labels, out);
}

copse_status copse_dataset_cells(copse_context *ctx, const struct copse_cells *cells,
                                 const struct copse_dataset_params *params, copse_dataset **out)
{
    static const char *const name = COPSE_CELLS_NAME;
    struct copse_dataset_params p = { .classes = 0 };

    COPSE_TRY(copse_need("dataset", ctx, cells, out));
    *out = NULL;
    COPSE_TRY(copse__dataset_no_reserved(params));
    COPSE_TRY(copse__cells_check(cells));
    if (params != NULL)
        p = *params;
    if (p.labels != NULL)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: cells have their label in a column: give no labels");
    if (p.source != NULL &&
        (p.source->resize != NULL || p.source->picture_bytes != 0 || p.source->text != NULL))
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: cells are no pictures and no text: give no "
                                              "resize, picture_bytes and text of a source");
    p.csv.header = cells->names != NULL ? COPSE_CSV_HEADER_YES : COPSE_CSV_HEADER_NO;
    return make_table(ctx, &(struct copse_table_source){ &name, 1, cells, &p }, NULL, out);
}
