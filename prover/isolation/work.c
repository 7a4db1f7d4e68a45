/* SPDX-License-Identifier: MIT */
/* Does a request. Only this part opens devices. */
#include <inttypes.h>
#include <stdlib.h>

#include "copse/device/choice.h"
#include "copse/strategy.h"
#include "core/base/files.h"
#include "prover/conformance/runner.h"
#include "prover/isolation/isolation.h"

enum { MOST_KERNEL = 4 << 20 }; /* bytes of a user kernel */

struct work {
    const struct copse_request *request;
    const struct copse_conformance_helper_params *how;
    copse_context *ctx;
    copse_request_emit *emit;
    void *user;
    bool has_no_memory, is_stopped;
};

static void work_emit(struct work *w, cJSON *event, bool is_complete)
{
    if (!event || !is_complete) {
        cJSON_Delete(event);
        w->has_no_memory = true;
        return;
    }
    if (!w->emit(w->user, event))
        w->is_stopped = true;
}

static bool add_case(cJSON *o, const char *mode, const char *op, const char *name,
                     const char *variant)
{
    return cJSON_AddStringToObject(o, "mode", mode) && cJSON_AddStringToObject(o, "op", op) &&
           cJSON_AddStringToObject(o, "name", name) &&
           cJSON_AddStringToObject(o, "variant", variant ? variant : "");
}

/* ---- devices ---- */

static copse_status do_devices(struct work *w)
{
    char ids[COPSE_MAX_REPLICAS][32];
    const char *which = w->request->device;
    const struct copse_device_info *list;
    size_t count, device_count;
    copse_status s = copse_select_drivers(w->ctx, which, ids, COPSE_MAX_REPLICAS, &count);
    if (s == COPSE_ERR_NO_DEVICE && strcmp(which, "all") == 0) /* the default: then the reference */
        s = copse_select_drivers(w->ctx, "host", ids, COPSE_MAX_REPLICAS, &count);
    COPSE_TRY(s);
    copse_context_devices(w->ctx, &list, &device_count);
    for (size_t i = 0; i < device_count; i++) {
        size_t at = 0;
        while (at < count && strcmp(ids[at], list[i].id) != 0)
            at++;
        if (at == count)
            continue;
        cJSON *o = copse__device_json(w->ctx, &list[i]);
        work_emit(w, o,
                  o && cJSON_AddStringToObject(o, "event", "device") &&
                      copse__facts_json(o, w->ctx, list[i].id));
    }
    return COPSE_OK;
}

/* ---- cases ---- */

static void on_plan(void *user, const struct copse_case_result *r)
{
    char seed[32];
    cJSON *o = copse__json_event("plan");
    snprintf(seed, sizeof seed, "0x%016" PRIx64, r->seed);
    work_emit(user, o,
              o && add_case(o, r->mode, r->op, r->name, r->variant) &&
                  cJSON_AddStringToObject(o, "type", r->type) &&
                  cJSON_AddStringToObject(o, "seed", seed));
}

static bool on_begin(void *user, const char *mode, const char *op, const char *name,
                     const char *variant)
{
    struct work *w = user;
    cJSON *o = copse__json_event("begin");
    work_emit(w, o, o && add_case(o, mode, op, name, variant));
    return !w->is_stopped;
}

static void on_use(void *user, const char *kernel)
{
    cJSON *o = copse__json_event("uses");
    work_emit(user, o, o && cJSON_AddStringToObject(o, "kernel", kernel));
}

static bool add_numbers(cJSON *o, const struct copse_case_result *r)
{
    return copse__json_add_text(o, "metric", r->metric) &&
           copse__json_add_number(o, "worst", r->worst) &&
           copse__json_add_number(o, "limit", r->limit) &&
           copse__json_add_number(o, "nmse", r->nmse) &&
           copse__json_add_number(o, "index", (double)r->index) &&
           copse__json_add_number(o, "got", r->got) &&
           copse__json_add_number(o, "expected", r->expected);
}

static bool add_speeds(cJSON *o, const struct copse_case_result *r)
{
    const struct {
        const char *name;
        double value;
    } speeds[] = {
        { "gflops", r->gflops },
        { "gbytes", r->gbytes },
        { "library_gflops", r->library_gflops },
        { "library_gbytes", r->library_gbytes },
    };
    bool is_good = true;
    for (size_t i = 0; i < COPSE_COUNT(speeds) && is_good; i++)
        is_good =
            !(speeds[i].value > 0) || copse__json_add_number(o, speeds[i].name, speeds[i].value);
    return is_good;
}

static void on_result(void *user, const struct copse_case_result *r)
{
    char seed[32], text[1200];
    cJSON *o = copse__json_event("case");
    snprintf(seed, sizeof seed, "0x%016" PRIx64, r->seed);
    const bool is_good =
        o && cJSON_AddStringToObject(o, "device", r->device) &&
        add_case(o, r->mode, r->op, r->name, r->variant) &&
        cJSON_AddStringToObject(o, "type", r->type) &&
        cJSON_AddStringToObject(o, "verdict", copse_verdict_name(r->verdict)) &&
        cJSON_AddStringToObject(o, "seed", seed) && (!r->metric[0] || add_numbers(o, r)) &&
        copse__json_add_number(o, "seconds", r->seconds) && add_speeds(o, r) &&
        (!r->hash[0] || cJSON_AddStringToObject(o, "hash", r->hash)) &&
        (!r->text[0] ||
         copse__json_add_text(o, "text", copse__case_plain(text, sizeof text, r->text)));
    work_emit(user, o, is_good);
}

