/* SPDX-License-Identifier: MIT */
/* The file of results: a line of JSON for each event, appended and flushed at once, in the form of
   `copse conformance --json` with a few events more. A later run reads it and goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"
#include "tools/conformance/conform.h"
#include "tools/gpucheck/gpucheck.h"

enum { FORMAT = 1, NOW_BYTES = 1024, LARGE_MIB = 16 };

static const double SYNC_SECONDS = 0.25;

/* ---- what the lines say ---- */

static copse_verdict verdict_of(const char *name)
{
    int v = 0;
    while (v < COPSE_VERDICT_COUNT && strcmp(copse_verdict_name((copse_verdict)v), name) != 0)
        v++;
    return (copse_verdict)v;
}

static double number_of(const cJSON *o, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0.0;
}

struct journal_place *journal_find(struct journal *j, const char *device, const char *mode)
{
    for (size_t i = 0; i < j->place_count; i++)
        if (strcmp(j->places[i].device, device) == 0 && strcmp(j->places[i].mode, mode) == 0)
            return &j->places[i];
    if (j->place_count == j->place_room) {
        const size_t room = j->place_room ? 2 * j->place_room : 32;
        void *more = realloc(j->places, room * sizeof *j->places);
        if (!more)
            return NULL;
        j->places = more;
        j->place_room = room;
    }
    struct journal_place *p = &j->places[j->place_count++];
    *p = (struct journal_place){ .is_done = false };
    snprintf(p->device, sizeof p->device, "%s", device);
    snprintf(p->mode, sizeof p->mode, "%s", mode);
    return p;
}

static struct journal_ceiling *ceiling_find(struct journal *j, const char *device)
{
    for (size_t i = 0; i < j->ceiling_count; i++)
        if (strcmp(j->ceilings[i].device, device) == 0)
            return &j->ceilings[i];
    if (j->ceiling_count == COPSE_MAX_REPLICAS)
        return NULL;
    struct journal_ceiling *c = &j->ceilings[j->ceiling_count++];
    *c = (struct journal_ceiling){ .gbytes = 0.0 };
    snprintf(c->device, sizeof c->device, "%s", device);
    return c;
}

struct journal_ceiling journal_ceiling_of(const struct journal *j, const char *device)
{
    for (size_t i = 0; i < j->ceiling_count; i++)
        if (strcmp(j->ceilings[i].device, device) == 0)
            return j->ceilings[i];
    return (struct journal_ceiling){ .gbytes = 0.0 };
}

/* A copy that no cache of a processor holds: "16 MiB" and larger. */
static bool is_large_copy(const cJSON *o)
{
    const char *name = json_text(o, "name");
    return strcmp(json_text(o, "op"), "copy") == 0 && strstr(name, "MiB") &&
           atoi(name) >= LARGE_MIB;
}

static void take_ceiling(struct journal *j, const cJSON *o)
{
    struct journal_ceiling *c = ceiling_find(j, json_text(o, "device"));
    const double gbytes = number_of(o, "gbytes"), gflops = number_of(o, "gflops");
    if (c && is_large_copy(o) && gbytes > c->gbytes)
        c->gbytes = gbytes;
    if (c && gflops > c->gflops)
        c->gflops = gflops;
}

static void take_case(struct journal *j, const cJSON *o)
{
    struct journal_place *p = journal_find(j, json_text(o, "device"), json_text(o, "mode"));
    const copse_verdict v = verdict_of(json_text(o, "verdict"));
    if (v == COPSE_VERDICT_COUNT)
        return;
    j->counts[v]++;
    j->cases++;
    j->left_out += cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "left_out"));
    if (p && *json_text(o, "op"))
        snprintf(p->after, sizeof p->after, "%s/%s/%s/%s", json_text(o, "mode"), json_text(o, "op"),
                 json_text(o, "name"), json_text(o, "variant"));
    if (strcmp(json_text(o, "mode"), "ceilings") == 0)
        take_ceiling(j, o);
}

