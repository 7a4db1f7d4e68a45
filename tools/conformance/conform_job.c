/* SPDX-License-Identifier: MIT */
/* The jobs of `copse conformance`. Only this part opens devices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

struct doer {
    const struct conform_job *job;
    copse_context *ctx;
    conform_event_fn *emit;
    void *user;
};

static cJSON *event(const char *name)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", name);
    return o;
}

static void add_case(cJSON *o, const char *mode, const char *op, const char *name,
                     const char *variant)
{
    cJSON_AddStringToObject(o, "mode", mode);
    cJSON_AddStringToObject(o, "op", op);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "variant", variant ? variant : "");
}

/* ---- devices ---- */

static copse_status do_devices(struct doer *d)
{
    char ids[COPSE_MAX_REPLICAS][32];
    const struct copse_device_info *list;
    size_t count, device_count;
    copse_status s = copse_select_devices(d->ctx, d->job->device, ids, COPSE_MAX_REPLICAS, &count);
    if (s == COPSE_ERR_NO_DEVICE && strcmp(d->job->device, "all") == 0) /* the default: then the reference */
        s = copse_select_devices(d->ctx, "host", ids, COPSE_MAX_REPLICAS, &count);
    COPSE_TRY(s);
    copse_context_devices(d->ctx, &list, &device_count);
    for (size_t i = 0; i < device_count; i++) {
        size_t at = 0;
        while (at < count && strcmp(ids[at], list[i].id) != 0)
            at++;
        if (at == count)
            continue;
        cJSON *o = device_json(d->ctx, list, i);
        cJSON_AddStringToObject(o, "event", "device");
        d->emit(d->user, o);
    }
    return COPSE_OK;
}

/* ---- cases ---- */

static void on_plan(void *user, const struct copse_case_result *r)
{
    struct doer *d = user;
    char seed[32];
    cJSON *o = event("plan");
    snprintf(seed, sizeof seed, "0x%016" PRIx64, r->seed);
    add_case(o, r->mode, r->op, r->name, r->variant);
    cJSON_AddStringToObject(o, "type", r->type);
    cJSON_AddStringToObject(o, "seed", seed);
    d->emit(d->user, o);
}

static bool on_begin(void *user, const char *mode, const char *op, const char *name,
                     const char *variant)
{
    struct doer *d = user;
    cJSON *o = event("begin");
    add_case(o, mode, op, name, variant);
    d->emit(d->user, o);
    return true;
}

static void on_use(void *user, const char *kernel)
{
    struct doer *d = user;
    cJSON *o = event("uses");
    cJSON_AddStringToObject(o, "kernel", kernel);
    d->emit(d->user, o);
}

static void on_result(void *user, const struct copse_case_result *r)
{
    struct doer *d = user;
    char seed[32], text[1200];
    cJSON *o = event("case");
    snprintf(seed, sizeof seed, "0x%016" PRIx64, r->seed);
    cJSON_AddStringToObject(o, "device", r->device);
    add_case(o, r->mode, r->op, r->name, r->variant);
    cJSON_AddStringToObject(o, "type", r->type);
    cJSON_AddStringToObject(o, "verdict", copse_verdict_name(r->verdict));
    cJSON_AddStringToObject(o, "seed", seed);
    if (r->metric[0]) {
        cJSON_AddStringToObject(o, "metric", r->metric);
        json_add(o, "worst", r->worst);
        json_add(o, "limit", r->limit);
        json_add(o, "nmse", r->nmse);
        json_add(o, "index", (double)r->index);
        json_add(o, "got", r->got);
        json_add(o, "expected", r->expected);
    }
    json_add(o, "seconds", r->seconds);
    if (r->gflops > 0)
        json_add(o, "gflops", r->gflops);
    if (r->gbytes > 0)
        json_add(o, "gbytes", r->gbytes);
    if (r->library_gflops > 0)
        json_add(o, "library_gflops", r->library_gflops);
    if (r->library_gbytes > 0)
        json_add(o, "library_gbytes", r->library_gbytes);
    if (r->hash[0])
        cJSON_AddStringToObject(o, "hash", r->hash);
    if (r->text[0])
        cJSON_AddStringToObject(o, "text", session_plain(text, sizeof text, r->text));
    d->emit(d->user, o);
}

static copse_status do_cases(struct doer *d)
{
    const struct conform_job *j = d->job;
    struct copse_conformance_params p = {
        .device = j->device, .modes = j->modes, .tier = j->tier, .ops = j->ops,
        .case_name = j->case_name, .variant = j->variant, .after = j->after,
        .seconds = j->seconds, .begin = on_begin, .result = on_result, .uses = on_use, .user = d,
    };
    struct copse_own_kernel own = { .kernel = j->kernel };
    struct copse_conformance_summary summary;
    char *code = NULL;
    copse_status s = COPSE_OK;
    if (j->own_path) {
        COPSE_TRY_OR(done, s, conform_own_read(j->own_path, j->device, &code, &own.size));
        own.code = code;
        p.own = &own;
    }
    if (j->kind == JOB_LIST) {
        p.result = on_plan;
        s = copse_conformance_list(d->ctx, &p);
    } else {
        s = copse_conformance_run(d->ctx, &p, &summary);
    }
done:
    free(code);
    return s;
}

/* ---- any job ---- */

static copse_status do_block(struct doer *d)
{
    const struct conform_job *j = d->job;
    const struct conform_name *m = conform_modes;
    while (m->name && m->value != j->modes)
        m++;
    const struct copse_case_result failed = {
        .mode = m->name, .op = j->ops, .name = j->case_name, .variant = j->kernel,
        .verdict = j->verdict, .text = j->reason,
    };
    return copse_device_block_case(d->ctx, j->device, &failed, j->tier);
}

static copse_status do_it(struct doer *d)
{
    COPSE_TRY(session_open(&(struct session_how){ .is_verbose = d->job->is_verbose }, &d->ctx));
    switch (d->job->kind) {
    case JOB_DEVICES:
        return do_devices(d);
    case JOB_BLOCK:
        return do_block(d);
    default:
        return do_cases(d);
    }
}

void conform_job_do(const struct conform_job *j, conform_event_fn *emit, void *user)
{
    struct doer d = { .job = j, .emit = emit, .user = user };
    const copse_status s = do_it(&d);
    cJSON *o = event("end");
    cJSON_AddNumberToObject(o, "status", (double)s);
    cJSON_AddStringToObject(o, "text", s == COPSE_OK ? "" : session_error());
    emit(user, o);
    copse_context_release(&d.ctx);
}
