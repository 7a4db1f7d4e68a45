/* SPDX-License-Identifier: MIT */
/* Beats are only counted, never answered. */
#include "core/ps/silence.h"

copse_status copse__silence_begin(copse_cluster *c, uint32_t worker, struct copse_silence *s)
{
    s->parcel.peer = worker;
    const copse_status status = c->table->recv(&c->t, worker, COPSE_TAG_BEAT, &s->beat, sizeof s->beat,
                                               &s->parcel.op);
    if (status)
        s->parcel.op = NULL;
    return status ? copse_fail(status, "cluster: %s", c->t.text) : COPSE_OK;
}

void copse__silence_break(struct copse_silence *s)
{
    s->ns = 0;
    s->has_warned = false;
}

/* Beats that have come. */
static void take(copse_cluster *c, uint32_t worker, struct copse_silence *s)
{
    while (s->parcel.op) {
        const copse_status status = c->table->wait(&c->t, s->parcel.op, 0);
        if (status == COPSE_ERR_TIMEOUT)
            return;
        s->parcel.op = NULL;
        if (status || copse__silence_begin(c, worker, s)) /* the loss shows with its request */
            return;
        s->has_beaten = true;
        copse__silence_break(s);
    }
}

copse_status copse__silence_look(copse_cluster *c, uint32_t worker, struct copse_silence *s,
                                 uint64_t passed)
{
    char name[COPSE_WORKERS_TEXT];
    /* a gap in which this process stood still is not the worker's */
    s->ns += COPSE_MIN(passed, c->deadline_ns / 4);
    take(c, worker, s);
    if (!s->has_beaten)
        return COPSE_OK;
    if (s->ns >= c->deadline_ns)
        return copse_fail(COPSE_ERR_TIMEOUT, "it gave no sign of life for %.3g s",
                          (double)c->deadline_ns / 1e9);
    if (s->ns >= c->warn_ns && !s->has_warned) {
        s->has_warned = true;
        copse__log(&c->ctx->base.log, COPSE_LOG_WARN, "parameter server: %s gives no sign of life since %.3g s",
                   copse__cluster_names(c, 1ull << worker, name), (double)c->warn_ns / 1e9);
    }
    return COPSE_OK;
}

void copse__silence_end(copse_cluster *c, struct copse_silence *s)
{
    copse__cluster_drop(c, &s->parcel, 1);
}
