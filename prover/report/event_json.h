/* SPDX-License-Identifier: MIT */
/* JSON objects of conformance events. */
#ifndef COPSE_REPORT_JSON_H
#define COPSE_REPORT_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Text of a member, "" if absent. */
const char *copse__json_text(const cJSON *o, const char *name);
/* Number of a member, also "NaN", "Infinity", "-Infinity"; 0 if absent. */
double copse__json_number(const cJSON *o, const char *name);
/* The same as a whole number; 0 if it is none. */
uint64_t copse__json_index(const cJSON *o, const char *name);

/* Add a member; false without memory. */
/* invalid UTF-8 bytes become U+FFFD */
bool copse__json_add_text(cJSON *o, const char *name, const char *text);
bool copse__json_add_number(cJSON *o, const char *name, double value);
bool copse__json_add_count(cJSON *o, const char *name, uint64_t value); /* all digits */

/* {"event":NAME}; NULL without memory. */
cJSON *copse__json_event(const char *name);

#endif
