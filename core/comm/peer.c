/* SPDX-License-Identifier: MIT */
/* Messages with one peer. Its loss fails only the operation that waits for it; the cluster
   continues. See message.c for messages whose failure concerns all. */
#include "core/comm/cluster.h"

#define SLICE_NS  10000000ull
#define POLL_NS   20000000ull
#define NOTICE_NS 30000000ull
#define GRACE_NS  100000000ull /* for messages that were pending when the peer left */

bool copse__peer_is_gone(copse_cluster *c, uint32_t peer)
{
    if (copse__now_ns() - c->polled_ns >= POLL_NS)
        copse__notices_poll(c);
    return ((c->t.lost | c->notified | c->reported) >> peer & 1) != 0;
}

copse_status copse__peer_lost(copse_cluster *c, uint32_t peer, const char *what)
{
    char name[COPSE_WORKERS_TEXT];
    for (int attempt = 0; attempt < 2; attempt++) { /* its notice may hold the reason */
        copse__notices_poll(c);
        if (attempt == 0)
            copse__sleep_ns(NOTICE_NS);
    }
    if (c->reported >> c->t.rank & 1)
        return copse_fail(COPSE_ERR_COMM, "cluster: %s has dropped this worker (%s)",
                          copse__cluster_names(c, 1ull << peer, name), what);
    const copse_status failure = copse__peer_failure(c, peer);
    if (failure)
        return copse_fail(failure, "cluster: %s (%s)", c->notices[peer].why, what);
    return copse_fail(COPSE_ERR_COMM, "cluster: lost %s (%s)",
                      copse__cluster_names(c, 1ull << peer, name), what);
}

copse_status copse__peer_wait(copse_cluster *c, struct copse_pending *p, uint64_t timeout_ns,
                              const char *what)
{
    const uint64_t begin = copse__now_ns();
    uint64_t end = begin + timeout_ns;
    bool is_gone = false, has_warned = false, is_late = false;
    while (p->op) {
        char name[COPSE_WORKERS_TEXT];
        const copse_status s = c->table->wait(&c->t, p->op, SLICE_NS);
        if (s != COPSE_ERR_TIMEOUT)
            p->op = NULL;
        if (s && s != COPSE_ERR_TIMEOUT)
            return copse__peer_lost(c, p->peer, what);
        if (!s || copse__now_ns() < end) {
            if (s && !is_gone && copse__peer_is_gone(c, p->peer)) {
                is_gone = true;
                end = COPSE_MIN(end, copse__now_ns() + GRACE_NS);
            }
            if (s && !has_warned && copse__now_ns() - begin >= c->warn_ns) {
                has_warned = true;
                copse__log(&c->ctx->base.log, COPSE_LOG_WARN,
                           "cluster: waiting since %.3g s for %s (%s)", (double)c->warn_ns / 1e9,
                           copse__cluster_names(c, 1ull << p->peer, name), what);
            }
            continue;
        }
        /* this process itself may have hung: handle messages that arrived meanwhile */
        if (!is_gone && !is_late) {
            is_late = true;
            end = copse__now_ns() + GRACE_NS;
            continue;
        }
        return is_gone
                   ? copse__peer_lost(c, p->peer, what)
                   : copse_fail(COPSE_ERR_TIMEOUT, "cluster: %s did not answer within %.3g s (%s)",
                                copse__cluster_names(c, 1ull << p->peer, name),
                                (double)timeout_ns / 1e9, what);
    }
    return COPSE_OK;
}

/* In messages of the engine's size limit, one after another. */
static copse_status peer_move(copse_cluster *c, uint32_t peer, bool is_send, void *bytes,
                              size_t size, uint64_t timeout_ns, const char *what)
{
    for (size_t at = 0; at < size; at += COPSE_TRANSPORT_BYTES) {
        const size_t n = COPSE_MIN(size - at, COPSE_TRANSPORT_BYTES);
        struct copse_pending p = { NULL, peer };
        copse_status s =
            is_send ? c->table->send(&c->t, peer, COPSE_TAG_PEER, (char *)bytes + at, n, &p.op)
                    : c->table->recv(&c->t, peer, COPSE_TAG_PEER, (char *)bytes + at, n, &p.op);
        if (s)
            return copse__peer_lost(c, peer, what);
        s = copse__peer_wait(c, &p, timeout_ns, what);
        copse__cluster_drop(c, &p, 1);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

copse_status copse__peer_send(copse_cluster *c, uint32_t peer, const void *bytes, size_t size,
                              uint64_t timeout_ns, const char *what)
{
    return peer_move(c, peer, true, (void *)(uintptr_t)bytes, size, timeout_ns, what);
}

copse_status copse__peer_recv(copse_cluster *c, uint32_t peer, void *bytes, size_t size,
                              uint64_t timeout_ns, const char *what)
{
    return peer_move(c, peer, false, bytes, size, timeout_ns, what);
}
