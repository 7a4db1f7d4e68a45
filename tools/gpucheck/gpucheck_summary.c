/* SPDX-License-Identifier: MIT */
/* What remains of a check for people: a summary of at most 100 lines, cards, tuning records. All of
   it is made from the file of results, which has nothing private. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"
#include "tools/conformance/conform.h"
#include "tools/gpucheck/gpucheck.h"

enum { MOST_LINES = 100, FOOTER_LINES = 6, MOST_FAILURES = 12, MOST_SPEEDS = 12 };

struct summary {
    struct gpucheck *g;
    const copse_conformance_results *all;
    FILE *file;
    unsigned lines, cut;
    char records[4][96]; /* files of tuning records, and how many there are */
    size_t record_count;
};

/* A line of the file and of the terminal. */
static void line_add(struct summary *s, const char *fmt, ...)
{
    char text[400];
    va_list args;
    if (s->lines >= MOST_LINES - FOOTER_LINES) {
        s->cut++;
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(s->file, "%s\n", text);
    printf("%s\n", session_shown(text));
    s->lines++;
}

static void text_add(char *out, size_t room, const char *fmt, ...)
{
    const size_t at = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + at, room - at, fmt, args);
    va_end(args);
}

static bool is_of(const struct copse_case_result *c, const char *device, const char *mode)
{
    return strcmp(c->device, device) == 0 && strcmp(c->mode, mode) == 0;
}

/* ---- a device ---- */

static void kernels_compiled(struct summary *s, const char *device)
{
    const struct copse_case_result *c, *longest = NULL;
    double sum = 0.0;
    unsigned count = 0, others = 0;
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        if (!is_of(c, device, "compile"))
            continue;
        if (c->verdict != COPSE_VERDICT_PASS) {
            others++;
            continue;
        }
        count++;
        sum += c->seconds;
        longest = !longest || c->seconds > longest->seconds ? c : longest;
    }
    if (longest)
        line_add(s, "  compile    %u kernels in %.1f s, the longest %s in %.2f s; %u not compiled",
                 count, sum, longest->op, longest->seconds, others);
}

static void mode_checked(struct summary *s, const char *device, const char *mode)
{
    unsigned counts[COPSE_VERDICT_COUNT] = { 0 };
    const struct copse_case_result *c, *worst = NULL;
    char text[300] = "";
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++)
        if (is_of(c, device, mode)) {
            counts[c->verdict]++;
            if (c->verdict == COPSE_VERDICT_PASS &&
                (!worst || copse_case_share(c) > copse_case_share(worst)))
                worst = c;
        }
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        if (counts[v])
            text_add(text, sizeof text, "%s%u %s", *text ? ", " : "", counts[v],
                     copse_verdict_name((copse_verdict)v));
    const struct journal_place *p = journal_find(&s->g->journal, device, mode);
    if (p && !p->is_done)
        text_add(text, sizeof text, "%snot complete", *text ? ", " : "");
    if (worst && copse_case_share(worst) > 0.0)
        text_add(text, sizeof text, "; largest error %.2f of its limit (%s)",
                 copse_case_share(worst), worst->op);
    if (*text)
        line_add(s, "  %-10s %s", mode, text);
}

static void ceilings_found(struct summary *s, const char *device)
{
    const struct copse_case_result *c;
    char text[380] = "", op[64] = "";
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        if (!is_of(c, device, "ceilings") || c->verdict != COPSE_VERDICT_PASS)
            continue;
        if (strcmp(op, c->op) != 0 && *text) {
            line_add(s, "  %-10s %s", op, text);
            *text = '\0';
        }
        snprintf(op, sizeof op, "%s", c->op);
        text_add(text, sizeof text, "%s%s %s", *text ? "; " : "", c->name, c->text);
    }
    if (*text)
        line_add(s, "  %-10s %s", op, text);
}

/* Whether another case of the op was faster, or as fast and earlier. */
static bool is_surpassed(const struct summary *s, size_t at)
{
    const struct copse_case_result *c, *mine = copse_conformance_case(s->all, at);
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        if (i == at || !is_of(c, mine->device, "perf") || strcmp(c->op, mine->op) != 0 ||
            c->verdict != COPSE_VERDICT_PASS)
            continue;
        const double a = mine->gflops > 0.0 ? c->gflops : c->gbytes;
        const double b = mine->gflops > 0.0 ? mine->gflops : mine->gbytes;
        if (a > b || (!(a < b) && i < at))
            return true;
    }
    return false;
}

