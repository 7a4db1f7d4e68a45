/* SPDX-License-Identifier: MIT */
/* Everything in a schema, as the readers decide it and as its text has it. */
#ifndef COPSE_DATA_SCHEMA_PARTS_H
#define COPSE_DATA_SCHEMA_PARTS_H

#include "copse/data/schema.h"
#include "copse/data/text.h"
#include "core/base/base.h"

/* Most classes with names, and most classes found in numbered labels. */
#define COPSE_NAMED_CLASSES_MAX 65536u

/* Numbers of a date, without and with a time. */
enum { COPSE_DATE_WIDTH = 11, COPSE_DATE_TIME_WIDTH = 13 };

struct copse_schema_target {
    const char *name; /* "" without a header */
    double mean, scale;
};

/* Two tokens that become one. */
struct copse_merge {
    uint16_t first, second;
};

/* Everything in a schema. */
struct copse_schema_parts {
    copse_data_kind kind;
    copse_task task; /* AUTO: no labels */
    copse_type type;
    copse_shape shape;
    float input_offset, input_scale;
    bool is_resized; /* pictures of other sizes get this one */
    uint32_t outputs;
    /* Classes. NULL: the names are the numbers 0..outputs-1. */
    const char *const *classes;
    bool is_numbered; /* the names are whole numbers, and a label "1.0" is the class "1" */
    /* Targets of a regression: `outputs` of them. */
    const struct copse_schema_target *targets;
    /* Of a table. */
    bool has_header;
    copse_missing missing;
    /* `first` and `width` of numbers and categories are set by the schema */
    const struct copse_schema_column *columns;
    uint32_t column_count;
    /* Of a text; its vocabulary is `classes`, the window `shape`. */
    copse_tokens tokens;
    uint32_t stride;
    const struct copse_merge *merges; /* of byte pairs: merge i makes token 256 + i */
    uint32_t merge_count;
    bool knows_unseen;      /* `unseen` is known; else the schema is of an older version */
    const uint32_t *unseen; /* tokens that the text has not, ascending */
    uint32_t unseen_count;
    /* Scaling of an array on the host, x = (value - mean) / scale: for none of the numbers of a row
       (0), for all of them (1), or for each (their number). */
    const double *means, *scales;
    size_t scaling_count;
};

#endif
