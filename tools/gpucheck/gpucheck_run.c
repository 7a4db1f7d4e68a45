/* SPDX-License-Identifier: MIT */
/* The run of `copse gpucheck`: a job of conformance for each part and device. Drivers are used in
   helper processes alone; the events of a job become lines of the file at once. */
#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"
#include "tools/conformance/conform.h"
#include "tools/gpucheck/gpucheck.h"

/* Seconds for each case before it counts as hung. */
static const double DEADLINE = 60.0;
/* A part may exceed its time by this share of it, so that a case can end. */
static const double GRACE_SHARE = 0.25, GRACE_SECONDS = 5.0;
/* For the summary and the cards, at the end: seconds, and the most of the time. */
static const double RESERVE = 5.0, RESERVE_SHARE = 0.05;
static const double WAIT_SECONDS = 0.1;

/* A job, as its callback sees it. */
struct watched {
    struct gpucheck *g;
    const struct gpucheck_part *part; /* NULL: devices are described */
    struct conform_settings show;     /* for the line of progress */
    struct conform_progress progress;
    uint64_t counts[COPSE_VERDICT_COUNT], not_reached;
    bool is_late; /* its time is over, and it is being cancelled */
};

static bool is_stopped(const struct gpucheck *g)
{
    return g->signal != 0 || signals_caught() != 0;
}

/* ---- events ---- */

static void watch_begin(struct watched *w, const struct copse_conformance_event *e)
{
    journal_begin(&w->g->journal, e->result);
    progress_draw(&w->progress, e);
}

static bool is_unreached(const struct copse_case_result *c)
{
    return c->verdict == COPSE_VERDICT_SKIP && strncmp(c->text, "not reached in ", 15) == 0;
}

/* The share of what the device has reached in stage "ceilings". */
static void add_share(const struct gpucheck *g, const struct copse_case_result *c, cJSON *event)
{
    const struct journal_ceiling best = journal_ceiling_of(&g->journal, c->device);
    const bool is_bytes = c->gbytes > 0.0;
    const double most = is_bytes ? best.gbytes : best.gflops;
    const double reached = is_bytes ? c->gbytes : c->gflops;
    if (reached > 0.0 && most > 0.0)
        cJSON_AddNumberToObject(event, "of_ceiling", reached / most);
}

static void watch_result(struct watched *w, const struct copse_conformance_event *e)
{
    const struct copse_case_result *c = e->result;
    struct gpucheck *g = w->g;
    progress_clear(&w->progress);
    if (is_stopped(g) || w->is_late) /* the helper process was killed */
        return;
    if (is_unreached(c)) {
        w->not_reached++;
        return;
    }
    cJSON *event = cJSON_Parse(e->json);
    if (event && w->part->mode == COPSE_CONFORM_PERF)
        add_share(g, c, event);
    journal_add(&g->journal, event);
    journal_rest(&g->journal);
    w->counts[c->verdict]++;
    if (copse_verdict_fails(c->verdict))
        printf("%-10s %-9s %s %s: %s %s%s%s\n", c->device, c->mode, c->op, c->name,
               copse_verdict_name(c->verdict), e->measure, *e->measure && *c->text ? "; " : "",
               c->text);
    fflush(stdout);
}

/* A line that the card takes for the whole check. */
static void watch_started(struct watched *w, const struct copse_conformance_event *e)
{
    char modes[160] = "";
    struct journal *j = &w->g->journal;
    cJSON *o = j->has_start ? NULL : cJSON_Parse(e->json);
    if (!o)
        return;
    for (const struct gpucheck_part *p = gpucheck_parts; p->stage; p++)
        if (w->g->is_taken[p - gpucheck_parts])
            snprintf(modes + strlen(modes), sizeof modes - strlen(modes), "%s%s", *modes ? " " : "",
                     copse_conformance_mode_name(p->mode));
    cJSON_DeleteItemFromObjectCaseSensitive(o, "modes");
    cJSON_DeleteItemFromObjectCaseSensitive(o, "command");
    json_add_text(o, "modes", modes);
    json_add_text(o, "command", "copse gpucheck DIR");
    journal_add(j, o);
}

static void watch_event(void *user, const struct copse_conformance_event *e)
{
    struct watched *w = user;
    if (e->kind == COPSE_CONFORM_STARTED && !w->part)
        watch_started(w, e);
    else if (e->kind == COPSE_CONFORM_BEGIN)
        watch_begin(w, e);
    else if (e->kind == COPSE_CONFORM_RESULT)
        watch_result(w, e);
}

/* ---- a job ---- */

/* Wait for a job until `end`; a signal, and the end of its time, cancel it. */
static copse_status watch_job(struct watched *w, copse_conformance_job *job, double end)
{
    for (;;) {
        const copse_status s = copse_conformance_wait(job, WAIT_SECONDS, NULL);
        if (s != COPSE_ERR_TIMEOUT)
            return s;
        if (is_stopped(w->g) || w->is_late)
            copse_conformance_cancel(job);
        else if (system_now() > end) {
            w->is_late = true;
            copse_conformance_cancel(job);
        }
    }
}

