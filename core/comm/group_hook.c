/* SPDX-License-Identifier: MIT */
/* The exchange's messages over a cluster: one collective per round, with two kinds of messages. */
#include "core/comm/group_hook.h"

#include <stdio.h>

static const char *const what[] = { "sums of gradients", "new values" };

static copse_status begin(void *user, uint32_t bucket, uint64_t elements)
{
    struct copse_group *g = user;
    char name[32], form[40];
    snprintf(name, sizeof name, "bucket %u", bucket);
    snprintf(form, sizeof form, "f32 [%llu]", (unsigned long long)elements);
    return copse__collective_begin_on(g->cluster, name, form, 4 * elements, COPSE_OK);
}

static copse_status barrier(void *user, copse_exchange_busy_fn *busy, void *busy_user)
{
    struct copse_group *g = user;
    const copse_status s = copse__collective_barrier(g->cluster, busy, busy_user);
    if (s) /* no message will come */
        for (int kind = 0; kind < 2; kind++)
            copse__cluster_drop(g->cluster, g->in[kind], COPSE_MAX_WORKERS);
    return s;
}

static copse_status hook_recv(void *user, uint32_t worker, uint32_t kind, void *bytes, size_t size)
{
    struct copse_group *g = user;
    return copse__cluster_recv(g->cluster, worker, copse__collective_tag(g->cluster, kind), bytes, size,
                               &g->in[kind][worker]);
}

static copse_status hook_send(void *user, uint32_t worker, uint32_t kind, const void *bytes, size_t size)
{
    struct copse_group *g = user;
    return copse__cluster_send(g->cluster, worker, copse__collective_tag(g->cluster, kind), bytes, size,
                               &g->out[kind][worker]);
}

static copse_status wait_recv(void *user, uint32_t worker, uint32_t kind, copse_exchange_busy_fn *busy,
                              void *busy_user)
{
    struct copse_group *g = user;
    return copse__cluster_wait(g->cluster, &g->in[kind][worker], 1, what[kind], busy, busy_user);
}

static copse_status wait_sends(void *user, copse_exchange_busy_fn *busy, void *busy_user)
{
    struct copse_group *g = user;
    for (int kind = 0; kind < 2; kind++)
        COPSE_TRY(copse__cluster_wait(g->cluster, g->out[kind], COPSE_MAX_WORKERS, what[kind], busy,
                                      busy_user));
    return COPSE_OK;
}

static void cut_short(void *user)
{
    copse__group_abort(user);
}

/* In a whole job, sent messages still arrive. */
static void abort_round(void *user)
{
    struct copse_group *g = user;
    if (!g->cluster->is_failed)
        (void)wait_sends(g, NULL, NULL);
    for (int kind = 0; kind < 2; kind++) {
        copse__cluster_drop(g->cluster, g->out[kind], COPSE_MAX_WORKERS);
        copse__cluster_drop(g->cluster, g->in[kind], COPSE_MAX_WORKERS);
    }
}

void copse__group_hook_init(struct copse_group *g)
{
    g->hook = (struct copse_exchange_remote){
        .workers = { g->worker, g->workers, g->rank_counts },
        .binding_bytes = UINT64_MAX,
        .begin = begin,
        .barrier = barrier,
        .recv = hook_recv,
        .send = hook_send,
        .wait_recv = wait_recv,
        .wait_sends = wait_sends,
        .cut_short = cut_short,
        .abort = abort_round,
        .user = g,
    };
}
