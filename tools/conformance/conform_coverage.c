/* SPDX-License-Identifier: MIT */
/* `copse conformance list --coverage`: the coverage table as text, or each cell as a line of
   JSON. */
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

enum { CLASSES = 16, REASONS = 32 };

#define ANY "any" /* the regime of the cells of the second table */

struct table {
    bool is_json, is_second;
    char kernel[48], regime[32];                  /* of the line in progress */
    char classes[CLASSES][16], line[CLASSES][16]; /* headings; its cells */
    size_t class_count, at;
    bool has_new_heading;
    char reasons[REASONS][96];
    size_t reason_count;
    size_t kernels, cells, covered, impossible, empty;
    copse_status status;
};

static void conform_coverage_copy(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%s", from);
}

/* The number of a reason, from 1. */
static size_t reason_of(struct table *t, const char *reason)
{
    size_t i = 0;
    while (i < t->reason_count && strcmp(t->reasons[i], reason) != 0)
        i++;
    if (i == t->reason_count && i < REASONS)
        conform_coverage_copy(t->reasons[t->reason_count++], sizeof t->reasons[0], reason);
    return i + 1;
}

static void print_line(struct table *t)
{
    if (!t->at)
        return;
    if (t->has_new_heading) {
        printf("%-28s%-18s", "kernel", "launch");
        for (size_t i = 0; i < t->class_count; i++)
            printf("%11s", t->classes[i]);
        printf("\n");
        t->has_new_heading = false;
    }
    printf("%-28s%-18s", t->kernel, t->regime);
    for (size_t i = 0; i < t->at; i++)
        printf("%11s", t->line[i]);
    printf("\n");
    t->at = 0;
}

static void print_json(struct table *t, const struct copse_coverage_cell *c)
{
    static const char *const tiers[] = { "quick", "standard", "full", "exhaustive" };
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kernel", c->kernel);
    cJSON_AddStringToObject(o, "mode", c->mode);
    cJSON_AddStringToObject(o, "regime", c->regime);
    cJSON_AddStringToObject(o, "values", c->values);
    cJSON_AddNumberToObject(o, "case_count", c->case_count);
    if (c->case_count)
        cJSON_AddStringToObject(o, "tier", tiers[c->tier]);
    cJSON_AddStringToObject(o, "cases", c->cases);
    cJSON_AddStringToObject(o, "reason", c->reason);
    cJSON_AddStringToObject(o, "missing", c->missing);
    char *text = cJSON_PrintUnformatted(o);
    if (text)
        printf("%s\n", text);
    else
        t->status = COPSE_ERR_NO_MEMORY;
    cJSON_free(text);
    cJSON_Delete(o);
}

static void conform_coverage_take(void *user, const struct copse_coverage_cell *c)
{
    struct table *t = user;
    const bool is_same_kernel = strcmp(t->kernel, c->kernel) == 0;
    if (!t->is_json && (strcmp(c->regime, ANY) == 0) != t->is_second)
        return;
    t->cells++;
    t->kernels += !t->is_second && !is_same_kernel;
    t->covered += c->case_count > 0;
    t->impossible += c->case_count == 0 && *c->reason;
    t->empty += c->case_count == 0 && !*c->reason;
    if (t->is_json)
        print_json(t, c);
    else if (!is_same_kernel || strcmp(t->regime, c->regime) != 0)
        print_line(t);
    conform_coverage_copy(t->kernel, sizeof t->kernel, c->kernel);
    conform_coverage_copy(t->regime, sizeof t->regime, c->regime);
    if (t->is_json || t->at >= CLASSES)
        return;
    if (t->at == t->class_count)
        conform_coverage_copy(t->classes[t->class_count++], sizeof t->classes[0], c->values);
    if (c->case_count)
        snprintf(t->line[t->at], sizeof t->line[0], "%u", (unsigned)c->case_count);
    else if (*c->reason)
        snprintf(t->line[t->at], sizeof t->line[0], "(%zu)", reason_of(t, c->reason));
    else
        conform_coverage_copy(t->line[t->at], sizeof t->line[0], "EMPTY");
    if (*c->missing)
        fprintf(stderr, "copse: %s: no case with %s\n", c->kernel, c->missing);
    t->at++;
}

/* The launches, then what the cases of a kernel must have besides. */
static copse_status print_tables(struct table *t)
{
    for (int k = 0; k < 2; k++) {
        t->is_second = k > 0;
        t->class_count = 0;
        t->has_new_heading = true;
        t->kernel[0] = t->regime[0] = '\0';
        printf("%s", k > 0 ? "\n" : "");
        COPSE_TRY(copse_conformance_coverage(conform_coverage_take, t));
        print_line(t);
    }
    return COPSE_OK;
}

int conform_coverage(bool is_json)
{
    struct table t = { .is_json = is_json };
    copse_status s =
        is_json ? copse_conformance_coverage(conform_coverage_take, &t) : print_tables(&t);
    s = s ? s : t.status;
    if (s)
        return session_fail(s);
    if (!is_json) {
        printf("\nNumbers count the cases of `copse conformance launch`.\n");
        for (size_t i = 0; i < t.reason_count; i++)
            printf("(%zu) no case: %s\n", i + 1, t.reasons[i]);
        printf("%zu kernels, %zu cells: %zu covered, %zu cannot exist, %zu empty\n", t.kernels,
               t.cells, t.covered, t.impossible, t.empty);
    }
    return t.empty ? EXIT_FAILURE : EXIT_SUCCESS;
}
