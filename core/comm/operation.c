/* SPDX-License-Identifier: MIT */
/* Operations and headers. Workers count the same operations: a call such as a run, or a collective
 * that is part of none. A worker that waits in operation N reads, from each of the others, the first
 * header whose operation is N or later:
 *
 *  - of N: that worker is at the collective, has failed in N, or has ended N;
 *  - later: it has ended N, and the header is held for the collective that it belongs to.
 *
 * So collectives of two operations never meet, and after a failure in N all meet again in N + 1. A
 * worker that leaves an operation does not wait for the others. It receives their headers later, and
 * drops them.
 */
#include <stdio.h>

#include "core/comm/cluster.h"

#define MAGIC      0x636f707365686472ull
#define TAG_HEADER 1u
#define SPARE      (COPSE_LETTERS / 2) /* letters that are kept for more than COPSE_HEADER_ENDED */
#define UNANSWERED 4u
#define POLL_NS    1000000ull

static uint64_t operation_bit(uint32_t rank)
{
    return 1ull << rank;
}

/* ---- letters ---- */

static bool is_free(copse_cluster *c, struct copse_letter *l)
{
    bool is_pending = false;
    for (uint32_t r = 0; r < c->t.size; r++) {
        if (l->out[r].op && c->table->wait(&c->t, l->out[r].op, 0) != COPSE_ERR_TIMEOUT)
            l->out[r].op = NULL;
        is_pending |= l->out[r].op != NULL;
    }
    return !is_pending;
}

/* A letter while more than `spare` are free, or NULL. */
static struct copse_letter *free_letter(copse_cluster *c, uint32_t spare)
{
    for (uint32_t i = 0, found = 0; i < COPSE_LETTERS; i++)
        if (is_free(c, &c->letters[i]) && found++ == spare)
            return &c->letters[i];
    return NULL;
}

/* The current operation has failed or ended here. A worker that has none of its letters taken learns
   it from the next header. */
static void send_word(copse_cluster *c, enum copse_header_kind kind, copse_status s)
{
    struct copse_letter *l = free_letter(c, kind == COPSE_HEADER_ENDED ? SPARE : 0);
    if (!l)
        return;
    l->header = (struct copse_header){ .magic = MAGIC,
                                       .operation = c->operation,
                                       .index = c->index,
                                       .kind = kind,
                                       .vote = (uint32_t)s };
    snprintf(l->header.call, sizeof l->header.call, "%s", c->call);
    if (s)
        snprintf(l->header.why, sizeof l->header.why, "%s", copse_last_error());
    const uint64_t gone = c->t.lost | c->notified | c->reported;
    for (uint32_t r = 0; r < c->t.size; r++) {
        if (r == c->t.rank || (gone & operation_bit(r)) ||
            (kind == COPSE_HEADER_ENDED && c->unanswered[r] >= UNANSWERED))
            continue;
        c->unanswered[r] += kind == COPSE_HEADER_ENDED;
        l->out[r].peer = r;
        if (c->table->send(&c->t, r, TAG_HEADER, &l->header, sizeof l->header, &l->out[r].op))
            l->out[r].op = NULL; /* the engine has noted it in t.lost */
    }
}

copse_status copse__operation_fail(copse_cluster *c, copse_status s)
{
    if (s) {
        c->refused = c->sequence;
        c->failed_operation = c->operation;
    }
    return s;
}

/* ---- headers of others ---- */

static copse_status post_receive(copse_cluster *c, uint32_t r)
{
    memset(&c->headers[r], 0, sizeof c->headers[r]);
    return copse__cluster_recv(c, r, TAG_HEADER, &c->headers[r], sizeof c->headers[r],
                               &c->header_in[r]);
}

/* The same where a peer that is gone fails nothing. Returns whether it is posted. */
static bool post_quietly(copse_cluster *c, uint32_t r)
{
    struct copse_pending *in = &c->header_in[r];
    memset(&c->headers[r], 0, sizeof c->headers[r]);
    in->peer = r;
    if (c->table->recv(&c->t, r, TAG_HEADER, &c->headers[r], sizeof c->headers[r], &in->op))
        in->op = NULL;
    return in->op != NULL;
}

