/* SPDX-License-Identifier: MIT */
/* The output of `copse conformance list`, `info` and `support`. */
#include <inttypes.h>
#include <string.h>

#include "tools/conformance/conform.h"

void table_plan(const struct copse_case_result *c)
{
    printf("%-8s %-24s %s%s%s%s  [%s, seed 0x%016" PRIx64 "]\n", c->mode, c->op, c->name,
           *c->variant ? " (" : "", c->variant, *c->variant ? ")" : "", c->type, c->seed);
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

void table_info(const copse_conformance_results *all)
{
    for (size_t i = 0; i < copse_conformance_device_count(all); i++) {
        cJSON *o = conform_device(all, i), *item;
        printf("%s%s\n", i ? "\n" : "", json_text(o, "id"));
        cJSON_ArrayForEach(item, o)
        {
            if (cJSON_IsString(item) && strcmp(item->string, "id") != 0 &&
                strcmp(item->string, "event") != 0)
                printf("  %-24s %s\n", item->string, item->valuestring);
            else if (cJSON_IsNumber(item))
                printf("  %-24s %.0f\n", item->string, item->valuedouble);
        }
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "limits")) print_limit(item);
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "blocked")) printf(
            "  %-24s %s (%s)\n", "blocked", json_text(item, "kernel"), json_text(item, "reason"));
        cJSON_Delete(o);
    }
}

/* ---- support ---- */

/* Over all cases of an op and type on a device: "yes", "no", "WRONG", "?" if none was run. */
static const char *support_of(const copse_conformance_results *all, const char *op,
                              const char *type, const char *device)
{
    bool has_run = false, has_none = false;
    const struct copse_case_result *c;
    for (size_t i = 0; (c = copse_conformance_case(all, i)) != NULL; i++) {
        if (strcmp(c->op, op) != 0 || strcmp(c->device, device) != 0 ||
            (*c->type && strcmp(c->type, type) != 0))
            continue;
        if (copse_verdict_fails(c->verdict))
            return "WRONG";
        has_none |= c->verdict == COPSE_VERDICT_UNSUPPORTED && !*c->variant;
        has_run |= c->verdict == COPSE_VERDICT_PASS || c->verdict == COPSE_VERDICT_XFAIL;
    }
    return has_run && has_none ? "partly" : has_run ? "yes" : has_none ? "no" : "?";
}

static bool is_first(const copse_conformance_results *all, size_t i)
{
    const struct copse_case_result *c = copse_conformance_case(all, i), *before;
    for (size_t k = 0; k < i; k++) {
        before = copse_conformance_case(all, k);
        if (strcmp(before->op, c->op) == 0 && strcmp(before->type, c->type) == 0)
            return false;
    }
    return true;
}

static void support_json(const copse_conformance_results *all, const struct copse_case_result *c)
{
    struct copse_checked_device d;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "support");
    cJSON_AddStringToObject(o, "op", c->op);
    cJSON_AddStringToObject(o, "type", c->type);
    cJSON *on = cJSON_AddObjectToObject(o, "devices");
    for (size_t i = 0; copse_conformance_device(all, i, &d); i++)
        cJSON_AddStringToObject(on, d.id, support_of(all, c->op, c->type, d.id));
    report_event(o);
    cJSON_Delete(o);
}

void table_support(const struct conform_settings *s, const copse_conformance_results *all)
{
    const struct copse_case_result *c;
    struct copse_checked_device d;
    if (!s->is_json) {
        printf("\n%-24s %-6s", "op", "type");
        for (size_t i = 0; copse_conformance_device(all, i, &d); i++)
            printf(" %-10s", d.id);
        printf("\n");
    }
    for (size_t k = 0; (c = copse_conformance_case(all, k)) != NULL; k++) {
        if (!*c->op || !*c->type || !is_first(all, k))
            continue;
        if (s->is_json) {
            support_json(all, c);
            continue;
        }
        printf("%-24s %-6s", c->op, c->type);
        for (size_t i = 0; copse_conformance_device(all, i, &d); i++)
            printf(" %-10s", support_of(all, c->op, c->type, d.id));
        printf("\n");
    }
    if (!s->is_json)
        printf("\n");
}
