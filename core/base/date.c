/* SPDX-License-Identifier: MIT */
/* The present day. */
#include <stdio.h>
#include <time.h>

#include "core/base/base.h"

/* Days since 1970-01-01 to year, month and day of the Gregorian calendar. The year begins in March,
   so that the leap day is the last one; an era has 400 years. */
char *copse__date(char text[COPSE_DATE])
{
    const uint64_t days = (uint64_t)time(NULL) / 86400u + 719468u; /* since 0000-03-01 */
    const uint64_t era = days / 146097u, of_era = days % 146097u;
    const uint64_t year = (of_era - of_era / 1460u + of_era / 36524u - of_era / 146096u) / 365u;
    const uint64_t of_year = of_era - (365u * year + year / 4u - year / 100u);
    const uint64_t month = (5u * of_year + 2u) / 153u; /* 0 = March */
    const uint64_t day = of_year - (153u * month + 2u) / 5u + 1u;
    snprintf(text, COPSE_DATE, "%04u-%02u-%02u",
             (unsigned)((era * 400u + year + (month >= 10u)) % 10000u),
             (unsigned)(month < 10u ? month + 3u : month - 9u) % 100u, (unsigned)day % 100u);
    return text;
}
