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
};

/* What is known of the texts of a column that are dates in one order. */
struct copse_date_facts {
    size_t count;
    size_t dotted; /* as in "31.12.2024" */
    bool has_time; /* other than midnight */
    double mean[COPSE_DATE_PLACES], squares[COPSE_DATE_PLACES];
};

/* A date of four digits for the year in an order, alone or with a time. A date that begins with the
   year belongs to COPSE_DATE_YMD alone. */
bool copse__date_parse(const char *text, size_t size, copse_date_order order,
                       struct copse_date *out);
/* Note a text in all orders in which it is a date. */
void copse__dates_take(struct copse_date_facts facts[COPSE_DATE_ORDERS], const char *text,
                       size_t size);
/* Whether all of `texts` are dates, and in which order. *is_guess: the day and the month could be
   exchanged: some dates have no dots, and no day is above 12. */
bool copse__dates_order(const struct copse_date_facts facts[COPSE_DATE_ORDERS], size_t texts,
                        copse_date_order *order, bool *is_guess);
/* Width, means and scales of a column; false without memory. */
bool copse__dates_column(const struct copse_date_facts *facts, struct copse_arena *arena,
                         struct copse_schema_column *to);
/* The numbers of a cell, [c->width]. false: it is no date, and the numbers are as for a missing
   cell. */
bool copse__date_numbers(const struct copse_schema_column *c, const char *text, size_t size,
                         float *to);

#endif
