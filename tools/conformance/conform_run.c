/* SPDX-License-Identifier: MIT */
/* A run of `copse conformance`: a job of the library, whose events become lines. */
#include <stdlib.h>
#include <string.h>

#include "tools/common/plural.h"
#include "tools/conformance/conform.h"

/* ---- the helper process: this command ---- */

static copse_status open_context(void *user, const struct copse_context_params *params,
                                 bool is_verbose, copse_context **out)
{
    (void)user;
    return session_open(
        &(struct session_how){ .is_verbose = is_verbose, .no_cache = !params->cache_folder }, out);
}

const struct copse_conformance_helper_params conform_helper = { .open = open_context,
                                                                .read_kernel = conform_own_read };

/* ---- names ---- */

bool conform_find_mode(const char *name, unsigned *mode)
{
    for (*mode = 1; *mode; *mode <<= 1)
        if (*copse_conformance_mode_name(*mode) &&
            strcmp(copse_conformance_mode_name(*mode), name) == 0)
            return true;
    return false;
}

bool conform_find_tier(const char *name, copse_conformance_tier *tier)
{
    for (int t = COPSE_CONFORM_QUICK; t <= COPSE_CONFORM_EXHAUSTIVE; t++) {
        *tier = (copse_conformance_tier)t;
        if (strcmp(copse_conformance_tier_name(*tier), name) == 0)
            return true;
    }
    return false;
}

/* ---- events ---- */

struct run {
    const struct conform_settings *settings;
    const char *action;
    struct conform_progress progress;
    cJSON *blocked; /* before the run */
    size_t planned; /* lines of `list` */
    bool is_held;   /* signals, while files are written */
};

static void on_summary(struct run *r, const struct copse_conformance_event *e)
{
    const struct conform_settings *s = r->settings;
    if (strcmp(r->action, "support") == 0)
        table_support(s, e->results);
    if (s->is_json) {
        report_line(e->json);
    } else {
        table_tune(e->results);
        report_unblocked(e->results, r->blocked);
        report_summary(s, e->results);
    }
    signals_hold();
    r->is_held = true;
}

/* Waits for the devices; the library then runs the cases. */
static void on_ready(struct run *r, const struct copse_conformance_event *e)
{
    if (r->settings->job.work != COPSE_CONFORM_CHECK)
        return;
    report_start(r->settings, e->results);
    r->blocked = report_blocked(e->results);
}

/* As where a program compiles. */
static void on_compiling(const struct conform_settings *s, const char *json)
{
    cJSON *o = cJSON_Parse(json);
    const struct copse_progress p = {
        .device = json_text(o, "device"),
        .kernel = "",
        .done = (uint32_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, "done")),
        .total = (uint32_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, "kernels")),
    };
    compiling_show(s->is_json ? COMPILING_JSON : s->is_quiet ? COMPILING_SILENT : COMPILING_TEXT);
    if (p.total > 0)
        compiling_progress(NULL, &p);
    compiling_show(COMPILING_SILENT);
    cJSON_Delete(o);
}

static void on_event(void *user, const struct copse_conformance_event *e)
{
    struct run *r = user;
    const struct conform_settings *s = r->settings;
    switch (e->kind) {
    case COPSE_CONFORM_STARTED:
    case COPSE_CONFORM_DEVICE:
        if (s->is_json)
            report_line(e->json);
        break;
    case COPSE_CONFORM_READY:
        on_ready(r, e);
        break;
    case COPSE_CONFORM_PLANNED:
        r->planned++;
        if (s->is_json)
            report_line(e->json);
        else
            table_plan(e->result);
        break;
    case COPSE_CONFORM_BEGIN:
        progress_draw(&r->progress, e);
        break;
    case COPSE_CONFORM_RESULT:
        progress_clear(&r->progress);
        report_case(s, e);
        break;
    case COPSE_CONFORM_MODE:
        progress_clear(&r->progress);
        report_mode(s, e->results, e->first);
        break;
    case COPSE_CONFORM_SUMMARY:
        on_summary(r, e);
        break;
    case COPSE_CONFORM_COMPILING:
        on_compiling(s, e->json);
        break;
    }
}

/* ---- the job ---- */

static void command_text(int argc, char **argv, char *out, size_t room)
{
    size_t at = (size_t)snprintf(out, room, "copse");
    for (int i = 0; i < argc && at < room; i++) {
        const bool is_plain = argv[i][0] && !strpbrk(argv[i], " '\"$&;<>()|*?[]#~`\\\t\n");
        const char *quote = is_plain ? "" : strchr(argv[i], '\'') ? "\"" : "'";
        at += (size_t)snprintf(out + at, room - at, " %s%s%s", quote, argv[i], quote);
    }
}

static copse_status conform_run_finish(const struct run *r, copse_conformance_job *job,
                                       struct copse_conformance_outcome *outcome)
{
    const copse_status s = copse_conformance_wait(job, -1.0, outcome);
    if (s == COPSE_OK && strcmp(r->action, "info") == 0 && !r->settings->is_json)
        table_info(copse_conformance_job_results(job));
    if (s == COPSE_OK && strcmp(r->action, "list") == 0 && !r->settings->is_json)
        printf("\n%zu case%s in tier %s\n", r->planned, plural_end(r->planned),
               copse_conformance_tier_name(r->settings->job.tier));
    return s;
}

int conform_run(struct conform_settings *s, const char *action, int argc, char **argv)
{
    struct run r = { .settings = s, .action = action, .progress = { .settings = s } };
    struct copse_conformance_outcome outcome = { .failed = 0 };
    copse_conformance_job *job = NULL;
    copse_context *ctx = NULL;
    char command[1024];
    command_text(argc, argv, command, sizeof command);
    s->job.work = strcmp(action, "info") == 0   ? COPSE_CONFORM_DESCRIBE
                  : strcmp(action, "list") == 0 ? COPSE_CONFORM_PLAN
                                                : COPSE_CONFORM_CHECK;
    s->job.command = command;
    s->job.helper = system_itself();
    s->job.cache_folder = "";
    s->job.in_process = s->is_isolated ? NULL : &conform_helper;
    s->job.is_verbose = s->is_verbose && !s->is_json;
    s->job.event = on_event;
    s->job.user = &r;
    copse_status status = session_open_files(&ctx);
    if (status == COPSE_OK)
        status = copse_conformance_start(ctx, &s->job, &job);
    if (status == COPSE_OK)
        status = conform_run_finish(&r, job, &outcome);
    const bool is_short = outcome.not_reached > 0 && !(s->job.modes & COPSE_CONFORM_TUNE);
    int code = outcome.failed > 0 ? EXIT_FAILED : is_short ? EXIT_INCOMPLETE : EXIT_DONE;
    if (status != COPSE_OK)
        code = session_fail(status);
    if (r.is_held)
        signals_release();
    cJSON_Delete(r.blocked);
    copse_conformance_job_release(&job);
    copse_context_release(&ctx);
    return code;
}
