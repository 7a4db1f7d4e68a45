/* SPDX-License-Identifier: MIT */
/* The events of a run as cases, devices and counts. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/files.h"
#include "prover/conformance/verdict/library.h"
#include "prover/report/report.h"

enum { MOST = 1 << 30 }; /* bytes of a file */

copse_status copse__results_create(copse_context *ctx, copse_conformance_results **out)
{
    *out = copse__alloc(&ctx->base.mem, 1, sizeof **out);
    if (!*out)
        return copse_no_memory("conformance: results");
    (*out)->ctx = copse_context_retain(ctx);
    return COPSE_OK;
}

copse_status copse__results_set(copse_conformance_results *r, char **text, const char *to)
{
    struct copse_mem *mem = &r->ctx->base.mem;
    copse__free(mem, *text);
    *text = to ? copse__strdup(mem, to) : NULL;
    return *text || !to ? COPSE_OK : copse_no_memory("conformance: results");
}

void copse_conformance_results_release(copse_conformance_results **results)
{
    copse_conformance_results *r = results ? *results : NULL;
    if (!r)
        return;
    copse_context *ctx = r->ctx;
    struct copse_mem *mem = &ctx->base.mem;
    for (size_t i = 0; i < r->case_count; i++)
        cJSON_Delete(r->json[i]);
    for (size_t i = 0; i < r->device_count; i++) {
        cJSON_Delete(r->devices[i].event);
        cJSON_free(r->devices[i].text);
    }
    cJSON_Delete(r->environment);
    copse__free(mem, r->cases);
    copse__free(mem, r->json);
    copse__free(mem, r->devices);
    copse__free(mem, r->modes);
    copse__free(mem, r->command);
    copse__free(mem, r->own_path);
    copse__free(mem, r->own_kernel);
    copse__free(mem, r);
    *results = NULL;
    copse_context_release(&ctx);
}

/* ---- events ---- */

static struct copse_case_result case_of(const cJSON *o, copse_verdict verdict)
{
    return (struct copse_case_result){
        .mode = copse__json_text(o, "mode"),
        .op = copse__json_text(o, "op"),
        .name = copse__json_text(o, "name"),
        .variant = copse__json_text(o, "variant"),
        .type = copse__json_text(o, "type"),
        .device = copse__json_text(o, "device"),
        .verdict = verdict,
        .seed = strtoull(copse__json_text(o, "seed"), NULL, 0),
        .metric = copse__json_text(o, "metric"),
        .worst = copse__json_number(o, "worst"),
        .limit = copse__json_number(o, "limit"),
        .nmse = copse__json_number(o, "nmse"),
        .index = copse__json_index(o, "index"),
        .got = copse__json_number(o, "got"),
        .expected = copse__json_number(o, "expected"),
        .seconds = copse__json_number(o, "seconds"),
        .gflops = copse__json_number(o, "gflops"),
        .gbytes = copse__json_number(o, "gbytes"),
        .library_gflops = copse__json_number(o, "library_gflops"),
        .library_gbytes = copse__json_number(o, "library_gbytes"),
        .hash = copse__json_text(o, "hash"),
        .text = copse__json_text(o, "text"),
    };
}

static bool grow_cases(copse_conformance_results *r)
{
    struct copse_mem *mem = &r->ctx->base.mem;
    const size_t room = r->case_room ? 2 * r->case_room : 64;
    if (r->case_count < r->case_room)
        return true;
    void *cases = copse__resize(mem, r->cases, room, sizeof *r->cases);
    if (!cases)
        return false;
    r->cases = cases;
    void *json = copse__resize(mem, r->json, room, sizeof *r->json);
    if (!json)
        return false;
    r->json = json;
    r->case_room = room;
    return true;
}

static bool take_case(copse_conformance_results *r, cJSON *o)
{
    const copse_verdict v = copse__conform_verdict_find(copse__json_text(o, "verdict"));
    if (v == COPSE_VERDICT_COUNT)
        return false;
    if (!grow_cases(r)) {
        r->has_no_memory = true;
        return false;
    }
    r->counts[v]++;
    r->json[r->case_count] = o;
    r->cases[r->case_count++] = case_of(o, v);
    return true;
}

