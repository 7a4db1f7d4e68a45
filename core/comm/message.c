/* SPDX-License-Identifier: MIT */
/* Messages between workers, with deadlines. An engine may hang forever; every wait here has a
 * deadline and polls for lost workers every few milliseconds.
 *
 * Loss. An engine that owns its connections reports when the connection to a peer breaks. A worker
 * that detects a loss notifies the others before it stops, so that all name the worker that was
 * lost first, not the one that notified them.
 */
#include <stdio.h>

#include "core/comm/cluster.h"

#define SLICE_NS  10000000ull
#define POLL_NS   20000000ull
#define GRACE_NS  30000000ull /* for a notice that explains a broken connection */
#define NOTIFY_NS 200000000ull
#define LEFT_NS   1000000000ull /* for pending messages between this worker and one that leaves */

static uint64_t message_bit(uint32_t rank)
{
    return 1ull << rank;
}

const char *copse__cluster_names(const copse_cluster *c, uint64_t ranks,
                                 char text[COPSE_WORKERS_TEXT])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t r = 0; r < c->t.size; r++) {
        char one[COPSE_WORKER_TEXT];
        if (!(ranks & message_bit(r)))
            continue;
        copse__worker_text(c->spec, c->original[r], one);
        if (used + strlen(one) + 8 > COPSE_WORKERS_TEXT) {
            snprintf(text + used, COPSE_WORKERS_TEXT - used, ", ...");
            break;
        }
        used +=
            (size_t)snprintf(text + used, COPSE_WORKERS_TEXT - used, "%s%s", used ? ", " : "", one);
    }
    return text;
}

copse_status copse__cluster_check(const copse_cluster *c)
{
    return c->is_failed ? copse_fail(COPSE_ERR_COMM, "cluster: it has failed: %s", c->failure)
                        : COPSE_OK;
}

/* ---- lost workers ---- */

static uint64_t message_gone(const copse_cluster *c)
{
    return (c->t.lost & ~c->notified) | c->reported;
}

copse_status copse__notice_recv(copse_cluster *c, uint32_t peer)
{
    struct copse_pending *in = &c->notice_in[peer];
    in->peer = peer;
    const copse_status s = c->table->recv(&c->t, peer, COPSE_NOTICE_TAG, &c->notices[peer],
                                          sizeof c->notices[peer], &in->op);
    if (s)
        in->op = NULL;
    return s ? copse_fail(s, "cluster: %s", c->t.text) : COPSE_OK;
}

copse_status copse__notices_begin(copse_cluster *c)
{
    for (uint32_t r = 0; r < c->t.size; r++) {
        const copse_status s = r != c->t.rank ? copse__notice_recv(c, r) : COPSE_OK;
        if (s != COPSE_OK &&
            !(c->t.lost & message_bit(r))) /* a loss is reported by the first collective */
            return s;
    }
    return COPSE_OK;
}

/* A notice has arrived. */
static void handle_notice(copse_cluster *c, uint32_t peer)
{
    struct copse_notice *n = &c->notices[peer];
    uint64_t lost = 0;
    n->why[sizeof n->why - 1] = '\0';
    c->notified |= message_bit(peer);
    if (n->status && !c->why_status) {
        c->why_status = copse__peer_failure(c, peer);
        c->why[0] = '\0'; /* the first failure replaces reports that followed from it */
    }
    if (n->why[0] && !c->why[0])
        memcpy(c->why, n->why, sizeof c->why);
    if (n->kind == COPSE_NOTICE_LEFT)
        return;
    for (uint32_t i = 0; i < c->t.size; i++)
        if (n->lost & message_bit(c->original[i]))
            lost |= message_bit(i);
    c->reported |= lost;
    if (n->kind >= COPSE_NOTICE_REGROUP) {
        c->regrouping |= message_bit(peer);
        c->views[peer] = lost;
    }
    if (n->kind == COPSE_NOTICE_DECIDED)
        c->decided |= message_bit(peer);
}

