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
    copse_conformance_results *old, *new;
    const struct copse_case_result **cases; /* of `new`, sorted */
    size_t count;
    bool has_one_device; /* in each file: the id may then differ */
    size_t broken, missing, less_accurate, slower, other_bits, mended;
};

/* 0 = right, 1 = unknown, 2 = wrong. */
static int rank_of(copse_verdict v)
{
    if (copse_verdict_fails(v) || v == COPSE_VERDICT_OOM || v == COPSE_VERDICT_XFAIL)
        return 2;
    return v == COPSE_VERDICT_PASS ? 0 : 1;
}

static int compare_cases(const void *a, const void *b)
{
    const struct copse_case_result *x = *(const struct copse_case_result *const *)a;
    const struct copse_case_result *y = *(const struct copse_case_result *const *)b;
    const char *const left[] = { x->mode, x->op, x->name, x->variant, x->device };
    const char *const right[] = { y->mode, y->op, y->name, y->variant, y->device };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        const int order = strcmp(left[i], right[i]);
        if (order)
            return order;
    }
    return 0;
}

static const struct copse_case_result *conform_compare_find(const struct comparison *c,
                                                            const struct copse_case_result *old)
{
    struct copse_checked_device only;
    struct copse_case_result like = *old;
    const struct copse_case_result *key = &like;
    if (c->has_one_device && copse_conformance_device(c->new, 0, &only))
        like.device = only.id;
    const struct copse_case_result *const *found =
        bsearch(&key, c->cases, c->count, sizeof key, compare_cases);
    return found ? *found : NULL;
}

static void conform_compare_tell(const struct comparison *c, const char *kind,
                                 const struct copse_case_result *old, const char *from,
                                 const char *to)
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
    printf("%-13s %s %s %s: %s%s%s%s: %s -> %s\n", kind, session_shown(old->device),
           session_shown(old->mode), session_shown(old->op), session_shown(old->name),
           *old->variant ? " (" : "", session_shown(old->variant), *old->variant ? ")" : "",
           session_shown(from), session_shown(to));
}

static void tell_numbers(const struct comparison *c, const char *kind,
                         const struct copse_case_result *old, double from, double to,
                         const char *unit)
{
    char a[64], b[64];
    snprintf(a, sizeof a, "%.3g %s", from, unit);
    snprintf(b, sizeof b, "%.3g %s", to, unit);
    conform_compare_tell(c, kind, old, a, b);
}

static void compare_one(struct comparison *c, const struct copse_case_result *old)
{
    const struct copse_case_result *new = conform_compare_find(c, old);
    if (!new) {
        c->missing++;
        conform_compare_tell(c, "missing", old, copse_verdict_name(old->verdict),
                             "not in the new file");
        return;
    }
    const int before = rank_of(old->verdict), after = rank_of(new->verdict);
    if (after != before) {
        *(after > before ? &c->broken : &c->mended) += 1;
        conform_compare_tell(c, after > before ? "worse" : "better", old,
                             copse_verdict_name(old->verdict), copse_verdict_name(new->verdict));
        return;
    }
    if (copse_case_share(new) > copse_case_share(old) + ERROR_GROWTH) {
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
            conform_compare_tell(c, "other bits", old, old->hash, new->hash);
    }
}

static void tell_total(const struct comparison *c)
{
    const struct {
        const char *name;
        size_t count;
    } totals[] = {
        { "worse", c->broken },
        { "missing", c->missing },
        { "less_accurate", c->less_accurate },
        { "slower", c->slower },
        { "other_bits", c->other_bits },
        { "better", c->mended },
    };
    if (!c->settings->is_json) {
        printf("%s%zu of %zu cases worse, %zu missing, %zu less accurate, %zu slower, %zu with "
               "other bits, %zu better\n",
               c->broken + c->missing + c->less_accurate + c->slower + c->mended ? "\n" : "",
               c->broken, copse_conformance_case_count(c->old), c->missing, c->less_accurate,
               c->slower, c->other_bits, c->mended);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "comparison");
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        cJSON_AddNumberToObject(o, totals[i].name, (double)totals[i].count);
    report_event(o);
    cJSON_Delete(o);
}

/* The device of the new file for one of the old; false if it has none. */
static bool find_device(const struct comparison *c, const struct copse_checked_device *old,
                        struct copse_checked_device *out)
{
    if (c->has_one_device)
        return copse_conformance_device(c->new, 0, out);
    for (size_t i = 0; copse_conformance_device(c->new, i, out); i++)
        if (strcmp(out->id, old->id) == 0)
            return true;
    return false;
}

static void tell_devices(const struct comparison *c)
{
    struct copse_checked_device a, b;
    for (size_t i = 0; !c->settings->is_json && copse_conformance_device(c->old, i, &a); i++) {
        const bool is_there = find_device(c, &a, &b);
        printf("%-10s %s, %s (copse %s)\n           %s, %s (copse %s)\n", session_shown(a.id),
               session_shown(a.name), session_shown(a.driver),
               session_shown(copse_conformance_library(c->old)),
               is_there ? session_shown(b.name) : "not in the new file",
               is_there ? session_shown(b.driver) : "",
               session_shown(copse_conformance_library(c->new)));
    }
}

static copse_status compare_results(struct comparison *c)
{
    const struct copse_case_result *old;
    c->count = copse_conformance_case_count(c->new);
    c->cases = calloc(c->count + 1, sizeof *c->cases);
    if (!c->cases)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory to compare %zu cases", c->count);
    c->has_one_device =
        copse_conformance_device_count(c->old) == 1 && copse_conformance_device_count(c->new) == 1;
    for (size_t i = 0; i < c->count; i++)
        c->cases[i] = copse_conformance_case(c->new, i);
    tell_devices(c);
    qsort(c->cases, c->count, sizeof *c->cases, compare_cases);
    for (size_t i = 0; (old = copse_conformance_case(c->old, i)) != NULL; i++)
        compare_one(c, old);
    tell_total(c);
    free(c->cases);
    return COPSE_OK;
}

int conform_compare(const struct conform_settings *s, const char *old_path, const char *new_path)
{
    struct comparison c = { .settings = s };
    copse_context *ctx = NULL;
    copse_status status = session_open_files(&ctx);
    if (status == COPSE_OK)
        status = copse_conformance_results_read(ctx, old_path, &c.old);
    if (status == COPSE_OK)
        status = copse_conformance_results_read(ctx, new_path, &c.new);
    if (status == COPSE_OK)
        status = compare_results(&c);
    const int code = status != COPSE_OK         ? session_fail(status)
                     : c.broken + c.missing > 0 ? EXIT_FAILED
                                                : EXIT_DONE;
    copse_conformance_results_release(&c.old);
    copse_conformance_results_release(&c.new);
    copse_context_release(&ctx);
    return code;
}
