/* SPDX-License-Identifier: MIT */
/* A run over the modes: filters, resumption, the time box, verdicts, counts. Judges nothing. */
#include <stdio.h>

#include "core/conformance/conformance.h"

#define MOST_OPS 64 /* named in params->ops */

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

/* Position of `op` in the list "softmax,matmul", -1 = not there. */
static int position(const char *list, const char *op)
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
        const int at = position(p->ops, op);
        if (at < 0)
            return false;
        r->ops_met |= at < MOST_OPS ? (uint64_t)1 << at : 0;
    }
    if (p->case_name && strcmp(p->case_name, name) != 0)
        return false;
    r->has_case = true;
    if (p->variant && strcmp(p->variant, variant) != 0)
        return false;
    r->has_variant = true;
    return true;
}

/* Whether this is the case that params->after names. */
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

static void report(struct copse_conform_run *r, struct copse_case_result *result)
{
    if (!result->seed)
        result->seed = copse__case_seed(result->op, result->name);
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
    report(r, &(struct copse_case_result){ .mode = mode, .op = op, .name = name,
                                           .variant = variant, .verdict = COPSE_VERDICT_SKIP,
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
    if (r->is_listing)
        return leave_out(r, mode, op, name, variant, "");
    if (copse__device_check(r->dev) != COPSE_OK)
        return leave_out(r, mode, op, name, variant, "the device was lost and cannot be opened");
    if (copse__now_ns() >= r->deadline_ns) {
        snprintf(text, sizeof text, "not reached in %g s", p->seconds);
        return leave_out(r, mode, op, name, variant, text);
    }
    if (p->begin && !p->begin(p->user, mode, op, name, variant)) {
        r->is_stopped = true;
        return false;
    }
    r->began_ns = copse__now_ns();
    return true;
}

static bool is_failure(copse_verdict v)
{
    return v == COPSE_VERDICT_FAIL || v == COPSE_VERDICT_TIMEOUT ||
           v == COPSE_VERDICT_DEVICE_LOST;
}

static void apply_known(const struct copse_conform_run *r, struct copse_case_result *result,
                        char *text, size_t room)
{
    const struct copse_known *k =
        copse__known_find(r->known, result->op, result->name, &r->dev->info);
    if (!k || (result->verdict != COPSE_VERDICT_PASS && !is_failure(result->verdict)))
        return;
    const bool is_bounded = *k->from || *k->to;
    snprintf(text, room, "known: %s%s%s%s%s%s; %s", k->reason, is_bounded ? " (driver " : "",
             k->from, is_bounded ? " to " : "", k->to, is_bounded ? ")" : "",
             result->verdict == COPSE_VERDICT_PASS ? "it passes now"
             : result->text                        ? result->text
                                                   : "");
    result->verdict = result->verdict == COPSE_VERDICT_PASS ? COPSE_VERDICT_XPASS
                                                            : COPSE_VERDICT_XFAIL;
    result->text = text;
}

/* What a result says about the kernel variant that was forced. */
static void judge(struct copse_conform_run *r, const struct copse_case_result *result, bool is_late)
{
    const bool is_good =
        result->verdict == COPSE_VERDICT_PASS || result->verdict == COPSE_VERDICT_XPASS;
    const struct copse_kernel_case c = { result->variant, result->mode, result->op, result->name,
                                         (uint32_t)r->params->tier };
    struct copse_passed_case p;
    if (is_failure(result->verdict) || result->verdict == COPSE_VERDICT_XFAIL) {
        if (copse__device_fail_case(r->dev, &c, is_late, result->text ? result->text : "") !=
            COPSE_OK)
            copse__log(&r->ctx->base.log, COPSE_LOG_DEBUG, "conformance: %s is not blocked: %s",
                       result->variant, copse_last_error());
    } else if (is_good && copse__device_has_failed(r->dev, &c, &p.id)) {
        snprintf(p.kernel, sizeof p.kernel, "%s", result->variant);
        /* Without memory for it, the block stays. */
        if (!COPSE_PUSH(&r->ctx->base.mem, &r->passed, p))
            copse__log(&r->ctx->base.log, COPSE_LOG_WARN, "conformance: no memory");
    }
}

/* At the end, so that what another case of the run failed is known: nothing goes back and forth. */
static void take_passes(struct copse_conform_run *r)
{
    for (size_t i = 0; r->dev && i < r->passed.count; i++) {
        const struct copse_passed_case *p = &r->passed.at[i];
        if (copse__device_pass_case(r->dev, p->kernel, p->id, (uint32_t)r->params->tier) !=
            COPSE_OK)
            copse__log(&r->ctx->base.log, COPSE_LOG_WARN, "conformance: %s stays blocked: %s",
                       p->kernel, copse_last_error());
    }
    copse__free(&r->ctx->base.mem, r->passed.at);
}

/* ---- the device ---- */

static copse_status open_device(struct copse_conform_run *r)
{
    const char *id = r->params->device ? r->params->device : "host:0";
    COPSE_TRY(copse_device_open(r->ctx, id, NULL, &r->dev));
    r->dev->tries_blocked = true;
    return r->params->own ? copse__own_kernel_open(r->ctx, r->dev, r->params->own, &r->own)
                          : COPSE_OK;
}

static void close_device(struct copse_conform_run *r)
{
    copse_device_release(&r->dev);
    copse__own_kernel_close(r->ctx, &r->own);
}

/* The rest of the cases get a device that works, if there still is one. */
static void replace_device(struct copse_conform_run *r)
{
    struct copse_conform_run fresh = *r;
    fresh.dev = NULL;
    fresh.own = NULL;
    if (open_device(&fresh) != COPSE_OK) {
        copse__log(&r->ctx->base.log, COPSE_LOG_ERROR, "conformance: %s", copse_last_error());
        close_device(&fresh);
        return;
    }
    close_device(r);
    *r = fresh;
}

void copse__conform_end(struct copse_conform_run *r, struct copse_case_result *result)
{
    char text[512];
    if (!(result->seconds > 0))
        result->seconds = (double)(copse__now_ns() - r->began_ns) * 1e-9;
    const bool is_late = result->verdict == COPSE_VERDICT_TIMEOUT;
    apply_known(r, result, text, sizeof text);
    if (result->variant && *result->variant && !r->params->own)
        judge(r, result, is_late);
    report(r, result);
    if (copse__device_check(r->dev) != COPSE_OK)
        replace_device(r);
}

/* ---- a run ---- */

static copse_status run_modes(struct copse_conform_run *r)
{
    unsigned modes = r->params->modes ? r->params->modes : COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD;
    r->is_past = !r->params->after || !*r->params->after;
    for (const struct copse_conform_mode *m = copse_conform_modes; m->name && !r->is_stopped; m++) {
        if (modes & m->bit)
            COPSE_TRY(copse_note(m->run(r), "in mode %s", m->name));
        modes &= ~m->bit;
    }
    return modes && !r->is_stopped
               ? copse_fail(COPSE_ERR_ARGUMENT, "conformance: there are no modes %#x", modes)
               : COPSE_OK;
}

/* Every name in the parameters must be that of something. */
static copse_status probe(const struct copse_conform_run *run)
{
    const struct copse_conformance_params *p = run->params;
    struct copse_conform_run r = *run;
    r.is_probing = r.is_listing = true;
    COPSE_TRY(run_modes(&r));
    int at = 0;
    for (const char *op = p->ops; op; at++) {
        const size_t n = strcspn(op, ",");
        if (at >= MOST_OPS || !(r.ops_met >> at & 1))
            return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no case of the op '%.*s' in these "
                                                  "modes", (int)n, op);
        op = op[n] ? op + n + 1 : NULL;
    }
    if (p->case_name && !r.has_case)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no case '%s' in these modes and ops",
                          p->case_name);
    if (p->variant && !r.has_variant)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no variant '%s' in these cases",
                          p->variant);
    if (!r.is_past)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no case '%s' to go on behind",
                          p->after);
    return COPSE_OK;
}