static void end_texts(struct copse_header *h)
{
    h->call[sizeof h->call - 1] = h->what[sizeof h->what - 1] = '\0';
    h->form[sizeof h->form - 1] = h->why[sizeof h->why - 1] = '\0';
}

/* Of an operation or a collective that is over here. Where it ended well here, that worker alone has
   an error. Returns whether that worker may wait for this one. */
static bool note_stale(const copse_cluster *c, uint32_t r)
{
    const struct copse_header *h = &c->headers[r];
    char name[COPSE_WORKERS_TEXT];
    const bool is_waiting = h->kind == COPSE_HEADER_COLLECTIVE && h->vote == 0;
    if (h->kind == COPSE_HEADER_ENDED || h->operation <= c->failed_operation)
        return is_waiting;
    copse__log(&c->ctx->base.log, COPSE_LOG_WARN,
               h->vote ? "cluster: %s has failed in a %s that this worker has ended: %s"
                       : "cluster: %s has begun in a %s that this worker has ended: %s",
               copse__cluster_names(c, operation_bit(r), name), h->call[0] ? h->call : "collective",
               h->vote ? h->why : h->what);
    return is_waiting;
}

/* What is left of the operation fails with it. */
static copse_status leave_operation(copse_cluster *c, copse_status s)
{
    (void)copse__operation_fail(c, s);
    c->left_operation = c->operation;
    c->left_status = s;
    snprintf(c->left_text, sizeof c->left_text, "%s", copse_last_error());
    return s;
}

static copse_status note_vote(const copse_cluster *c, uint32_t r)
{
    const struct copse_header *h = &c->headers[r];
    const copse_status s = copse__status_of(h->vote);
    char name[COPSE_WORKERS_TEXT];
    return copse_fail(s, "cluster: %s could not take part: %s",
                      copse__cluster_names(c, operation_bit(r), name),
                      h->why[0] ? h->why : copse_status_text(s));
}

/* It has ended the operation, which this worker has not. */
static copse_status note_ended(const copse_cluster *c, uint32_t r)
{
    const struct copse_header *own = &c->header;
    char name[COPSE_WORKERS_TEXT];
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "cluster: %s has ended %s%s without '%s', which this worker has begun; all "
                      "workers must do the same things in the same order; nothing was sent",
                      copse__cluster_names(c, operation_bit(r), name),
                      own->call[0] ? "this " : "what it did", own->call, own->what);
}

/* The newest header of a worker, at the collective of c->header. */
static copse_status judge_header(copse_cluster *c, uint32_t r)
{
    struct copse_header *h = &c->headers[r];
    const struct copse_header *own = &c->header;
    char name[COPSE_WORKERS_TEXT];
    c->held &= ~operation_bit(r);
    if (h->magic != MAGIC)
        return copse__cluster_fail(c, COPSE_ERR_COMM, 0,
                                   "%s sent a malformed header; all workers need the same "
                                   "version of the library",
                                   copse__cluster_names(c, operation_bit(r), name));
    end_texts(h);
    c->unanswered[r] = 0;
    const bool is_collective = h->kind == COPSE_HEADER_COLLECTIVE;
    if (h->operation < own->operation ||
        (h->operation == own->operation && is_collective && h->index < own->index)) {
        (void)note_stale(c, r);
        return post_receive(c, r);
    }
    if (h->operation > own->operation) {
        c->held |= operation_bit(r);
        return leave_operation(c, note_ended(c, r));
    }
    if (!is_collective)
        return leave_operation(c, h->vote ? note_vote(c, r) : note_ended(c, r));
    return h->vote ? copse__operation_fail(c, note_vote(c, r)) : COPSE_OK;
}

/* ---- for collectives ---- */

bool copse__headers_drain(copse_cluster *c, uint64_t end)
{
    bool has_waiting = false;
    for (uint32_t r = 0; r < c->t.size && !c->is_failed; r++)
        while (r != c->t.rank && !(c->held & operation_bit(r))) {
            if (!c->header_in[r].op && !post_quietly(c, r))
                break;
            const copse_status s = c->table->wait(&c->t, c->header_in[r].op, 0);
            if (s == COPSE_ERR_TIMEOUT)
                break;
            c->header_in[r].op = NULL;
            if (s) /* the engine has noted it in t.lost */
                break;
            end_texts(&c->headers[r]);
            c->unanswered[r] = 0;
            if (c->headers[r].magic != MAGIC || c->headers[r].operation >= end)
                c->held |= operation_bit(r);
            else
                has_waiting |= note_stale(c, r);
        }
    return has_waiting;
}

