/* SPDX-License-Identifier: MIT */
/* JSON output of the commands: one object per line, exact whole numbers, valid UTF-8. */
#ifndef JSON_H
#define JSON_H

#include <cjson/cJSON.h>

#include "tools/tool.h"

/* Invalid UTF-8 bytes become U+FFFD. */
void json_add_text(cJSON *o, const char *name, const char *text);
/* JSON has no NaN: a number that is not finite becomes null. */
void json_add_number(cJSON *o, const char *name, double value);
/* Writes all digits; a double would round above 2^53. */
void json_add_count(cJSON *o, const char *name, uint64_t value);
/* Write on a separate line of `to`, and delete. NULL: there was no memory. */
copse_status json_write(FILE *to, cJSON *o);
/* Print on a separate line, flush, and delete. */
copse_status json_print(cJSON *o);

/* The value of a text that a file has; delete it. NULL: the text is none, or has more than
   JSON_VALUES values, of which each takes about 100 bytes of memory. */
#define JSON_VALUES (1u << 18)
cJSON *json_parse(const char *text, size_t size);

#endif
