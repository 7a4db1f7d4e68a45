/* SPDX-License-Identifier: MIT */
/* What a reader of a table should know before training, as warnings: columns with one value, classes
   with few rows, and one class that has most rows. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "copse/data/source.h"

#include "core/data/table/table.h"

/* A class of fewer rows hardly trains, and its held-out part has at most one. */
#define FEW_ROWS 5u
/* The largest class has most rows, and so many times the rows of the smallest. */
#define IMBALANCE 10u
/* Names in a list. */
#define NAMES_SHOWN 8u

struct list {
    char text[600];
    size_t count;
};

static void list_add(struct list *l, const char *between, const char *fmt, ...) COPSE_PRINTF(3, 4);
static void list_add(struct list *l, const char *between, const char *fmt, ...)
{
    const size_t used = strlen(l->text);
    va_list args;

    if (l->count++ > NAMES_SHOWN)
        return;
    if (l->count == NAMES_SHOWN + 1) {
        snprintf(l->text + used, sizeof l->text - used, "%s...", between);
        return;
    }
    snprintf(l->text + used, sizeof l->text - used, "%s", used > 0 ? between : "");
    va_start(args, fmt);
    vsnprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), fmt, args);
    va_end(args);
}

/* Bytes of a name that are shown. */
static int shown_bytes(const char *name)
{
    const struct copse_cell cell = copse__cell_of(name);
    return copse__csv_shown(&cell);
}

const char *copse__table_place(const struct copse_table_facts *f, size_t column,
                               char to[COPSE_PLACE_BYTES])
{
    const char *name = f->columns[column].name;

    snprintf(to, COPSE_PLACE_BYTES, "%.500s, column %zu%s%.*s%s", f->path, column + 1,
             name[0] ? " (\"" : "", shown_bytes(name), name, name[0] ? "\")" : "");
    return to;
}

const char *copse__table_item(const struct copse_table_facts *f, size_t column,
                              char position[COPSE_ITEM_BYTES])
{
    const char *name = f->columns[column].name;
    size_t i = 0;

    while (isalnum((unsigned char)name[i]) || (name[i] != 0 && strchr("_.-", name[i]) != NULL) ||
           (unsigned char)name[i] >= 0x80)
        i++;
    if (i > 0 && i <= 40 && name[i] == 0) /* what a shell takes as it is */
        return name;
    snprintf(position, COPSE_ITEM_BYTES, "%zu", column + 1);
    return position;
}

/* ---- columns ---- */

static bool is_constant(const struct copse_table_column *c)
{
    if (c->role != COPSE_COLUMN_NUMBER || c->missing > 0)
        return false;
    if (c->texts > 0)
        return c->numbers == 0 && c->words.entries.count == 1;
    return c->squares == 0 && c->mean != 0; /* zeros are usual: pixels at the edge of a picture */
}

void copse__table_report_constants(const struct copse_table_facts *f)
{
    struct list items = { "", 0 };
    char position[COPSE_ITEM_BYTES];

    for (size_t i = 0; f->rows > 1 && i < f->column_count; i++)
        if (is_constant(&f->columns[i]))
            list_add(&items, ",", "%s", copse__table_item(f, i, position));
    if (items.count > 0)
        copse__log(f->log, COPSE_LOG_WARN,
                   "csv: %s: %zu column%s the same value in all rows; leave %s out (ignore, "
                   "--ignore %s)",
                   f->path, items.count, items.count == 1 ? " has" : "s have",
                   items.count == 1 ? "it" : "them", items.text);
}

/* ---- classes ---- */

void copse__table_report_classes(const struct copse_table_facts *f,
                                 const struct copse_class_rows *classes, size_t count)
{
    const struct copse_source_params *source = f->params ? f->params->source : NULL;
    const struct copse_class_rows *most = classes, *least = classes;
    struct list few = { "", 0 };

    for (size_t i = 0; i < count; i++) {
        most = classes[i].rows > most->rows ? &classes[i] : most;
        least = classes[i].rows < least->rows ? &classes[i] : least;
        if (classes[i].rows < FEW_ROWS)
            list_add(&few, ", ", "\"%.*s\" (%zu)", shown_bytes(classes[i].name), classes[i].name,
                     classes[i].rows);
    }
    if (f->rows < FEW_ROWS * count || count < 2)
        return; /* a table with few rows in all: its classes are no exception */
    if (few.count > 0)
        copse__log(f->log, COPSE_LOG_WARN,
                   "csv: %s: %zu class%s fewer than %u rows: %s; a network learns little from "
                   "these: add rows, or join classes",
                   f->path, few.count, few.count == 1 ? " has" : "es have", FEW_ROWS, few.text);
    if (most->rows >= IMBALANCE * least->rows && 2 * most->rows > f->rows)
        copse__log(f->log, COPSE_LOG_WARN,
                   "csv: %s: class \"%.*s\" has %zu of %zu rows, so that it alone as the answer "
                   "is right for %.1f %%; look at the recall of each class%s",
                   f->path, shown_bytes(most->name), most->name, most->rows, f->rows,
                   100.0 * (double)most->rows / (double)f->rows,
                   source && source->is_weighted
                       ? ""
                       : ", and give rare classes weight in the loss (--loss \"cross_entropy "
                         "weights=balanced\", in Python class_weight=\"balanced\")");
}
