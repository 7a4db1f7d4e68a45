/* SPDX-License-Identifier: MIT */
/* See worker_messages.h. */
#include "core/reduce/worker_messages.h"

copse_status copse__worker_recv(struct copse_worker_messages *m, uint32_t worker, uint32_t kind, void *bytes,
                                size_t size)
{
    copse_cluster *c = m->group->cluster;
    return copse__cluster_recv(c, worker, copse__collective_tag(c, kind), bytes, size, &m->in[kind][worker]);
}

copse_status copse__worker_send(struct copse_worker_messages *m, uint32_t worker, uint32_t kind, const void *bytes,
                                size_t size)
{
    copse_cluster *c = m->group->cluster;
    return copse__cluster_send(c, worker, copse__collective_tag(c, kind), bytes, size, &m->out[kind][worker]);
}

copse_status copse__worker_wait_recvs(struct copse_worker_messages *m, uint32_t kind, uint32_t first, uint32_t count,
                                      copse_busy_fn *busy, void *user)
{
    return copse__cluster_wait(m->group->cluster, &m->in[kind][first], count, m->what[kind], busy, user);
}

copse_status copse__worker_wait_sends(struct copse_worker_messages *m, copse_busy_fn *busy, void *user)
{
    for (uint32_t kind = 0; kind < COPSE_MESSAGE_KINDS; kind++)
        COPSE_TRY(copse__cluster_wait(m->group->cluster, m->out[kind], m->group->workers, m->what[kind], busy, user));
    return COPSE_OK;
}

void copse__worker_drop_recvs(struct copse_worker_messages *m)
{
    for (uint32_t kind = 0; kind < COPSE_MESSAGE_KINDS; kind++)
        copse__cluster_drop(m->group->cluster, m->in[kind], m->group->workers);
}

void copse__worker_drop(struct copse_worker_messages *m)
{
    for (uint32_t kind = 0; kind < COPSE_MESSAGE_KINDS; kind++)
        copse__cluster_drop(m->group->cluster, m->out[kind], m->group->workers);
    copse__worker_drop_recvs(m);
}
