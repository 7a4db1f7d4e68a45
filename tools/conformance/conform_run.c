/* SPDX-License-Identifier: MIT */
/* Runs devices and modes one after the other, one job each, and stores and reports the events. If a job dies, the
   current case gets the verdict and a new job continues after it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/conformance/card.h"
#include "tools/conformance/conform_run.h"

#define MOST_KERNELS 128

/* Names of kernels, each once. */
struct kernel_names {
    char at[MOST_KERNELS][48];
    size_t count;
};

/* A case, as the begin event names it. */
struct place {
    char mode[32], op[64], name[192], variant[64];
    struct kernel_names used;
};

struct run {
    const struct conform_settings *settings;
    struct conform_set set;
    struct conform_progress progress;
    const char *device; /* of the job */
    const char *ops;    /* as requested, or the op of the user kernel */
    cJSON *plan;        /* array of "plan" events of the device */
    struct place now;   /* started and not ended, op "" = none */
    struct kernel_names proven; /* kernels that passed a case of their own on the device */
    size_t blocked;     /* kernels that were blocked because a job died */
    cJSON *blocked_before; /* for each device by id: the list "blocked" before the run */
    bool has_devices_to_tell;
    bool own_was_used;  /* any mode ran the user kernel */
    char own_text[512]; /* why not */
};

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- events ---- */

static void set_place(struct run *r, const cJSON *event)
{
    snprintf(r->now.mode, sizeof r->now.mode, "%s", json_text(event, "mode"));
    snprintf(r->now.op, sizeof r->now.op, "%s", json_text(event, "op"));
    snprintf(r->now.name, sizeof r->now.name, "%s", json_text(event, "name"));
    snprintf(r->now.variant, sizeof r->now.variant, "%s", json_text(event, "variant"));
    snprintf(r->progress.label, sizeof r->progress.label, "%s %s %s: %s", r->device,
             r->now.mode, r->now.op, r->now.name);
    progress_draw(&r->progress);
}

static bool has_kernel(const struct kernel_names *k, const char *name)
{
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->at[i], name) == 0)
            return true;
    return false;
}

static void add_kernel(struct kernel_names *k, const char *name)
{
    if (k->count < MOST_KERNELS && !has_kernel(k, name))
        snprintf(k->at[k->count++], sizeof *k->at, "%s", name);
}

/* A case that ended. */
static void note_proof(struct run *r, const cJSON *event)
{
    if (r->now.used.count == 1 && conform_verdict(json_text(event, "verdict")) == COPSE_VERDICT_PASS)
        add_kernel(&r->proven, r->now.used.at[0]);
    r->now.op[0] = '\0';
    r->now.used.count = 0;
}

static void on_event(void *user, cJSON *event)
{
    struct run *r = user;
    const char *name = json_text(event, "event");
    if (strcmp(name, "plan") == 0 && cJSON_AddItemToArray(r->plan, event))
        return;
    if (strcmp(name, "begin") == 0) {
        r->now.used.count = 0;
        set_place(r, event);
    } else if (strcmp(name, "uses") == 0) {
        add_kernel(&r->now.used, json_text(event, "kernel"));
    } else if (strcmp(name, "case") == 0) {
        note_proof(r, event);
        r->progress.done++;
        if (conform_set_take(&r->set, event)) {
            progress_clear(&r->progress);
            report_case(r->settings, &r->set.cases[r->set.case_count - 1]);
        }
        return;
    }
    if (r->has_devices_to_tell && r->settings->is_json && strcmp(name, "device") == 0)
        report_event(event);
    conform_set_take(&r->set, event);
}

/* ---- jobs ---- */

static struct conform_job job_of(const struct run *r, enum conform_job_kind kind)
{
    const struct conform_settings *s = r->settings;
    return (struct conform_job){
        .kind = kind,
        .device = r->device,
        .modes = s->modes,
        .tier = (copse_conformance_tier)s->tier->value,
        .ops = r->ops,
        .case_name = s->case_name,
        .variant = s->variant,
        .own_path = s->own_path,
        .kernel = s->kernel,
        .is_verbose = s->is_verbose && !s->is_json,
    };
}