static struct copse_conformance_job_params job_params(struct watched *w)
{
    w->progress.settings = &w->show;
    return (struct copse_conformance_job_params){
        .helper = system_itself(),
        .cache_folder = "",
        .deadline = DEADLINE,
        .event = watch_event,
        .user = w,
        .command = "copse gpucheck DIR",
        .is_verbose = w->g->is_verbose,
    };
}

/* Describe the devices of a selector; `job` is to be released. */
static copse_status describe_devices(struct gpucheck *g, const char *devices,
                                     copse_conformance_job **job)
{
    const double end = system_now() + DEADLINE;
    struct watched w = { .g = g };
    struct copse_conformance_job_params p = job_params(&w);
    p.devices = devices;
    p.work = COPSE_CONFORM_DESCRIBE;
    *job = NULL;
    COPSE_TRY(copse_conformance_start(g->files, &p, job));
    const copse_status s = watch_job(&w, *job, end);
    if (s == COPSE_ERR_CANCELLED && w.is_late)
        return session_set_error(COPSE_ERR_TIMEOUT,
                                 "the drivers did not list their devices in time");
    return s;
}

/* ---- devices ---- */

/* Results of two drivers do not belong into one file. */
static copse_status check_same(const struct gpucheck *g, const struct copse_checked_device *d)
{
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(g->journal.devices, d->id);
    cJSON *now = cJSON_Parse(d->json);
    if (now)
        gpucheck_private_clean(&g->journal.names, now);
    const bool is_same = !old || (strcmp(json_text(old, "name"), json_text(now, "name")) == 0 &&
                                  strcmp(json_text(old, "driver"), json_text(now, "driver")) == 0);
    cJSON_Delete(now);
    return is_same ? COPSE_OK
                   : session_set_error(COPSE_ERR_FORMAT,
                                       "'%s' has results of another device or driver as %s; choose "
                                       "another folder",
                                       g->journal.path, d->id);
}

static bool is_reference(const struct copse_checked_device *d)
{
    return strncmp(d->id, "host", 4) == 0;
}

/* Write the devices, and take those that are not the library's own reference. */
static copse_status take_devices(struct gpucheck *g, const copse_conformance_results *all)
{
    struct copse_checked_device d;
    const bool is_host_named = strstr(g->devices, "host") != NULL;
    g->count = 0;
    for (size_t i = 0; copse_conformance_device(all, i, &d); i++) {
        if ((is_reference(&d) && !is_host_named) || g->count == COPSE_MAX_REPLICAS)
            continue;
        COPSE_TRY(check_same(g, &d));
        cJSON *event = cJSON_Parse(d.json);
        if (event)
            journal_add(&g->journal, event);
        snprintf(g->ids[g->count++], sizeof *g->ids, "%s", d.id);
    }
    if (g->count == 0)
        return session_set_error(COPSE_ERR_NO_DEVICE,
                                 "no driver has a device; `copse devices` says "
                                 "what was found, and why it cannot be used");
    return COPSE_OK;
}

static copse_status find_devices(struct gpucheck *g)
{
    copse_conformance_job *job;
    copse_status s = describe_devices(g, g->devices, &job);
    if (s == COPSE_OK)
        s = take_devices(g, copse_conformance_job_results(job));
    copse_conformance_job_release(&job);
    return s;
}

/* What `copse train` would take. */
static void ask_auto(struct gpucheck *g)
{
    copse_conformance_job *job;
    struct copse_checked_device d;
    if (g->journal.has_auto)
        return;
    if (describe_devices(g, "auto", &job) == COPSE_OK) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "auto");
        cJSON *list = cJSON_AddArrayToObject(o, "devices");
        const copse_conformance_results *all = copse_conformance_job_results(job);
        for (size_t i = 0; copse_conformance_device(all, i, &d); i++)
            cJSON_AddItemToArray(list, cJSON_CreateString(d.id));
        journal_add(&g->journal, o);
    }
    copse_conformance_job_release(&job);
}

/* ---- parts ---- */

static void part_add(struct watched *w, const char *device, double seconds, bool is_done)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", "part");
    json_add_text(o, "stage", w->part->stage);
    json_add_text(o, "device", device);
    json_add_text(o, "mode", copse_conformance_mode_name(w->part->mode));
    cJSON_AddBoolToObject(o, "done", is_done);
    json_add_count(o, "not_reached", w->not_reached);
    json_add_number(o, "seconds", seconds);
    journal_add(&w->g->journal, o);
}

static void part_print(const struct watched *w, const char *device, double seconds, bool is_done)
{
    printf("%-10s %-9s ", device, copse_conformance_mode_name(w->part->mode));
    const char *comma = "";
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        if (w->counts[v]) {
            printf("%s%llu %s", comma, (unsigned long long)w->counts[v],
                   copse_verdict_name((copse_verdict)v));
            comma = ", ";
        }
    if (w->not_reached || !is_done)
        printf("%stime is over", comma);
    printf("%s, %.1f s\n", *comma || !is_done ? "" : "nothing to do", seconds);
    fflush(stdout);
}

