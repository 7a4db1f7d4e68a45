/* SPDX-License-Identifier: MIT */
/* The stored events of a run as cases, devices and counts. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

/* ---- JSON ---- */

const char *json_text(const cJSON *o, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
    return text ? text : "";
}

static const struct { const char *text; double value; } odd[] = {
    { "NaN", (double)NAN }, { "Infinity", (double)INFINITY }, { "-Infinity", -(double)INFINITY },
};

double json_number(const cJSON *o, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    for (size_t i = 0; cJSON_IsString(item) && i < sizeof odd / sizeof *odd; i++)
        if (strcmp(item->valuestring, odd[i].text) == 0)
            return odd[i].value;
    return cJSON_IsNumber(item) ? item->valuedouble : 0.0;
}

/* JSON has no NaN or infinity. */
void json_add(cJSON *o, const char *name, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(o, name, value);
    else
        cJSON_AddStringToObject(o, name, odd[isnan(value) ? 0 : value > 0 ? 1 : 2].text);
}

/* ---- events ---- */

static void *grow(void *at, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return at;
    const size_t more = *room ? 2 * *room : 64;
    void *p = realloc(at, more * size);
    if (p)
        *room = more;
    return p;
}

static bool take_case(struct conform_set *s, cJSON *o)
{
    const copse_verdict v = conform_verdict(json_text(o, "verdict"));
    if (v == COPSE_VERDICT_COUNT)
        return false;
    void *at = grow(s->cases, s->case_count, &s->case_room, sizeof *s->cases);
    if (!at) {
        s->has_no_memory = true;
        return false;
    }
    s->cases = at;
    s->counts[v]++;
    s->cases[s->case_count++] = (struct conform_case){
        .json = o,
        .mode = json_text(o, "mode"),
        .op = json_text(o, "op"),
        .name = json_text(o, "name"),
        .variant = json_text(o, "variant"),
        .type = json_text(o, "type"),
        .device = json_text(o, "device"),
        .metric = json_text(o, "metric"),
        .hash = json_text(o, "hash"),
        .text = json_text(o, "text"),
        .seed = json_text(o, "seed"),
        .verdict = v,
        .worst = json_number(o, "worst"),
        .limit = json_number(o, "limit"),
        .nmse = json_number(o, "nmse"),
        .index = json_number(o, "index"),
        .got = json_number(o, "got"),
        .expected = json_number(o, "expected"),
        .seconds = json_number(o, "seconds"),
        .gflops = json_number(o, "gflops"),
        .gbytes = json_number(o, "gbytes"),
    };
    return true;
}

/* A second event for a device, after the run, replaces the first. */
static bool take_device(struct conform_set *s, cJSON *o)
{
    const struct conform_device d = { o, json_text(o, "id"), json_text(o, "name"),
                                      json_text(o, "driver"), json_text(o, "api_version") };
    for (size_t i = 0; i < s->device_count; i++)
        if (strcmp(s->devices[i].id, d.id) == 0) {
            cJSON_Delete(s->devices[i].json);
            s->devices[i] = d;
            return true;
        }
    void *at = grow(s->devices, s->device_count, &s->device_room, sizeof *s->devices);
    if (!at) {
        s->has_no_memory = true;
        return false;
    }
    s->devices = at;
    s->devices[s->device_count++] = d;
    return true;
}

bool conform_set_take(struct conform_set *s, cJSON *event)
{
    const char *name = json_text(event, "event");
    bool is_kept = false;
    if (strcmp(name, "case") == 0)
        is_kept = take_case(s, event);
    else if (strcmp(name, "device") == 0)
        is_kept = take_device(s, event);
    else if (strcmp(name, "start") == 0) {
        snprintf(s->library, sizeof s->library, "%s", json_text(event, "library"));
        snprintf(s->started, sizeof s->started, "%s", json_text(event, "started"));
    } else if (strcmp(name, "summary") == 0) {
        s->seconds = json_number(event, "seconds");
    }
    if (!is_kept)
        cJSON_Delete(event);
    return is_kept;
}

const struct conform_device *conform_set_device(const struct conform_set *s, const char *id)
{
    for (size_t i = 0; i < s->device_count; i++)
        if (strcmp(s->devices[i].id, id) == 0)
            return &s->devices[i];
    return NULL;
}

copse_status conform_set_read(struct conform_set *s, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, number = 0;
    copse_status status = COPSE_OK;
    if (!f)
        return session_set_error(COPSE_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    while (status == COPSE_OK && getline(&line, &room, f) > 0) {
        cJSON *event = cJSON_Parse(line);
        number++;
        if (event && *json_text(event, "event"))
            conform_set_take(s, event);
        else
            status = session_set_error(COPSE_ERR_FORMAT,
                                       "'%s', line %zu: not an event of `copse conformance --json`",
                                       path, number);
    }
    free(line);
    fclose(f);
    if (status == COPSE_OK && s->case_count == 0)
        status = session_set_error(COPSE_ERR_FORMAT, "'%s' holds no case", path);
    if (status == COPSE_OK && s->has_no_memory)
        status = session_set_error(COPSE_ERR_NO_MEMORY, "no memory for '%s'", path);
    return status;
}

void conform_set_free(struct conform_set *s)
{
    for (size_t i = 0; i < s->case_count; i++)
        cJSON_Delete(s->cases[i].json);
    for (size_t i = 0; i < s->device_count; i++)
        cJSON_Delete(s->devices[i].json);
    free(s->cases);
    free(s->devices);
    *s = (struct conform_set){ 0 };
}
