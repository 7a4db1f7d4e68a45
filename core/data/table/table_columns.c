/* SPDX-License-Identifier: MIT */
/* Which column of a source is which of a schema: by name, else by position. */
#include <stdio.h>

#include "core/data/table/table_row.h"

static bool is_feature(const struct copse_schema_column *c)
{
    return c->role == COPSE_COLUMN_NUMBER || c->role == COPSE_COLUMN_CATEGORY ||
           c->role == COPSE_COLUMN_DATE;
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

/* Whether the first line of a file is a header, if the schema has names. Names that the schema has
   not are a header, too: its columns are then reported as missing. */
static bool row_is_header(const struct copse_row_reader *r, const struct copse_csv_names *names)
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

static void use_column(struct copse_row_reader *r, size_t source_column, uint32_t i)
{
    struct copse_table_use *u = &r->uses.at[source_column];

    *u = (struct copse_table_use){ .column = &r->schema->columns[i], .codes = &r->codes[i] };
    for (uint32_t k = 0; k < i; k++)
        u->target += r->schema->columns[k].role == COPSE_COLUMN_LABEL;
    r->found += u->column->role == COPSE_COLUMN_LABEL;
}

/* Add a name to a list for a message. */
static void list_name(char *list, size_t room, const char *name)
{
    const struct copse_cell cell = copse__cell_of(name);
    const size_t used = strlen(list);

    if (used + 50 < room) /* a name has at most 32 bytes here */
        snprintf(list + used, room - used, "%s\"%.*s\"", used > 0 ? ", " : "",
                 copse__csv_shown(&cell), name);
    else if (list[used - 1] != '.')
        snprintf(list + used, room - used, ", ...");
}

/* Columns of the source that the schema has not. */
static void report_extra(const struct copse_row_reader *r, const struct copse_csv_names *names)
{
    char list[300] = "";
    size_t count = 0, at = 0;

    for (size_t i = 0; i < names->count; i++) {
        uint32_t k = 0;
        while (k < r->schema->column_count && strcmp(r->schema->columns[k].name, names->at[i]) != 0)
            k++;
        if (k < r->schema->column_count || count_named(names, names->at[i], &at) == 0 || at != i)
            continue;
        count++;
        list_name(list, sizeof list, names->at[i]);
    }
    if (count > 0)
        copse__log(r->log, COPSE_LOG_INFO,
                   "csv: %s: %zu column%s that training did not have %s passed over: %s",
                   r->csv->path, count, copse__plural(count), count == 1 ? "is" : "are", list);
}

/* ", row 1" of a file; cells in memory have no line of names. */
static const char *row_of_names(const struct copse_row_reader *r, char text[32])
{
    text[0] = 0;
    if (r->csv->row > 0)
        snprintf(text, 32, ", row %zu", r->csv->row);
    return text;
}

static copse_status use_names(struct copse_row_reader *r, const struct copse_csv_names *names)
{
    char missing[300] = "", labels[300] = "", row[32];
    size_t missing_count = 0;

    for (uint32_t i = 0; i < r->schema->column_count; i++) {
        const struct copse_schema_column *c = &r->schema->columns[i];
        const bool is_label = c->role == COPSE_COLUMN_LABEL;
        size_t at = 0;
        if (c->role == COPSE_COLUMN_IGNORED || (is_label && !r->wants_labels))
            continue;
        const size_t count = count_named(names, c->name, &at);
        if (count > 1)
            return copse_fail(COPSE_ERR_FORMAT, "csv: %s%s: %zu columns are named \"%s\"",
                              r->csv->path, row_of_names(r, row), count, c->name);
        if (count > 0)
            use_column(r, at, i);
        else if (is_label)
            list_name(labels, sizeof labels, c->name);
        else if (++missing_count > 0)
            list_name(missing, sizeof missing, c->name);
    }
    if (missing_count > 0)
        return copse_fail(COPSE_ERR_SHAPE, "csv: %s%s: there is no column %s, which training had",
                          r->csv->path, row_of_names(r, row), missing);
    if (r->found > 0 && r->found < r->labels)
        return copse_fail(COPSE_ERR_SHAPE,
                          "csv: %s%s: there is no column %s, a target of the training, while other "
                          "targets are there",
                          r->csv->path, row_of_names(r, row), labels);
    report_extra(r, names);
    return COPSE_OK;
}

static copse_status use_positions(struct copse_row_reader *r)
{
    const uint32_t all = r->schema->column_count;
    size_t at = 0;

    if (r->uses.count != all && r->uses.count + r->labels != all)
        return copse_fail(COPSE_ERR_SHAPE, "csv: %s, row %zu: %zu columns, training had %u%s",
                          r->csv->path, r->csv->row, r->uses.count, all,
                          r->labels > 1    ? " with the labels"
                          : r->labels == 1 ? " with the label"
                                           : "");
    for (uint32_t i = 0; i < all; i++) {
        const copse_column_role role = r->schema->columns[i].role;
        const bool is_label = role == COPSE_COLUMN_LABEL;
        if (is_label && r->uses.count != all)
            continue;
        if (role != COPSE_COLUMN_IGNORED && (!is_label || r->wants_labels))
            use_column(r, at, i);
        at++;
    }
    return COPSE_OK;
}

copse_status copse__row_columns(struct copse_row_reader *r, const struct copse_csv_names *line,
                                bool *is_header)
{
    r->uses.count = r->found = 0;
    r->has_label = false;
    if (!COPSE_RESERVE(r->mem, &r->uses, line->count))
        return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory for %zu columns", r->csv->path,
                          line->count);
    memset(r->uses.at, 0, line->count * sizeof *r->uses.at);
    r->uses.count = line->count;
    *is_header = row_is_header(r, line);
    COPSE_TRY(*is_header && r->schema->has_header && !r->is_surveyed ? use_names(r, line)
                                                                     : use_positions(r));
    r->has_label = r->found > 0;
    return COPSE_OK;
}