void copse__notices_poll(copse_cluster *c)
{
    c->polled_ns = copse__now_ns();
    for (uint32_t r = 0; r < c->t.size; r++) {
        struct copse_pending *in = &c->notice_in[r];
        if (!in->op)
            continue;
        const copse_status s = c->table->wait(&c->t, in->op, 0);
        if (s == COPSE_ERR_TIMEOUT)
            continue;
        in->op = NULL;
        if (s)
            continue; /* the engine has noted it in t.lost */
        handle_notice(c, r);
    }
}

void copse__notices_send(copse_cluster *c, int kind, uint64_t lost, uint64_t timeout_ns)
{
    struct copse_pending out[COPSE_MAX_WORKERS] = { { NULL, 0 } };
    const uint64_t end = copse__now_ns() + timeout_ns;
    /* a worker that has sent LEFT waits for the same notice of this worker */
    const uint64_t skipped =
        lost | c->t.lost | (kind == COPSE_NOTICE_LOST ? c->notified : c->reported);
    c->notice = (struct copse_notice){ .kind = kind, .is_stuck = c->window.is_stuck };
    if (c->is_failed) { /* else the failure is of others, and this worker is done */
        c->notice.status = (uint32_t)c->why_status;
        memcpy(c->notice.why, c->why, sizeof c->why);
    }
    for (uint32_t r = 0; r < c->t.size; r++)
        if (lost & message_bit(r))
            c->notice.lost |= message_bit(c->original[r]);
    for (uint32_t r = 0; r < c->t.size; r++)
        if (r != c->t.rank && !(skipped & message_bit(r)) &&
            c->table->send(&c->t, r, COPSE_NOTICE_TAG, &c->notice, sizeof c->notice, &out[r].op))
            out[r].op = NULL;
    for (uint32_t r = 0; r < c->t.size; r++) {
        while (out[r].op && copse__now_ns() < end) {
            const copse_status s = c->table->wait(&c->t, out[r].op, SLICE_NS);
            if (s != COPSE_ERR_TIMEOUT)
                out[r].op = NULL;
        }
        if (out[r].op)
            c->table->drop(&c->t, out[r].op);
    }
}

void copse__peer_abort(copse_cluster *c, uint32_t peer)
{
    struct copse_pending out = { NULL, peer };
    const uint64_t end = copse__now_ns() + NOTIFY_NS;
    c->reported |= message_bit(peer);
    c->notice =
        (struct copse_notice){ .kind = COPSE_NOTICE_LOST, .lost = message_bit(c->original[peer]) };
    if (c->table->send(&c->t, peer, COPSE_NOTICE_TAG, &c->notice, sizeof c->notice, &out.op))
        out.op = NULL;
    while (out.op && copse__now_ns() < end)
        if (c->table->wait(&c->t, out.op, SLICE_NS) != COPSE_ERR_TIMEOUT)
            out.op = NULL;
    copse__cluster_drop(c, &out, 1);
}

copse_status copse__cluster_fail(copse_cluster *c, copse_status s, uint64_t lost, const char *fmt,
                                 ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->failure, sizeof c->failure, fmt, args);
    va_end(args);
    c->is_failed = true;
    c->reported |= lost;
    copse__notices_send(c, COPSE_NOTICE_LOST, lost, NOTIFY_NS);
    return copse_fail(s, "cluster: %s", c->failure);
}

void copse__cluster_abort(copse_cluster *c, const char *why)
{
    if (c->is_failed || c->t.size == 1)
        return;
    snprintf(c->why, sizeof c->why, "%s", why);
    snprintf(c->failure, sizeof c->failure, "this worker aborted: %s", why);
    c->is_failed = true;
    c->reported |= message_bit(c->t.rank);
    copse__notices_send(c, COPSE_NOTICE_LOST, message_bit(c->t.rank), NOTIFY_NS);
}

void copse__cluster_notify_failure(copse_cluster *c, copse_status s, const char *why)
{
    char name[COPSE_WORKERS_TEXT];
    if (c->is_failed || c->t.size == 1)
        return;
    c->why_status = s;
    snprintf(c->why, sizeof c->why, "%s failed: %s",
             copse__cluster_names(c, message_bit(c->t.rank), name), why);
    snprintf(c->failure, sizeof c->failure, "this task failed: %s", why);
    c->is_failed = true;
    copse__notices_send(c, COPSE_NOTICE_LEFT, 0, NOTIFY_NS);
}

