/* SPDX-License-Identifier: MIT */
/* Runs devices and modes one after the other, one request each, and stores the events. If a helper
   process dies, the current case gets the verdict and a new process continues after it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "copse/strategy.h"
#include "core/base/cache_folder.h"
#include "prover/conformance/verdict/conformance.h"
#include "prover/isolation/job.h"

/* The part of the time of a device that compiling ahead may take. */
static const double MOST_COMPILING = 2.0 / 3.0;

/* A case, as the begin event names it. */
struct place {
    char mode[32], op[64], name[192], variant[64];
    struct copse_kernel_names used;
};

struct run {
    copse_conformance_job *job;
    const struct copse_conformance_job_params *params;
    const char *device;               /* of the request */
    const char *ops;                  /* as requested, or the op of the user kernel */
    cJSON *plan;                      /* array of "plan" events of the device */
    struct place now;                 /* started and not ended, op "" = none */
    struct copse_kernel_names proven; /* kernels that passed a case of their own on the device */
    size_t blocked;                   /* kernels that were blocked because a process died */
    bool own_was_used;                /* any mode ran the user kernel */
    char own_text[COPSE_ERROR_BYTES]; /* why not */
};

static double seconds_since(uint64_t start)
{
    return (double)(copse__now_ns() - start) * 1e-9;
}

static bool is_stopped(const struct run *r)
{
    return atomic_load(&r->job->is_cancelled);
}

/* ---- events ---- */

static void on_begin(struct run *r, const cJSON *event)
{
    char label[320];
    snprintf(r->now.mode, sizeof r->now.mode, "%s", copse__json_text(event, "mode"));
    snprintf(r->now.op, sizeof r->now.op, "%s", copse__json_text(event, "op"));
    snprintf(r->now.name, sizeof r->now.name, "%s", copse__json_text(event, "name"));
    snprintf(r->now.variant, sizeof r->now.variant, "%s", copse__json_text(event, "variant"));
    snprintf(label, sizeof label, "%s %s %s: %s", r->device, r->now.mode, r->now.op, r->now.name);
    copse__job_count(r->job, 0, 0, label);
    const struct copse_case_result result = {
        .device = r->device,
        .mode = r->now.mode,
        .op = r->now.op,
        .name = r->now.name,
        .variant = r->now.variant,
        .type = "",
        .metric = "",
        .hash = "",
        .text = "",
    };
    copse__job_tell(r->job, COPSE_CONFORM_BEGIN, NULL, &result, 0);
}

static void block_in(copse_context *ctx, const char *device, const struct copse_case_result *c,
                     copse_conformance_tier tier)
{
    if (copse_device_block_case(ctx, device, c, tier) != COPSE_OK)
        copse__log(&ctx->base.log, COPSE_LOG_DEBUG, "conformance: %s is not blocked: %s",
                   c->variant, copse_last_error());
}

/* A kernel that failed is blocked by the helper process in its cache folder. The application's
   context has another list. */
static void block_here(const struct run *r, const struct copse_case_result *c)
{
    struct copse_device_info info;
    if (!copse_verdict_fails(c->verdict) || c->verdict == COPSE_VERDICT_XPASS || !*c->variant ||
        r->params->own_path || copse__device_find(r->job->ctx, c->device, &info) != COPSE_OK)
        return;
    if (r->params->cache_folder &&
        copse__cache_folder_is(&r->job->ctx->base.cache, r->params->cache_folder))
        copse__device_refresh(r->job->ctx, &info); /* the same list */
    else if (c->verdict != COPSE_VERDICT_TIMEOUT && c->verdict != COPSE_VERDICT_CRASH)
        block_in(r->job->ctx, c->device, c, r->params->tier);
}

static bool has_kernel(const struct copse_kernel_names *k, const char *name)
{
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->at[i], name) == 0)
            return true;
    return false;
}

static void add_kernel(struct copse_kernel_names *k, const char *name)
{
    if (k->count < COPSE_COUNT(k->at) && !has_kernel(k, name))
        snprintf(k->at[k->count++], sizeof *k->at, "%s", name);
}

