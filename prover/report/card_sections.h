/* SPDX-License-Identifier: MIT */
/* The sections of a device card that are tables: headings, columns and rows, once for all formats.
   A format writes a section's begin and end, its rows, and cells of a few kinds. */
#ifndef COPSE_REPORT_CARD_SECTIONS_H
#define COPSE_REPORT_CARD_SECTIONS_H

#include "prover/report/card.h"

#define COPSE_CARD_COLUMNS 7

enum card_column_kind {
    CARD_COLUMN_TEXT,
    CARD_COLUMN_NUMBER, /* to the right */
    CARD_COLUMN_NAME,   /* the name of a value: a heading of its row */
};

struct card_column {
    const char *label;
    enum card_column_kind kind;
};

enum card_section_id {
    CARD_BLOCKED,
    CARD_MODES,
    CARD_ROWS,
    CARD_REASONS,
    CARD_IDENTITY,
    CARD_LIMITS,
    CARD_ENVIRONMENT,
    CARD_REPORTED,
    CARD_HASHES,
    CARD_SECTIONS
};

struct card_writer;

struct card_section {
    const char *heading;
    const char *intro; /* a paragraph above the table [none] */
    bool is_warning;   /* the paragraph matters as much as the table */
    /* of a table that is folded; it follows the number of rows, if `count` is set [not folded] */
    const char *summary;
    size_t (*count)(const struct card *c);
    bool folds_in_text; /* folded in Markdown, too */
    /* a paragraph after the table: a command for the device [none] */
    const char *after, *command;
    struct card_column columns[COPSE_CARD_COLUMNS];
    size_t column_count;
    bool (*is_there)(const struct card *c);
    void (*rows)(const struct card_writer *w, const struct card *c);
};

/* A format. Each cell comes after `row_begin`, from the left to the right. */
struct card_format {
    void (*begin)(FILE *f, const struct card_section *s, const struct card *c);
    void (*end)(FILE *f, const struct card_section *s, const struct card *c);
    void (*row_begin)(FILE *f);
    void (*row_end)(FILE *f);
    void (*cell_begin)(FILE *f, const struct card_column *column);
    void (*cell_end)(FILE *f, const struct card_column *column);
    void (*text)(FILE *f, const char *text); /* escaped */
    void (*code)(FILE *f, const char *text);
    void (*soft)(FILE *f, const char *text); /* a whole cell, less important */
    void (*verdict)(FILE *f, copse_verdict v);
    /* a whole cell: the largest error of a row, NULL = none */
    void (*error)(FILE *f, const struct copse_case_result *k);
    const char *between_lines, *between_words; /* of a list */
    bool has_plots;                            /* of errors and speed: no column is needed */
};

struct card_writer {
    FILE *f;
    const struct card_format *format;
    const struct card_section *section;
};

extern const struct card_section copse_card_sections[CARD_SECTIONS];

/* The columns that a format writes. */
size_t copse__card_columns(const struct card_section *s, const struct card_format *format);
/* Write a section, if the card has it. */
void copse__card_section(FILE *f, const struct card_format *format, enum card_section_id id,
                         const struct card *c);

#endif
