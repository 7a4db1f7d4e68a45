/* SPDX-License-Identifier: MIT */
/* The steps around each case of a run: filters, resumption, the time limit, counts, and a working
   device for the next case. Compares no numbers. */
#include <stdio.h>

#include "prover/conformance/verdict/conformance.h"

static const char *const verdict_names[] = {
#define NAME(name, text) #name,
    COPSE_VERDICT_MAP(NAME)
#undef NAME
};

const char *copse_verdict_name(copse_verdict verdict)
{
    return (size_t)verdict < COPSE_COUNT(verdict_names) ? verdict_names[verdict]
                                                        : "unknown verdict";
}

copse_verdict copse__conform_verdict(copse_status s)
{
    switch (s) {
    case COPSE_OK:
        return COPSE_VERDICT_PASS;
    case COPSE_ERR_UNSUPPORTED:
        return COPSE_VERDICT_UNSUPPORTED;
    case COPSE_ERR_NO_MEMORY:
    case COPSE_ERR_NO_DEVICE_MEMORY:
        return COPSE_VERDICT_OOM;
    case COPSE_ERR_TIMEOUT:
        return COPSE_VERDICT_TIMEOUT;
    case COPSE_ERR_DEVICE_LOST:
        return COPSE_VERDICT_DEVICE_LOST;
    default:
        return COPSE_VERDICT_FAIL;
    }
}

/* ---- filters ---- */

/* Position of `op` in the list "softmax,matmul", -1 = absent. */
static int case_run_position(const char *list, const char *op)
{
    const size_t length = strlen(op);
    int i = 0;
    for (const char *p = list;; i++) {
        const size_t n = strcspn(p, ",");
        if (n == length && memcmp(p, op, n) == 0)
            return i;
        if (!p[n])
            return -1;
        p += n + 1;
    }
}

static bool is_selected(struct copse_conform_run *r, const char *op, const char *name,
                        const char *variant)
{
    const struct copse_conformance_params *p = r->params;
    if (p->ops) {
        const int at = case_run_position(p->ops, op);
        if (at < 0)
            return false;
        r->ops_met |= at < COPSE_CONFORM_MOST_OPS ? (uint64_t)1 << at : 0;
    }
    if (p->case_name && strcmp(p->case_name, name) != 0)
        return false;
    r->has_case = true;
    if (p->variant && strcmp(p->variant, variant) != 0)
        return false;
    r->has_variant = true;
    return true;
}

/* Whether params->after names this case. */
static bool is_after(const struct copse_conform_run *r, const char *mode, const char *op,
                     const char *name, const char *variant)
{
    const char *const parts[] = { mode, "/", op, "/", name, "/", variant };
    const char *p = r->params->after;
    for (size_t i = 0; i < COPSE_COUNT(parts); i++) {
        const size_t n = strlen(parts[i]);
        if (strncmp(p, parts[i], n) != 0)
            return false;
        p += n;
    }
    return *p == '\0';
}

/* ---- a case ---- */

static void case_run_report(struct copse_conform_run *r, struct copse_case_result *result)
{
    if (!result->seed)
        result->seed = copse__run_seed(r->params->seed, result->op, result->name);
    result->device = r->dev->info.id;
    result->variant = result->variant ? result->variant : "";
    result->type = result->type ? result->type : "f32";
    result->metric = result->metric ? result->metric : "";
    result->hash = result->hash ? result->hash : "";
    result->text = result->text ? result->text : "";
    r->summary->counts[result->verdict]++;
    if (r->params->result)
        r->params->result(r->params->user, result);
}

static bool leave_out(struct copse_conform_run *r, const char *mode, const char *op,
                      const char *name, const char *variant, const char *why)
{
    case_run_report(r, &(struct copse_case_result){ .mode = mode,
                                                    .op = op,
                                                    .name = name,
                                                    .variant = variant,
                                                    .verdict = COPSE_VERDICT_SKIP,
                                                    .text = why });
    return false;
}

