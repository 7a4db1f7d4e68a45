/* SPDX-License-Identifier: MIT */
/* JSON objects of conformance events. JSON has no NaN or infinity: such numbers are strings. */
#include "prover/report/event_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/reader/byte_stream.h"

const char *copse__json_text(const cJSON *o, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
    return text ? text : "";
}

static const struct {
    const char *text;
    double value;
} odd[] = {
    { "NaN", (double)NAN },
    { "Infinity", (double)INFINITY },
    { "-Infinity", -(double)INFINITY },
};

double copse__json_number(const cJSON *o, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    for (size_t i = 0; cJSON_IsString(item) && i < sizeof odd / sizeof *odd; i++)
        if (strcmp(item->valuestring, odd[i].text) == 0)
            return odd[i].value;
    return cJSON_IsNumber(item) ? item->valuedouble : 0.0;
}

uint64_t copse__json_index(const cJSON *o, const char *name)
{
    const double x = copse__json_number(o, name);
    return x >= 0.0 && x < 18446744073709551616.0 ? (uint64_t)x : 0;
}

bool copse__json_add_text(cJSON *o, const char *name, const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t left = strlen(text);
    char *valid = malloc(3 * left + 1), *to = valid;
    if (!valid)
        return false;
    while (left > 0) {
        const size_t good = copse__utf8_valid(text, left);
        memcpy(to, text, good);
        to += good;
        text += good;
        left -= good;
        if (left > 0) {
            memcpy(to, replacement, 3);
            to += 3;
            text++;
            left--;
        }
    }
    *to = '\0';
    const bool is_added = cJSON_AddStringToObject(o, name, valid) != NULL;
    free(valid);
    return is_added;
}

bool copse__json_add_number(cJSON *o, const char *name, double value)
{
    return isfinite(value) ? cJSON_AddNumberToObject(o, name, value) != NULL
                           : cJSON_AddStringToObject(o, name,
                                                     odd[isnan(value) ? 0
                                                         : value > 0  ? 1
                                                                      : 2]
                                                         .text) != NULL;
}

bool copse__json_add_count(cJSON *o, const char *name, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_AddRawToObject(o, name, digits) != NULL;
}

cJSON *copse__json_event(const char *name)
{
    cJSON *o = cJSON_CreateObject();
    if (cJSON_AddStringToObject(o, "event", name))
        return o;
    cJSON_Delete(o);
    return NULL;
}
