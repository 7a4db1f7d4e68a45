/* SPDX-License-Identifier: MIT */
/* The output for the user while `copse conformance` runs, and its last lines. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/conformance/conform.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- texts about a case ---- */

double conform_share(const struct conform_case *c)
{
    if (!*c->metric)
        return 0.0;
    if (!isfinite(c->worst))
        return HUGE_VAL;
    return c->limit > 0.0 ? c->worst / c->limit : c->worst > 0.0 ? HUGE_VAL : 0.0;
}

char *conform_measure(char *out, size_t room, const struct conform_case *c)
{
    *out = '\0';
    if (*c->metric && c->limit > 0.0)
        snprintf(out, room, "%.3g %s of %.3g at element %.0f: got %.9g, expected %.9g", c->worst,
                 c->metric, c->limit, c->index, c->got, c->expected);
    else if (*c->metric)
        snprintf(out, room, "%.3g %s, 0 allowed, at element %.0f: got %.9g, expected %.9g",
                 c->worst, c->metric, c->index, c->got, c->expected);
    return out;
}

size_t conform_reason(const char *text)
{
    const char *place = strstr(text, "; while ");
    return place ? (size_t)(place - text) : strlen(text);
}

struct text {
    char *out;
    size_t room, at;
};

static void put(struct text *t, const char *s)
{
    for (; *s && t->at + 1 < t->room; s++)
        t->out[t->at++] = *s;
    t->out[t->at] = '\0';
}

/* Quote for a POSIX shell. */
static void put_quoted(struct text *t, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-.,:/+=@";
    if (*s && s[strspn(s, plain)] == '\0') {
        put(t, s);
        return;
    }
    put(t, "'");
    for (; *s; s++) {
        const char one[2] = { *s, '\0' };
        put(t, *s == '\'' ? "'\\''" : one);
    }
    put(t, "'");
}

static void put_option(struct text *t, const char *option, const char *value)
{
    put(t, option);
    put_quoted(t, value);
}

