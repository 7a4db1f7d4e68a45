/* SPDX-License-Identifier: MIT */
#include "core/data/table/table_dates.h"

#include <ctype.h>
#include <math.h>

struct date_reader {
    const char *at, *end;
};

enum date_fault { DATE_RIGHT, DATE_NO_FORM, DATE_NO_MONTH, DATE_NO_DAY, DATE_NO_TIME };

/* A number of `least` to `most` digits; -1: there is none. */
static int take_digits(struct date_reader *r, int least, int most)
{
    int value = 0, digits = 0;
    while (r->at < r->end && digits < most && isdigit((unsigned char)*r->at)) {
        value = 10 * value + (*r->at++ - '0');
        digits++;
    }
    const bool has_more = r->at < r->end && isdigit((unsigned char)*r->at);
    return digits >= least && !has_more ? value : -1;
}

static bool take_char(struct date_reader *r, const char *set, char *out)
{
    if (r->at == r->end || *r->at == 0 || strchr(set, *r->at) == NULL)
        return false;
    *out = *r->at++;
    return true;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* From 1. */
static int year_day(int year, int month, int day)
{
    for (int m = 1; m < month; m++)
        day += month_days(year, m);
    return day;
}

/* Monday is 0. */
static int week_day(int year, int day_of_year)
{
    const int before = year - 1;
    return (before * 365 + before / 4 - before / 100 + before / 400 + day_of_year - 1) % 7;
}

/* "Z", "+01:00", "-0500", "+01": local fields count, whatever the zone is. */
static bool take_zone(struct date_reader *r)
{
    char c;
    while (take_char(r, " ", &c))
        continue;
    if (r->at == r->end || take_char(r, "Zz", &c))
        return r->at == r->end;
    if (!take_char(r, "+-", &c) || r->end - r->at < 2)
        return false;
    for (; r->at < r->end; r->at++)
        if (!isdigit((unsigned char)*r->at) && *r->at != ':')
            return false;
    return true;
}

/* "10:30", "10:30:15.25" and a zone; nothing is midnight. */
static bool take_time(struct date_reader *r, int *hour, int *minute)
{
    char c;
    *hour = *minute = 0;
    if (r->at == r->end)
        return true;
    if (!take_char(r, " Tt", &c))
        return false;
    *hour = take_digits(r, 1, 2);
    if (*hour < 0 || *hour > 23 || !take_char(r, ":", &c))
        return false;
    *minute = take_digits(r, 2, 2);
    if (*minute < 0 || *minute > 59)
        return false;
    if (take_char(r, ":", &c)) {
        const int second = take_digits(r, 2, 2);
        if (second < 0 || second > 60)
            return false;
        if (take_char(r, ".,", &c))
            while (r->at < r->end && isdigit((unsigned char)*r->at))
                r->at++;
    }
    return take_zone(r);
}

static enum date_fault read_date(const char *text, size_t size, copse_date_order order,
                                 struct copse_date *out)
{
    struct date_reader r = { text, text + size };
    const int first = order == COPSE_DATE_YMD ? take_digits(&r, 4, 4) : take_digits(&r, 1, 2);
    char between = 0, again = 0;
    int hour, minute;
    if (first < 0 || !take_char(&r, "-/.", &between))
        return DATE_NO_FORM;
    const int second = take_digits(&r, 1, 2);
    if (second < 0 || !take_char(&r, "-/.", &again) || again != between)
        return DATE_NO_FORM;
    const int third = order == COPSE_DATE_YMD ? take_digits(&r, 1, 2) : take_digits(&r, 4, 4);
    const int year = order == COPSE_DATE_YMD ? first : third,
              month = order == COPSE_DATE_MDY ? first : second,
              day = order == COPSE_DATE_YMD   ? third
                    : order == COPSE_DATE_MDY ? second
                                              : first;
    const bool has_time =
        r.end - r.at > 1 && strchr(" Tt", *r.at) != NULL && isdigit((unsigned char)r.at[1]);
    if (third < 0 || year < 1 || (r.at < r.end && !has_time))
        return DATE_NO_FORM;
    if (month < 1 || month > 12)
        return DATE_NO_MONTH;
    if (day < 1 || day > month_days(year, month))
        return DATE_NO_DAY;
    if (!take_time(&r, &hour, &minute))
        return DATE_NO_TIME;
    const int of_year = year_day(year, month, day);
    *out = (struct copse_date){ { year, month, day, of_year }, has_time };
    out->at[COPSE_DATE_WEEKDAY + week_day(year, of_year)] = 1;
    out->at[COPSE_DATE_HOUR] = hour;
    out->at[COPSE_DATE_HOUR + 1] = minute;
    return DATE_RIGHT;
}

bool copse__date_parse(const char *text, size_t size, copse_date_order order,
                       struct copse_date *out)
{
    return read_date(text, size, order, out) == DATE_RIGHT;
}

const char *copse__date_fault(const char *text, size_t size, copse_date_order order)
{
    static const char *const faults[] = {
        [DATE_RIGHT] = "a date in another form",
        [DATE_NO_FORM] = "no date",
        [DATE_NO_MONTH] = "no date: there is no such month",
        [DATE_NO_DAY] = "no date: the month has no such day",
        [DATE_NO_TIME] = "no date: there is no such time",
    };
    struct copse_date d;
    enum date_fault fault = read_date(text, size, order, &d);

    for (int other = 0; fault == DATE_NO_FORM && other < COPSE_DATE_ORDERS; other++)
        fault = read_date(text, size, (copse_date_order)other, &d);
    return faults[fault];
}

const char *copse__date_form(copse_date_order order, bool has_time)
{
    static const char *const forms[][2] = {
        [COPSE_DATE_YMD] = { "2024-12-31", "2024-12-31T23:59" },
        [COPSE_DATE_DMY] = { "31.12.2024 or 31/12/2024", "31.12.2024 23:59 or 31/12/2024 23:59" },
        [COPSE_DATE_MDY] = { "12/31/2024", "12/31/2024 23:59" },
    };
    return forms[order][has_time];
}

static void note_odd(struct copse_date_odd *to, const char *text, size_t size, const char *path,
                     size_t row)
{
    if (to->row > 0)
        return;
    to->row = row;
    to->path = path;
    memcpy(to->text, text, COPSE_MIN(size, sizeof to->text - 1));
}

void copse__dates_take(struct copse_date_facts facts[COPSE_DATE_ORDERS], const char *text,
                       size_t size, const char *path, size_t row)
{
    struct copse_date d;
    for (int order = 0; order < COPSE_DATE_ORDERS; order++) {
        struct copse_date_facts *f = &facts[order];
        if (!copse__date_parse(text, size, (copse_date_order)order, &d)) {
            note_odd(&f->odd, text, size, path, row);
            continue;
        }
        f->count++;
        f->has_time |= d.at[COPSE_DATE_HOUR] != 0 || d.at[COPSE_DATE_HOUR + 1] != 0;
        f->dotted += memchr(text, '.', COPSE_MIN(size, 3)) != NULL;
        for (int i = 0; i < COPSE_DATE_PLACES; i++) { /* Welford */
            const double before = d.at[i] - f->mean[i];
            f->mean[i] += before / (double)f->count;
            f->squares[i] += before * (d.at[i] - f->mean[i]);
        }
    }
}

bool copse__dates_order(const struct copse_date_facts facts[COPSE_DATE_ORDERS], size_t texts,
                        copse_date_order *order, bool *is_guess)
{
    const bool is_dmy = facts[COPSE_DATE_DMY].count == texts,
               is_mdy = facts[COPSE_DATE_MDY].count == texts,
               is_dotted = facts[COPSE_DATE_DMY].dotted == texts;
    *is_guess = is_dmy && is_mdy && !is_dotted;
    *order = facts[COPSE_DATE_YMD].count == texts ? COPSE_DATE_YMD
             : is_dmy && (is_dotted || !is_mdy)   ? COPSE_DATE_DMY
                                                  : COPSE_DATE_MDY;
    return texts > 0 && facts[*order].count == texts;
}

bool copse__dates_most(const struct copse_date_facts facts[COPSE_DATE_ORDERS], size_t cells,
                       copse_date_order *order, bool *is_guess)
{
    const size_t ymd = facts[COPSE_DATE_YMD].count, dmy = facts[COPSE_DATE_DMY].count,
                 mdy = facts[COPSE_DATE_MDY].count;
    const bool is_dotted = facts[COPSE_DATE_DMY].dotted == dmy;

    *order = ymd >= COPSE_MAX(dmy, mdy)               ? COPSE_DATE_YMD
             : dmy > mdy || (dmy == mdy && is_dotted) ? COPSE_DATE_DMY
                                                      : COPSE_DATE_MDY;
    *is_guess = *order != COPSE_DATE_YMD && dmy == mdy && !is_dotted;
    const size_t most = facts[*order].count;
    return most > 0 && cells - most <= cells / 10;
}

static bool is_weekday(uint32_t place)
{
    return place >= COPSE_DATE_WEEKDAY && place < COPSE_DATE_HOUR;
}

bool copse__dates_column(const struct copse_date_facts *f, struct copse_arena *arena,
                         struct copse_schema_column *to)
{
    const uint32_t width = f->has_time ? COPSE_DATE_PLACES : COPSE_DATE_HOUR;
    double *means = copse__arena_alloc(arena, width, sizeof *means);
    double *scales = copse__arena_alloc(arena, width, sizeof *scales);
    if (means == NULL || scales == NULL)
        return false;
    for (uint32_t i = 0; i < width; i++) {
        const double deviation = sqrt(f->squares[i] / (double)f->count);
        means[i] = is_weekday(i) ? 0 : f->mean[i];
        scales[i] = is_weekday(i) || !(deviation > 0) ? 1 : deviation;
    }
    to->width = width;
    to->means = means;
    to->scales = scales;
    return true;
}

bool copse__date_numbers(const struct copse_schema_column *c, const char *text, size_t size,
                         float *to, bool *has_time)
{
    struct copse_date d;
    const bool is_date = copse__date_parse(text, size, c->order, &d) ||
                         copse__date_parse(text, size, COPSE_DATE_YMD, &d);
    *has_time = is_date && d.has_time;
    for (uint32_t i = 0; i < c->width; i++)
        to[i] = is_date ? (float)((d.at[i] - c->means[i]) / c->scales[i]) : 0.0f;
    return is_date;
}
