/* SPDX-License-Identifier: MIT */
/* Dates in a table: the parts of a cell, what is known of a column, and the numbers of a row. */
#ifndef COPSE_DATA_TABLE_DATES_H
#define COPSE_DATA_TABLE_DATES_H

#include "core/data/schema_parts.h"

/* Places in "x": year, month, day, day of the year; Monday to Sunday; with times hour and minute. */
enum {
    COPSE_DATE_WEEKDAY = 4,
    COPSE_DATE_HOUR = COPSE_DATE_WIDTH,
    COPSE_DATE_PLACES = COPSE_DATE_TIME_WIDTH,
    COPSE_DATE_ORDERS = 3
};

/* The values of a date before they are scaled: numbers, and 1 at its weekday. */
struct copse_date {
    double at[COPSE_DATE_PLACES];
    bool has_time; /* the text has one */
};

/* The first cell of a column that is no date in an order. */
struct copse_date_odd {
    size_t row; /* 0: there is none */
    const char *path;
    char text[48]; /* as much of it as messages show */
};

/* What is known of the texts of a column that are dates in one order. */
struct copse_date_facts {
    size_t count;
    size_t dotted; /* as in "31.12.2024" */
    bool has_time; /* other than midnight */
    double mean[COPSE_DATE_PLACES], squares[COPSE_DATE_PLACES];
    struct copse_date_odd odd;
};

/* A date of four digits for the year in an order, alone or with a time. A date that begins with the
   year belongs to COPSE_DATE_YMD alone. */
bool copse__date_parse(const char *text, size_t size, copse_date_order order,
                       struct copse_date *out);
/* What a text is that is no date in an order: "no date: there is no such month" and so on. */
const char *copse__date_fault(const char *text, size_t size, copse_date_order order);
/* How a date of an order is written: "2024-12-31". */
const char *copse__date_form(copse_date_order order, bool has_time);
/* Note a text in all orders: as a date, or with its place as the first that is none. */
void copse__dates_take(struct copse_date_facts facts[COPSE_DATE_ORDERS], const char *text,
                       size_t size, const char *path, size_t row);
/* Whether 9 of 10 cells or more are dates in one order. */
bool copse__dates_most(const struct copse_date_facts facts[COPSE_DATE_ORDERS], size_t cells,
                       copse_date_order *order, bool *is_guess);
/* Whether all of `texts` are dates, and in which order. *is_guess: the day and the month could be
   exchanged: some dates have no dots, and no day is above 12. */
bool copse__dates_order(const struct copse_date_facts facts[COPSE_DATE_ORDERS], size_t texts,
                        copse_date_order *order, bool *is_guess);
/* Width, means and scales of a column; false without memory. */
bool copse__dates_column(const struct copse_date_facts *facts, struct copse_arena *arena,
                         struct copse_schema_column *to);
/* The numbers of a cell, [c->width]. false: it is no date, and the numbers are as for a missing
   cell. *has_time: the cell has a time. */
bool copse__date_numbers(const struct copse_schema_column *c, const char *text, size_t size,
                         float *to, bool *has_time);

#endif