char *conform_repeat(char *out, size_t room, const struct conform_settings *s,
                     const struct conform_case *c)
{
    struct text t = { out, room, 0 };
    put(&t, "copse conformance ");
    put(&t, c->mode);
    put_option(&t, " --device ", c->device);
    if (*c->op) {
        if (s->tier->value != COPSE_CONFORM_QUICK)
            put_option(&t, " --tier ", s->tier->name);
        put_option(&t, " --ops ", c->op);
        put_option(&t, " --case ", c->name);
        put_option(&t, " --variant ", c->variant);
    }
    if (s->own_path) {
        put_option(&t, " --kernel ", s->own_path);
        put_option(&t, " --op ", s->kernel);
    }
    return out;
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

void progress_draw(struct conform_progress *p)
{
    enum { BAR = 24 };
    unsigned columns;
    if (p->settings->is_json || p->settings->is_quiet || !terminal_is(&columns) || now() - p->drawn < 0.05)
        return;
    const size_t planned = p->planned > p->done ? p->planned : p->done;
    const size_t filled = planned ? BAR * p->done / planned : 0;
    char line[640] = "[";
    for (size_t i = 0; i < BAR; i++)
        line[1 + i] = i < filled ? '#' : '.';
    snprintf(line + 1 + BAR, sizeof line - 1 - BAR, "] %zu/%zu  %s", p->done, planned, p->label);
    printf("\r\033[K%.*s", (int)columns - 1, line);
    fflush(stdout);
    p->drawn = now();
}

/* ---- events and lines ---- */

void report_event(const cJSON *event)
{
    char *text = cJSON_PrintUnformatted(event);
    if (text)
        puts(text);
    fflush(stdout);
    cJSON_free(text);
}

void report_start(const struct conform_settings *s, const struct conform_set *set)
{
    if (s->is_json || s->is_quiet)
        return;
    printf("copse %s, tier %s, modes %s\n", set->library, s->tier->name, set->modes);
    for (size_t i = 0; i < set->device_count; i++)
        printf("  %-10s %s (%s)\n", set->devices[i].id, set->devices[i].name,
               set->devices[i].driver);
}

void report_case(const struct conform_settings *s, const struct conform_case *c)
{
    char line[1200];
    const bool is_told = conform_is_bad(c->verdict) || c->verdict == COPSE_VERDICT_OOM;
    if (s->is_json) {
        report_event(c->json);
        return;
    }
    const bool is_race = s->own_path && strcmp(c->mode, "perf") == 0;
    if (!is_told && !is_race && !s->is_verbose)
        return;
    printf("%-11s %s %s %s: %s%s%s%s\n", copse_verdict_name(c->verdict), c->device, c->mode, c->op,
           c->name, *c->variant ? " (" : "", c->variant, *c->variant ? ")" : "");
    if (*conform_measure(line, sizeof line, c) && (is_told || c->limit > 0.0))
        printf("            %s\n", line);
    if (*c->text)
        printf("            %s\n", c->text);
    if (is_told)
        printf("            seed %s; again: %s\n", *c->seed ? c->seed : "none",
               conform_repeat(line, sizeof line, s, c));
    fflush(stdout);
}

/* "12 pass, 1 FAIL" */
static char *counts_text(char *out, size_t room, const uint64_t *counts)
{
    struct text t = { out, room, 0 };
    *out = '\0';
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++) {
        char one[64], name[32];
        if (counts[v] == 0)
            continue;
        snprintf(name, sizeof name, "%s", copse_verdict_name((copse_verdict)v));
        for (char *p = name; *p && !conform_is_bad((copse_verdict)v); p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        snprintf(one, sizeof one, "%s%" PRIu64 " %s", t.at ? ", " : "", counts[v], name);
        put(&t, one);
    }
    if (t.at == 0)
        put(&t, "no case");
    return out;
}

/* The results since case `from`: one device and mode. */
void report_mode(const struct conform_settings *s, const struct conform_set *set, size_t from)
{
    uint64_t counts[COPSE_VERDICT_COUNT] = { 0 };
    const struct conform_case *close = NULL;
    double seconds = 0.0, best = 0.0;
    char text[256];
    if (s->is_json || s->is_quiet || from == set->case_count)
        return;
    for (size_t i = from; i < set->case_count; i++) {
        const struct conform_case *c = &set->cases[i];
        counts[c->verdict]++;
        seconds += c->seconds;
        if (c->verdict == COPSE_VERDICT_PASS && (!close || conform_share(c) > conform_share(close)))
            close = c;
        best = fmax(best, c->gflops);
    }
    const struct conform_case *first = &set->cases[from];
    printf("%-10s %-8s %s; %.1f s", first->device, first->mode,
           counts_text(text, sizeof text, counts), seconds);
    if (close && conform_share(close) > 0.0)
        printf("; closest to its limit: %s, %.3g %s of %.3g", close->op, close->worst,
               close->metric, close->limit);
    if (best > 0.0)
        printf("; up to %.3g GFLOP/s", best);
    printf("\n");
    fflush(stdout);
}

/* ---- the end ---- */

static bool has_same_reason(const struct conform_case *a, const struct conform_case *b)
{
    const size_t length = conform_reason(a->text);
    return a->verdict == b->verdict && strcmp(a->device, b->device) == 0 &&
           conform_reason(b->text) == length && strncmp(a->text, b->text, length) == 0;
}

/* Each reason once, with the number of its cases. */
static void print_reasons(const struct conform_set *set, copse_verdict verdict, const char *title)
{
    for (size_t i = 0; i < set->case_count; i++) {
        const struct conform_case *c = &set->cases[i];
        size_t count = 0, first = 0;
        while (!has_same_reason(&set->cases[first], c))
            first++;
        if (c->verdict != verdict || first < i)
            continue;
        for (size_t k = i; k < set->case_count; k++)
            count += has_same_reason(&set->cases[k], c);
        printf("%s on %s: %zu case%s: %.*s\n", title, c->device, count, count == 1 ? "" : "s",
               *c->text ? (int)conform_reason(c->text) : 15, *c->text ? c->text : "no reason given");
    }
}

static void print_blocked(const struct conform_set *set)
{
    for (size_t i = 0; i < set->device_count; i++) {
        const cJSON *b;
        cJSON_ArrayForEach(b, cJSON_GetObjectItemCaseSensitive(set->devices[i].json, "blocked"))
            printf("blocked on %s: %s (%s)\n", set->devices[i].id, json_text(b, "kernel"),
                   json_text(b, "reason"));
    }
}

static bool is_blocked(const struct conform_device *d, const char *kernel)
{
    const cJSON *b;
    cJSON_ArrayForEach(b, cJSON_GetObjectItemCaseSensitive(d->json, "blocked"))
        if (strcmp(json_text(b, "kernel"), kernel) == 0)
            return true;
    return false;
}

void report_unblocked(const struct conform_settings *s, const struct conform_set *set,
                      const char *device, const cJSON *before)
{
    const struct conform_device *d = conform_set_device(set, device);
    const cJSON *b;
    cJSON_ArrayForEach(b, before)
        if (d && !s->is_json && !is_blocked(d, json_text(b, "kernel")))
            printf("used again on %s: %s (what it had failed has passed in three runs in a row)\n", device,
                   json_text(b, "kernel"));
}

static void summary_json(const struct conform_set *set)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "summary");
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++) {
        char name[32];
        snprintf(name, sizeof name, "%s", copse_verdict_name((copse_verdict)v));
        for (char *p = name; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        json_add(o, name, (double)set->counts[v]);
    }
    json_add(o, "cases", (double)set->case_count);
    json_add(o, "seconds", set->seconds);
    report_event(o);
    cJSON_Delete(o);
}

void report_summary(const struct conform_settings *s, const struct conform_set *set)
{
    char text[256];
    if (s->is_json) {
        summary_json(set);
        return;
    }
    if (!s->is_quiet) {
        print_reasons(set, COPSE_VERDICT_SKIP, "skipped");
        print_reasons(set, COPSE_VERDICT_UNSUPPORTED, "unsupported");
        print_reasons(set, COPSE_VERDICT_XFAIL, "failed as known");
    }
    print_blocked(set);
    printf("%s%zu case%s on %zu device%s in %.1f s: %s\n", s->is_quiet ? "" : "\n", set->case_count,
           set->case_count == 1 ? "" : "s", set->device_count, set->device_count == 1 ? "" : "s",
           set->seconds, counts_text(text, sizeof text, set->counts));
}
