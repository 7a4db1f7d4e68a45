/* SPDX-License-Identifier: MIT */
/* The output of `copse conformance list`, `info` and `support`. */
#include <inttypes.h>
#include <string.h>

#include "tools/conformance/conform.h"

void table_list(const struct conform_settings *s, const cJSON *plan)
{
    const cJSON *o;
    size_t count = 0;
    cJSON_ArrayForEach(o, plan) {
        const char *variant = json_text(o, "variant");
        if (s->is_json)
            report_event(o);
        else
            printf("%-8s %-24s %s%s%s%s  [%s, seed %s]\n", json_text(o, "mode"),
                   json_text(o, "op"), json_text(o, "name"), *variant ? " (" : "", variant,
                   *variant ? ")" : "", json_text(o, "type"), json_text(o, "seed"));
        count++;
    }
    if (!s->is_json)
        printf("\n%zu cases in tier %s\n", count, s->tier->name);
}

static void print_limit(const cJSON *item)
{
    if (cJSON_IsBool(item))
        printf("  %-24s %s\n", item->string, cJSON_IsTrue(item) ? "yes" : "no");
    else if (item->valuedouble >= 18446744073709549568.0)
        printf("  %-24s unlimited\n", item->string);
    else
        printf("  %-24s %.0f\n", item->string, item->valuedouble);
}

void table_info(const struct conform_settings *s, const struct conform_set *set)
{
    if (s->is_json)
        return; /* the events contain everything */
    for (size_t i = 0; i < set->device_count; i++) {
        const cJSON *o = set->devices[i].json, *item;
        printf("%s%s\n", i ? "\n" : "", set->devices[i].id);
        cJSON_ArrayForEach(item, o) {
            if (cJSON_IsString(item) && strcmp(item->string, "id") != 0 &&
                strcmp(item->string, "event") != 0)
                printf("  %-24s %s\n", item->string, item->valuestring);
            else if (cJSON_IsNumber(item))
                printf("  %-24s %.0f\n", item->string, item->valuedouble);
        }
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "limits"))
            print_limit(item);
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "blocked"))
            printf("  %-24s %s (%s)\n", "blocked", json_text(item, "kernel"),
                   json_text(item, "reason"));
    }
}

/* ---- support ---- */

/* Over all cases of an op and type on a device: "yes", "no", "WRONG", "?" if none was run. */
static const char *support_of(const struct conform_set *set, const char *op, const char *type,
                              const char *device)
{
    bool has_run = false, has_none = false;
    for (size_t i = 0; i < set->case_count; i++) {
        const struct conform_case *c = &set->cases[i];
        if (strcmp(c->op, op) != 0 || strcmp(c->device, device) != 0 ||
            (*c->type && strcmp(c->type, type) != 0))
            continue;
        if (conform_is_bad(c->verdict))
            return "WRONG";
        has_none |= c->verdict == COPSE_VERDICT_UNSUPPORTED && !*c->variant;
        has_run |= c->verdict == COPSE_VERDICT_PASS || c->verdict == COPSE_VERDICT_XFAIL;
    }
    return has_run && has_none ? "partly" : has_run ? "yes" : has_none ? "no" : "?";
}

static bool is_first(const struct conform_set *set, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(set->cases[k].op, set->cases[i].op) == 0 &&
            strcmp(set->cases[k].type, set->cases[i].type) == 0)
            return false;
    return true;
}

static void support_json(const struct conform_set *set, const struct conform_case *c)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "support");
    cJSON_AddStringToObject(o, "op", c->op);
    cJSON_AddStringToObject(o, "type", c->type);
    cJSON *on = cJSON_AddObjectToObject(o, "devices");
    for (size_t d = 0; d < set->device_count; d++)
        cJSON_AddStringToObject(on, set->devices[d].id,
                                support_of(set, c->op, c->type, set->devices[d].id));
    report_event(o);
    cJSON_Delete(o);
}

void table_support(const struct conform_settings *s, const struct conform_set *set)
{
    if (!s->is_json) {
        printf("\n%-24s %-6s", "op", "type");
        for (size_t d = 0; d < set->device_count; d++)
            printf(" %-10s", set->devices[d].id);
        printf("\n");
    }
    for (size_t i = 0; i < set->case_count; i++) {
        const struct conform_case *c = &set->cases[i];
        if (!*c->op || !*c->type || !is_first(set, i))
            continue;
        if (s->is_json) {
            support_json(set, c);
            continue;
        }
        printf("%-24s %-6s", c->op, c->type);
        for (size_t d = 0; d < set->device_count; d++)
            printf(" %-10s", support_of(set, c->op, c->type, set->devices[d].id));
        printf("\n");
    }
    if (!s->is_json)
        printf("\n");
}
