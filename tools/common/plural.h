/* SPDX-License-Identifier: MIT */
/* Texts with a number. */
#ifndef COPSE_TOOLS_PLURAL_H
#define COPSE_TOOLS_PLURAL_H

/* The end of "row" in "1 row", "2 rows". */
static inline const char *plural_end(unsigned long long n)
{
    return n == 1 ? "" : "s";
}

#endif