static void on_case(struct run *r, cJSON *event)
{
    copse_conformance_results *all = r->job->results;
    if (r->now.used.count == 1 &&
        strcmp(copse__json_text(event, "verdict"), copse_verdict_name(COPSE_VERDICT_PASS)) == 0)
        add_kernel(&r->proven, r->now.used.at[0]);
    r->now.op[0] = '\0';
    r->now.used.count = 0;
    copse__job_count(r->job, 1, 0, NULL);
    if (!copse__results_take(all, event))
        return;
    block_here(r, &all->cases[all->case_count - 1]);
    copse__job_tell(r->job, COPSE_CONFORM_RESULT, all->json[all->case_count - 1],
                    &all->cases[all->case_count - 1], 0);
}

static bool on_event(void *user, cJSON *event)
{
    struct run *r = user;
    const char *name = copse__json_text(event, "event");
    if (strcmp(name, "plan") == 0 && cJSON_AddItemToArray(r->plan, event))
        return !is_stopped(r);
    if (strcmp(name, "case") == 0) {
        on_case(r, event);
        return !is_stopped(r);
    }
    if (strcmp(name, "begin") == 0) {
        r->now.used.count = 0;
        on_begin(r, event);
    } else if (strcmp(name, "uses") == 0) {
        add_kernel(&r->now.used, copse__json_text(event, "kernel"));
    }
    if (strcmp(name, "device") == 0)
        copse__job_tell(r->job, COPSE_CONFORM_DEVICE, event, NULL, 0);
    if (strcmp(name, "compiling") == 0)
        copse__job_tell(r->job, COPSE_CONFORM_COMPILING, event, NULL, 0);
    copse__results_take(r->job->results, event);
    return !is_stopped(r);
}

/* ---- requests ---- */

static struct copse_request request_of(const struct run *r, enum copse_request_kind kind)
{
    const struct copse_conformance_job_params *p = r->params;
    return (struct copse_request){
        .kind = kind,
        .device = r->device,
        .modes = p->modes,
        .tier = p->tier,
        .ops = r->ops,
        .case_name = p->case_name,
        .variant = p->variant,
        .own_path = p->own_path,
        .kernel = p->own_kernel,
        .cache_folder = p->cache_folder,
        .is_verbose = p->is_verbose,
        .seed = p->seed,
        .known = p->known,
    };
}

static void wait_for(struct run *r, const struct copse_request *q, struct copse_ended *ended)
{
    r->now.op[0] = '\0';
    copse__request_wait(&r->job->isolation, q, on_event, r, ended);
}

static copse_status run_cancelled(void)
{
    return copse_fail(COPSE_ERR_CANCELLED, "conformance: cancelled by the application");
}

/* A request that must complete: the drivers' lists, the plan. */
static copse_status must_end(const struct copse_ended *e, const char *what)
{
    if (e->how == COPSE_ENDED_CANCELLED)
        return run_cancelled();
    if (e->how == COPSE_ENDED_DONE)
        return e->status == COPSE_OK ? COPSE_OK : copse_fail(e->status, "%s", e->text);
    return copse_fail(COPSE_ERR_INTERNAL, "%s: %s; --verbose says how far it came", what, e->text);
}

static copse_status ask_devices(struct run *r)
{
    struct copse_ended ended;
    struct copse_request q = request_of(r, COPSE_REQUEST_DEVICES);
    q.device = r->params->devices;
    wait_for(r, &q, &ended);
    return must_end(&ended, "looking for devices");
}

static void make_plan(struct run *r, struct copse_ended *ended)
{
    const struct copse_request q = request_of(r, COPSE_REQUEST_LIST);
    cJSON_Delete(r->plan);
    r->plan = cJSON_CreateArray();
    wait_for(r, &q, ended);
}

static size_t run_planned(const struct run *r, const char *mode)
{
    const cJSON *o;
    size_t count = 0;
    cJSON_ArrayForEach(o, r->plan) count += strcmp(copse__json_text(o, "mode"), mode) == 0;
    return count;
}

