/* SPDX-License-Identifier: MIT */
/* The output for the user while `copse conformance` runs, and its last lines. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

/* Length of a reason without the trailing notes: "...; while ...". */
static size_t reason_length(const char *text)
{
    const char *place = strstr(text, "; while ");
    return place ? (size_t)(place - text) : strlen(text);
}

/* ---- progress ---- */

void progress_clear(const struct conform_progress *p)
{
    unsigned columns;
    if (!p->settings->is_json && !p->settings->is_quiet && terminal_is(&columns)) {
        fputs("\r\033[K", stdout);
        fflush(stdout);
    }
}

void progress_draw(struct conform_progress *p, const struct copse_conformance_event *e)
{
    enum { BAR = 24 };
    unsigned columns;
    if (p->settings->is_json || p->settings->is_quiet || !terminal_is(&columns) ||
        system_now() - p->drawn < 0.05)
        return;
    const size_t planned = e->planned > e->done ? e->planned : e->done;
    const size_t filled = planned ? BAR * e->done / planned : 0;
    char line[640] = "[";
    for (size_t i = 0; i < BAR; i++)
        line[1 + i] = i < filled ? '#' : '.';
    snprintf(line + 1 + BAR, sizeof line - 1 - BAR, "] %zu/%zu  %s %s %s: %s", e->done, planned,
             e->result->device, e->result->mode, e->result->op, e->result->name);
    printf("\r\033[K%.*s", (int)columns - 1, line);
    fflush(stdout);
    p->drawn = system_now();
}

/* ---- events and lines ---- */

const char *json_text(const cJSON *o, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
    return text ? text : "";
}

void report_line(const char *json)
{
    if (*json)
        puts(json);
    fflush(stdout);
}

void report_event(const cJSON *event)
{
    char *text = cJSON_PrintUnformatted(event);
    report_line(text ? text : "");
    cJSON_free(text);
}

cJSON *conform_device(const copse_conformance_results *all, size_t index)
{
    struct copse_checked_device d;
    return copse_conformance_device(all, index, &d) ? cJSON_Parse(d.json) : NULL;
}

void report_start(const struct conform_settings *s, const copse_conformance_results *all)
{
    struct copse_checked_device d;
    if (s->is_json || s->is_quiet)
        return;
    printf("copse %s, tier %s, modes %s\n", copse_conformance_library(all),
           copse_conformance_tier_name(s->job.tier), copse_conformance_modes(all));
    for (size_t i = 0; copse_conformance_device(all, i, &d); i++)
        printf("  %-10s %s (%s)\n", d.id, d.name, d.driver);
}

void report_case(const struct conform_settings *s, const struct copse_conformance_event *e)
{
    const struct copse_case_result *c = e->result;
    const bool is_told = copse_verdict_fails(c->verdict) || c->verdict == COPSE_VERDICT_OOM;
    char seed[32] = "none";
    if (s->is_json) {
        report_line(e->json);
        return;
    }
    const bool is_race = s->job.own_path && strcmp(c->mode, "perf") == 0;
    if (!is_told && !is_race && !s->is_verbose)
        return;
    printf("%-11s %s %s %s: %s%s%s%s\n", copse_verdict_name(c->verdict), c->device, c->mode,
           session_shown(c->op), session_shown(c->name), *c->variant ? " (" : "",
           session_shown(c->variant), *c->variant ? ")" : "");
    if (*e->measure && (is_told || c->limit > 0.0))
        printf("            %s\n", e->measure);
    if (*c->text)
        printf("            %s\n", c->text);
    if (c->seed)
        snprintf(seed, sizeof seed, "0x%016" PRIx64, c->seed);
    if (is_told)
        printf("            seed %s; again: %s\n", seed, e->again);
    fflush(stdout);
}