static void take_part(struct journal *j, const cJSON *o)
{
    struct journal_place *p = journal_find(j, json_text(o, "device"), json_text(o, "mode"));
    if (!p)
        return;
    p->not_reached = (uint64_t)number_of(o, "not_reached");
    p->is_done = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "done"));
}

/* The state after an event, which is read or written. */
static void journal_take(struct journal *j, const cJSON *o)
{
    const char *event = json_text(o, "event");
    if (strcmp(event, "case") == 0)
        take_case(j, o);
    else if (strcmp(event, "part") == 0)
        take_part(j, o);
    else if (strcmp(event, "start") == 0)
        j->has_start = true;
    else if (strcmp(event, "auto") == 0)
        j->has_auto = true;
    else if (strcmp(event, "summary") == 0)
        j->seconds = number_of(o, "seconds");
    else if (strcmp(event, "device") == 0) {
        cJSON *copy = cJSON_Duplicate(o, true);
        cJSON_DeleteItemFromObjectCaseSensitive(j->devices, json_text(o, "id"));
        cJSON_AddItemToObject(j->devices, json_text(o, "id"), copy);
    }
}

/* ---- reading ---- */

static copse_status journal_refuse(const struct journal *j, size_t line, const char *what)
{
    return session_set_error(COPSE_ERR_FORMAT, "'%s', line %zu: %s; choose another folder", j->path,
                             line, what);
}

/* The first line says which program has written the file. */
static copse_status check_head(const struct journal *j, const cJSON *o)
{
    if (strcmp(json_text(o, "event"), "gpucheck") != 0 || number_of(o, "format") != FORMAT)
        return journal_refuse(j, 1, "not a file of `copse gpucheck`");
    if (strcmp(json_text(o, "library"), copse_version()) != 0)
        return session_set_error(
            COPSE_ERR_FORMAT, "'%s' has results of Copse %s, and this is %s; choose another folder",
            j->path, json_text(o, "library"), copse_version());
    return COPSE_OK;
}

/* Take whole lines; *length becomes the bytes of these. */
static copse_status take_lines(struct journal *j, char *bytes, size_t *length)
{
    size_t at = 0, line = 0;
    for (char *end; (end = memchr(bytes + at, '\n', *length - at)) != NULL;) {
        *end = '\0';
        cJSON *o = cJSON_Parse(bytes + at);
        *end = '\n';
        line++;
        copse_status s = o ? COPSE_OK : journal_refuse(j, line, "not JSON");
        if (s == COPSE_OK && line == 1)
            s = check_head(j, o);
        if (s == COPSE_OK)
            journal_take(j, o);
        cJSON_Delete(o);
        COPSE_TRY(s);
        at = (size_t)(end - bytes) + 1;
    }
    *length = at;
    return COPSE_OK;
}

/* Write the first `length` bytes as the whole file. */
static copse_status cut_file(const struct journal *j, const char *bytes, size_t length)
{
    struct output o;
    COPSE_TRY(output_open(&o, j->path));
    fwrite(bytes, 1, length, o.stream);
    return output_commit(&o);
}

static copse_status read_all(struct journal *j)
{
    struct system_file info;
    if (!system_look(j->path, &info))
        return COPSE_OK;
    char *bytes = malloc((size_t)info.size + 1);
    FILE *f = bytes ? system_open(j->path, "rb") : NULL;
    const size_t size = f ? fread(bytes, 1, (size_t)info.size, f) : 0;
    const bool is_read = f && size == (size_t)info.size && !ferror(f);
    size_t length = size;
    copse_status s =
        is_read ? COPSE_OK
                : session_set_error(COPSE_ERR_IO, "cannot read '%s': %s", j->path, strerror(errno));
    if (f)
        fclose(f);
    if (s == COPSE_OK)
        s = take_lines(j, bytes, &length);
    if (s == COPSE_OK && length < size)
        s = cut_file(j, bytes, length);
    free(bytes);
    return s;
}

/* ---- the case at hand ---- */