/* Whether `after` is in this mode. */
static bool is_after_in(const char *after, const char *mode)
{
    const size_t n = strlen(mode);
    return after && strncmp(after, mode, n) == 0 && after[n] == '/';
}

/* Cases of the mode after `after`, or all of them; *is_known: it is one of them. */
static size_t run_expected(const struct run *r, const char *mode, const char *after, bool *is_known)
{
    const cJSON *o;
    char key[400];
    size_t count = 0;
    *is_known = false;
    cJSON_ArrayForEach(o, r->plan)
    {
        if (strcmp(copse__json_text(o, "mode"), mode) != 0)
            continue;
        count++;
        snprintf(key, sizeof key, "%s/%s/%s/%s", mode, copse__json_text(o, "op"),
                 copse__json_text(o, "name"), copse__json_text(o, "variant"));
        if (after && strcmp(key, after) == 0) {
            *is_known = true;
            count = 0;
        }
    }
    return count;
}

static bool is_planned(const struct run *r, const char *mode, const char *op, size_t length)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan)
    {
        const char *name = copse__json_text(o, "op");
        if (strcmp(copse__json_text(o, "mode"), mode) == 0 && strlen(name) == length &&
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

/* ---- a helper process that died ---- */

/* Seed and type of the started case, if the plan has them. */
static void add_planned(const struct run *r, cJSON *to)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan) if (strcmp(copse__json_text(o, "op"), r->now.op) == 0 &&
                                       strcmp(copse__json_text(o, "name"), r->now.name) == 0)
    {
        cJSON_AddStringToObject(to, "type", copse__json_text(o, "type"));
        cJSON_AddStringToObject(to, "seed", copse__json_text(o, "seed"));
        return;
    }
}

/* A known failure; NULL: none. */
static const struct copse_known *find_known(const struct run *r, const char *mode)
{
    const copse_conformance_results *all = r->job->results;
    const struct copse_case_result c = { .mode = mode, .op = r->now.op, .name = r->now.name };
    for (size_t i = 0; i < all->device_count; i++)
        if (strcmp(all->devices[i].info.id, r->device) == 0)
            return copse__known_find(r->job->known.rows, &c, all->devices[i].info.name,
                                     all->devices[i].info.driver);
    return NULL;
}

static void tell_loss(struct run *r, const char *mode, copse_verdict verdict, const char *why)
{
    cJSON *o = copse__json_event("case");
    const bool is_begun = r->now.op[0];
    const struct copse_known *known = is_begun ? find_known(r, mode) : NULL;
    char text[COPSE_ERROR_BYTES];
    snprintf(text, sizeof text, "%s%s%s%s%s", known ? "known: " : "", known ? known->reason : "",
             known ? "; " : "", known ? copse_verdict_name(verdict) : "", known ? ": " : "");
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", why);
    verdict = known ? COPSE_VERDICT_XFAIL : verdict;
    cJSON_AddStringToObject(o, "device", r->device);
    cJSON_AddStringToObject(o, "mode", mode);
    cJSON_AddStringToObject(o, "op", is_begun ? r->now.op : "");
    cJSON_AddStringToObject(o, "name", is_begun ? r->now.name : "between cases");
    cJSON_AddStringToObject(o, "variant", is_begun ? r->now.variant : "");
    cJSON_AddStringToObject(o, "verdict", copse_verdict_name(verdict));
    add_planned(r, o);
    cJSON_AddStringToObject(o, "text", text);
    (void)on_event(r, o);
}

static copse_verdict verdict_of(const struct copse_ended *e)
{
    return e->how == COPSE_ENDED_CRASHED             ? COPSE_VERDICT_CRASH
           : e->how == COPSE_ENDED_LATE              ? COPSE_VERDICT_TIMEOUT
           : e->status == COPSE_ERR_DEVICE_LOST      ? COPSE_VERDICT_DEVICE_LOST
           : e->status == COPSE_ERR_NO_DEVICE_MEMORY ? COPSE_VERDICT_OOM
                                                     : COPSE_VERDICT_FAIL;
}

