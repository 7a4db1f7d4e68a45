/* SPDX-License-Identifier: MIT */
/* A job of conformance: parameters, the thread, waiting, cancelling. */
#include "prover/isolation/job.h"

#include <stdio.h>

#include "copse/copse.h"
#include "core/base/cache_folder.h"
#include "prover/conformance/verdict/library.h"
#include "prover/isolation/process.h"

static COPSE_THREAD_LOCAL const copse_conformance_job *own_job; /* of a job's thread */

/* ---- parameters ---- */

static copse_status job_check(const struct copse_conformance_job_params *p)
{
    unsigned all = COPSE_CONFORM_FAILED;
    for (const struct copse_conform_name *m = copse_conform_mode_names; m->name; m++)
        all |= m->value;
    COPSE_TRY(copse_no_reserved(copse_conformance_job_params, p));
    if (p->in_process)
        COPSE_TRY(copse_no_reserved(copse_conformance_helper_params, p->in_process));
    if ((unsigned)p->work > COPSE_CONFORM_DESCRIBE || (unsigned)p->tier > COPSE_CONFORM_EXHAUSTIVE)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: no such work or tier");
    if (p->modes & ~all)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: there are no modes %#x",
                          p->modes & ~all);
    if (!(p->seconds >= 0.0 && p->deadline >= 0.0))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "conformance: seconds and deadline must be at least 0");
    if (!p->own_path != !p->own_kernel)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: own_path and own_kernel go together");
    if (!p->in_process && copse__process_is_child())
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "conformance: this process is a helper process: its main must call "
                          "copse_conformance_helper first");
    return COPSE_OK;
}

/* Every file can be written, and each has a name of its own. */
static copse_status check_files(copse_context *ctx, const struct copse_conformance_job_params *p)
{
    const char *const files[] = { p->html, p->markdown, p->junit, p->csv, p->json };
    for (size_t i = 0; i < COPSE_COUNT(files); i++) {
        struct copse_atomic_file file;
        if (!files[i])
            continue;
        for (size_t k = 0; k < i; k++)
            if (files[k] && strcmp(files[i], files[k]) == 0)
                return copse_fail(COPSE_ERR_ARGUMENT,
                                  "conformance: two results would be written to '%s'", files[i]);
        COPSE_TRY(copse__atomic_open(&file, &ctx->base.mem, files[i]));
        copse__atomic_abort(&file);
    }
    return COPSE_OK;
}

static copse_status copy_texts(copse_conformance_job *job)
{
    struct copse_conformance_job_params *p = &job->params;
    const char **const texts[] = { &p->devices,  &p->ops,        &p->case_name,    &p->variant,
                                   &p->own_path, &p->own_kernel, &p->cache_folder, &p->known,
                                   &p->html,     &p->markdown,   &p->junit,        &p->csv,
                                   &p->json,     &p->command,    &p->after };
    job->texts.mem = &job->ctx->base.mem;
    for (size_t i = 0; i < COPSE_COUNT(texts); i++)
        if (*texts[i] && !(*texts[i] = copse__arena_strdup(&job->texts, *texts[i])))
            return copse_no_memory("conformance: parameters of the job");
    return COPSE_OK;
}

static void set_defaults(copse_conformance_job *job)
{
    struct copse_conformance_job_params *p = &job->params;
    p->devices = p->devices ? p->devices : "all";
    p->modes = p->modes ? p->modes : COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD;
    p->cache_folder =
        p->cache_folder ? p->cache_folder : copse__cache_folder_path(&job->ctx->base.cache);
    if (!(p->deadline > 0.0))
        p->deadline = p->tier >= COPSE_CONFORM_FULL ? 600.0 : 60.0;
    job->isolation =
        (struct copse_isolation){ job->helper, p->in_process, p->deadline, &job->is_cancelled };
}

/* ---- what the card says about the run ---- */

static void modes_text(unsigned modes, char *out, size_t room)
{
    size_t at = 0;
    *out = '\0';
    for (const struct copse_conform_name *m = copse_conform_mode_names; m->name && at < room; m++)
        if (modes & m->value)
            at += (size_t)snprintf(out + at, room - at, "%s%s", at ? " " : "", m->name);
}

static copse_status job_describe(copse_conformance_job *job)
{
    const struct copse_conformance_job_params *p = &job->params;
    copse_conformance_results *all = job->results;
    char modes[128], command[1024];
    modes_text(p->modes, modes, sizeof modes);
    snprintf(command, sizeof command, "copse conformance %s --devices %s --tier %s", modes,
             p->devices, copse_conformance_tier_name(p->tier));
    snprintf(all->library, sizeof all->library, "%s", copse_version());
    snprintf(all->tier, sizeof all->tier, "%s", copse_conformance_tier_name(p->tier));
    all->seed = p->seed;
    copse__time_text(all->started, sizeof all->started);
    all->environment = copse__environment_json();
    if (!all->environment)
        return copse_no_memory("conformance: the environment");
    COPSE_TRY(copse__results_set(all, &all->modes, modes));
    COPSE_TRY(copse__results_set(all, &all->command, p->command ? p->command : command));
    COPSE_TRY(copse__results_set(all, &all->own_path, p->own_path));
    return copse__results_set(all, &all->own_kernel, p->own_kernel);
}

/* ---- the thread ---- */

