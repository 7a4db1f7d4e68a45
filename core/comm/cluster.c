/* SPDX-License-Identifier: MIT */
/* Connected workers: opening, leaving. */
#include <stdio.h>

#include "copse/copse.h"
#include "core/comm/heartbeat.h"

#define MS          1000000ull
#define WARN_MS     5000
#define DEADLINE_MS 60000
#define LEAVE_NS    (10000 * MS)
#define DRAIN_NS    (1000 * MS) /* of it, for dropped reads */

static void *cluster_resize(void *user, void *block, size_t size)
{
    struct copse_mem *mem = user;
    if (size == 0) {
        copse__free(mem, block);
        return NULL;
    }
    return copse__resize(mem, block, size, 1);
}

static void cluster_warn(struct copse_transport *t, uint64_t ranks)
{
    char names[COPSE_WORKERS_TEXT];
    const copse_cluster *c =
        (const copse_cluster *)(const void *)((const char *)t - offsetof(copse_cluster, t));
    copse__log(&c->ctx->base.log, COPSE_LOG_WARN,
               "cluster: waiting since %.3g s for %s to come%s%s", (double)c->warn_ns / 1e9,
               copse__cluster_names(c, ranks, names), t->text[0] ? ": " : "", t->text);
}

/* All workers must have the same version and settings. */
static copse_status check_settings(copse_cluster *c)
{
    char text[256];
    const uint16_t probe = 1;
    snprintf(text, sizeof text,
             "library %s\nbyte order %s\nwarning %llu ms\ndeadline %llu ms\n"
             "one-sided %s, windows of %llu bytes, variables of up to %llu bytes\n",
             copse_version(), *(const char *)&probe ? "little" : "big",
             (unsigned long long)(c->warn_ns / MS), (unsigned long long)(c->deadline_ns / MS),
             copse__one_sided_name(c->window.mode), (unsigned long long)c->window.bytes,
             (unsigned long long)c->window.most);
    return copse__cluster_agree(c, "version and settings", text);
}

static copse_status explain_open(copse_cluster *c, copse_status s)
{
    char names[COPSE_WORKERS_TEXT];
    if (c->t.missing)
        return copse_fail(COPSE_ERR_TIMEOUT, "cluster: %s did not come within %.3g s (%s)",
                          copse__cluster_names(c, c->t.missing, names),
                          (double)c->deadline_ns / 1e9, c->t.text);
    if (c->t.lost)
        return copse_fail(s, "cluster: lost %s while connecting (%s)",
                          copse__cluster_names(c, c->t.lost, names), c->t.text);
    return copse_fail(s, "cluster: %s", c->t.text);
}

uint64_t copse__cluster_originals(const copse_cluster *c, uint64_t lost)
{
    uint64_t ranks = 0;
    for (uint32_t r = 0; r < c->t.size; r++)
        ranks |= lost >> r & 1 ? 0 : 1ull << c->original[r];
    return ranks;
}

copse_status copse__cluster_connect(copse_cluster *c, uint32_t rank, uint32_t size, void *user)
{
    uint64_t job = copse__cluster_spec_hash(c->spec);
    const uint64_t now = copse__now_ns();
    for (uint32_t r = 0; r < size; r++) {
        copse_role role;
        uint32_t index;
        copse__cluster_spec_worker(c->spec, c->original[r], &role, &index);
        c->addresses[r] = copse_cluster_spec_address(c->spec, role, index);
    }
    c->epoch++;
    job = copse__hash(job, &c->epoch, sizeof c->epoch);
    job = copse__hash(job, c->original, size * sizeof *c->original);
    c->t = (struct copse_transport){
        .table = c->table,
        .rank = rank,
        .size = size,
        .addresses = c->addresses,
        .job = job,
        .deadline_ns = now + c->deadline_ns,
        .warn_ns = now + c->warn_ns,
        .resize = cluster_resize,
        .resize_user = &c->ctx->base.mem,
        .warn = cluster_warn,
        .user = user,
    };
    c->sequence = c->refused = c->notified = c->reported = c->regrouping = c->decided = 0;
    c->operation = c->failed_operation = c->left_operation = c->held = 0;
    c->depth = 0;
    c->call[0] = '\0';
    memset(c->unanswered, 0, sizeof c->unanswered);
    memset(c->usual, 0, sizeof c->usual);
    c->why[0] = '\0';
    c->why_status = COPSE_OK;
    c->is_failed = false;
    c->is_open = true;
    const copse_status s = c->table->open(&c->t);
    if (s)
        return explain_open(c, s);
    COPSE_TRY(copse__notices_begin(c));
    COPSE_TRY(check_settings(c));
    COPSE_TRY(copse__window_begin(c));
    COPSE_TRY(copse__heartbeats_begin(c));
    c->whole = copse__cluster_originals(c, 0);
    return COPSE_OK;
}

void copse__cluster_disconnect(copse_cluster *c, bool is_orderly)
{
    if (!c->is_open)
        return;
    c->is_open = c->window.is_open = false;
    copse__heartbeats_drop(c);
    copse__headers_drop(c);
    copse__cluster_drop(c, c->notice_in, c->t.size);
    copse__cluster_drop(c, c->window.reads.at, c->window.reads.count);
    c->table->close(&c->t, is_orderly);
    copse__window_end(c, is_orderly);
}

/* ---- public ---- */

