/* SPDX-License-Identifier: MIT */
/* Groups of workers: joining, and collectives, which return at once in a group of one. */
#include "core/comm/group.h"

#include <stdio.h>

/* ---- members ---- */

struct copse_group copse__group_of_one = { .workers = 1, .ranks = 1, .rank_counts = { 1 } };

void copse__group_alone(struct copse_group *g, uint32_t ranks)
{
    *g = (struct copse_group){ .workers = 1, .ranks = ranks, .rank_counts = { ranks } };
}

static copse_status count_ranks(struct copse_group *g, uint32_t worker, uint64_t ranks)
{
    if (ranks == 0 || ranks > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_COMM,
                          "cluster: worker %u has %llu replicas; 1 to %d are possible", worker,
                          (unsigned long long)ranks, COPSE_MAX_REPLICAS);
    g->rank_counts[worker] = (uint32_t)ranks;
    g->ranks += (uint32_t)ranks;
    g->first += worker < g->worker ? (uint32_t)ranks : 0;
    return COPSE_OK;
}

copse_status copse__group_join(struct copse_group *g, copse_cluster *c, uint32_t ranks,
                               uint64_t binding_bytes)
{
    struct about {
        uint64_t ranks, bytes;
    } mine = { ranks, binding_bytes }, all[COPSE_MAX_WORKERS];
    copse__group_alone(g, ranks);
    g->job = copse_cluster_retain(c);
    if (c->t.size == 1)
        return COPSE_OK;
    COPSE_TRY(copse__cluster_allgather(c, &mine, all, sizeof mine, "replicas and limits"));
    *g = (struct copse_group){
        .job = c, .worker = c->t.rank, .workers = c->t.size, .binding_bytes = UINT64_MAX
    };
    for (uint32_t v = 0; v < c->t.size; v++) {
        COPSE_TRY(count_ranks(g, v, all[v].ranks));
        g->binding_bytes = COPSE_MIN(g->binding_bytes, all[v].bytes);
    }
    if (g->ranks > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: the workers have %u replicas together: at most %d", g->ranks,
                          COPSE_MAX_REPLICAS);
    g->cluster = copse_cluster_retain(c);
    return COPSE_OK;
}

void copse__group_leave(struct copse_group *g)
{
    copse_cluster_release(&g->cluster);
    copse_cluster_release(&g->job);
}

bool copse__group_is_chief(const struct copse_group *g)
{
    return !g->job || copse_cluster_is_chief(g->job);
}

bool copse__group_is_evaluator(const struct copse_group *g)
{
    return g->job && g->job->spec->role == COPSE_ROLE_EVALUATOR;
}

copse_cluster *copse__group_job(const struct copse_group *g)
{
    return g->cluster || (g->job && copse_cluster_servers(g->job) > 0) ? g->job : NULL;
}

uint64_t copse__group_binding_bytes(const struct copse_group *g, uint64_t own)
{
    return g->cluster ? g->binding_bytes : own;
}

/* ---- operations ---- */

void copse__group_begin(struct copse_group *g, const char *call)
{
    if (g->cluster)
        copse__operation_begin(g->cluster, call);
}

copse_status copse__group_end(struct copse_group *g, copse_status s)
{
    if (g->cluster)
        copse__operation_end(g->cluster, s);
    return s;
}

/* ---- collectives ---- */

copse_status copse__group_barrier(struct copse_group *g, const char *what, uint64_t size,
                                  copse_status mine)
{
    return g->cluster ? copse__cluster_barrier(g->cluster, what, size, mine) : mine;
}

copse_status copse__group_barrier_on(struct copse_group *g, const char *what, const char *form,
                                     uint64_t size, copse_status mine)
{
    return g->cluster ? copse__cluster_barrier_on(g->cluster, what, form, size, mine) : mine;
}

copse_status copse__group_broadcast(struct copse_group *g, const char *what, void *bytes,
                                    size_t size, copse_status mine)
{
    COPSE_TRY(copse__group_barrier(g, what, size, mine));
    return g->cluster ? copse__cluster_broadcast_bytes(g->cluster, bytes, size) : COPSE_OK;
}

copse_status copse__group_allgather(struct copse_group *g, const char *what, const void *mine,
                                    void *all, size_t size)
{
    if (g->cluster)
        return copse__cluster_allgather(g->cluster, mine, all, size, what);
    memmove(all, mine, size);
    return COPSE_OK;
}

copse_status copse__group_agree(struct copse_group *g, const char *what, const char *text)
{
    return g->cluster ? copse__cluster_agree(g->cluster, what, text) : COPSE_OK;
}

copse_status copse__group_vote(struct copse_group *g, copse_status mine, const char *what)
{
    uint32_t code = (uint32_t)mine, all[COPSE_MAX_WORKERS];
    char text[COPSE_ERROR_BYTES];
    if (!g->cluster)
        return mine;
    snprintf(text, sizeof text, "%s", mine ? copse_last_error() : "");
    const copse_status s = copse__cluster_allgather(g->cluster, &code, all, sizeof code, what);
    if (mine) {
        copse__fail_again(text);
        return mine;
    }
    COPSE_TRY(s);
    for (uint32_t v = 0; v < g->workers; v++)
        if (all[v])
            return copse_fail(COPSE_ERR_COMM, "%s: worker %u failed: %s", what, v,
                              copse_status_text(copse__status_of(all[v])));
    return COPSE_OK;
}

copse_status copse__group_allgatherv(struct copse_group *g, void *all, const size_t *sizes)
{
    return g->cluster ? copse__cluster_allgatherv(g->cluster, all, sizes) : COPSE_OK;
}

copse_status copse__group_allgather_each(struct copse_group *g, void *all, size_t size)
{
    size_t sizes[COPSE_MAX_WORKERS];
    for (uint32_t w = 0; w < g->workers; w++)
        sizes[w] = size;
    return copse__group_allgatherv(g, all, sizes);
}

copse_status copse__group_gather_ranks(struct copse_group *g, const char *what, void *all,
                                       size_t size, copse_status mine)
{
    size_t sizes[COPSE_MAX_WORKERS];
    COPSE_TRY(copse__group_barrier(g, what, size, mine));
    for (uint32_t w = 0; w < g->workers; w++)
        sizes[w] = g->rank_counts[w] * size;
    return copse__group_allgatherv(g, all, sizes);
}