static void do_job(struct run *r, const struct conform_job *j, struct conform_ended *ended)
{
    r->now.op[0] = '\0';
    conform_job_run(j, r->settings->is_isolated, r->settings->deadline, on_event, r, ended);
}

/* A job that must complete: the drivers' lists, the plan. */
static copse_status must_end(const struct conform_ended *e, const char *what)
{
    if (e->how == END_DONE)
        return e->status == COPSE_OK ? COPSE_OK : session_set_error(e->status, "%s", e->text);
    return session_set_error(COPSE_ERR_INTERNAL, "%s: %s; --verbose says how far it came", what,
                             e->text);
}

static copse_status ask_devices(struct run *r, const char *selector, bool is_told)
{
    struct conform_ended ended;
    struct conform_job j = { .kind = JOB_DEVICES, .device = selector };
    r->has_devices_to_tell = is_told;
    do_job(r, &j, &ended);
    return must_end(&ended, "looking for devices");
}

static void make_plan(struct run *r, struct conform_ended *ended)
{
    const struct conform_job j = job_of(r, JOB_LIST);
    cJSON_Delete(r->plan);
    r->plan = cJSON_CreateArray();
    do_job(r, &j, ended);
}

static size_t planned(const struct run *r, const char *mode)
{
    const cJSON *o;
    size_t count = 0;
    cJSON_ArrayForEach(o, r->plan)
        count += strcmp(json_text(o, "mode"), mode) == 0;
    return count;
}

static bool is_planned(const struct run *r, const char *mode, const char *op, size_t length)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan) {
        const char *name = json_text(o, "op");
        if (strcmp(json_text(o, "mode"), mode) == 0 && strlen(name) == length &&
            memcmp(name, op, length) == 0)
            return true;
    }
    return false;
}

/* The requested ops that have cases in this mode. Each op has cases in some mode. */
static const char *ops_of(const struct run *r, const char *mode, char *out, size_t room)
{
    size_t at = 0;
    *out = '\0';
    for (const char *op = r->ops; op;) {
        const size_t n = strcspn(op, ",");
        if (is_planned(r, mode, op, n) && at + n + 2 < room)
            at += (size_t)snprintf(out + at, room - at, "%s%.*s", at ? "," : "", (int)n, op);
        op = op[n] ? op + n + 1 : NULL;
    }
    return r->ops ? out : NULL;
}

/* ---- a job that died ---- */

/* Seed and type of the started case, if the plan has them. */
static void add_planned(const struct run *r, cJSON *to)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan)
        if (strcmp(json_text(o, "op"), r->now.op) == 0 &&
            strcmp(json_text(o, "name"), r->now.name) == 0) {
            cJSON_AddStringToObject(to, "type", json_text(o, "type"));
            cJSON_AddStringToObject(to, "seed", json_text(o, "seed"));
            return;
        }
}

static void tell_loss(struct run *r, const char *mode, copse_verdict verdict, const char *text)
{
    cJSON *o = cJSON_CreateObject();
    const bool is_begun = r->now.op[0];
    cJSON_AddStringToObject(o, "event", "case");
    cJSON_AddStringToObject(o, "device", r->device);
    cJSON_AddStringToObject(o, "mode", mode);
    cJSON_AddStringToObject(o, "op", is_begun ? r->now.op : "");
    cJSON_AddStringToObject(o, "name", is_begun ? r->now.name : "between cases");
    cJSON_AddStringToObject(o, "variant", is_begun ? r->now.variant : "");
    cJSON_AddStringToObject(o, "verdict", copse_verdict_name(verdict));
    add_planned(r, o);
    cJSON_AddStringToObject(o, "text", text);
    on_event(r, o);
}

static copse_verdict verdict_of(const struct conform_ended *e)
{
    return e->how == END_CRASHED                    ? COPSE_VERDICT_CRASH
           : e->how == END_TIMED_OUT                ? COPSE_VERDICT_TIMEOUT
           : e->status == COPSE_ERR_DEVICE_LOST     ? COPSE_VERDICT_DEVICE_LOST
           : e->status == COPSE_ERR_NO_DEVICE_MEMORY ? COPSE_VERDICT_OOM
                                                    : COPSE_VERDICT_FAIL;
}

