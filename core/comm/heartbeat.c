/* SPDX-License-Identifier: MIT */
/* The heartbeat thread, and the guard between it and the training thread. */
#include "core/comm/heartbeat.h"

#include "core/base/platform.h"

#define EVERY_NS     1000000000ull /* at most */
#define PER_DEADLINE 10ull         /* at least, in one deadline */

struct copse_heartbeats {
    copse_cluster *c; /* not a reference: it owns this */
    const struct copse_transport_table *engine;
    struct copse_transport_table guard;
    copse_mutex lock;
    copse_cond changed;
    uint64_t tickets, turn; /* whose turn it is in the engine: first come, first served */
    bool is_over, has_lock, has_cond;
    copse_thread thread;
    /* the thread's own: */
    /* of its own: its texts and losses do not concern the training thread */
    struct copse_transport t;
    struct copse_heartbeat heartbeat;
    copse_transport_op *out[COPSE_MAX_WORKERS];
};

/* ---- the guard ---- */

static void heartbeat_enter(struct copse_heartbeats *b)
{
    copse__mutex_lock(&b->lock);
    const uint64_t mine = b->tickets++;
    while (b->turn != mine)
        copse__cond_wait(&b->changed, &b->lock, UINT64_MAX);
    copse__mutex_unlock(&b->lock);
}

static void heartbeat_leave(struct copse_heartbeats *b)
{
    copse__mutex_lock(&b->lock);
    b->turn++;
    if (b->turn != b->tickets)
        copse__cond_signal_all(&b->changed);
    copse__mutex_unlock(&b->lock);
}

static struct copse_heartbeats *heartbeats_of(struct copse_transport *t)
{
    return ((copse_cluster *)(void *)((char *)t - offsetof(copse_cluster, t)))->heartbeats;
}

static copse_status guarded_send(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                 const void *bytes, size_t size, copse_transport_op **op)
{
    struct copse_heartbeats *b = heartbeats_of(t);
    heartbeat_enter(b);
    const copse_status s = b->engine->send(t, peer, tag, bytes, size, op);
    heartbeat_leave(b);
    return s;
}

static copse_status guarded_recv(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                 void *bytes, size_t size, copse_transport_op **op)
{
    struct copse_heartbeats *b = heartbeats_of(t);
    heartbeat_enter(b);
    const copse_status s = b->engine->recv(t, peer, tag, bytes, size, op);
    heartbeat_leave(b);
    return s;
}

/* Callers wait for milliseconds at a time: see message.c and peer.c. */
static copse_status guarded_wait(struct copse_transport *t, copse_transport_op *op,
                                 uint64_t timeout_ns)
{
    struct copse_heartbeats *b = heartbeats_of(t);
    heartbeat_enter(b);
    const copse_status s = b->engine->wait(t, op, timeout_ns);
    heartbeat_leave(b);
    return s;
}

static bool guarded_drop(struct copse_transport *t, copse_transport_op *op)
{
    struct copse_heartbeats *b = heartbeats_of(t);
    heartbeat_enter(b);
    const bool is_in_use = b->engine->drop(t, op);
    heartbeat_leave(b);
    return is_in_use;
}

static copse_status guarded_window_get(struct copse_transport *t, uint32_t peer, size_t offset,
                                       void *bytes, size_t size, copse_transport_op **op)
{
    struct copse_heartbeats *b = heartbeats_of(t);
    heartbeat_enter(b);
    const copse_status s = b->engine->window_get(t, peer, offset, bytes, size, op);
    heartbeat_leave(b);
    return s;
}

/* ---- the thread ---- */

/* One heartbeat to every server that has received the previous one. */
static void send_heartbeats(struct copse_heartbeats *b)
{
    heartbeat_enter(b);
    b->heartbeat.count++;
    for (uint32_t r = copse_cluster_size(b->c); r < b->t.size; r++) {
        if (b->out[r] && b->engine->wait(&b->t, b->out[r], 0) != COPSE_ERR_TIMEOUT)
            b->out[r] = NULL;
        if (!b->out[r] && !(b->t.lost >> r & 1) &&
            b->engine->send(&b->t, r, COPSE_TAG_HEARTBEAT, &b->heartbeat, sizeof b->heartbeat,
                            &b->out[r])) {
            b->out[r] = NULL;
            b->t.lost |= 1ull << r;
        }
    }
    heartbeat_leave(b);
}

static void heartbeat_run(void *p)
{
    struct copse_heartbeats *b = p;
    const uint64_t every = COPSE_MIN(b->c->deadline_ns / PER_DEADLINE, EVERY_NS);
    for (bool is_over = false; !is_over;) {
        send_heartbeats(b);
        const uint64_t due = copse__now_ns() + every;
        copse__mutex_lock(&b->lock);
        while (!b->is_over && copse__now_ns() < due)
            copse__cond_wait(&b->changed, &b->lock, due);
        is_over = b->is_over;
        copse__mutex_unlock(&b->lock);
    }
}

/* ---- life ---- */

static void free_heartbeats(copse_cluster *c)
{
    struct copse_heartbeats *b = c->heartbeats;
    if (b->has_cond)
        copse__cond_fini(&b->changed);
    if (b->has_lock)
        copse__mutex_fini(&b->lock);
    copse__free(&c->ctx->base.mem, b);
    c->heartbeats = NULL;
}

static copse_status heartbeat_start(struct copse_heartbeats *b)
{
    COPSE_TRY(copse__mutex_init(&b->lock));
    b->has_lock = true;
    COPSE_TRY(copse__cond_init(&b->changed));
    b->has_cond = true;
    return copse__thread_start(&b->thread, heartbeat_run, b);
}

copse_status copse__heartbeats_begin(copse_cluster *c)
{
    if (copse_cluster_servers(c) == 0 || c->t.rank >= copse_cluster_size(c) || c->t.is_one_thread)
        return COPSE_OK;
    struct copse_heartbeats *b = copse__alloc(&c->ctx->base.mem, 1, sizeof *b);
    if (!b)
        return copse_no_memory("cluster");
    b->c = c;
    b->engine = c->table;
    b->guard = *c->table;
    b->guard.send = guarded_send;
    b->guard.recv = guarded_recv;
    b->guard.wait = guarded_wait;
    b->guard.drop = guarded_drop;
    if (c->table->window_get) /* window_put writes to this rank's memory and needs no guard */
        b->guard.window_get = guarded_window_get;
    b->t = c->t;
    c->heartbeats = b;
    const copse_status s = heartbeat_start(b);
    if (s)
        free_heartbeats(c);
    else
        /* this thread uses the guard from now on; the other one always does */
        c->table = &b->guard;
    return s;
}

void copse__heartbeats_end(copse_cluster *c)
{
    struct copse_heartbeats *b = c->heartbeats;
    if (!b || b->is_over)
        return;
    copse__mutex_lock(&b->lock);
    b->is_over = true;
    copse__cond_signal_all(&b->changed);
    copse__mutex_unlock(&b->lock);
    copse__thread_join(&b->thread);
    c->table = b->engine;
}

void copse__heartbeats_drop(copse_cluster *c)
{
    struct copse_heartbeats *b = c->heartbeats;
    if (!b)
        return;
    copse__heartbeats_end(c);
    for (uint32_t r = 0; r < b->t.size; r++)
        if (b->out[r] && b->engine->wait(&b->t, b->out[r], 0) == COPSE_ERR_TIMEOUT)
            b->engine->drop(&b->t, b->out[r]);
    free_heartbeats(c);
}