/* A message failed, or a worker was reported lost: find out which, and fail with its name. */
static copse_status message_explain(copse_cluster *c, const char *what, const char *engine)
{
    char names[COPSE_WORKERS_TEXT];
    char text[256];
    snprintf(text, sizeof text, "%s", engine); /* polling overwrites it */
    for (int attempt = 0; attempt < 2; attempt++) {
        copse__notices_poll(c);
        if (attempt == 0)
            copse__sleep_ns(GRACE_NS);
    }
    const uint64_t lost = message_gone(c);
    if (lost & message_bit(c->t.rank))
        return copse__cluster_fail(c, COPSE_ERR_COMM, lost,
                                   "the other workers have dropped this one (%s)", what);
    if (lost)
        return copse__cluster_fail(c, COPSE_ERR_COMM, lost, "lost %s (%s)%s%s",
                                   copse__cluster_names(c, lost, names), what,
                                   c->why[0] ? ": " : "", c->why);
    if (c->why_status)
        return copse__cluster_fail(c, c->why_status, 0, "%s (%s)", c->why, what);
    if (c->t.lost & c->notified)
        return copse__cluster_fail(c, COPSE_ERR_COMM, 0, "%s left before the end (%s)",
                                   copse__cluster_names(c, c->t.lost & c->notified, names), what);
    return copse__cluster_fail(c, COPSE_ERR_COMM, 0, "%s (%s)", text, what);
}

/* ---- sending, receiving, waiting ---- */

copse_status copse__cluster_send(copse_cluster *c, uint32_t peer, uint32_t tag, const void *bytes,
                                 size_t size, struct copse_pending *out)
{
    COPSE_TRY(copse__cluster_check(c));
    out->peer = peer;
    const copse_status s = c->table->send(&c->t, peer, tag, bytes, size, &out->op);
    if (s)
        out->op = NULL;
    return s ? message_explain(c, c->header.what, c->t.text) : COPSE_OK;
}

copse_status copse__cluster_recv(copse_cluster *c, uint32_t peer, uint32_t tag, void *bytes,
                                 size_t size, struct copse_pending *out)
{
    COPSE_TRY(copse__cluster_check(c));
    out->peer = peer;
    const copse_status s = c->table->recv(&c->t, peer, tag, bytes, size, &out->op);
    if (s)
        out->op = NULL;
    return s ? message_explain(c, c->header.what, c->t.text) : COPSE_OK;
}

struct waiting {
    copse_cluster *c;
    struct copse_pending *list;
    size_t count;
    const char *what;
    uint64_t begin;
    uint64_t left; /* when the peer was first seen to leave; 0: it has not */
    bool has_warned;
};

/* Peers whose messages are not done. */
static uint64_t message_missing(struct waiting *w)
{
    uint64_t ranks = 0;
    for (size_t i = 0; i < w->count; i++) {
        struct copse_pending *x = &w->list[i];
        if (!x->op)
            continue;
        const copse_status s = w->c->table->wait(&w->c->t, x->op, 0);
        if (s == COPSE_ERR_TIMEOUT)
            ranks |= message_bit(x->peer);
        else
            x->op = NULL;
    }
    return ranks;
}

