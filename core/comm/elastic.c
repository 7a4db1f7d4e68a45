/* SPDX-License-Identifier: MIT */
/* Elastic training: the survivors of a loss agree on the list of lost ranks, leave the old group
 * together, and connect a new one.
 *
 * Agreement. Each worker sends REGROUP with its view, the ranks that it believes lost, to all
 * others. A view grows by the views of others and by broken connections; a view that has grown is
 * sent again. A worker decides when the newest view of every live worker equals its own; then it
 * sends DECIDED. Views only grow and the messages of a worker stay in order, so no worker can
 * decide otherwise while one of the deciders lives, and a worker that receives DECIDED adopts that
 * decision. Any number may be lost meanwhile. A worker that is lost after all have received its
 * view is still a member of the decided group; connecting the new group then reports it to all.
 *
 * A worker that closed its connections directly after its decision would look lost to slower ones.
 * So it waits for DECIDED of all others.
 */
#include "core/comm/cluster.h"

#define POLL_NS    1000000ull
#define DECIDED_NS 2000000000ull /* for the last notices of workers that may have closed already */

static uint64_t elastic_bit(uint32_t rank)
{
    return 1ull << rank;
}

/* All ranks but this one and `lost`. */
static uint64_t others_than(const copse_cluster *c, uint64_t lost)
{
    const uint64_t all = c->t.size == 64 ? UINT64_MAX : elastic_bit(c->t.size) - 1;
    return all & ~lost & ~elastic_bit(c->t.rank);
}

/* The list that this worker sends to each of the others. */
struct agreement {
    copse_cluster *c;
    int kind;
    uint64_t sent; /* group ranks that were sent the newest view */
    uint64_t view; /* group ranks that are lost */
    struct copse_pending out[COPSE_MAX_WORKERS];
};

static void set_view(struct agreement *x, int kind, uint64_t view)
{
    if (x->kind != kind || x->view != view)
        x->sent = 0;
    x->kind = kind;
    x->view = view;
}

/* One message at a time to each; the next one when the previous one was received. */
static void send_view(struct agreement *x)
{
    copse_cluster *c = x->c;
    struct copse_notice now = { .kind = x->kind };
    const uint64_t to = others_than(c, x->view | c->t.lost | x->sent);
    for (uint32_t r = 0; r < c->t.size; r++)
        if (x->view & elastic_bit(r))
            now.lost |= elastic_bit(c->original[r]);
    for (uint32_t r = 0; r < c->t.size; r++) {
        if (!(to & elastic_bit(r)) || x->out[r].op)
            continue;
        c->views_out[r] = now;
        x->out[r].peer = r;
        x->sent |= elastic_bit(r);
        if (c->table->send(&c->t, r, COPSE_NOTICE_TAG, &c->views_out[r], sizeof now, &x->out[r].op))
            x->out[r].op = NULL; /* the engine has set its bit in t.lost */
    }
}

/* Handle arrived notices. A rank that left without a notice is lost, unless it had decided. */
static void receive_views(struct agreement *x)
{
    copse_cluster *c = x->c;
    for (uint32_t r = 0; r < c->t.size; r++) {
        if ((others_than(c, c->reported | c->decided | c->t.lost) & elastic_bit(r)) &&
            !c->notice_in[r].op && copse__notice_recv(c, r))
            c->t.lost |= elastic_bit(r);
        if (x->out[r].op && c->table->wait(&c->t, x->out[r].op, 0) != COPSE_ERR_TIMEOUT)
            x->out[r].op = NULL;
    }
    copse__notices_poll(c);
    c->reported |= c->t.lost & ~c->decided;
}

/* Live ranks that have not sent this view, or not received it. */
static uint64_t elastic_missing(const struct agreement *x, uint64_t from)
{
    uint64_t ranks = 0;
    for (uint32_t r = 0; r < x->c->t.size; r++)
        if (x->out[r].op || !(x->sent & elastic_bit(r)) || !(from & elastic_bit(r)) ||
            x->c->views[r] != x->view)
            ranks |= elastic_bit(r);
    return ranks & others_than(x->c, x->view | x->c->t.lost);
}

/* The decision of another rank; false when none has decided. */
static bool is_decided(const copse_cluster *c, uint64_t *view)
{
    for (uint32_t r = 0; r < c->t.size; r++)
        if (c->decided & elastic_bit(r)) {
            *view = c->views[r];
            return true;
        }
    return false;
}

/* `view` receives the lost ranks, the same on all survivors. The deadline restarts with each
   further loss. */
