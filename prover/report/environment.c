/* SPDX-License-Identifier: MIT */
/* The machine, the environment and what drivers say of a device, as JSON. */
#include <stdlib.h>

#include "core/base/machine.h"
#include "prover/report/report.h"

/* ---- the environment ---- */

static bool environment_begins(const char *variable, const char *const *beginnings)
{
    for (; beginnings && *beginnings; beginnings++)
        if (strncmp(variable, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

static bool is_secret(const char *variable)
{
    static const char *const parts[] = { "KEY", "TOKEN", "SECRET", "PASS" };
    const char *end = variable + strcspn(variable, "="), *at;
    for (size_t i = 0; i < COPSE_COUNT(parts); i++)
        if ((at = strstr(variable, parts[i])) != NULL && at < end)
            return true;
    return false;
}

/* Variables that change drivers, loaders, layers or the library. */
static bool is_relevant(const char *variable)
{
    static const char *const general[] = {
        "COPSE_",           "LD_LIBRARY_PATH=", "LD_PRELOAD=", "DYLD_LIBRARY_PATH=",
        "OMP_NUM_THREADS=", "XDG_CACHE_HOME=",  NULL,
    };
    bool is_listed = environment_begins(variable, general);
    for (size_t i = 0; copse_backends[i] && !is_listed; i++)
        is_listed = environment_begins(variable, copse_backends[i]->variables);
    return is_listed && !is_secret(variable);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool add_variables(cJSON *to)
{
    const char *list[256], *variable;
    size_t count = 0;
    cJSON *o = cJSON_AddObjectToObject(to, "variables");
    for (size_t n = 0; (variable = copse__environment_at(n)) != NULL && count < COPSE_COUNT(list);
         n++)
        if (strchr(variable, '=') && is_relevant(variable))
            list[count++] = variable;
    qsort(list, count, sizeof *list, compare_texts);
    bool is_good = o != NULL;
    for (size_t i = 0; i < count && is_good; i++) {
        char name[128];
        const size_t length = strcspn(list[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)COPSE_MIN(length, sizeof name - 1), list[i]);
        is_good = copse__json_add_text(o, name, list[i] + length + 1);
    }
    return is_good;
}

cJSON *copse__environment_json(void)
{
    struct copse_machine m;
    cJSON *o = cJSON_CreateObject();
    copse__machine_describe(&m);
    if (o && copse__json_add_text(o, "system", m.system) &&
        copse__json_add_text(o, "kernel", m.kernel) &&
        copse__json_add_text(o, "processor", m.cpu) &&
        copse__json_add_number(o, "processors", copse__cpu_count()) &&
        copse__json_add_number(o, "memory_bytes", (double)m.memory_bytes) && add_variables(o))
        return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- facts of a device ---- */

struct facts {
    cJSON *ids, *limits, *extensions, *layers, *libraries;
    bool is_good;
};

static bool add_to_list(cJSON *list, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list) if (strcmp(item->valuestring, text) == 0) return true;
    cJSON *o = cJSON_CreateString(text);
    if (o && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

static void add_fact(struct copse_fact_sink *to, enum copse_fact kind, const char *name,
                     const char *value)
{
    struct facts *f = to->user;
    if (!f->is_good)
        return;
    switch (kind) {
    case COPSE_FACT_ID:
        f->is_good = copse__json_add_text(f->ids, name, value);
        break;
    case COPSE_FACT_LIMIT:
        f->is_good = !*value || copse__json_add_text(f->limits, name, value);
        break;
    case COPSE_FACT_EXTENSION:
        f->is_good = add_to_list(f->extensions, value);
        break;
    case COPSE_FACT_LAYER:
        f->is_good = add_to_list(f->layers, value);
        break;
    case COPSE_FACT_LIBRARY:
        f->is_good = add_to_list(f->libraries, value);
        break;
    }
}

bool copse__facts_json(cJSON *device, copse_context *ctx, const char *id)
{
    cJSON *o = cJSON_AddObjectToObject(device, "reported");
    struct facts f = {
        .ids = o,
        .layers = cJSON_AddArrayToObject(o, "layers"),
        .libraries = cJSON_AddArrayToObject(o, "libraries"),
        .extensions = cJSON_AddArrayToObject(o, "extensions"),
        .limits = cJSON_AddObjectToObject(o, "limits"),
    };
    struct copse_fact_sink to = { .add = add_fact, .user = &f };
    f.is_good = o && f.layers && f.libraries && f.extensions && f.limits;
    if (f.is_good && copse__device_facts(ctx, id, &to) != COPSE_OK)
        copse__log(&ctx->base.log, COPSE_LOG_WARN,
                   "conformance: what the driver of %s reports is not complete: %s", id,
                   copse_last_error());
    return f.is_good;
}