static void speeds_found(struct summary *s, const char *device)
{
    const struct journal_ceiling best = journal_ceiling_of(&s->g->journal, device);
    const struct copse_case_result *c;
    unsigned shown = 0, more = 0;
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        if (!is_of(c, device, "perf") || c->verdict != COPSE_VERDICT_PASS || is_surpassed(s, i))
            continue;
        if (shown == MOST_SPEEDS) {
            more++;
            continue;
        }
        const bool is_flops = c->gflops > 0.0;
        const double rate = is_flops ? c->gflops : c->gbytes;
        const double most = is_flops ? best.gflops : best.gbytes;
        char share[32] = "";
        if (most > 0.0 && rate > 1.05 * most)
            snprintf(share, sizeof share, ", above the measured ceiling");
        else if (most > 0.0)
            snprintf(share, sizeof share, ", %.0f %% of the ceiling", 100.0 * rate / most);
        line_add(s, "  %-10s %s %s: %.3g %s%s%s%s", shown ? "" : "fastest", c->op, c->name, rate,
                 is_flops ? "GFLOP/s" : "GB/s", share, *c->variant ? ", " : "", c->variant);
        shown++;
    }
    if (more)
        line_add(s, "  %-10s %u ops more in gpucheck.jsonl, mode perf", "", more);
}

static void sizes_tuned(struct summary *s, const char *device)
{
    const struct copse_case_result *c;
    unsigned count = 0;
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++)
        count += is_of(c, device, "tune") && c->verdict == COPSE_VERDICT_PASS;
    if (count)
        line_add(s, "  tuning     %u measurements, which `copse train` uses here", count);
}

static void device_summed(struct summary *s, const struct copse_checked_device *d)
{
    line_add(s, "");
    line_add(s, "%s  %s, %s, %s", d->id, d->name, d->driver, d->api_version);
    kernels_compiled(s, d->id);
    for (size_t i = 0; gpucheck_parts[i].stage; i++)
        if (gpucheck_parts[i].is_test && s->g->is_taken[i])
            mode_checked(s, d->id, copse_conformance_mode_name(gpucheck_parts[i].mode));
    ceilings_found(s, d->id);
    speeds_found(s, d->id);
    sizes_tuned(s, d->id);
}

/* ---- two devices ---- */

static const struct copse_case_result *
same_case(const struct summary *s, const struct copse_case_result *like, const char *device)
{
    const struct copse_case_result *c;
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++)
        if (is_of(c, device, like->mode) && strcmp(c->op, like->op) == 0 &&
            strcmp(c->name, like->name) == 0 && strcmp(c->variant, like->variant) == 0)
            return c;
    return NULL;
}

/* The same bits are not promised across drivers, where functions round differently. */
static void devices_compared(struct summary *s, const char *a, const char *b)
{
    const struct copse_case_result *c;
    unsigned both = 0, equal = 0;
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        if (!is_of(c, a, "bitwise") || !*c->hash)
            continue;
        const struct copse_case_result *other = same_case(s, c, b);
        both += other && *other->hash;
        equal += other && strcmp(other->hash, c->hash) == 0;
    }
    if (both)
        line_add(s, "%s and %s: %u of %u results have the same bits", a, b, equal, both);
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        const struct copse_case_result *other =
            is_of(c, a, "train") && c->got > 0.0 && strstr(c->name, "steps") ? same_case(s, c, b)
                                                                             : NULL;
        if (other && other->got > 0.0)
            line_add(s, "  training, %s: loss %.9g and %.9g, %.9g in double precision", c->name,
                     c->got, other->got, c->expected);
    }
}

/* ---- the whole ---- */

static void failures_listed(struct summary *s)
{
    const struct copse_case_result *c;
    unsigned shown = 0;
    for (size_t i = 0; (c = copse_conformance_case(s->all, i)) != NULL; i++) {
        if (!copse_verdict_fails(c->verdict) || shown++ >= MOST_FAILURES)
            continue;
        if (shown == 1)
            line_add(s, "");
        line_add(s, "%s %s %s %s: %s: %.200s", copse_verdict_name(c->verdict), c->device, c->mode,
                 c->op, c->name, c->text);
    }
    if (shown > MOST_FAILURES)
        line_add(s, "%u failures more in gpucheck.jsonl", shown - MOST_FAILURES);
}

static void result_told(struct summary *s)
{
    const struct gpucheck *g = s->g;
    uint64_t failed = 0;
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        failed += copse_verdict_fails((copse_verdict)v) ? g->journal.counts[v] : 0;
    line_add(s, "copse gpucheck %s: %.0f s in this run, %llu cases in all", copse_version(),
             system_now() - g->start, (unsigned long long)g->journal.cases);
    if (failed)
        line_add(s, "%llu results are wrong: do not train with the kernels that are blocked below",
                 (unsigned long long)failed);
    else
        line_add(s, "no result is wrong");
    if (!gpucheck_is_complete(s->g))
        line_add(s, "not every case was reached: the same command goes on");
    for (size_t i = 0; gpucheck_parts[i].stage; i++)
        for (size_t d = 0; d < g->count; d++)
            if (!gpucheck_parts[i].is_test && gpucheck_is_open(s->g, i, g->ids[d]))
                line_add(s, "stage %s has not measured everything on %s: the same command goes on",
                         gpucheck_parts[i].stage, g->ids[d]);
    if (g->journal.left_out)
        line_add(s, "%llu cases were left out, because an earlier run died in them",
                 (unsigned long long)g->journal.left_out);
}