/* Block a kernel whose process died: in the list of the application's context, if that has the
   device, and in the list of the cache folder, once if both are the same. */
static void run_block(struct run *r, const struct copse_request *died, const struct place *p,
                      const char *kernel, const struct copse_ended *how)
{
    copse_context *ctx = r->job->ctx;
    const char *folder = r->params->cache_folder;
    struct copse_ended ended;
    struct copse_device_info info;
    const struct copse_request q = {
        .kind = COPSE_REQUEST_BLOCK,
        .device = r->device,
        .modes = died->modes,
        .tier = died->tier,
        .ops = p->op,
        .case_name = p->name,
        .kernel = kernel,
        .reason = how->text,
        .verdict = verdict_of(how),
        .cache_folder = folder,
    };
    const struct copse_case_result failed = { .mode = p->mode,
                                              .op = p->op,
                                              .name = p->name,
                                              .variant = kernel,
                                              .verdict = q.verdict,
                                              .text = q.reason };
    const bool is_here = copse__device_find(ctx, r->device, &info) == COPSE_OK;
    if (is_here)
        block_in(ctx, r->device, &failed, died->tier);
    if (folder && !(is_here && copse__cache_folder_is(&ctx->base.cache, folder)))
        wait_for(r, &q, &ended);
    r->blocked++;
}

/* Whether the plan has variants of the case, which are run after it. */
static bool has_variants(const struct run *r, const struct place *p)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, r->plan) if (strcmp(copse__json_text(o, "mode"), p->mode) == 0 &&
                                       strcmp(copse__json_text(o, "op"), p->op) == 0 &&
                                       strcmp(copse__json_text(o, "name"), p->name) == 0 &&
                                       *copse__json_text(o, "variant")) return true;
    return false;
}

/* The process died with the library's choice of kernels: block those that have not passed a case of
   their own, or all of them. In modes about calls, other limits and lent devices no kernel is to
   blame. */
static void block_used(struct run *r, const struct copse_request *died, const struct place *p,
                       const struct copse_ended *how)
{
    const unsigned others = COPSE_CONFORM_ARGS | COPSE_CONFORM_LIMITS | COPSE_CONFORM_IMPORT |
                            COPSE_CONFORM_PERF | COPSE_CONFORM_CEILINGS;
    size_t unproven = 0;
    for (size_t i = 0; i < p->used.count; i++)
        unproven += !has_kernel(&r->proven, p->used.at[i]);
    for (size_t i = 0; i < p->used.count && !(died->modes & others); i++)
        if (unproven == 0 || !has_kernel(&r->proven, p->used.at[i]))
            run_block(r, died, p, p->used.at[i], how);
}

/* The process died with the library's choice of kernels: find the variant, or the kernels, that
   caused it. */
static void find_culprit(struct run *r, const struct copse_request *died, const struct place *p,
                         const struct copse_ended *how);

/* Run the cases of one mode. False if cases were left out. */
static bool run_cases(struct run *r, const struct copse_request *first)
{
    struct copse_request q = *first;
    struct copse_ended ended;
    char after[400], last[400] = "";
    const uint64_t start = copse__now_ns();
    const char *mode = copse_conformance_mode_name(q.modes);
    for (;;) {
        wait_for(r, &q, &ended);
        if (ended.how == COPSE_ENDED_CANCELLED)
            return false;
        if (ended.how == COPSE_ENDED_DONE && ended.status == COPSE_OK) {
            r->own_was_used = true;
            return true;
        }
        if (ended.how == COPSE_ENDED_DONE && ended.status == COPSE_ERR_ARGUMENT && q.own_path) {
            snprintf(r->own_text, sizeof r->own_text, "%s", ended.text);
            return true;
        }
        const struct place p = r->now;
        tell_loss(r, mode, verdict_of(&ended), ended.text);
        snprintf(after, sizeof after, "%s/%s/%s/%s", p.mode, p.op, p.name, p.variant);
        if (ended.how == COPSE_ENDED_DONE || !p.op[0] || strcmp(after, last) == 0)
            return false; /* the remaining cases are skipped */
        if (p.variant[0] && !q.own_path)
            run_block(r, &q, &p, p.variant, &ended);
        else if (!p.variant[0] && !q.own_path)
            find_culprit(r, &q, &p, &ended);
        memcpy(last, after, sizeof last);
        q.after = last;
        /* no time left: a tiny limit, so that the remaining cases are listed as not reached */
        if (q.seconds > 0.0) {
            const double left = first->seconds - seconds_since(start);
            q.seconds = left > 0.001 ? left : 0.001;
        }
    }
}