static void block(struct run *r, const struct conform_job *died, const struct place *p, const char *kernel,
                  const struct conform_ended *how)
{
    struct conform_ended ended;
    const struct conform_job j = {
        .kind = JOB_BLOCK, .device = r->device, .modes = died->modes, .tier = died->tier,
        .ops = p->op, .case_name = p->name, .kernel = kernel, .reason = how->text,
        .verdict = verdict_of(how),
    };
    do_job(r, &j, &ended);
    r->blocked++;
}

/* Whether the plan has variants of the case, which are run after it. */
static bool has_variants(const struct run *r, const struct place *p)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan)
        if (strcmp(json_text(o, "mode"), p->mode) == 0 && strcmp(json_text(o, "op"), p->op) == 0 &&
            strcmp(json_text(o, "name"), p->name) == 0 && *json_text(o, "variant"))
            return true;
    return false;
}

/* Modes in which a process that dies is the fault of a kernel. */
static bool is_about_kernels(const char *mode)
{
    static const char *const others[] = { "args", "limits", "import", "perf" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], mode) == 0)
            return false;
    return true;
}

/* The process died with the library's choice of kernels: block those that have not passed a case of their own, or all
   of them. */
static void block_used(struct run *r, const struct conform_job *died, const struct place *p, const struct conform_ended *how)
{
    size_t unproven = 0;
    for (size_t i = 0; i < p->used.count; i++)
        unproven += !has_kernel(&r->proven, p->used.at[i]);
    for (size_t i = 0; i < p->used.count && is_about_kernels(p->mode); i++)
        if (unproven == 0 || !has_kernel(&r->proven, p->used.at[i]))
            block(r, died, p, p->used.at[i], how);
}

/* The process died with the library's choice of kernels: find the variant, or the kernels, that caused it. */
static void find_culprit(struct run *r, const struct conform_job *died, const struct place *p,
                         const struct conform_ended *how);

/* Run the cases of one mode. */
static void run_cases(struct run *r, const struct conform_job *first)
{
    struct conform_job j = *first;
    struct conform_ended ended;
    char after[400], last[400] = "";
    const double until = j.seconds > 0.0 ? clock_now() + j.seconds : 0.0;
    const char *mode = "";
    for (const struct conform_name *m = conform_modes; m->name; m++)
        if (m->value == j.modes)
            mode = m->name;
    for (;;) {
        do_job(r, &j, &ended);
        if (ended.how == END_DONE && ended.status == COPSE_OK) {
            r->own_was_used = true;
            return;
        }
        if (ended.how == END_DONE && ended.status == COPSE_ERR_ARGUMENT && j.own_path) {
            snprintf(r->own_text, sizeof r->own_text, "%s", ended.text);
            return;
        }
        const struct place p = r->now;
        tell_loss(r, mode, verdict_of(&ended), ended.text);
        snprintf(after, sizeof after, "%s/%s/%s/%s", p.mode, p.op, p.name, p.variant);
        if (ended.how == END_DONE || !p.op[0] || strcmp(after, last) == 0)
            return; /* the remaining cases are skipped */
        if (p.variant[0] && !j.own_path)
            block(r, &j, &p, p.variant, &ended);
        else if (!p.variant[0] && !j.own_path)
            find_culprit(r, &j, &p, &ended);
        memcpy(last, after, sizeof last);
        j.after = last;
        if (until > 0.0) /* no time left: a tiny limit, so that the remaining cases are listed as not reached */
            j.seconds = until > clock_now() + 0.001 ? until - clock_now() : 0.001;
    }
}

/* In the other tiers the variants follow anyway. */
static void run_variants(struct run *r, unsigned mode, const struct place *p)
{
    struct conform_ended ended;
    struct conform_job j = job_of(r, JOB_LIST);
    const cJSON *o;
    cJSON *plan = r->plan;
    j.modes = mode;
    j.tier = COPSE_CONFORM_STANDARD;
    j.ops = p->op;
    j.case_name = p->name;
    r->plan = cJSON_CreateArray();
    do_job(r, &j, &ended);
    j.kind = JOB_RUN;
    j.tier = COPSE_CONFORM_QUICK; /* the tier of the lines that repeat these cases */
    cJSON_ArrayForEach(o, r->plan) {
        j.variant = json_text(o, "variant");
        if (*j.variant)
            run_cases(r, &j);
    }
    cJSON_Delete(r->plan);
    r->plan = plan;
}