bool copse__conform_begin(struct copse_conform_run *r, const char *mode, const char *op,
                          const char *name, const char *variant)
{
    const struct copse_conformance_params *p = r->params;
    char text[64];
    variant = variant ? variant : "";
    if (r->is_stopped || !is_selected(r, op, name, variant))
        return false;
    if (!r->is_past) {
        r->is_past = is_after(r, mode, op, name, variant);
        return false;
    }
    if (r->is_probing)
        return false;
    if ((p->modes & COPSE_CONFORM_FAILED) &&
        !copse__device_is_failed(r->dev, &(struct copse_kernel_case){ .kernel = variant,
                                                                      .mode = mode,
                                                                      .op = op,
                                                                      .name = name,
                                                                      .tier = (uint32_t)p->tier }))
        return false;
    if (r->is_listing)
        return leave_out(r, mode, op, name, variant, "");
    if (r->wants)
        return true;
    if (copse__device_check(r->dev) != COPSE_OK)
        return leave_out(r, mode, op, name, variant, "the device was lost and cannot be opened");
    if (copse__now_ns() >= r->deadline_ns) {
        snprintf(text, sizeof text, "not reached in %g s", p->seconds);
        r->has_unreached = true;
        return leave_out(r, mode, op, name, variant, text);
    }
    if (p->begin && !p->begin(p->user, mode, op, name, variant)) {
        r->is_stopped = true;
        return false;
    }
    r->began_ns = copse__now_ns();
    copse__verdicts_begin(r);
    return true;
}

static bool is_failure(copse_verdict v)
{
    return v == COPSE_VERDICT_FAIL || v == COPSE_VERDICT_TIMEOUT || v == COPSE_VERDICT_DEVICE_LOST;
}

static void apply_known(const struct copse_conform_run *r, struct copse_case_result *result,
                        char *text, size_t room)
{
    const struct copse_device_info *dev = &r->dev->info;
    const struct copse_known *k =
        copse__known_find(r->known_file.rows, result, dev->name, dev->driver);
    k = k ? k : copse__known_find(r->known, result, dev->name, dev->driver);
    if (!k || (result->verdict != COPSE_VERDICT_PASS && !is_failure(result->verdict)))
        return;
    const bool is_bounded = *k->from || *k->to;
    snprintf(text, room, "known: %s%s%s%s%s%s; %s", k->reason, is_bounded ? " (driver " : "",
             k->from, is_bounded ? " to " : "", k->to, is_bounded ? ")" : "",
             result->verdict == COPSE_VERDICT_PASS ? "it passes now"
             : result->text                        ? result->text
                                                   : "");
    result->verdict =
        result->verdict == COPSE_VERDICT_PASS ? COPSE_VERDICT_XPASS : COPSE_VERDICT_XFAIL;
    result->text = text;
}

/* ---- the device ---- */

copse_status copse__conform_open(struct copse_conform_run *r)
{
    const char *id = r->params->device ? r->params->device : "host:0";
    COPSE_TRY(copse_device_open(r->ctx, id, NULL, &r->dev));
    r->dev->tries_blocked = true;
    return r->params->own ? copse__own_kernel_open(r->ctx, r->dev, r->params->own, &r->own)
                          : COPSE_OK;
}

void copse__conform_close(struct copse_conform_run *r)
{
    copse_device_release(&r->dev);
    copse__own_kernel_close(r->ctx, &r->own);
}

/* Open a working device for the remaining cases, if there is one. */
static void replace_device(struct copse_conform_run *r)
{
    struct copse_conform_run fresh = *r;
    fresh.dev = NULL;
    fresh.own = NULL;
    if (copse__conform_open(&fresh) != COPSE_OK) {
        copse__log(&r->ctx->base.log, COPSE_LOG_ERROR, "conformance: %s", copse_last_error());
        copse__conform_close(&fresh);
        return;
    }
    copse__conform_close(r);
    *r = fresh;
}

void copse__conform_end(struct copse_conform_run *r, struct copse_case_result *result,
                        struct copse_evidence *e)
{
    char text[512];
    if (!(result->seconds > 0))
        result->seconds = (double)(copse__now_ns() - r->began_ns) * 1e-9;
    e->result = result;
    e->is_late = result->verdict == COPSE_VERDICT_TIMEOUT;
    apply_known(r, result, text, sizeof text);
    if (!r->params->own)
        copse__verdicts_take(r, e);
    case_run_report(r, result);
    if (copse__device_check(r->dev) != COPSE_OK)
        replace_device(r);
}