/* The part cannot be run; the others follow. */
static void note_error(struct watched *w, const char *device)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", "error");
    json_add_text(o, "stage", w->part->stage);
    json_add_text(o, "device", device);
    json_add_text(o, "mode", copse_conformance_mode_name(w->part->mode));
    json_add_text(o, "text", session_error());
    printf("%-10s %-9s %s\n", device, copse_conformance_mode_name(w->part->mode), session_error());
    journal_add(&w->g->journal, o);
    w->g->has_error = true;
}

static copse_status start_part(struct watched *w, const char *device, double seconds,
                               const char *after, copse_conformance_job **job)
{
    struct copse_conformance_job_params p = job_params(w);
    p.devices = device;
    p.modes = w->part->mode;
    p.tier = w->part->tier;
    p.ops = w->part->ops;
    p.seconds = seconds;
    p.after = *after ? after : NULL;
    return copse_conformance_start(w->g->files, &p, job);
}

static copse_status run_part(struct gpucheck *g, const struct gpucheck_part *part,
                             const char *device, double seconds)
{
    const double start = system_now();
    const double own = GRACE_SHARE * seconds, grace = own < GRACE_SECONDS ? own : GRACE_SECONDS;
    const double end = start + seconds + grace < g->end ? start + seconds + grace : g->end;
    struct watched w = { .g = g, .part = part };
    copse_conformance_job *job = NULL;
    char after[400] = "";
    const struct journal_place *p =
        journal_find(&g->journal, device, copse_conformance_mode_name(part->mode));
    if (p)
        memcpy(after, p->after, sizeof after);
    copse_status s = start_part(&w, device, seconds, after, &job);
    if (s == COPSE_OK)
        s = watch_job(&w, job, end);
    copse_conformance_job_release(&job);
    if (s == COPSE_ERR_ARGUMENT && *after) { /* a case that is not planned was the last one */
        s = start_part(&w, device, seconds, "", &job);
        if (s == COPSE_OK)
            s = watch_job(&w, job, end);
        copse_conformance_job_release(&job);
    }
    if (s != COPSE_OK && s != COPSE_ERR_CANCELLED)
        note_error(&w, device);
    journal_rest(&g->journal);
    if (is_stopped(g))
        return COPSE_ERR_CANCELLED;
    const double spent = system_now() - start;
    const bool is_done = s == COPSE_OK && w.not_reached == 0;
    part_add(&w, device, spent, is_done);
    part_print(&w, device, spent, is_done);
    return g->journal.status;
}

bool gpucheck_is_open(struct gpucheck *g, size_t part, const char *device)
{
    const struct journal_place *p =
        journal_find(&g->journal, device, copse_conformance_mode_name(gpucheck_parts[part].mode));
    return g->is_taken[part] && !(p && p->is_done);
}

/* Shares of all parts from here on that are not done. */
static double shares_left(struct gpucheck *g, size_t part, size_t device)
{
    double sum = 0.0;
    for (size_t i = part; gpucheck_parts[i].stage; i++)
        for (size_t d = i == part ? device : 0; d < g->count; d++)
            sum += gpucheck_is_open(g, i, g->ids[d]) ? gpucheck_parts[i].share : 0.0;
    return sum;
}

static copse_status run_parts(struct gpucheck *g)
{
    for (size_t i = 0; gpucheck_parts[i].stage; i++)
        for (size_t d = 0; d < g->count; d++) {
            const double left = g->end - system_now();
            if (!gpucheck_is_open(g, i, g->ids[d]) || left < 1.0)
                continue;
            const double seconds = left * gpucheck_parts[i].share / shares_left(g, i, d);
            COPSE_TRY(run_part(g, &gpucheck_parts[i], g->ids[d], seconds));
        }
    return COPSE_OK;
}

bool gpucheck_is_complete(struct gpucheck *g)
{
    for (size_t i = 0; gpucheck_parts[i].stage; i++)
        for (size_t d = 0; d < g->count; d++)
            if (gpucheck_parts[i].is_test && gpucheck_is_open(g, i, g->ids[d]))
                return false;
    return g->journal.left_out == 0;
}

copse_status gpucheck_run(struct gpucheck *g)
{
    g->start = system_now();
    const double reserve = RESERVE_SHARE * g->seconds;
    g->end = g->start + g->seconds - (reserve < RESERVE ? reserve : RESERVE);
    COPSE_TRY(session_open_files(&g->files));
    COPSE_TRY(journal_open(&g->journal, g->folder));
    copse_status s = find_devices(g);
    if (s == COPSE_OK) {
        ask_auto(g);
        s = run_parts(g);
        if (s == COPSE_OK)
            s = find_devices(g); /* with their blocked kernels */
    }
    g->signal = signals_caught();
    return is_stopped(g) ? COPSE_OK : s;
}
