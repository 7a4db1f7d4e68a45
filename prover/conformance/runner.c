/* SPDX-License-Identifier: MIT */
/* A run over all modes. */
#include "prover/conformance/runner.h"
#include "core/ops/user/user_op.h"
#include "prover/cases/tables.h"
#include "prover/conformance/verdict/library.h"
#include "prover/conformance/verdict/own_launch.h"

/* Whether all cases of the modes are selected, or all of some ops. `ops` is empty where none of
   those that were asked for has a case in the mode. */
static bool has_all_cases(const struct copse_conformance_params *p)
{
    return (!p->ops || *p->ops) && !p->case_name && !p->variant && !p->own &&
           !(p->modes & COPSE_CONFORM_FAILED);
}

static copse_status run_mode(struct copse_conform_run *r, const struct copse_conform_mode *m)
{
    r->has_unreached = false;
    COPSE_TRY(m->run(r));
    const bool is_test =
        !(m->bit & (COPSE_CONFORM_PERF | COPSE_CONFORM_TUNE | COPSE_CONFORM_CEILINGS));
    if (is_test && !r->is_listing && !r->is_stopped && has_all_cases(r->params) &&
        copse__device_note_mode(r->dev, m->name, r->params->ops, (uint32_t)r->params->tier,
                                !r->has_unreached) != COPSE_OK)
        copse__log(&r->ctx->base.log, COPSE_LOG_WARN, "conformance: the run of %s is not noted: %s",
                   m->name, copse_last_error());
    return COPSE_OK;
}

static copse_status run_modes(struct copse_conform_run *r)
{
    const unsigned set = r->params->modes & ~(unsigned)COPSE_CONFORM_FAILED;
    unsigned modes = set ? set : COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD;
    r->is_past = !r->params->after || !*r->params->after;
    for (const struct copse_conform_mode *m = copse_conform_modes; m->name && !r->is_stopped; m++) {
        if (modes & m->bit)
            COPSE_TRY(copse_note(run_mode(r, m), "in mode %s", m->name));
        modes &= ~m->bit;
    }
    return modes && !r->is_stopped
               ? copse_fail(COPSE_ERR_ARGUMENT, "conformance: there are no modes %#x", modes)
               : COPSE_OK;
}

/* Every name in the parameters must exist. */
static copse_status runner_probe(const struct copse_conform_run *run)
{
    const struct copse_conformance_params *p = run->params;
    struct copse_conform_run r = *run;
    r.is_probing = r.is_listing = true;
    COPSE_TRY(run_modes(&r));
    int at = 0;
    for (const char *op = p->ops; op; at++) {
        const size_t n = strcspn(op, ",");
        if (at >= COPSE_CONFORM_MOST_OPS || !(r.ops_met >> at & 1))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "conformance: no case of the op '%.*s' in these "
                              "modes",
                              (int)n, op);
        op = op[n] ? op + n + 1 : NULL;
    }
    if (p->case_name && !r.has_case)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no case '%s' in these modes and ops",
                          p->case_name);
    if (p->variant && !r.has_variant)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no variant '%s' in these cases",
                          p->variant);
    if (!r.is_past)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no case '%s' to go on after", p->after);
    return COPSE_OK;
}

/* `seconds` from now on, 0 = without an end. */
static uint64_t deadline_in(double seconds)
{
    return seconds > 0 && seconds < 1e9 ? copse__now_ns() + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

static copse_status run_on_device(struct copse_conform_run *r)
{
    COPSE_TRY(copse__verdicts_create(r, &r->verdicts));
    COPSE_TRY(copse__conform_open(r));
    copse__verdicts_watch(r, r->dev);
    COPSE_TRY(runner_probe(r));
    COPSE_TRY(run_modes(r));
    if (r->is_stopped)
        return copse_fail(COPSE_ERR_CANCELLED, "conformance: stopped by the application");
    return r->own && !r->is_listing ? copse__own_kernel_was_used(r->dev, r->own) : COPSE_OK;
}

static copse_status runner_run(copse_context *ctx, const struct copse_conformance_params *params,
                               const struct copse_case_table *const *tables,
                               const struct copse_known *known, bool is_listing,
                               struct copse_conformance_summary *summary)
{
    const uint64_t start = copse__now_ns();
    struct copse_conform_run r = {
        .ctx = ctx,
        .params = params,
        .tables = tables,
        .known = known,
        .summary = summary,
        .is_listing = is_listing,
        .deadline_ns = params ? deadline_in(params->seconds) : UINT64_MAX,
    };
    COPSE_TRY(copse_need("conformance", ctx, params, summary));
    if (!(params->seconds >= 0) || (unsigned)params->tier > COPSE_CONFORM_EXHAUSTIVE)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no such tier, or a negative time");
    if (copse__own_launch_is(params->own) &&
        (params->modes & ~(unsigned)COPSE_CONFORM_FAILED) != COPSE_CONFORM_LAUNCH)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "conformance: a kernel with a described launch has mode launch only");
    memset(summary, 0, sizeof *summary);
    if (params->known)
        COPSE_TRY(copse__known_file_read(&ctx->base.mem, params->known, &r.known_file));
    /* The modes test kernels themselves, also on devices that they open. */
    atomic_fetch_add(&ctx->self_tests_off, 1u);
    const copse_status s = run_on_device(&r);
    copse__verdicts_finish(&r);
    copse__conform_close(&r);
    copse__known_file_free(&ctx->base.mem, &r.known_file);
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
    return runner_run(ctx, params, tables, known, false, out);
}

