/* SPDX-License-Identifier: MIT */
/* Going on without the lost: the survivors agree on who they are, leave the old group together, and form
 * a new one.
 *
 * Agreement. Each says REGROUP to all that it believes alive, with its view: the ranks that it believes lost. A view
 * takes in what others say and what connections tell; when it has grown it is said again. A worker for which all that
 * are alive have said its own view last has come to a decision, and says DECIDED. Views only grow and messages of a
 * worker stay in order: so nobody can decide otherwise while one of those that decided lives, and who hears DECIDED
 * takes that decision over. Any number may be lost meanwhile. One that is lost after all had heard its view is still
 * a member of what is decided; forming the new group then names it, to everybody.
 *
 * A worker that closed its connections as soon as it had decided would look lost to those that are slower. So it
 * waits until it has heard DECIDED of the others.
 */
#include "core/comm/cluster.h"

#define POLL_NS   1000000ull
#define DECIDED_NS 2000000000ull /* for the last notices of workers that may have closed already */

static uint64_t bit(uint32_t rank)
{
    return 1ull << rank;
}

/* All but this worker and those. */
static uint64_t others_than(const copse_cluster *c, uint64_t lost)
{
    const uint64_t all = c->t.size == 64 ? UINT64_MAX : bit(c->t.size) - 1;
    return all & ~lost & ~bit(c->t.rank);
}

/* What this worker says to each of the others. */
struct agreement {
    copse_cluster *c;
    int kind;
    uint64_t sent;                    /* group ranks that were sent the newest view */
    uint64_t view;                    /* group ranks that are lost */
    struct copse_pending out[COPSE_MAX_WORKERS];
};

static void set_view(struct agreement *x, int kind, uint64_t view)
{
    if (x->kind != kind || x->view != view)
        x->sent = 0;
    x->kind = kind;
    x->view = view;
}

/* One message at a time to each; the next one when it has been taken. */
static void send_view(struct agreement *x)
{
    copse_cluster *c = x->c;
    struct copse_notice now = { .kind = x->kind };
    const uint64_t to = others_than(c, x->view | c->t.lost | x->sent);
    for (uint32_t r = 0; r < c->t.size; r++)
        if (x->view & bit(r))
            now.lost |= bit(c->original[r]);
    for (uint32_t r = 0; r < c->t.size; r++) {
        if (!(to & bit(r)) || x->out[r].op)
            continue;
        c->views_out[r] = now;
        x->out[r].peer = r;
        x->sent |= bit(r);
        if (c->table->send(&c->t, r, COPSE_NOTICE_TAG, &c->views_out[r], sizeof now, &x->out[r].op))
            x->out[r].op = NULL; /* the engine has noted it in t.lost */
    }
}

/* Take what has come. Who left without a word is lost, but for those that had decided. */
static void receive_views(struct agreement *x)
{
    copse_cluster *c = x->c;
    for (uint32_t r = 0; r < c->t.size; r++) {
        if ((others_than(c, c->reported | c->decided | c->t.lost) & bit(r)) && !c->notice_in[r].op &&
            copse__notice_recv(c, r))
            c->t.lost |= bit(r);
        if (x->out[r].op && c->table->wait(&c->t, x->out[r].op, 0) != COPSE_ERR_TIMEOUT)
            x->out[r].op = NULL;
    }
    copse__notices_poll(c);
    c->reported |= c->t.lost & ~c->decided;
}

/* Those alive that have not said this view, or not yet taken it. */
static uint64_t missing(const struct agreement *x, uint64_t from)
{
    uint64_t ranks = 0;
    for (uint32_t r = 0; r < x->c->t.size; r++)
        if (x->out[r].op || !(x->sent & bit(r)) || !(from & bit(r)) || x->c->views[r] != x->view)
            ranks |= bit(r);
    return ranks & others_than(x->c, x->view | x->c->t.lost);
}

/* What one of the others has decided; false when none has. */
static bool is_decided(const copse_cluster *c, uint64_t *view)
{
    for (uint32_t r = 0; r < c->t.size; r++)
        if (c->decided & bit(r)) {
            *view = c->views[r];
            return true;
        }
    return false;
}