static copse_status wait_a_little(struct waiting *w, struct copse_pending *x)
{
    copse_cluster *c = w->c;
    const copse_status s = c->table->wait(&c->t, x->op, SLICE_NS);
    if (s != COPSE_ERR_TIMEOUT) {
        x->op = NULL;
        return s ? message_explain(c, w->what, c->t.text) : COPSE_OK;
    }
    const uint64_t now = copse__now_ns();
    if (now - c->polled_ns >= POLL_NS) {
        copse__notices_poll(c);
        if (message_gone(c))
            return message_explain(c, w->what, "");
        /* it stays connected for a while: its messages arrive, or have arrived */
        if (c->notified & message_bit(x->peer)) {
            const bool is_first = w->left == 0; /* it may have arrived since the last wait */
            if (is_first)
                w->left = now;
            if (!is_first && (c->table->is_ordered || now - w->left >= LEFT_NS)) {
                c->t.lost |= message_bit(x->peer);
                return message_explain(c, w->what, "");
            }
        }
    }
    char names[COPSE_WORKERS_TEXT];
    if (now - w->begin >= c->deadline_ns) {
        const uint64_t lost = message_missing(w);
        if (lost)
            return copse__cluster_fail(
                c, COPSE_ERR_TIMEOUT, lost, "%s did not answer within %.3g s (%s)",
                copse__cluster_names(c, lost, names), (double)c->deadline_ns / 1e9, w->what);
    } else if (!w->has_warned && now - w->begin >= c->warn_ns) {
        w->has_warned = true;
        copse__log(&c->ctx->base.log, COPSE_LOG_WARN, "cluster: waiting since %.3g s for %s (%s)",
                   (double)c->warn_ns / 1e9, copse__cluster_names(c, message_missing(w), names),
                   w->what);
    }
    return COPSE_OK;
}

copse_status copse__cluster_wait(copse_cluster *c, struct copse_pending *list, size_t count,
                                 const char *what, copse_cluster_busy_fn *busy, void *user)
{
    struct waiting w = { c, list, count, what, copse__now_ns(), 0, false };
    for (size_t i = 0; i < count; i++) {
        if (list[i].op && busy)
            COPSE_TRY(busy(user));
        w.left = 0;
        while (list[i].op) {
            COPSE_TRY(copse__cluster_check(c));
            COPSE_TRY(wait_a_little(&w, &list[i]));
        }
    }
    return COPSE_OK;
}

copse_status copse__cluster_wait_each(copse_cluster *c, struct copse_pending *list, size_t count,
                                      const char *what, copse_cluster_take_fn *take,
                                      copse_cluster_busy_fn *busy, void *user)
{
    struct waiting w = { c, list, count, what, copse__now_ns(), 0, false };
    const struct copse_pending *last = NULL;
    uint64_t open = 0;
    for (uint32_t i = 0; i < count; i++)
        open |= list[i].op ? message_bit(i) : 0;
    while (open) {
        struct copse_pending *first = NULL;
        for (uint32_t i = 0; i < count; i++) {
            while (open & message_bit(i)) {
                const copse_status s = list[i].op ? c->table->wait(&c->t, list[i].op, 0) : COPSE_OK;
                if (s == COPSE_ERR_TIMEOUT)
                    break;
                list[i].op = NULL;
                if (s)
                    return message_explain(c, what, c->t.text);
                COPSE_TRY(take(c, i));
                open &= list[i].op ? UINT64_MAX : ~message_bit(i);
            }
            if (!first && (open & message_bit(i)))
                first = &list[i];
        }
        if (!first)
            break;
        COPSE_TRY(busy ? busy(user) : COPSE_OK);
        COPSE_TRY(copse__cluster_check(c));
        w.left = first == last ? w.left : 0;
        last = first;
        COPSE_TRY(wait_a_little(&w, first));
    }
    return COPSE_OK;
}

copse_status copse__cluster_test(copse_cluster *c, struct copse_pending *list, size_t count)
{
    COPSE_TRY(copse__cluster_check(c));
    for (size_t i = 0; i < count; i++) {
        if (!list[i].op)
            continue;
        const copse_status s = c->table->wait(&c->t, list[i].op, 0);
        if (s == COPSE_ERR_TIMEOUT) {
            if (copse__now_ns() - c->polled_ns >= POLL_NS)
                copse__notices_poll(c);
            return message_gone(c) ? message_explain(c, c->header.what, "") : s;
        }
        list[i].op = NULL;
        if (s)
            return message_explain(c, c->header.what, c->t.text);
    }
    return COPSE_OK;
}

void copse__cluster_drop(copse_cluster *c, struct copse_pending *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].op) {
            if (c->table->drop(&c->t, list[i].op))
                c->window.stuck |= message_bit(list[i].peer);
            list[i].op = NULL;
        }
}

copse_status copse__peer_failure(const copse_cluster *c, uint32_t peer)
{
    return c->notified >> peer & 1 ? copse__status_of(c->notices[peer].status) : COPSE_OK;
}