copse_status copse__conformance_list_with(copse_context *ctx,
                                          const struct copse_conformance_params *params,
                                          const struct copse_case_table *const *tables)
{
    static const struct copse_known nothing[1];
    struct copse_conformance_summary summary;
    return runner_run(ctx, params, tables, nothing, true, &summary);
}

/* ---- kernels ahead ---- */

enum { KERNELS_AT_ONCE = 128 }; /* between two looks at the clock */

struct ahead {
    copse_progress_fn *report; /* of the context */
    void *user;
    size_t done, total;
};

/* One count for all parts of the list. */
static void ahead_report(void *user, const struct copse_progress *p)
{
    const struct ahead *a = user;
    struct copse_progress whole = *p;
    whole.done = (uint32_t)(a->done + p->done);
    whole.total = (uint32_t)a->total;
    if (a->report)
        a->report(a->user, &whole);
}

static void compile_ahead(copse_context *ctx, copse_device *dev,
                          const struct copse_kernel_wants *wants, uint64_t deadline_ns)
{
    struct ahead a = { ctx->progress, ctx->progress_user, .total = wants->count };
    ctx->progress = ahead_report;
    ctx->progress_user = &a;
    while (a.done < a.total && copse__now_ns() < deadline_ns) {
        const size_t count = COPSE_MIN(a.total - a.done, KERNELS_AT_ONCE);
        copse__kernels_compile(dev, wants->at + a.done, count);
        a.done += count;
    }
    ctx->progress = a.report;
    ctx->progress_user = a.user;
}

static void drop_warm(copse_device *dev, struct copse_kernel_wants *wants)
{
    size_t kept = 0;
    for (size_t i = 0; i < wants->count; i++)
        if (copse__kernel_is_cold(dev, wants->at[i].id, wants->at[i].spec))
            wants->at[kept++] = wants->at[i];
    wants->count = kept;
}

static copse_status prepare_on(struct copse_conform_run *r)
{
    const char *id = r->params->device ? r->params->device : "host:0";
    COPSE_TRY(copse_device_open(r->ctx, id, NULL, &r->dev));
    if (!r->dev->backend->is_stored || !r->ctx->has_kept_cache)
        return COPSE_OK; /* it compiles nothing, or no other process would find it */
    r->is_past = !r->params->after || !*r->params->after;
    for (const struct copse_conform_mode *m = copse_conform_modes; m->name; m++)
        if (m->bit & r->params->modes & (COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD))
            COPSE_TRY(m->run(r));
    drop_warm(r->dev, r->wants);
    compile_ahead(r->ctx, r->dev, r->wants, r->deadline_ns);
    return COPSE_OK;
}

/* The tables of the library and of the ops that the application registered. The caller frees
   *out. */
static copse_status all_tables(copse_context *ctx, const struct copse_case_table ***out)
{
    size_t count = 0;
    while (copse_case_tables[count])
        count++;
    *out = copse__alloc(&ctx->base.mem, count + COPSE_MAX_USER_KERNELS + 1, sizeof **out);
    COPSE_TRY(copse_need_memory(*out, "conformance"));
    for (size_t i = 0; i < count; i++)
        (*out)[i] = copse_case_tables[i];
    copse__user_tables(ctx, *out + count, COPSE_MAX_USER_KERNELS);
    return COPSE_OK;
}

copse_status copse_conformance_run(copse_context *ctx,
                                   const struct copse_conformance_params *params,
                                   struct copse_conformance_summary *out)
{
    const struct copse_case_table **tables;
    COPSE_TRY(copse__conform_library());
    COPSE_TRY(copse_need("conformance", ctx, params, out));
    COPSE_TRY(copse_no_reserved(copse_conformance_params, params));
    COPSE_TRY(all_tables(ctx, &tables));
    const copse_status s = runner_run(ctx, params, tables, copse_known, false, out);
    copse__free(&ctx->base.mem, tables);
    return s;
}

copse_status copse__conformance_prepare(copse_context *ctx,
                                        const struct copse_conformance_params *params)
{
    const struct copse_case_table **tables;
    struct copse_kernel_wants wants = { .count = 0 };
    struct copse_conformance_summary summary = { .seconds = 0 };
    COPSE_TRY(all_tables(ctx, &tables));
    struct copse_conform_run r = {
        .ctx = ctx,
        .params = params,
        .tables = tables,
        .known = copse_known,
        .summary = &summary,
        .deadline_ns = deadline_in(params->seconds),
        .wants = &wants,
    };
    atomic_fetch_add(&ctx->self_tests_off, 1u); /* the cases test kernels, and give the verdicts */
    const copse_status s = prepare_on(&r);
    copse__conform_close(&r);
    atomic_fetch_sub(&ctx->self_tests_off, 1u);
    copse__free(&ctx->base.mem, wants.at);
    copse__free(&ctx->base.mem, tables);
    return s;
}

copse_status copse_conformance_list(copse_context *ctx,
                                    const struct copse_conformance_params *params)
{
    const struct copse_case_table **tables;
    COPSE_TRY(copse__conform_library());
    COPSE_TRY(copse_need("conformance", ctx, params));
    COPSE_TRY(copse_no_reserved(copse_conformance_params, params));
    COPSE_TRY(all_tables(ctx, &tables));
    const copse_status s = copse__conformance_list_with(ctx, params, tables);
    copse__free(&ctx->base.mem, tables);
    return s;
}
