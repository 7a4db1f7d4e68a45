/* SPDX-License-Identifier: MIT */
/* JSON output of the commands: one object per line, exact whole numbers, valid UTF-8. */
#include "tools/common/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 character at `p`, 0 if it is invalid (Unicode 15, table 3-7). */
static size_t json_character(const unsigned char *p)
{
    const unsigned char lead = p[0];
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xc2 ? 0
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                          : lead < 0xf5 ? 4
                                        : 0;
    for (size_t i = 1; i < length; i++) /* stops at the terminator */
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((lead == 0xe0 && p[1] < 0xa0) || (lead == 0xed && p[1] > 0x9f) ||
        (lead == 0xf0 && p[1] < 0x90) || (lead == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

/* Set if memory for a field is exhausted, so that the incomplete line is not used. */
static bool is_short;

static void json_added(const cJSON *item)
{
    is_short = is_short || !item;
}

void json_add_text(cJSON *o, const char *name, const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *valid = malloc(3 * strlen(text) + 1);
    char *to = valid;
    if (!valid) {
        json_added(NULL);
        return;
    }
    for (const char *p = text; *p;) {
        const size_t length = json_character((const unsigned char *)p);
        memcpy(to, length ? p : replacement, length ? length : 3);
        to += length ? length : 3;
        p += length ? length : 1;
    }
    *to = '\0';
    json_added(cJSON_AddStringToObject(o, name, valid));
    free(valid);
}

void json_add_number(cJSON *o, const char *name, double value)
{
    json_added(isfinite(value) ? cJSON_AddNumberToObject(o, name, value)
                               : cJSON_AddNullToObject(o, name));
}

void json_add_count(cJSON *o, const char *name, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    json_added(cJSON_AddRawToObject(o, name, digits));
}

copse_status json_print(cJSON *o)
{
    const copse_status s = json_write(stdout, o);
    fflush(stdout);
    return s;
}

copse_status json_write(FILE *to, cJSON *o)
{
    char *text = is_short ? NULL : cJSON_PrintUnformatted(o);
    const bool is_printed = text != NULL;
    if (is_printed)
        fprintf(to, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
    return is_printed ? COPSE_OK
                      : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a line of JSON");
}

/* Each value begins the text, or follows one of these characters. */
static size_t json_count(const char *text, size_t size)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string && text[i] == '\\')
            i++;
        else if (!in_string && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
            count++;
    }
    return count;
}

cJSON *json_parse(const char *text, size_t size)
{
    return json_count(text, size) <= JSON_VALUES ? cJSON_ParseWithLength(text, size) : NULL;
}