void journal_begin(struct journal *j, const struct copse_case_result *c)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "device", c->device);
    json_add_text(o, "mode", c->mode);
    json_add_text(o, "op", c->op);
    json_add_text(o, "name", c->name);
    json_add_text(o, "variant", c->variant);
    char *text = cJSON_PrintUnformatted(o);
    rewind(j->now);
    fprintf(j->now, "%-*s\n", NOW_BYTES, text ? text : "");
    fflush(j->now);
    /* A machine that stops loses what is not on the disk. */
    if (system_now() > j->synced + SYNC_SECONDS) {
        system_sync(j->now);
        system_sync(j->file);
        j->synced = system_now();
    }
    cJSON_free(text);
    cJSON_Delete(o);
}

void journal_rest(struct journal *j)
{
    rewind(j->now);
    fprintf(j->now, "%-*s\n", NOW_BYTES, "");
    fflush(j->now);
}

/* The case in which an earlier run died, if one did. A driver that stops the machine in it would do so
   in each run. */
static void take_dead_case(struct journal *j)
{
    char text[NOW_BYTES + 2] = "";
    FILE *f = system_open(j->running, "rb");
    if (f) {
        text[fread(text, 1, NOW_BYTES, f)] = '\0';
        fclose(f);
    }
    cJSON *o = cJSON_Parse(text);
    if (o && *json_text(o, "op")) {
        json_add_text(o, "event", "case");
        json_add_text(o, "verdict", copse_verdict_name(COPSE_VERDICT_SKIP));
        json_add_text(o, "text", "an earlier run died in this case; it is run in another folder");
        cJSON_AddTrueToObject(o, "left_out");
        journal_add(j, o);
    } else {
        cJSON_Delete(o);
    }
}

/* ---- the file ---- */

static char *join_path(const char *folder, const char *name)
{
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    if (path)
        sprintf(path, "%s/%s", folder, name);
    return path;
}

static copse_status open_files(struct journal *j)
{
    COPSE_TRY(output_check(j->path));
    COPSE_TRY(read_all(j));
    const bool is_new = j->cases == 0 && !j->has_start;
    j->file = system_open(j->path, is_new ? "wb" : "ab");
    if (!j->file)
        return session_set_error(COPSE_ERR_IO, "cannot write '%s': %s", j->path, strerror(errno));
    if (is_new) {
        cJSON *head = cJSON_CreateObject();
        json_add_text(head, "event", "gpucheck");
        cJSON_AddNumberToObject(head, "format", FORMAT);
        json_add_text(head, "library", copse_version());
        journal_add(j, head);
    }
    take_dead_case(j);
    j->now = system_open(j->running, "wb");
    return j->now ? j->status
                  : session_set_error(COPSE_ERR_IO, "cannot write '%s': %s", j->running,
                                      strerror(errno));
}

copse_status journal_open(struct journal *j, const char *folder)
{
    *j = (struct journal){ .devices = cJSON_CreateObject(),
                           .path = join_path(folder, "gpucheck.jsonl"),
                           .running = join_path(folder, "running.tmp") };
    gpucheck_private_find(&j->names);
    if (!j->devices || !j->path || !j->running)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the results");
    return open_files(j);
}

void journal_close(struct journal *j)
{
    if (j->file)
        fclose(j->file);
    if (j->now) {
        fclose(j->now);
        system_remove(j->running);
    }
    cJSON_Delete(j->devices);
    free(j->places);
    free(j->path);
    free(j->running);
    *j = (struct journal){ .file = NULL };
}

void journal_add(struct journal *j, cJSON *event)
{
    if (!event)
        return;
    gpucheck_private_clean(&j->names, event);
    journal_take(j, event);
    const copse_status s = json_write(j->file, event);
    const bool is_written = s == COPSE_OK && fflush(j->file) == 0 && !ferror(j->file);
    if (!is_written && j->status == COPSE_OK)
        j->status = s != COPSE_OK ? s
                                  : session_set_error(COPSE_ERR_IO, "cannot write '%s': %s",
                                                      j->path, strerror(errno));
}