/* All are taken where others have not come to the last collectives that this worker refused. */
static copse_status take_letter(copse_cluster *c)
{
    const uint64_t begin = copse__now_ns();
    while (!(c->letter = free_letter(c, 0))) {
        (void)copse__headers_drain(c, c->operation); /* the others may wait for the same */
        const copse_status s = copse__cluster_test(c, c->letters[0].out, c->t.size);
        if (s && s != COPSE_ERR_TIMEOUT)
            return s;
        if (copse__now_ns() - begin >= c->deadline_ns)
            return copse__cluster_fail(c, COPSE_ERR_TIMEOUT, 0,
                                       "a worker came to none of the last calls within %.3g s (%s)",
                                       (double)c->deadline_ns / 1e9, c->header.what);
        copse__sleep_ns(POLL_NS);
    }
    return COPSE_OK;
}

copse_status copse__headers_send(copse_cluster *c)
{
    if (c->left_operation == c->operation) {
        copse__fail_again(c->left_text);
        return copse__operation_fail(c, c->left_status);
    }
    c->header.magic = MAGIC;
    COPSE_TRY(take_letter(c));
    c->letter->header = c->header;
    for (uint32_t r = 0; r < c->t.size; r++) {
        if (r == c->t.rank)
            continue;
        if (!c->header_in[r].op && !(c->held & operation_bit(r)))
            COPSE_TRY(post_receive(c, r));
        COPSE_TRY(copse__cluster_send(c, r, TAG_HEADER, &c->letter->header, sizeof c->header,
                                      &c->letter->out[r]));
    }
    return COPSE_OK;
}

copse_status copse__headers_wait(copse_cluster *c, copse_cluster_busy_fn *busy, void *user)
{
    for (uint32_t r = 0; r < c->t.size; r++)
        if (c->held & operation_bit(r))
            COPSE_TRY(judge_header(c, r));
    COPSE_TRY(copse__cluster_wait_each(c, c->header_in, c->t.size, c->header.what, judge_header,
                                       busy, user));
    return copse__cluster_wait(c, c->letter->out, c->t.size, c->header.what, busy, user);
}

void copse__headers_drop(copse_cluster *c)
{
    copse__cluster_drop(c, c->header_in, c->t.size);
    for (uint32_t i = 0; i < COPSE_LETTERS; i++)
        copse__cluster_drop(c, c->letters[i].out, c->t.size);
}

/* ---- operations ---- */

void copse__operation_begin(copse_cluster *c, const char *call)
{
    if (c->depth++ > 0)
        return;
    c->operation++;
    c->index = c->detail = 0; /* a note of the last operation that no collective took */
    snprintf(c->call, sizeof c->call, "%s", call);
}

/* A call that makes as many collectives as the last one of its name ends without a word: others
   learn it from the next header, should they have begun one more. */
static bool is_unusual(copse_cluster *c)
{
    const uint64_t hash = copse__hash(COPSE_HASH_START, c->call, strlen(c->call));
    uint32_t *usual = &c->usual[hash % COPSE_COUNT(c->usual)];
    const bool is_same = *usual == c->index + 1;
    *usual = c->index + 1;
    return !is_same;
}

void copse__operation_end(copse_cluster *c, copse_status s)
{
    char text[COPSE_ERROR_BYTES];
    if (c->depth == 0 || --c->depth > 0)
        return;
    if (!c->is_failed) {
        snprintf(text, sizeof text, "%s", copse_last_error());
        c->sequence++;
        (void)copse__operation_fail(c, s);
        if (s)
            send_word(c, COPSE_HEADER_REFUSED, s);
        const bool has_waiting = copse__headers_drain(c, c->operation + 1);
        if (!s && (is_unusual(c) || has_waiting))
            send_word(c, COPSE_HEADER_ENDED, s);
        if (s)
            copse__fail_again(text);
    }
    c->call[0] = '\0';
}