static void find_culprit(struct run *r, const struct conform_job *died, const struct place *p,
                         const struct conform_ended *how)
{
    const size_t before = r->blocked;
    if (died->tier == COPSE_CONFORM_QUICK && !died->variant)
        run_variants(r, died->modes, p);
    else if (has_variants(r, p) && !died->variant)
        return;
    if (r->blocked == before)
        block_used(r, died, p, how);
}

/* ---- a run ---- */

static unsigned count_modes(const struct run *r, const struct conform_name *from)
{
    unsigned count = 0;
    for (const struct conform_name *m = from; m->name; m++)
        count += (r->settings->modes & m->value) && planned(r, m->name) > 0;
    return count;
}

static copse_status run_device(struct run *r, const char *device)
{
    const struct conform_settings *s = r->settings;
    const double start = clock_now();
    struct conform_ended ended;
    r->device = device;
    r->proven.count = 0;
    make_plan(r, &ended);
    if (ended.how == END_DONE && (ended.status == COPSE_ERR_ARGUMENT ||
                                  ended.status == COPSE_ERR_FORMAT || ended.status == COPSE_ERR_IO))
        return session_set_error(ended.status, "%s", ended.text);
    if (ended.how != END_DONE || ended.status != COPSE_OK) {
        tell_loss(r, "open", verdict_of(&ended), ended.text);
        return COPSE_OK; /* other devices follow */
    }
    /* The cases of its op check a user kernel, if an op has its name; in mode launch, ops are kernels. */
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan)
        if (s->own_path && !r->ops && strcmp(json_text(o, "op"), s->kernel) == 0 &&
            strcmp(json_text(o, "mode"), "launch") != 0)
            r->ops = s->kernel;
    if (r->ops && r->ops == s->kernel)
        make_plan(r, &ended);
    r->progress.planned += cJSON_GetArraySize(r->plan) > 0 ? (size_t)cJSON_GetArraySize(r->plan) : 0;
    for (const struct conform_name *m = conform_modes; m->name; m++) {
        struct conform_job j = job_of(r, JOB_RUN);
        const size_t from = r->set.case_count;
        char ops[4096];
        if (!(s->modes & m->value) || planned(r, m->name) == 0)
            continue;
        j.modes = m->value;
        j.ops = ops_of(r, m->name, ops, sizeof ops);
        if (s->seconds > 0.0) {
            const double left = s->seconds - (clock_now() - start);
            j.seconds = left > 0.001 ? left / count_modes(r, m) : 0.001;
        }
        run_cases(r, &j);
        progress_clear(&r->progress);
        report_mode(s, &r->set, from);
    }
    return COPSE_OK;
}

static void tell_start(struct run *r)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "start");
    cJSON_AddStringToObject(o, "library", r->set.library);
    cJSON_AddStringToObject(o, "started", r->set.started);
    cJSON_AddStringToObject(o, "tier", r->settings->tier->name);
    cJSON_AddStringToObject(o, "modes", r->set.modes);
    cJSON_AddStringToObject(o, "command", r->set.command);
    if (r->settings->is_json)
        report_event(o);
    cJSON_Delete(o);
}

static copse_status write_files(const struct run *r)
{
    const struct conform_settings *s = r->settings;
    if (s->junit)
        COPSE_TRY(conform_junit(s->junit, s, &r->set));
    if (s->csv)
        COPSE_TRY(conform_csv(s->csv, &r->set));
    if (s->card)
        COPSE_TRY(card_html(s->card, s, &r->set));
    if (s->markdown)
        COPSE_TRY(card_markdown(s->markdown, s, &r->set));
    return COPSE_OK;
}

static uint64_t count_bad(const struct conform_set *set)
{
    uint64_t count = 0;
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        count += conform_is_bad((copse_verdict)v) ? set->counts[v] : 0;
    return count;
}