static copse_status find_engine(copse_context *ctx, const copse_cluster_spec *spec,
                                const struct copse_cluster_params *p,
                                const struct copse_transport_table **out)
{
    copse_engine engine = p->engine;
    if (engine == COPSE_ENGINE_AUTO)
        engine = copse_cluster_spec_is_launched(spec) ? COPSE_ENGINE_MPI : COPSE_ENGINE_GLOO;
    if (engine == COPSE_ENGINE_MPI)
        return copse__module_load(ctx, p->modules, "mpi", "libopenmpi-dev", out);
    if (engine == COPSE_ENGINE_GLOO)
        return copse__module_load(ctx, p->modules, "gloo", "libgloo-dev", out);
    return copse_fail(COPSE_ERR_ARGUMENT, "cluster: there is no engine %d", (int)engine);
}

copse_status copse__cluster_open_with(copse_context *ctx, copse_cluster_spec *spec,
                                      const struct copse_cluster_params *params,
                                      const struct copse_transport_table *table, void *user,
                                      copse_cluster **out)
{
    uint32_t rank;
    const uint32_t size = copse__cluster_spec_members(spec, &rank);
    *out = NULL;
    COPSE_TRY(copse__window_check(params));
    copse_cluster *c = copse__alloc(&ctx->base.mem, 1, sizeof *c);
    if (!c)
        return copse_no_memory("cluster");
    atomic_init(&c->refs, 1);
    c->ctx = copse_context_retain(ctx);
    c->spec = copse__cluster_spec_retain(spec);
    c->table = table;
    c->warn_ns = MS * (params->warn_ms ? params->warn_ms : WARN_MS);
    c->deadline_ns = MS * (params->deadline_ms ? params->deadline_ms : DEADLINE_MS);
    for (uint32_t r = 0; r < size; r++)
        c->original[r] = r;
    c->window.mode = params->one_sided;
    c->window.bytes = copse__window_bytes(params);
    c->window.most = copse__window_most(params);
    c->t.rank = rank;
    c->t.size = size;
    const copse_status s = size > 1 ? copse__cluster_connect(c, rank, size, user) : COPSE_OK;
    if (s) {
        c->is_failed = true;
        copse_cluster_release(&c);
        return s;
    }
    *out = c;
    return COPSE_OK;
}

copse_status copse_cluster_open(copse_context *ctx, copse_cluster_spec *spec,
                                const struct copse_cluster_params *params, copse_cluster **out)
{
    const struct copse_cluster_params none = { 0 };
    const struct copse_transport_table *table = NULL;
    uint32_t rank;
    if (!ctx || !spec || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: context, description or result is NULL");
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_cluster_params, params));
    if (!params)
        params = &none;
    if (copse__cluster_spec_members(spec, &rank) > 1)
        COPSE_TRY(find_engine(ctx, spec, params, &table));
    return copse__cluster_open_with(ctx, spec, params, table, NULL, out);
}

copse_cluster *copse_cluster_retain(copse_cluster *c)
{
    if (c)
        copse__ref(&c->refs);
    return c;
}

/* Whether all tasks can leave in order: a read that does not end blocks its task, and that task
   blocks the others. */
static bool is_drained(const copse_cluster *c)
{
    bool is_stuck = c->window.is_stuck;
    for (uint32_t r = 0; r < c->t.size; r++)
        is_stuck = is_stuck || ((c->notified >> r & 1) && c->notices[r].is_stuck);
    if (is_stuck)
        copse__log(&c->ctx->base.log, COPSE_LOG_WARN,
                   "cluster: a read of a task's memory has not ended: all leave "
                   "without it%s",
                   c->table->ends_together ? ", and the launcher takes the job for failed" : "");
    return !is_stuck;
}

/* All leave together: a message that is pending may be lost with the connection. Wait longer over
   an engine whose ranks must leave at once. */
static bool cluster_leave(copse_cluster *c)
{
    const uint64_t all = c->t.size == 64 ? UINT64_MAX : (1ull << c->t.size) - 1;
    const uint64_t others = all & ~(1ull << c->t.rank);
    const uint64_t most = c->table->ends_together ? LEAVE_NS : COPSE_MIN(LEAVE_NS, 2000 * MS);
    const uint64_t end = copse__now_ns() + most;
    if (c->window.is_hung || (c->is_failed && (c->reported || c->t.lost)))
        return false;
    if (!c->is_failed) { /* else all have been notified of the failure */
        c->window.is_stuck = !copse__window_drain(c, DRAIN_NS);
        copse__notices_send(c, COPSE_NOTICE_LEFT, 0, LEAVE_NS - DRAIN_NS);
    }
    while ((c->notified & others) != others && !c->reported && !(c->t.lost & ~c->notified) &&
           copse__now_ns() < end) {
        copse__notices_poll(c);
        (void)copse__headers_drain(c, UINT64_MAX);
        copse__sleep_ns(MS);
    }
    return !c->is_failed && (c->notified & others) == others && is_drained(c);
}

void copse_cluster_release(copse_cluster **at)
{
    copse_cluster *c = at ? *at : NULL;
    if (at)
        *at = NULL;
    if (!c || !copse__unref(&c->refs))
        return;
    if (c->is_open) {
        copse__heartbeats_end(c);
        const bool is_orderly = cluster_leave(c);
        copse__cluster_disconnect(c, is_orderly);
    }
    copse_context *ctx = c->ctx;
    copse_cluster_spec_release(&c->spec);
    copse__free(&ctx->base.mem, c);
    copse_context_release(&ctx);
}

void copse_cluster_end_job(copse_cluster *c, copse_status status, const char *why, int code)
{
    if (!c || !c->is_open)
        return;
    copse__heartbeats_end(c); /* one thread at a time */
    if (c->table->end_job)
        c->table->end_job(&c->t, code > 0 && code < 256 ? code : 1);
    else if (status != COPSE_ERR_COMM ||
             copse_cluster_lost(c) == 0) /* else the others detect the loss themselves */
        copse__cluster_notify_failure(c, status, why);
}