static void run_variants(struct run *r, unsigned mode, const struct place *p)
{
    struct copse_ended ended;
    struct copse_request q = request_of(r, COPSE_REQUEST_LIST);
    const cJSON *o;
    cJSON *plan = r->plan;
    q.modes = mode;
    q.tier = COPSE_CONFORM_STANDARD;
    q.ops = p->op;
    q.case_name = p->name;
    r->plan = cJSON_CreateArray();
    wait_for(r, &q, &ended);
    q.kind = COPSE_REQUEST_RUN;
    q.tier = COPSE_CONFORM_QUICK; /* the tier of the lines that repeat these cases */
    cJSON_ArrayForEach(o, r->plan)
    {
        q.variant = copse__json_text(o, "variant");
        if (*q.variant && !is_stopped(r))
            (void)run_cases(r, &q);
    }
    cJSON_Delete(r->plan);
    r->plan = plan;
}

/* In tiers above quick the variants follow the case anyway. */
static void find_culprit(struct run *r, const struct copse_request *died, const struct place *p,
                         const struct copse_ended *how)
{
    const size_t before = r->blocked;
    if (died->tier == COPSE_CONFORM_QUICK && !died->variant)
        run_variants(r, died->modes, p);
    else if (has_variants(r, p) && !died->variant)
        return;
    if (r->blocked == before)
        block_used(r, died, p, how);
}

/* ---- devices ---- */

static unsigned count_modes(const struct run *r, const struct copse_conform_name *from)
{
    unsigned count = 0;
    for (const struct copse_conform_name *m = from; m->name; m++)
        count += (r->params->modes & m->value) && run_planned(r, m->name) > 0;
    return count;
}

/* The cases of its op check a user kernel, if an op has its name; in mode launch, ops are
   kernels. */
static void plan_own(struct run *r, struct copse_ended *ended)
{
    const cJSON *o;
    bool is_op = false;
    cJSON_ArrayForEach(o, r->plan) is_op =
        is_op || (strcmp(copse__json_text(o, "op"), r->params->own_kernel) == 0 &&
                  strcmp(copse__json_text(o, "mode"), "launch") != 0);
    if (!is_op)
        return;
    r->ops = r->params->own_kernel;
    make_plan(r, ended);
}

/* Compile what the cases need on all processors, where a cache keeps it for the processes that run
   them. A failure costs time only: such a kernel is compiled by its case, which gets the blame.
   `seconds` is what is left of the time for it. */
static void run_compile(struct run *r, const char *after, double seconds)
{
    const struct copse_conformance_job_params *p = r->params;
    struct copse_ended ended;
    struct copse_request q = request_of(r, COPSE_REQUEST_COMPILE);
    q.modes &= COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD | COPSE_CONFORM_FAILED;
    q.after = after;
    if (!(q.modes & (COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD)) || p->own_path || !p->cache_folder)
        return;
    if (strncmp(r->device, "host:", 5) == 0 || (p->seconds > 0.0 && seconds <= 0.0))
        return;
    q.seconds = q.limit = p->seconds > 0.0 ? seconds : 0.0;
    wait_for(r, &q, &ended);
    if (ended.how != COPSE_ENDED_CANCELLED &&
        (ended.how != COPSE_ENDED_DONE || ended.status != COPSE_OK))
        copse__log(&r->job->ctx->base.log, COPSE_LOG_WARN,
                   "conformance: kernels are compiled one by one, by the cases: %s", ended.text);
}