static struct copse_report_device *find_device(copse_conformance_results *r, const char *id)
{
    for (size_t i = 0; i < r->device_count; i++)
        if (strcmp(r->devices[i].info.id, id) == 0)
            return &r->devices[i];
    return NULL;
}

/* A second event for a device, after the run, replaces the first. */
static bool take_device(copse_conformance_results *r, cJSON *o)
{
    struct copse_mem *mem = &r->ctx->base.mem;
    struct copse_report_device *d = find_device(r, copse__json_text(o, "id"));
    char *text = cJSON_PrintUnformatted(o);
    if (!d && text && r->device_count == r->device_room) {
        const size_t room = r->device_room ? 2 * r->device_room : 8;
        void *more = copse__resize(mem, r->devices, room, sizeof *r->devices);
        r->devices = more ? more : r->devices;
        r->device_room = more ? room : r->device_room;
    }
    if (!text || (!d && r->device_count == r->device_room)) {
        cJSON_free(text);
        r->has_no_memory = true;
        return false;
    }
    if (d) {
        cJSON_Delete(d->event);
        cJSON_free(d->text);
    } else {
        d = &r->devices[r->device_count++];
    }
    *d = (struct copse_report_device){
        .info = { copse__json_text(o, "id"),
                  copse__json_text(o, "name"),
                  copse__json_text(o, "driver"),
                  copse__json_text(o, "api_version"),
                  text,
                  { 0 } },
        .event = o,
        .text = text,
    };
    return true;
}

bool copse__results_take(copse_conformance_results *r, cJSON *event)
{
    const char *name = copse__json_text(event, "event");
    bool is_kept = false;
    if (strcmp(name, "case") == 0)
        is_kept = take_case(r, event);
    else if (strcmp(name, "device") == 0)
        is_kept = take_device(r, event);
    else if (strcmp(name, "start") == 0) {
        snprintf(r->library, sizeof r->library, "%s", copse__json_text(event, "library"));
        snprintf(r->started, sizeof r->started, "%s", copse__json_text(event, "started"));
        snprintf(r->tier, sizeof r->tier, "%s", copse__json_text(event, "tier"));
        r->seed = strtoull(copse__json_text(event, "seed"), NULL, 10);
        cJSON_Delete(r->environment);
        r->environment = cJSON_DetachItemFromObjectCaseSensitive(event, "environment");
        if (copse__results_set(r, &r->modes, copse__json_text(event, "modes")) != COPSE_OK ||
            copse__results_set(r, &r->command, copse__json_text(event, "command")) != COPSE_OK)
            r->has_no_memory = true;
    } else if (strcmp(name, "summary") == 0) {
        r->seconds = copse__json_number(event, "seconds");
    }
    if (!is_kept)
        cJSON_Delete(event);
    return is_kept;
}

/* Add a copy of `item`, if there is one. */
static bool add_copy(cJSON *to, const char *name, const cJSON *item)
{
    cJSON *copy = item ? cJSON_Duplicate(item, true) : NULL;
    if (!item || (copy && cJSON_AddItemToObject(to, name, copy)))
        return true;
    cJSON_Delete(copy);
    return false;
}

cJSON *copse__results_start(const copse_conformance_results *r)
{
    cJSON *o = copse__json_event("start");
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    if (o && copse__json_add_text(o, "library", r->library) &&
        copse__json_add_text(o, "started", r->started) &&
        copse__json_add_text(o, "tier", r->tier) &&
        copse__json_add_text(o, "modes", r->modes ? r->modes : "") &&
        copse__json_add_text(o, "command", r->command ? r->command : "") &&
        (!r->seed || copse__json_add_text(o, "seed", seed)) &&
        add_copy(o, "environment", r->environment))
        return o;
    cJSON_Delete(o);
    return NULL;
}