static copse_status run_on_device(struct copse_conform_run *r)
{
    COPSE_TRY(open_device(r));
    COPSE_TRY(probe(r));
    COPSE_TRY(run_modes(r));
    if (r->is_stopped)
        return copse_fail(COPSE_ERR_CANCELLED, "conformance: stopped by the application");
    return r->own && !r->is_listing ? copse__own_kernel_was_used(r->dev, r->own) : COPSE_OK;
}

static copse_status run(copse_context *ctx, const struct copse_conformance_params *params,
                        const struct copse_case_table *const *tables,
                        const struct copse_known *known, bool is_listing,
                        struct copse_conformance_summary *summary)
{
    const uint64_t start = copse__now_ns();
    struct copse_conform_run r = {
        .ctx = ctx, .params = params, .tables = tables, .known = known, .summary = summary,
        .is_listing = is_listing, .deadline_ns = UINT64_MAX,
    };
    COPSE_TRY(copse_need("conformance", ctx, params, summary));
    if (!(params->seconds >= 0) || (unsigned)params->tier > COPSE_CONFORM_EXHAUSTIVE)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no such tier, or a negative time");
    memset(summary, 0, sizeof *summary);
    if (params->seconds > 0 && params->seconds < 1e9)
        r.deadline_ns = start + (uint64_t)(params->seconds * 1e9);
    /* Kernels are judged here, on devices that the modes open by themselves, too. */
    atomic_fetch_add(&ctx->self_tests_off, 1u);
    const copse_status s = run_on_device(&r);
    take_passes(&r);
    close_device(&r);
    atomic_fetch_sub(&ctx->self_tests_off, 1u);
    summary->seconds = (double)(copse__now_ns() - start) * 1e-9;
    return s;
}

copse_status copse__conformance_run_with(copse_context *ctx,
                                         const struct copse_conformance_params *params,
                                         const struct copse_case_table *const *tables,
                                         const struct copse_known *known,
                                         struct copse_conformance_summary *out)
{
    return run(ctx, params, tables, known, false, out);
}

copse_status copse__conformance_list_with(copse_context *ctx,
                                          const struct copse_conformance_params *params,
                                          const struct copse_case_table *const *tables)
{
    static const struct copse_known nothing[1];
    struct copse_conformance_summary summary;
    return run(ctx, params, tables, nothing, true, &summary);
}

copse_status copse_conformance_run(copse_context *ctx,
                                   const struct copse_conformance_params *params,
                                   struct copse_conformance_summary *out)
{
    return run(ctx, params, copse_case_tables, copse_known, false, out);
}

copse_status copse_conformance_list(copse_context *ctx,
                                    const struct copse_conformance_params *params)
{
    return copse__conformance_list_with(ctx, params, copse_case_tables);
}
