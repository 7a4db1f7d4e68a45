/* SPDX-License-Identifier: MIT */
/* Decimal numbers, independent of the locale. */
#ifndef COPSE_DATA_NUMBER_H
#define COPSE_DATA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/private.h"

#define COPSE_NUMBER_MAX_DIGITS 400 /* significant digits; a safe upper bound */

/* All of `text` must be one number: [+-] digits [. digits] [e [+-] digits], also ".5" and "5.".
   Correctly rounded; infinity if it is too large for a double. */
COPSE_PRIVATE bool copse__number_parse(const char *text, size_t size, double *out);

/* The shortest text that parses to the number: "1", "0.1", "1e+39"; "nan", "inf" and "-inf" do not
   parse. */
#define COPSE_NUMBER_TEXT 32
void copse__number_print(double v, char to[COPSE_NUMBER_TEXT]);

#endif