static void footer_add(struct summary *s)
{
    char files[500] = "gpucheck.jsonl, summary.txt, card.md";
    for (size_t i = 0; i < s->record_count; i++)
        text_add(files, sizeof files, ", %s", s->records[i]);
    const unsigned cut = s->cut;
    s->lines = 0; /* the lines that were kept free */
    if (cut)
        line_add(s, "%u lines more in card.md", cut);
    line_add(s, "");
    line_add(s, "to send: %s; how: docs/devices/README.md", files);
}

static void all_summed(struct summary *s)
{
    struct copse_checked_device d, e;
    result_told(s);
    for (size_t i = 0; copse_conformance_device(s->all, i, &d); i++)
        device_summed(s, &d);
    if (copse_conformance_device_count(s->all) > 1)
        line_add(s, "");
    for (size_t i = 0; copse_conformance_device(s->all, i, &d); i++)
        for (size_t k = i + 1; copse_conformance_device(s->all, k, &e); k++)
            devices_compared(s, d.id, e.id);
    failures_listed(s);
    footer_add(s);
}

/* ---- files ---- */

static char *file_in(const struct gpucheck *g, const char *name)
{
    char *path = malloc(strlen(g->folder) + strlen(name) + 2);
    if (path)
        sprintf(path, "%s/%s", g->folder, name);
    return path;
}

/* The measurements of a device as a file. Its list of devices is asked in a process of its own. */
static void record_save(struct summary *s, const char *device)
{
    char name[96];
    if (s->record_count == sizeof s->records / sizeof *s->records)
        return;
    snprintf(name, sizeof name, "tuning-%s.txt", device);
    for (char *p = name; *p; p++)
        *p = *p == ':' ? '-' : *p;
    char *path = file_in(s->g, name), *log = file_in(s->g, "record.log");
    const char *const words[] = {
        system_itself(), "tune", "--device", device, "--save", path, NULL
    };
    if (path && log && system_run(words, log) == 0)
        snprintf(s->records[s->record_count++], sizeof *s->records, "%s", name);
    else
        fprintf(stderr,
                "copse gpucheck: warning: no tuning record of %s: `copse tune --save` says "
                "why\n",
                device);
    if (log)
        system_remove(log);
    free(path);
    free(log);
}

static void records_save(struct summary *s)
{
    const struct copse_case_result *c;
    struct copse_checked_device d;
    for (size_t i = 0; copse_conformance_device(s->all, i, &d); i++)
        for (size_t k = 0; (c = copse_conformance_case(s->all, k)) != NULL; k++)
            if (is_of(c, d.id, "tune") && c->gflops > 0.0) {
                record_save(s, d.id);
                break;
            }
}

static copse_status card_save(const struct summary *s, copse_conformance_format format,
                              const char *name)
{
    char *path = file_in(s->g, name);
    const copse_status status =
        path ? copse_conformance_results_write(s->all, format, path)
             : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a card");
    free(path);
    return status;
}

static copse_status summary_save(struct summary *s)
{
    struct output o;
    char *path = file_in(s->g, "summary.txt");
    copse_status status = path
                              ? output_open(&o, path)
                              : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the summary");
    if (status == COPSE_OK) {
        printf("\n");
        s->file = o.stream;
        all_summed(s);
        status = output_commit(&o);
    }
    free(path);
    return status;
}

static void add_summary(struct gpucheck *g)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", "summary");
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++) {
        char name[32];
        snprintf(name, sizeof name, "%s", copse_verdict_name((copse_verdict)v));
        for (char *p = name; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        json_add_count(o, name, g->journal.counts[v]);
    }
    json_add_count(o, "cases", g->journal.cases);
    json_add_number(o, "seconds", g->journal.seconds + system_now() - g->start);
    cJSON_AddBoolToObject(o, "complete", gpucheck_is_complete(g));
    journal_add(&g->journal, o);
}

copse_status gpucheck_finish(struct gpucheck *g)
{
    copse_conformance_results *all = NULL;
    struct summary s = { .g = g };
    add_summary(g);
    COPSE_TRY(g->journal.status);
    if (g->journal.cases == 0) {
        printf("no case was run; a longer --minutes?\n");
        return COPSE_OK;
    }
    COPSE_TRY(copse_conformance_results_read(g->files, g->journal.path, &all));
    s.all = all;
    records_save(&s);
    copse_status status = summary_save(&s);
    if (status == COPSE_OK)
        status = card_save(&s, COPSE_CONFORM_MARKDOWN, "card.md");
    if (status == COPSE_OK)
        status = card_save(&s, COPSE_CONFORM_HTML, "card.html");
    copse_conformance_results_release(&all);
    return status;
}
