/* SPDX-License-Identifier: MIT */
/* Heartbeats are counted, never answered. */
#include "core/ps/failure_detector.h"

copse_status copse__failure_detector_begin(copse_cluster *c, uint32_t worker,
                                           struct copse_failure_detector *s)
{
    s->pending.peer = worker;
    const copse_status status = c->table->recv(&c->t, worker, COPSE_TAG_HEARTBEAT, &s->heartbeat,
                                               sizeof s->heartbeat, &s->pending.op);
    if (status)
        s->pending.op = NULL;
    return status ? copse_fail(status, "cluster: %s", c->t.text) : COPSE_OK;
}

void copse__failure_detector_heard(struct copse_failure_detector *s)
{
    s->ns = 0;
    s->has_warned = false;
}

/* Handle heartbeats that have arrived. */
static void failure_detector_take(copse_cluster *c, uint32_t worker,
                                  struct copse_failure_detector *s)
{
    while (s->pending.op) {
        const copse_status status = c->table->wait(&c->t, s->pending.op, 0);
        if (status == COPSE_ERR_TIMEOUT)
            return;
        s->pending.op = NULL;
        /* the loss is reported by its request */
        if (status || copse__failure_detector_begin(c, worker, s))
            return;
        s->has_heartbeat = true;
        copse__failure_detector_heard(s);
    }
}

copse_status copse__failure_detector_check(copse_cluster *c, uint32_t worker,
                                           struct copse_failure_detector *s, uint64_t passed)
{
    char name[COPSE_WORKERS_TEXT];
    /* a time in which this process itself hung does not count */
    s->ns += COPSE_MIN(passed, c->deadline_ns / 4);
    failure_detector_take(c, worker, s);
    if (!s->has_heartbeat)
        return COPSE_OK;
    if (s->ns >= c->deadline_ns)
        return copse_fail(COPSE_ERR_TIMEOUT, "it sent no heartbeat for %.3g s",
                          (double)c->deadline_ns / 1e9);
    if (s->ns >= c->warn_ns && !s->has_warned) {
        s->has_warned = true;
        copse__log(&c->ctx->base.log, COPSE_LOG_WARN,
                   "parameter server: %s has sent no heartbeat for %.3g s",
                   copse__cluster_names(c, 1ull << worker, name), (double)c->warn_ns / 1e9);
    }
    return COPSE_OK;
}

void copse__failure_detector_end(copse_cluster *c, struct copse_failure_detector *s)
{
    copse__cluster_drop(c, &s->pending, 1);
}
