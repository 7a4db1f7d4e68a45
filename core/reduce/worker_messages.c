/* SPDX-License-Identifier: MIT */
/* See worker_messages.h. */
#include "core/reduce/worker_messages.h"

static copse_status worker_messages_receive(struct copse_worker_messages *m, uint32_t worker,
                                            uint32_t kind, void *bytes, size_t size)
{
    copse_cluster *c = m->group->cluster;
    if (worker == m->group->worker || size == 0)
        return COPSE_OK;
    return copse__cluster_recv(c, worker, copse__collective_tag(c, kind), bytes, size,
                               &m->in[kind][worker]);
}

copse_status copse__worker_recv_sums(struct copse_worker_messages *m,
                                     const struct copse_worker_slice *slices, unsigned char *rows)
{
    const size_t own = slices[m->group->worker].size;
    for (uint32_t v = 0; v < m->group->workers; v++)
        COPSE_TRY(worker_messages_receive(m, v, COPSE_KIND_SUMS, rows + v * own, own));
    return COPSE_OK;
}

copse_status copse__worker_recv_results(struct copse_worker_messages *m,
                                        const struct copse_worker_slice *slices,
                                        unsigned char *bytes)
{
    for (uint32_t v = 0; v < m->group->workers; v++)
        COPSE_TRY(worker_messages_receive(m, v, COPSE_KIND_RESULTS, bytes + slices[v].offset,
                                          slices[v].size));
    return COPSE_OK;
}

/* Each worker begins with another one. */
copse_status copse__worker_send(struct copse_worker_messages *m, uint32_t kind,
                                const struct copse_worker_slice *slices, const unsigned char *bytes)
{
    copse_cluster *c = m->group->cluster;
    const uint32_t own = m->group->worker, workers = m->group->workers;
    for (uint32_t i = 1; i < workers; i++) {
        const uint32_t v = (own + i) % workers;
        const struct copse_worker_slice *slice = &slices[kind == COPSE_KIND_SUMS ? v : own];
        if (slice->size > 0)
            COPSE_TRY(copse__cluster_send(c, v, copse__collective_tag(c, kind),
                                          bytes + slice->offset, slice->size, &m->out[kind][v]));
    }
    return COPSE_OK;
}

copse_status copse__worker_wait_recvs(struct copse_worker_messages *m, uint32_t kind,
                                      uint32_t first, uint32_t count, copse_busy_fn *busy,
                                      void *user)
{
    return copse__cluster_wait(m->group->cluster, &m->in[kind][first], count, m->what[kind], busy,
                               user);
}

copse_status copse__worker_wait_sends(struct copse_worker_messages *m, copse_busy_fn *busy,
                                      void *user)
{
    for (uint32_t kind = 0; kind < COPSE_MESSAGE_KINDS; kind++)
        COPSE_TRY(copse__cluster_wait(m->group->cluster, m->out[kind], m->group->workers,
                                      m->what[kind], busy, user));
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