static copse_status elastic_agree(struct agreement *x, uint64_t *view)
{
    copse_cluster *c = x->c;
    char names[COPSE_WORKERS_TEXT];
    uint64_t begin = copse__now_ns();
    bool has_warned = false;
    for (;; copse__sleep_ns(POLL_NS)) {
        receive_views(x);
        if (c->reported & elastic_bit(c->t.rank))
            return copse_fail(COPSE_ERR_COMM, "cluster: the others have dropped this worker");
        if (is_decided(c, view))
            return COPSE_OK;
        if (c->reported != x->view)
            begin = copse__now_ns();
        set_view(x, COPSE_NOTICE_REGROUP, c->reported);
        send_view(x);
        *view = x->view;
        const uint64_t silent = elastic_missing(x, c->regrouping), waited = copse__now_ns() - begin;
        if (!silent && !(c->t.lost & ~c->reported))
            return COPSE_OK;
        if (waited >= c->deadline_ns)
            return copse_fail(COPSE_ERR_TIMEOUT, "cluster: %s did not regroup within %.3g s",
                              copse__cluster_names(c, silent, names), (double)c->deadline_ns / 1e9);
        if (!has_warned && waited >= c->warn_ns) {
            has_warned = true;
            copse__log(&c->ctx->base.log, COPSE_LOG_WARN,
                       "cluster: waiting since %.3g s for %s to regroup", (double)c->warn_ns / 1e9,
                       copse__cluster_names(c, silent, names));
        }
    }
}

/* Send the decision, and wait for that of all others, or until they have closed. */
static copse_status elastic_conclude(struct agreement *x, uint64_t view)
{
    copse_cluster *c = x->c;
    char names[COPSE_WORKERS_TEXT];
    const uint64_t end = copse__now_ns() + COPSE_MIN(DECIDED_NS, c->deadline_ns);
    set_view(x, COPSE_NOTICE_DECIDED, view);
    do {
        send_view(x);
        receive_views(x);
        for (uint32_t r = 0; r < c->t.size; r++)
            if ((c->decided & elastic_bit(r)) && c->views[r] != view)
                return copse_fail(COPSE_ERR_COMM,
                                  "cluster: %s continues with another group than this worker",
                                  copse__cluster_names(c, elastic_bit(r), names));
        if (!elastic_missing(x, c->decided))
            return COPSE_OK;
        copse__sleep_ns(POLL_NS);
    } while (copse__now_ns() < end);
    return COPSE_OK;
}

static copse_status agree_on_lost(copse_cluster *c, uint64_t *view)
{
    struct agreement x = { .c = c };
    copse_status s = elastic_agree(&x, view);
    if (s == COPSE_OK)
        s = elastic_conclude(&x, *view);
    copse__cluster_drop(c, x.out, c->t.size);
    return s;
}

static uint32_t elastic_count(uint64_t ranks)
{
    uint32_t n = 0;
    for (; ranks; ranks &= ranks - 1)
        n++;
    return n;
}

/* The network may split a job into two parts, and each part treats the other as lost. At most one
   part continues: the one with more than half of the group that was connected last, or with half of
   it and its first worker. A group that was only agreed on does not count, because each part may
   have tried to connect with fewer and fewer workers of the other. */
static copse_status check_half(const copse_cluster *c, uint64_t lost)
{
    char names[COPSE_WORKERS_TEXT];
    const uint64_t left = copse__cluster_originals(c, lost), first = c->whole & (~c->whole + 1);
    if (2 * elastic_count(left) > elastic_count(c->whole) ||
        (2 * elastic_count(left) == elastic_count(c->whole) && (left & first)))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_COMM,
                      "cluster: lost %s: only %u of %u workers are left here; the others may go on "
                      "without them, so these must not",
                      copse__cluster_names(c, lost, names), elastic_count(left),
                      elastic_count(c->whole));
}

/* The members of the new group, in the order of the old one. Returns how many. */
static uint32_t elastic_choose(copse_cluster *c, uint64_t lost, uint32_t *rank)
{
    uint32_t size = 0;
    for (uint32_t r = 0; r < c->t.size; r++)
        if (!(lost & elastic_bit(r))) {
            if (r == c->t.rank)
                *rank = size;
            c->original[size++] = c->original[r];
        }
    return size;
}

copse_status copse_cluster_regroup(copse_cluster *c)
{
    if (!c)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: it is NULL");
    if (c->table && c->table->ends_together)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "cluster: over %s the job ends with the first worker that is lost",
                          c->table->name);
    const uint32_t before = c->t.size;
    uint32_t rank = 0, lost = 0;
    for (uint32_t r = 0; r < before; r++)
        lost += copse_cluster_is_lost(c, r);
    if (copse_cluster_is_lost(c, c->t.rank))
        return copse_fail(COPSE_ERR_COMM, "cluster: the others have dropped this worker");
    if (lost == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: no worker is lost");
    c->reported |= c->t.lost;
    uint64_t view = c->reported;
    if (c->is_open && c->sequence > 0) /* the group was formed */
        COPSE_TRY(agree_on_lost(c, &view));
    COPSE_TRY(check_half(c, view));
    void *user = c->t.user;
    const uint32_t size = elastic_choose(c, view, &rank);
    copse__cluster_disconnect(c, false);
    if (size == 1) {
        c->t = (struct copse_transport){ .rank = 0, .size = 1 };
        c->is_failed = false;
        c->notified = c->reported = 0;
        c->whole = copse__cluster_originals(c, 0);
        return COPSE_OK;
    }
    const copse_status s = copse__cluster_connect(c, rank, size, user);
    if (s) {
        c->is_failed = true;
        c->reported |= c->t.missing;
    }
    return copse_note(s, "while %u of %u workers regrouped", size, before);
}