static copse_status run_modes(struct run *r, bool is_support)
{
    const struct conform_settings *s = r->settings;
    const double start = clock_now();
    char ids[COPSE_MAX_REPLICAS][32];
    const size_t count = r->set.device_count;
    report_start(s, &r->set);
    r->blocked_before = cJSON_CreateObject();
    for (size_t i = 0; i < count; i++) {
        const cJSON *blocked = cJSON_GetObjectItemCaseSensitive(r->set.devices[i].json, "blocked");
        snprintf(ids[i], sizeof ids[i], "%s", r->set.devices[i].id);
        cJSON_AddItemToObject(r->blocked_before, ids[i], cJSON_Duplicate(blocked, true));
    }
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(run_device(r, ids[i]));
    r->set.seconds = clock_now() - start;
    /* A kernel that does not compile was not used either, but its cases have failed. */
    if (s->own_path && !r->own_was_used && r->own_text[0] && count_bad(&r->set) == 0)
        return session_set_error(COPSE_ERR_ARGUMENT, "%s", r->own_text);
    /* Read the lists again to find new blocks. A failure to read them does not fail the run. */
    (void)ask_devices(r, s->devices, s->is_json);
    if (r->set.has_no_memory)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for all results");
    if (is_support)
        table_support(s, &r->set);
    for (size_t i = 0; i < count && !s->is_json; i++)
        table_tune(&r->set, ids[i]);
    for (size_t i = 0; i < count; i++)
        report_unblocked(s, &r->set, ids[i],
                         cJSON_GetObjectItemCaseSensitive(r->blocked_before, ids[i]));
    report_summary(s, &r->set);
    return write_files(r);
}

static copse_status run_action(struct run *r, const char *action)
{
    const struct conform_settings *s = r->settings;
    struct conform_ended ended;
    tell_start(r);
    COPSE_TRY(ask_devices(r, s->devices, s->is_json));
    if (r->set.device_count == 0)
        return session_set_error(COPSE_ERR_NO_DEVICE, "no device");
    if (strcmp(action, "info") == 0) {
        table_info(s, &r->set);
        return COPSE_OK;
    }
    if (strcmp(action, "list") == 0) {
        r->device = r->set.devices[0].id;
        make_plan(r, &ended);
        COPSE_TRY(must_end(&ended, r->device));
        table_list(s, r->plan);
        return COPSE_OK;
    }
    return run_modes(r, strcmp(action, "support") == 0);
}

/* ---- what the card says about the run ---- */

static void modes_text(unsigned modes, char *out, size_t room)
{
    size_t at = 0;
    *out = '\0';
    for (const struct conform_name *m = conform_modes; m->name && at < room; m++)
        if (modes & m->value)
            at += (size_t)snprintf(out + at, room - at, "%s%s", at ? " " : "", m->name);
}

static void command_text(int argc, char **argv, char *out, size_t room)
{
    size_t at = (size_t)snprintf(out, room, "copse");
    for (int i = 0; i < argc && at < room; i++) {
        const bool is_plain = argv[i][0] && !strpbrk(argv[i], " '\"$&;<>()|*?[]#~`\\\t\n");
        const char *quote = is_plain ? "" : strchr(argv[i], '\'') ? "\"" : "'";
        at += (size_t)snprintf(out + at, room - at, " %s%s%s", quote, argv[i], quote);
    }
}

int conform_run(const struct conform_settings *s, const char *action, int argc, char **argv)
{
    char modes[128], command[1024];
    const time_t now = time(NULL);
    struct tm utc;
    struct run r = { .settings = s, .ops = s->ops, .progress = { .settings = s } };
    modes_text(s->modes, modes, sizeof modes);
    command_text(argc, argv, command, sizeof command);
    snprintf(r.set.library, sizeof r.set.library, "%s", copse_version());
    if (gmtime_r(&now, &utc))
        strftime(r.set.started, sizeof r.set.started, "%Y-%m-%d %H:%M UTC", &utc);
    r.set.modes = modes;
    r.set.command = command;
    const copse_status status = run_action(&r, action);
    int code = count_bad(&r.set) > 0 ? EXIT_FAILED : EXIT_DONE;
    if (status != COPSE_OK)
        code = session_fail(status);
    cJSON_Delete(r.plan);
    cJSON_Delete(r.blocked_before);
    conform_set_free(&r.set);
    return code;
}