static copse_status run_device(struct run *r, const char *device)
{
    const struct copse_conformance_job_params *p = r->params;
    const uint64_t opened = copse__now_ns();
    struct copse_ended ended;
    /* of the first device */
    const char *after = strcmp(device, r->job->results->devices[0].info.id) == 0 ? p->after : NULL;
    r->device = device;
    r->proven.count = 0;
    make_plan(r, &ended);
    if (ended.how == COPSE_ENDED_CANCELLED)
        return run_cancelled();
    if (ended.how == COPSE_ENDED_DONE &&
        (ended.status == COPSE_ERR_ARGUMENT || ended.status == COPSE_ERR_FORMAT ||
         ended.status == COPSE_ERR_IO))
        return copse_fail(ended.status, "%s", ended.text);
    if (ended.how != COPSE_ENDED_DONE || ended.status != COPSE_OK) {
        tell_loss(r, "open", verdict_of(&ended), ended.text);
        return COPSE_OK; /* other devices follow */
    }
    if (p->own_path && (!r->ops || r->ops == p->own_kernel))
        plan_own(r, &ended);
    copse__job_count(r->job, 0, (size_t)cJSON_GetArraySize(r->plan), NULL);
    run_compile(r, after, p->seconds * MOST_COMPILING - seconds_since(opened));
    /* However long it took, the cases have their part of the time. */
    const double seconds = p->seconds - fmin(seconds_since(opened), p->seconds * MOST_COMPILING);
    const uint64_t start = copse__now_ns();
    for (const struct copse_conform_name *m = copse_conform_mode_names; m->name && !is_stopped(r);
         m++) {
        struct copse_request q = request_of(r, COPSE_REQUEST_RUN);
        const size_t from = r->job->results->case_count;
        char ops[4096];
        if (!(p->modes & m->value) || run_planned(r, m->name) == 0)
            continue;
        if (after && !is_after_in(after, m->name))
            continue;
        q.after = after;
        q.modes = m->value | (p->modes & COPSE_CONFORM_FAILED);
        q.ops = ops_of(r, m->name, ops, sizeof ops);
        if (p->seconds > 0.0) {
            const double left = seconds - seconds_since(start);
            q.seconds = left > 0.001 ? left / count_modes(r, m) : 0.001;
        }
        bool is_known;
        const size_t expected = run_expected(r, m->name, after, &is_known);
        if (after && !is_known)
            return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no case '%s' to go on after",
                              after);
        after = NULL;
        if (!run_cases(r, &q) && r->job->results->case_count - from < expected)
            r->job->left_out += expected - (r->job->results->case_count - from);
        copse__job_tell(r->job, COPSE_CONFORM_MODE, NULL, NULL, from);
    }
    return is_stopped(r) ? run_cancelled() : COPSE_OK;
}

/* ---- the job ---- */

static copse_status write_files(const struct run *r)
{
    const struct copse_conformance_job_params *p = r->params;
    const struct {
        const char *path;
        copse_conformance_format format;
    } files[] = {
        { p->junit, COPSE_CONFORM_JUNIT }, { p->csv, COPSE_CONFORM_CSV },
        { p->html, COPSE_CONFORM_HTML },   { p->markdown, COPSE_CONFORM_MARKDOWN },
        { p->json, COPSE_CONFORM_JSON },
    };
    for (size_t i = 0; i < COPSE_COUNT(files); i++)
        if (files[i].path)
            COPSE_TRY(
                copse_conformance_results_write(r->job->results, files[i].format, files[i].path));
    return COPSE_OK;
}

static uint64_t count_failed(const copse_conformance_results *all)
{
    uint64_t count = 0;
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        count += copse_verdict_fails((copse_verdict)v) ? all->counts[v] : 0;
    return count;
}

/* Kernels that a helper process has blocked are also blocked in the application's context: with the
   list of a cache folder that both use, else until the application unblocks them. */