/* The file as it is. */
static copse_status read_kernel(const char *path, void **code, size_t *size)
{
    FILE *f = NULL;
    uint64_t bytes = 0;
    COPSE_TRY(copse__file_open(path, &f, &bytes));
    copse_status s = COPSE_OK;
    *size = (size_t)bytes;
    if (bytes >= MOST_KERNEL)
        s = copse_fail(COPSE_ERR_IO, "'%s' is no kernel: it has more than %d bytes", path,
                       MOST_KERNEL);
    else if (!(*code = malloc(*size + 1)))
        s = copse_no_memory("'%s'", path);
    else if (fread(*code, 1, *size, f) != *size)
        s = copse_fail(COPSE_ERR_IO, "cannot read '%s'", path);
    else
        ((char *)*code)[*size] = '\0';
    fclose(f);
    return s;
}

static copse_status read_by_application(struct work *w, void **code, size_t *size)
{
    char why[400] = "";
    const copse_status s = w->how->read_kernel(w->how->user, w->request->own_path,
                                               w->request->device, code, size, why, sizeof why);
    return s != COPSE_OK && *why ? copse_fail(s, "%s", why) : s;
}

static struct copse_conformance_params params_of(const struct copse_request *q)
{
    return (struct copse_conformance_params){
        .device = q->device,
        .modes = q->modes,
        .tier = q->tier,
        .ops = q->ops,
        .case_name = q->case_name,
        .variant = q->variant,
        .after = q->after,
        .seconds = q->seconds,
        .seed = q->seed,
        .known = q->known,
    };
}

static copse_status do_cases(struct work *w)
{
    const struct copse_request *q = w->request;
    struct copse_conformance_params p = params_of(q);
    p.begin = on_begin;
    p.result = on_result;
    p.uses = on_use;
    p.user = w;
    struct copse_own_kernel own = { .kernel = q->kernel };
    struct copse_conformance_summary summary;
    void *code = NULL;
    copse_status s = COPSE_OK;
    if (q->own_path) {
        s = w->how->read_kernel ? read_by_application(w, &code, &own.size)
                                : read_kernel(q->own_path, &code, &own.size);
        own.code = code;
        p.own = &own;
    }
    if (s == COPSE_OK && q->kind == COPSE_REQUEST_LIST) {
        p.result = on_plan;
        s = copse_conformance_list(w->ctx, &p);
    } else if (s == COPSE_OK) {
        s = copse_conformance_run(w->ctx, &p, &summary);
    }
    free(code);
    return s;
}

/* ---- kernels ahead ---- */

static void on_compiling(void *user, const struct copse_progress *p)
{
    cJSON *o = copse__json_event("compiling");
    work_emit(user, o,
              o && cJSON_AddStringToObject(o, "device", p->device) &&
                  cJSON_AddNumberToObject(o, "kernels", p->total) &&
                  cJSON_AddNumberToObject(o, "done", p->done));
}

static copse_status do_compile(struct work *w)
{
    const struct copse_conformance_params p = params_of(w->request);
    w->ctx->progress = on_compiling;
    w->ctx->progress_user = w;
    const copse_status s = copse__conformance_prepare(w->ctx, &p);
    w->ctx->progress = NULL;
    return s;
}

/* ---- any request ---- */

static copse_status do_block(struct work *w)
{
    const struct copse_request *q = w->request;
    const struct copse_case_result failed = {
        .mode = copse_conformance_mode_name(q->modes),
        .op = q->ops,
        .name = q->case_name,
        .variant = q->kernel,
        .verdict = q->verdict,
        .text = q->reason,
    };
    return copse_device_block_case(w->ctx, q->device, &failed, q->tier);
}

static copse_status open_context(struct work *w)
{
    const struct copse_context_params params = { .cache_folder = w->request->cache_folder };
    return w->how->open ? w->how->open(w->how->user, &params, w->request->is_verbose, &w->ctx)
                        : copse_context_create(&params, &w->ctx);
}

static copse_status do_it(struct work *w)
{
    COPSE_TRY(open_context(w));
    w->ctx->has_fences = w->request->has_fences;
    switch (w->request->kind) {
    case COPSE_REQUEST_DEVICES:
        return do_devices(w);
    case COPSE_REQUEST_BLOCK:
        return do_block(w);
    case COPSE_REQUEST_COMPILE:
        return do_compile(w);
    default:
        return do_cases(w);
    }
}

void copse__request_do(const struct copse_request *q,
                       const struct copse_conformance_helper_params *how,
                       copse_request_emit *emit_event, void *user)
{
    static const struct copse_conformance_helper_params standard;
    struct work w = {
        .request = q, .how = how ? how : &standard, .emit = emit_event, .user = user
    };
    char text[COPSE_ERROR_BYTES] = "";
    const uint64_t before = copse__failures();
    copse_status s = copse__returned(do_it(&w), before);
    if (s == COPSE_OK && w.has_no_memory)
        s = copse_no_memory("conformance: an event");
    if (s != COPSE_OK)
        copse__case_plain(text, sizeof text, copse_last_error());
    cJSON *o = copse__json_event("end");
    const bool is_good = o && cJSON_AddNumberToObject(o, "status", (double)s) &&
                         copse__json_add_text(o, "text", text);
    work_emit(&w, o, is_good);
    copse_context_release(&w.ctx);
}
