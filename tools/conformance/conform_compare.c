/* SPDX-License-Identifier: MIT */
/* copse conformance compare: regressions from one file of results to another. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

/* Reported if the fraction of the limit rose, or the speed fell, by more than this. */
static const double ERROR_GROWTH = 0.25, SPEED_LOSS = 0.10;

struct comparison {
    const struct conform_settings *settings;
    struct conform_set old, new;
    bool has_one_device; /* in each file: the id may then differ */
    size_t broken, missing, less_accurate, slower, other_bits, mended;
};

/* 0 = right, 1 = unknown, 2 = wrong. */
static int rank_of(copse_verdict v)
{
    if (conform_is_bad(v) || v == COPSE_VERDICT_OOM || v == COPSE_VERDICT_XFAIL)
        return 2;
    return v == COPSE_VERDICT_PASS ? 0 : 1;
}

static int compare_cases(const void *a, const void *b)
{
    const struct conform_case *x = a, *y = b;
    const char *const left[] = { x->mode, x->op, x->name, x->variant, x->device };
    const char *const right[] = { y->mode, y->op, y->name, y->variant, y->device };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        const int order = strcmp(left[i], right[i]);
        if (order)
            return order;
    }
    return 0;
}

static const struct conform_case *find(const struct comparison *c, const struct conform_case *old)
{
    struct conform_case key = *old;
    if (c->has_one_device)
        key.device = c->new.devices[0].id;
    return bsearch(&key, c->new.cases, c->new.case_count, sizeof key, compare_cases);
}

static void tell(const struct comparison *c, const char *kind, const struct conform_case *old,
                 const char *from, const char *to)
{
    if (c->settings->is_json) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "event", "difference");
        cJSON_AddStringToObject(o, "kind", kind);
        cJSON_AddStringToObject(o, "device", old->device);
        cJSON_AddStringToObject(o, "mode", old->mode);
        cJSON_AddStringToObject(o, "op", old->op);
        cJSON_AddStringToObject(o, "name", old->name);
        cJSON_AddStringToObject(o, "variant", old->variant);
        cJSON_AddStringToObject(o, "from", from);
        cJSON_AddStringToObject(o, "to", to);
        report_event(o);
        cJSON_Delete(o);
        return;
    }
    printf("%-13s %s %s %s: %s%s%s%s: %s -> %s\n", kind, old->device, old->mode, old->op,
           old->name, *old->variant ? " (" : "", old->variant, *old->variant ? ")" : "", from, to);
}

static void tell_numbers(const struct comparison *c, const char *kind,
                         const struct conform_case *old, double from, double to, const char *unit)
{
    char a[64], b[64];
    snprintf(a, sizeof a, "%.3g %s", from, unit);
    snprintf(b, sizeof b, "%.3g %s", to, unit);
    tell(c, kind, old, a, b);
}

static void compare_one(struct comparison *c, const struct conform_case *old)
{
    const struct conform_case *new = find(c, old);
    if (!new) {
        c->missing++;
        tell(c, "missing", old, copse_verdict_name(old->verdict), "not in the new file");
        return;
    }
    const int before = rank_of(old->verdict), after = rank_of(new->verdict);
    if (after != before) {
        *(after > before ? &c->broken : &c->mended) += 1;
        tell(c, after > before ? "worse" : "better", old, copse_verdict_name(old->verdict),
             copse_verdict_name(new->verdict));
        return;
    }
    if (conform_share(new) > conform_share(old) + ERROR_GROWTH) {
        c->less_accurate++;
        tell_numbers(c, "less accurate", old, old->worst, new->worst, old->metric);
    }
    const double fast = fmax(old->gflops, old->gbytes), slow = fmax(new->gflops, new->gbytes);
    if (fast > 0.0 && slow < fast * (1.0 - SPEED_LOSS)) {
        c->slower++;
        tell_numbers(c, "slower", old, fast, slow, old->gflops > 0.0 ? "GFLOP/s" : "GB/s");
    }
    if (*old->hash && *new->hash && strcmp(old->hash, new->hash) != 0) {
        c->other_bits++;
        if (c->settings->is_verbose)
            tell(c, "other bits", old, old->hash, new->hash);
    }
}

static void tell_total(const struct comparison *c)
{
    const struct { const char *name; size_t count; } totals[] = {
        { "worse", c->broken }, { "missing", c->missing }, { "less_accurate", c->less_accurate },
        { "slower", c->slower }, { "other_bits", c->other_bits }, { "better", c->mended },
    };
    if (!c->settings->is_json) {
        printf("%s%zu of %zu cases worse, %zu missing, %zu less accurate, %zu slower, %zu with "
               "other bits, %zu better\n",
               c->broken + c->missing + c->less_accurate + c->slower + c->mended ? "\n" : "",
               c->broken, c->old.case_count, c->missing, c->less_accurate, c->slower,
               c->other_bits, c->mended);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "comparison");
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        cJSON_AddNumberToObject(o, totals[i].name, (double)totals[i].count);
    report_event(o);
    cJSON_Delete(o);
}

static void tell_devices(const struct comparison *c)
{
    for (size_t i = 0; !c->settings->is_json && i < c->old.device_count; i++) {
        const struct conform_device *a = &c->old.devices[i];
        const struct conform_device *b =
            c->has_one_device ? c->new.devices : conform_set_device(&c->new, a->id);
        printf("%-10s %s, %s (copse %s)\n           %s, %s (copse %s)\n", a->id, a->name,
               a->driver, c->old.library, b ? b->name : "not in the new file", b ? b->driver : "",
               c->new.library);
    }
}

int conform_compare(const struct conform_settings *s, const char *old_path, const char *new_path)
{
    struct comparison c = { .settings = s };
    int code;
    copse_status status = conform_set_read(&c.old, old_path);
    if (status == COPSE_OK)
        status = conform_set_read(&c.new, new_path);
    if (status == COPSE_OK) {
        c.has_one_device = c.old.device_count == 1 && c.new.device_count == 1;
        tell_devices(&c);
        qsort(c.new.cases, c.new.case_count, sizeof *c.new.cases, compare_cases);
        for (size_t i = 0; i < c.old.case_count; i++)
            compare_one(&c, &c.old.cases[i]);
        tell_total(&c);
        code = c.broken + c.missing > 0 ? EXIT_FAILED : EXIT_DONE;
    } else {
        code = session_fail(status);
    }
    conform_set_free(&c.old);
    conform_set_free(&c.new);
    return code;
}