static void take_blocks(copse_context *ctx, const char *device,
                        const copse_conformance_results *all)
{
    struct copse_device_info info;
    const cJSON *b;
    if (copse__device_find(ctx, device, &info) != COPSE_OK)
        return;
    copse__device_refresh(ctx, &info);
    for (size_t i = 0; i < all->device_count; i++)
        if (strcmp(all->devices[i].info.id, device) == 0)
            cJSON_ArrayForEach(b,
                               cJSON_GetObjectItemCaseSensitive(all->devices[i].event, "blocked"))
                copse__device_adopt_block(ctx, &info, copse__json_text(b, "kernel"),
                                          copse__json_text(b, "reason"));
}

static copse_status check_devices(struct run *r)
{
    copse_conformance_results *all = r->job->results;
    const uint64_t start = copse__now_ns();
    const size_t count = COPSE_MIN(all->device_count, (size_t)COPSE_MAX_REPLICAS);
    char ids[COPSE_MAX_REPLICAS][32];
    for (size_t i = 0; i < count; i++)
        snprintf(ids[i], sizeof ids[i], "%s", all->devices[i].info.id);
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(run_device(r, ids[i]));
    all->seconds = seconds_since(start);
    /* A kernel that does not compile was not used either, but its cases have failed. */
    if (r->params->own_path && !r->own_was_used && r->own_text[0] && count_failed(all) == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s", r->own_text);
    /* Read the lists again to find new blocks. A failure to read them does not fail the run. */
    (void)ask_devices(r);
    for (size_t i = 0; i < count; i++)
        take_blocks(r->job->ctx, ids[i], all);
    if (is_stopped(r))
        return run_cancelled();
    if (all->has_no_memory)
        return copse_no_memory("conformance: results");
    cJSON *summary = copse__results_summary(all);
    copse__job_tell(r->job, COPSE_CONFORM_SUMMARY, summary, NULL, 0);
    cJSON_Delete(summary);
    return write_files(r);
}

static copse_status list_cases(struct run *r)
{
    struct copse_ended ended;
    const cJSON *o;
    r->device = r->job->results->devices[0].info.id;
    make_plan(r, &ended);
    COPSE_TRY(must_end(&ended, r->device));
    copse__job_count(r->job, 0, (size_t)cJSON_GetArraySize(r->plan), NULL);
    cJSON_ArrayForEach(o, r->plan)
    {
        const struct copse_case_result planned_case = {
            .device = r->device,
            .mode = copse__json_text(o, "mode"),
            .op = copse__json_text(o, "op"),
            .name = copse__json_text(o, "name"),
            .variant = copse__json_text(o, "variant"),
            .type = copse__json_text(o, "type"),
            .verdict = COPSE_VERDICT_SKIP,
            .metric = "",
            .hash = "",
            .text = "",
            .seed = strtoull(copse__json_text(o, "seed"), NULL, 0),
        };
        copse__job_tell(r->job, COPSE_CONFORM_PLANNED, o, &planned_case, 0);
    }
    return COPSE_OK;
}

static copse_status do_work(struct run *r)
{
    copse_conformance_results *all = r->job->results;
    cJSON *start = copse__results_start(all);
    copse__job_tell(r->job, COPSE_CONFORM_STARTED, start, NULL, 0);
    cJSON_Delete(start);
    COPSE_TRY(ask_devices(r));
    if (all->device_count == 0)
        return copse_fail(COPSE_ERR_NO_DEVICE, "no device");
    copse__job_tell(r->job, COPSE_CONFORM_READY, NULL, NULL, 0);
    switch (r->params->work) {
    case COPSE_CONFORM_DESCRIBE:
        return COPSE_OK;
    case COPSE_CONFORM_PLAN:
        return list_cases(r);
    default:
        return check_devices(r);
    }
}

copse_status copse__job_run(copse_conformance_job *job)
{
    struct run r = { .job = job, .params = &job->params, .ops = job->params.ops };
    copse_status s = do_work(&r);
    if (s != COPSE_OK && job->results->seconds == 0.0)
        job->results->seconds = seconds_since(job->start_ns);
    cJSON_Delete(r.plan);
    return s;
}