/* `view` receives who is lost, the same for all survivors. The deadline is anew for each that is lost meanwhile. */
static copse_status agree(struct agreement *x, uint64_t *view)
{
    copse_cluster *c = x->c;
    char names[COPSE_WORKERS_TEXT];
    uint64_t begin = copse__now_ns();
    bool has_warned = false;
    for (;; copse__sleep_ns(POLL_NS)) {
        receive_views(x);
        if (c->reported & bit(c->t.rank))
            return copse_fail(COPSE_ERR_COMM, "cluster: the others have given this worker up");
        if (is_decided(c, view))
            return COPSE_OK;
        if (c->reported != x->view)
            begin = copse__now_ns();
        set_view(x, COPSE_NOTICE_REGROUP, c->reported);
        send_view(x);
        *view = x->view;
        const uint64_t silent = missing(x, c->regrouping), waited = copse__now_ns() - begin;
        if (!silent && !(c->t.lost & ~c->reported))
            return COPSE_OK;
        if (waited >= c->deadline_ns)
            return copse_fail(COPSE_ERR_TIMEOUT, "cluster: %s did not regroup within %.3g s",
                              copse__cluster_names(c, silent, names), (double)c->deadline_ns / 1e9);
        if (!has_warned && waited >= c->warn_ns) {
            has_warned = true;
            copse__log(&c->ctx->base.log, COPSE_LOG_WARN, "cluster: waiting since %.3g s for %s to regroup",
                       (double)c->warn_ns / 1e9, copse__cluster_names(c, silent, names));
        }
    }
}

/* Tell the decision, and hear it from all others, or until they have closed. */
static copse_status conclude(struct agreement *x, uint64_t view)
{
    copse_cluster *c = x->c;
    char names[COPSE_WORKERS_TEXT];
    const uint64_t end = copse__now_ns() + COPSE_MIN(DECIDED_NS, c->deadline_ns);
    set_view(x, COPSE_NOTICE_DECIDED, view);
    do {
        send_view(x);
        receive_views(x);
        for (uint32_t r = 0; r < c->t.size; r++)
            if ((c->decided & bit(r)) && c->views[r] != view)
                return copse_fail(COPSE_ERR_COMM, "cluster: %s goes on with others than this worker",
                                  copse__cluster_names(c, bit(r), names));
        if (!missing(x, c->decided))
            return COPSE_OK;
        copse__sleep_ns(POLL_NS);
    } while (copse__now_ns() < end);
    return COPSE_OK;
}

static copse_status agree_on_lost(copse_cluster *c, uint64_t *view)
{
    struct agreement x = { .c = c };
    copse_status s = agree(&x, view);
    if (s == COPSE_OK)
        s = conclude(&x, *view);
    copse__cluster_drop(c, x.out, c->t.size);
    return s;
}

static uint32_t count(uint64_t ranks)
{
    uint32_t n = 0;
    for (; ranks; ranks &= ranks - 1)
        n++;
    return n;
}

/* Two parts that cannot see each other, each of which takes the other for lost, never both go on. What counts is the
   group that was connected last: of one that was only agreed on, each part may have tried to connect with fewer and
   fewer of the other. */
static copse_status check_half(const copse_cluster *c, uint64_t lost)
{
    char names[COPSE_WORKERS_TEXT];
    const uint64_t left = copse__cluster_originals(c, lost), first = c->whole & (~c->whole + 1);
    if (2 * count(left) > count(c->whole) || (2 * count(left) == count(c->whole) && (left & first)))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_COMM, "cluster: lost %s: only %u of %u workers are left here; the others may go on "
                                      "without them, so these must not",
                      copse__cluster_names(c, lost, names), count(left), count(c->whole));
}

/* The members of the new group, in the order of the old one. Returns how many. */
static uint32_t choose(copse_cluster *c, uint64_t lost, uint32_t *rank)
{
    uint32_t size = 0;
    for (uint32_t r = 0; r < c->t.size; r++)
        if (!(lost & bit(r))) {
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
        return copse_fail(COPSE_ERR_COMM, "cluster: the others have given this worker up");
    if (lost == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: nobody is lost");
    c->reported |= c->t.lost;
    uint64_t view = c->reported;
    if (c->is_open && c->sequence > 0) /* the group was formed */
        COPSE_TRY(agree_on_lost(c, &view));
    COPSE_TRY(check_half(c, view));
    void *user = c->t.user;
    const uint32_t size = choose(c, view, &rank);
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