static void thread_main(void *user)
{
    copse_conformance_job *job = user;
    own_job = job;
    const copse_status s = copse__job_run(job);
    copse__mutex_lock(&job->lock);
    job->status = s;
    snprintf(job->error, sizeof job->error, "%s", s == COPSE_OK ? "" : copse_last_error());
    job->running[0] = '\0';
    job->is_finished = true;
    copse__cond_signal_all(&job->finished);
    copse__mutex_unlock(&job->lock);
}

static void free_job(copse_conformance_job *job)
{
    copse_context *ctx = job->ctx;
    copse_conformance_results_release(&job->results);
    copse__known_file_free(&ctx->base.mem, &job->known);
    copse__arena_fini(&job->texts);
    copse__free(&ctx->base.mem, job);
    copse_context_release(&ctx);
}

static copse_status job_prepare(copse_conformance_job *job)
{
    COPSE_TRY(copy_texts(job));
    set_defaults(job);
    if (!job->params.in_process)
        COPSE_TRY(copse__helper_find(job->params.helper, job->helper, sizeof job->helper));
    job->params.helper = job->helper;
    if (job->params.known)
        COPSE_TRY(copse__known_file_read(&job->ctx->base.mem, job->params.known, &job->known));
    COPSE_TRY(check_files(job->ctx, &job->params));
    COPSE_TRY(copse__results_create(job->ctx, &job->results));
    return job_describe(job);
}

static copse_status start_thread(copse_conformance_job *job)
{
    COPSE_TRY(copse__mutex_init(&job->lock));
    copse_status s = copse__cond_init(&job->finished);
    if (s == COPSE_OK) {
        s = copse__thread_start(&job->thread, thread_main, job);
        if (s == COPSE_OK)
            return COPSE_OK;
        copse__cond_fini(&job->finished);
    }
    copse__mutex_fini(&job->lock);
    return s;
}

copse_status copse_conformance_start(copse_context *ctx,
                                     const struct copse_conformance_job_params *params,
                                     copse_conformance_job **out)
{
    COPSE_TRY(copse__conform_library());
    COPSE_TRY(copse_need("conformance job", ctx, params, out));
    *out = NULL;
    COPSE_TRY(job_check(params));
    copse_conformance_job *job = copse__alloc(&ctx->base.mem, 1, sizeof *job);
    if (!job)
        return copse_no_memory("conformance job");
    job->ctx = copse_context_retain(ctx);
    job->params = *params;
    job->start_ns = copse__now_ns();
    copse_status s = job_prepare(job);
    if (s == COPSE_OK)
        s = start_thread(job);
    if (s == COPSE_OK)
        *out = job;
    else
        free_job(job);
    return s;
}

/* ---- asking, cancelling, waiting ---- */

void copse_conformance_job_progress(copse_conformance_job *job,
                                    struct copse_conformance_progress *out)
{
    if (!out)
        return;
    *out = (struct copse_conformance_progress){ 0 };
    if (!job)
        return;
    copse__mutex_lock(&job->lock);
    out->done = job->done;
    out->planned = job->planned;
    out->seconds = (double)(copse__now_ns() - job->start_ns) * 1e-9;
    out->is_finished = job->is_finished;
    memcpy(out->running, job->running, sizeof out->running);
    copse__mutex_unlock(&job->lock);
}

void copse_conformance_cancel(copse_conformance_job *job)
{
    if (job)
        atomic_store(&job->is_cancelled, true);
}

static void sum_up(const copse_conformance_job *job, struct copse_conformance_outcome *out)
{
    static const char not_reached[] = "not reached in "; /* prover/conformance/verdict/case_run.c */
    const copse_conformance_results *all = job->results;
    *out = (struct copse_conformance_outcome){ .not_reached = job->left_out };
    copse_conformance_results_summary(all, &out->summary);
    for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
        out->failed += copse_verdict_fails((copse_verdict)v) ? all->counts[v] : 0;
    for (size_t i = 0; i < all->case_count; i++)
        out->not_reached += all->cases[i].verdict == COPSE_VERDICT_SKIP &&
                            strncmp(all->cases[i].text, not_reached, sizeof not_reached - 1) == 0;
    out->is_trusted = out->failed == 0 && out->summary.counts[COPSE_VERDICT_PASS] > 0;
}

copse_status copse_conformance_wait(copse_conformance_job *job, double seconds,
                                    struct copse_conformance_outcome *out)
{
    COPSE_TRY(copse_need("conformance job", job));
    if (own_job == job)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance job: its callback cannot wait for it");
    const uint64_t until =
        seconds >= 0.0 && seconds < 1e9 ? copse__now_ns() + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    copse__mutex_lock(&job->lock);
    while (!job->is_finished && copse__cond_wait(&job->finished, &job->lock, until))
        continue;
    const bool is_finished = job->is_finished;
    copse__mutex_unlock(&job->lock);
    if (!is_finished)
        return copse_fail(COPSE_ERR_TIMEOUT, "conformance job: it goes on");
    if (out)
        sum_up(job, out);
    if (job->status != COPSE_OK)
        copse__fail_again(job->error);
    return job->status;
}

const copse_conformance_results *copse_conformance_job_results(const copse_conformance_job *job)
{
    struct copse_conformance_progress p;
    copse_conformance_job_progress((copse_conformance_job *)(uintptr_t)job, &p);
    return p.is_finished ? job->results : NULL;
}

void copse_conformance_job_release(copse_conformance_job **job)
{
    copse_conformance_job *j = job ? *job : NULL;
    if (!j || own_job == j)
        return;
    *job = NULL;
    copse_conformance_cancel(j);
    copse__thread_join(&j->thread);
    copse__cond_fini(&j->finished);
    copse__mutex_fini(&j->lock);
    free_job(j);
}