cJSON *copse__results_summary(const copse_conformance_results *r)
{
    cJSON *o = copse__json_event("summary");
    bool is_good = o != NULL;
    for (int v = 0; v < COPSE_VERDICT_COUNT && is_good; v++) {
        char name[32];
        snprintf(name, sizeof name, "%s", copse_verdict_name((copse_verdict)v));
        for (char *p = name; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        is_good = copse__json_add_number(o, name, (double)r->counts[v]);
    }
    if (is_good && copse__json_add_number(o, "cases", (double)r->case_count) &&
        copse__json_add_number(o, "seconds", r->seconds))
        return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- a file of events ---- */

static copse_status read_lines(copse_conformance_results *r, const char *path, char *bytes,
                               size_t size)
{
    size_t number = 0;
    for (char *line = bytes, *end; line < bytes + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(bytes + size - line));
        end = end ? end : bytes + size; /* the terminator */
        *end = '\0';
        cJSON *event = cJSON_Parse(line);
        number++;
        if (!event || !*copse__json_text(event, "event")) {
            cJSON_Delete(event);
            return copse_fail(COPSE_ERR_FORMAT,
                              "'%s', line %zu: not an event of `copse conformance --json`", path,
                              number);
        }
        copse__results_take(r, event);
    }
    if (r->case_count == 0)
        return copse_fail(COPSE_ERR_FORMAT, "'%s' holds no case", path);
    return r->has_no_memory ? copse_no_memory("'%s'", path) : COPSE_OK;
}

static copse_status read_file(copse_conformance_results *r, const char *path)
{
    struct copse_mem *mem = &r->ctx->base.mem;
    FILE *f = NULL;
    uint64_t size = 0;
    COPSE_TRY(copse__file_open(path, &f, &size));
    char *bytes = size < MOST ? copse__alloc(mem, (size_t)size + 1, 1) : NULL;
    copse_status s = COPSE_OK;
    if (!bytes)
        s = copse_no_memory("'%s'", path);
    else if (fread(bytes, 1, (size_t)size, f) != (size_t)size)
        s = copse_fail(COPSE_ERR_IO, "cannot read '%s'", path);
    else
        s = read_lines(r, path, bytes, (size_t)size);
    copse__free(mem, bytes);
    fclose(f);
    return s;
}

copse_status copse_conformance_results_read(copse_context *ctx, const char *path,
                                            copse_conformance_results **out)
{
    COPSE_TRY(copse__conform_library());
    COPSE_TRY(copse_need("conformance results", ctx, path, out));
    COPSE_TRY(copse__results_create(ctx, out));
    const copse_status s = read_file(*out, path);
    if (s != COPSE_OK)
        copse_conformance_results_release(out);
    return s;
}

/* ---- getters ---- */

size_t copse_conformance_case_count(const copse_conformance_results *results)
{
    return results ? results->case_count : 0;
}

const struct copse_case_result *copse_conformance_case(const copse_conformance_results *results,
                                                       size_t index)
{
    return results && index < results->case_count ? &results->cases[index] : NULL;
}

size_t copse_conformance_device_count(const copse_conformance_results *results)
{
    return results ? results->device_count : 0;
}

bool copse_conformance_device(const copse_conformance_results *results, size_t index,
                              struct copse_checked_device *out)
{
    const bool is_there = results && index < results->device_count;
    if (out)
        *out = is_there ? results->devices[index].info : (struct copse_checked_device){ 0 };
    return is_there;
}

void copse_conformance_results_summary(const copse_conformance_results *results,
                                       struct copse_conformance_summary *out)
{
    if (!out)
        return;
    *out = (struct copse_conformance_summary){ .seconds = results ? results->seconds : 0.0 };
    if (results)
        memcpy(out->counts, results->counts, sizeof out->counts);
}

const char *copse_conformance_library(const copse_conformance_results *results)
{
    return results ? results->library : "";
}

const char *copse_conformance_modes(const copse_conformance_results *results)
{
    return results && results->modes ? results->modes : "";
}