/* "12 pass, 1 FAIL" */
static char *counts_text(char *out, size_t room, const uint64_t *counts)
{
    size_t at = 0;
    snprintf(out, room, "no case");
    for (int v = 0; v < COPSE_VERDICT_COUNT && at < room; v++) {
        char name[32];
        if (counts[v] == 0)
            continue;
        snprintf(name, sizeof name, "%s", copse_verdict_name((copse_verdict)v));
        for (char *p = name; *p && !copse_verdict_fails((copse_verdict)v); p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        at += (size_t)snprintf(out + at, room - at, "%s%" PRIu64 " %s", at ? ", " : "", counts[v],
                               name);
    }
    return out;
}

/* The results since case `from`: one device and mode. */
void report_mode(const struct conform_settings *s, const copse_conformance_results *all,
                 size_t from)
{
    uint64_t counts[COPSE_VERDICT_COUNT] = { 0 };
    const struct copse_case_result *first = copse_conformance_case(all, from), *close = NULL, *c;
    double seconds = 0.0, best = 0.0;
    char text[256];
    if (s->is_json || s->is_quiet || !first)
        return;
    for (size_t i = from; (c = copse_conformance_case(all, i)) != NULL; i++) {
        counts[c->verdict]++;
        seconds += c->seconds;
        if (c->verdict == COPSE_VERDICT_PASS &&
            (!close || copse_case_share(c) > copse_case_share(close)))
            close = c;
        best = fmax(best, c->gflops);
    }
    printf("%-10s %-8s %s; %.1f s", first->device, first->mode,
           counts_text(text, sizeof text, counts), seconds);
    if (close && copse_case_share(close) > 0.0)
        printf("; closest to its limit: %s, %.3g %s of %.3g", close->op, close->worst,
               close->metric, close->limit);
    if (best > 0.0)
        printf("; up to %.3g GFLOP/s", best);
    printf("\n");
    fflush(stdout);
}

/* ---- the end ---- */

static bool has_same_reason(const struct copse_case_result *a, const struct copse_case_result *b)
{
    const size_t length = reason_length(a->text);
    return a->verdict == b->verdict && strcmp(a->device, b->device) == 0 &&
           reason_length(b->text) == length && strncmp(a->text, b->text, length) == 0;
}

/* Each reason once, with the number of its cases. */
static void print_reasons(const copse_conformance_results *all, copse_verdict verdict,
                          const char *title)
{
    const struct copse_case_result *c, *other;
    for (size_t i = 0; (c = copse_conformance_case(all, i)) != NULL; i++) {
        size_t count = 0, first = 0;
        if (c->verdict != verdict)
            continue;
        while (!has_same_reason(copse_conformance_case(all, first), c))
            first++;
        if (first < i)
            continue;
        for (size_t k = i; (other = copse_conformance_case(all, k)) != NULL; k++)
            count += has_same_reason(other, c);
        printf("%s on %s: %zu case%s: %.*s\n", title, c->device, count, count == 1 ? "" : "s",
               *c->text ? (int)reason_length(c->text) : 15, *c->text ? c->text : "no reason given");
    }
}

cJSON *report_blocked(const copse_conformance_results *all)
{
    cJSON *lists = cJSON_CreateObject();
    for (size_t i = 0; i < copse_conformance_device_count(all); i++) {
        cJSON *d = conform_device(all, i);
        cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(d, "blocked");
        if (list && !cJSON_AddItemToObject(lists, json_text(d, "id"), list))
            cJSON_Delete(list);
        cJSON_Delete(d);
    }
    return lists;
}

static void print_blocked(const cJSON *lists)
{
    const cJSON *list, *b;
    cJSON_ArrayForEach(list, lists) cJSON_ArrayForEach(b, list) printf(
        "blocked on %s: %s (%s)\n", list->string, json_text(b, "kernel"), json_text(b, "reason"));
}

static bool is_blocked(const cJSON *list, const char *kernel)
{
    const cJSON *b;
    cJSON_ArrayForEach(b, list) if (strcmp(json_text(b, "kernel"), kernel) == 0) return true;
    return false;
}

void report_unblocked(const copse_conformance_results *all, const cJSON *before)
{
    cJSON *after = report_blocked(all);
    const cJSON *list, *b;
    cJSON_ArrayForEach(list, before) cJSON_ArrayForEach(
        b, list) if (!is_blocked(cJSON_GetObjectItemCaseSensitive(after, list->string),
                                 json_text(b, "kernel")))
        printf("used again on %s: %s (what it had failed has passed in three runs in a row)\n",
               list->string, json_text(b, "kernel"));
    cJSON_Delete(after);
}

void report_summary(const struct conform_settings *s, const copse_conformance_results *all)
{
    struct copse_conformance_summary sum;
    char text[256];
    cJSON *blocked = report_blocked(all);
    const size_t cases = copse_conformance_case_count(all),
                 devices = copse_conformance_device_count(all);
    copse_conformance_results_summary(all, &sum);
    if (!s->is_quiet) {
        print_reasons(all, COPSE_VERDICT_SKIP, "skipped");
        print_reasons(all, COPSE_VERDICT_UNSUPPORTED, "unsupported");
        print_reasons(all, COPSE_VERDICT_XFAIL, "failed as known");
    }
    print_blocked(blocked);
    printf("%s%zu case%s on %zu device%s in %.1f s: %s\n", s->is_quiet ? "" : "\n", cases,
           cases == 1 ? "" : "s", devices, devices == 1 ? "" : "s", sum.seconds,
           counts_text(text, sizeof text, sum.counts));
    fflush(stdout);
    cJSON_Delete(blocked);
}
