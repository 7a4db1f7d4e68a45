/* SPDX-License-Identifier: MIT */
/* A cluster of connected tasks: messages with deadlines, notices of failures, windows, and
   collectives of bytes. */
#ifndef COPSE_CORE_CLUSTER_H
#define COPSE_CORE_CLUSTER_H

#include "core/comm/spec.h"
#include "core/comm/transport.h"

/* A pending message. `op` NULL: there is none. */
struct copse_pending {
    copse_transport_op *op;
    uint32_t peer;
};

#define COPSE_WHAT_BYTES 64
#define COPSE_FORM_BYTES 64
#define COPSE_VOTE_WHY   256

/* Exchanged before each collective to verify that all ranks are at the same one. A worker that
   fails in an operation, or ends it, sends one, too. All that a worker sends arrive in order. */
struct copse_header {
    uint64_t magic, size;
    uint64_t operation; /* number of the call that the collective is part of, from 1 */
    uint32_t index;     /* of the collective in its operation, from 1 */
    enum copse_header_kind {
        COPSE_HEADER_COLLECTIVE,
        COPSE_HEADER_REFUSED, /* the sender has failed in the operation: see `vote` */
        COPSE_HEADER_ENDED,   /* the sender has ended the operation */
    } kind;
    uint32_t vote;   /* COPSE_OK, or why this worker cannot take part */
    uint32_t detail; /* a number that must be the same on all workers, such as that of the batch */
    char call[16];   /* name of the operation, such as "run"; empty: the collective alone */
    char what[COPSE_WHAT_BYTES]; /* name of the collective; the same on all workers */
    /* type and shape of the operands; empty where `what` and `size` are enough */
    char form[COPSE_FORM_BYTES];
    char why[COPSE_VOTE_WHY]; /* text of `vote` */
};

/* A header on its way to all others. */
struct copse_letter {
    struct copse_header header;
    struct copse_pending out[COPSE_MAX_WORKERS];
};
#define COPSE_LETTERS 8

#define COPSE_NOTICE_TAG 0u
#define COPSE_NOTICE_WHY 400

/* One-sided access: memory of each task that the others read without its help (cluster_window.c). */
struct copse_cluster_window {
    copse_one_sided mode;
    uint64_t bytes; /* of each parameter server */
    uint64_t most;  /* values of a larger variable go by messages */
    bool is_open;
    bool is_hung; /* opening timed out: the engine can only be closed */
    /* ranks whose read or message was dropped; the transport may still write its memory */
    uint64_t stuck;
    struct {
        void **at;
        size_t count, room;
    } kept; /* memory of such reads */
    struct {
        struct copse_pending *at;
        size_t count, room;
    } reads;                          /* the reads themselves */
    bool is_unknown;                  /* a read could not be listed: no memory */
    bool is_stuck;                    /* this task leaves while reads have not ended */
    struct copse_one_sided_info info; /* counters */
    char why[512];                    /* why it is not open */
};

struct copse_notice {
    enum {
        COPSE_NOTICE_LEFT = 1,
        COPSE_NOTICE_LOST,
        COPSE_NOTICE_REGROUP, /* wants to continue without the lost ranks */
        COPSE_NOTICE_DECIDED, /* all others sent the same list: it is final */
    } kind;
    /* of the failure that ended the sender, its own or a reported one; else COPSE_OK */
    uint32_t status;
    uint64_t lost; /* original ranks */
    /* of a task that leaves: one of its reads has not ended, so no task can leave in order */
    uint32_t is_stuck, pad;
    char why[COPSE_NOTICE_WHY]; /* reason of a task that aborted or failed; else empty */
};

/* A status from another task. */
static inline copse_status copse__status_of(uint32_t word)
{
    return word <= COPSE_ERR_INTERNAL ? (copse_status)word : COPSE_ERR_COMM;
}

struct copse_cluster {
    copse_refs refs;
    copse_context *ctx;       /* retained */
    copse_cluster_spec *spec; /* retained */
    copse_engine engine;
    uint64_t warn_ns, deadline_ns;             /* durations */
    const struct copse_transport_table *table; /* NULL: alone */
    struct copse_transport t;
    const char *addresses[COPSE_MAX_WORKERS];
    uint32_t original[COPSE_MAX_WORKERS]; /* rank in the description, by rank in the group */
    uint32_t epoch;                       /* attempts to connect the group */
    uint64_t whole;                       /* original ranks of the group that was connected last */
    uint64_t sequence;                    /* collectives begun, and operations ended */
    uint64_t refused;                     /* the last of them that failed here, from 1; 0: none */
    uint32_t detail;                      /* header.detail of the next collective */
    uint64_t operation;                   /* the one in progress, or the last one */
    uint32_t index;                       /* collectives of it */
    uint32_t depth;                       /* calls in progress, one within another; 0: none */
    char call[16];                        /* name of the outermost */
    uint64_t failed_operation;            /* the last one that failed here */
    /* by name of a call: 1 + the collectives of the last one; 0: there was none */
    uint32_t usual[4];
    uint64_t notified; /* group ranks that sent a notice */
    uint64_t reported; /* group ranks that others reported as lost */
    /* group ranks that sent COPSE_NOTICE_REGROUP, COPSE_NOTICE_DECIDED */
    uint64_t regrouping, decided;
    uint64_t views[COPSE_MAX_WORKERS]; /* the newest list of each: group ranks that are lost */
    uint64_t polled_ns;
    struct copse_heartbeats *heartbeats; /* heartbeat.h; NULL: none */
    bool is_open, is_failed;
    struct copse_cluster_window window;
    /* the second: notice.why of the first task that failed, else empty */
    char failure[512], why[COPSE_NOTICE_WHY];
    copse_status why_status; /* status of the first task that failed, else COPSE_OK */
    struct copse_notice notice, notices[COPSE_MAX_WORKERS];
    struct copse_notice views_out[COPSE_MAX_WORKERS]; /* pending while this worker regroups */
    struct copse_pending notice_in[COPSE_MAX_WORKERS];
    struct copse_header header; /* of the newest collective */
    struct copse_letter letters[COPSE_LETTERS];
    struct copse_letter *letter; /* with this header */
    /* the newest of each worker, and its receive */
    struct copse_header headers[COPSE_MAX_WORKERS];
    struct copse_pending header_in[COPSE_MAX_WORKERS];
    uint64_t held;                          /* ranks whose newest header is of a later collective */
    uint32_t unanswered[COPSE_MAX_WORKERS]; /* COPSE_HEADER_ENDED sent since a header came */
    /* a worker has left the operation of this number: the status and the text for the collectives
       that follow in it */
    uint64_t left_operation;
    copse_status left_status;
    char left_text[COPSE_ERROR_BYTES];
};

/* module.c: load an engine. The error names the package to install. */
copse_status copse__module_load(copse_context *ctx, const char *folder, const char *name,
                                const char *package, const struct copse_transport_table **out);

/* Open over a given engine, for tests: see local.h. `user` becomes t.user before open. */
copse_status copse__cluster_open_with(copse_context *ctx, copse_cluster_spec *spec,
                                      const struct copse_cluster_params *params,
                                      const struct copse_transport_table *table, void *user,
                                      copse_cluster **out);

/* Original ranks of the group without the group ranks `lost`. */
uint64_t copse__cluster_originals(const copse_cluster *c, uint64_t lost);
/* Connect the tasks c->original[0..size); this one is `rank`. And close the connections. */
copse_status copse__cluster_connect(copse_cluster *c, uint32_t rank, uint32_t size, void *user);
void copse__cluster_disconnect(copse_cluster *c, bool is_orderly);

/* ---- messages (message.c) ---- */

typedef copse_status copse_cluster_busy_fn(void *user);

copse_status copse__cluster_send(copse_cluster *c, uint32_t peer, uint32_t tag, const void *bytes,
                                 size_t size, struct copse_pending *out);
copse_status copse__cluster_recv(copse_cluster *c, uint32_t peer, uint32_t tag, void *bytes,
                                 size_t size, struct copse_pending *out);
/* Wait for all. Fails when any worker is lost or the deadline passes; then the cluster has failed,
   and the others are notified. `what` names the operation in texts. `busy` (may be NULL) is called
   before every wait. */
copse_status copse__cluster_wait(copse_cluster *c, struct copse_pending *list, size_t count,
                                 const char *what, copse_cluster_busy_fn *busy, void *user);
/* The same, in the order of arrival: `take` is called with the index of each message that is done,
   and may post the next one there. Its failure ends the wait. */
typedef copse_status copse_cluster_take_fn(copse_cluster *c, uint32_t index);
copse_status copse__cluster_wait_each(copse_cluster *c, struct copse_pending *list, size_t count,
                                      const char *what, copse_cluster_take_fn *take,
                                      copse_cluster_busy_fn *busy, void *user);
/* Whether all are done; COPSE_ERR_TIMEOUT when not. */
copse_status copse__cluster_test(copse_cluster *c, struct copse_pending *list, size_t count);
/* Forget them. If their memory may still be in use, the peer's bit is set in window.stuck. */
void copse__cluster_drop(copse_cluster *c, struct copse_pending *list, size_t count);
/* COPSE_ERR_COMM when the cluster has failed. */
copse_status copse__cluster_check(const copse_cluster *c);
/* The cluster fails with this text; the others are notified of the lost ranks. Returns `s`. */
copse_status copse__cluster_fail(copse_cluster *c, copse_status s, uint64_t lost, const char *fmt,
                                 ...) COPSE_PRINTF(4, 5);
/* This worker cannot continue: the others are notified of the reason, do not wait for it, and count
   it as lost. */
void copse__cluster_abort(copse_cluster *c, const char *why);
/* This task failed: the others are notified, and operations that wait for it fail with the same
   status. */
void copse__cluster_notify_failure(copse_cluster *c, copse_status s, const char *why);
/* Status of a peer that failed before it left, else COPSE_OK; notices[peer].why is the reason. */
copse_status copse__peer_failure(const copse_cluster *c, uint32_t peer);
/* "worker 1 (b:1), worker 2 (c:1)" of group ranks. Returns text. */
#define COPSE_WORKERS_TEXT 320
const char *copse__cluster_names(const copse_cluster *c, uint64_t ranks,
                                 char text[COPSE_WORKERS_TEXT]);
/* Post the receives of all notices, once the group is connected; post one; handle all that arrived;
   send one to all. */
copse_status copse__notices_begin(copse_cluster *c);
copse_status copse__notice_recv(copse_cluster *c, uint32_t peer);
void copse__notices_poll(copse_cluster *c);
void copse__notices_send(copse_cluster *c, int kind, uint64_t lost, uint64_t timeout_ns);
/* This peer counts as lost; it alone is notified. */
void copse__peer_abort(copse_cluster *c, uint32_t peer);

/* ---- messages with one peer (peer.c): its loss fails only these ---- */

#define COPSE_TAG_PEER 3u

/* Whether it has left or is lost. Polls notices from time to time. */
bool copse__peer_is_gone(copse_cluster *c, uint32_t peer);
/* Blocking, in order. COPSE_ERR_COMM when the peer has left or is lost, COPSE_ERR_TIMEOUT
   when it did nothing for `timeout_ns`. */
copse_status copse__peer_send(copse_cluster *c, uint32_t peer, const void *bytes, size_t size,
                              uint64_t timeout_ns, const char *what);
copse_status copse__peer_recv(copse_cluster *c, uint32_t peer, void *bytes, size_t size,
                              uint64_t timeout_ns, const char *what);

/* Wait for one message; op becomes NULL when it is done. Errors as above. */
copse_status copse__peer_wait(copse_cluster *c, struct copse_pending *p, uint64_t timeout_ns,
                              const char *what);
/* COPSE_ERR_COMM with its name. */
copse_status copse__peer_lost(copse_cluster *c, uint32_t peer, const char *what);

/* ---- windows (cluster_window.c): memory that parameter servers and workers read of each other ---- */

/* A worker's window holds published gradients, behind one cache line. Larger gradients are sent by
   message: one more copy costs more than the message (docs/performance.md). */
#define COPSE_WINDOW_LINE      64u
#define COPSE_WINDOW_GRADIENTS 65536u

/* Bytes of the window of a rank. */
uint64_t copse__window_size(const copse_cluster *c, uint32_t rank);

/* A range of a task's window. */
struct copse_window_range {
    uint64_t offset;
    void *bytes; /* destination */
    size_t size;
};

/* Check settings; derived settings: bytes are whole cache lines. */
copse_status copse__window_check(const struct copse_cluster_params *params);
uint64_t copse__window_bytes(const struct copse_cluster_params *params);
uint64_t copse__window_most(const struct copse_cluster_params *params);
const char *copse__one_sided_name(copse_one_sided mode);
/* Test whether windows work between all tasks; collective, once the group is connected. Fails if
   windows are required and do not work. */
copse_status copse__window_begin(copse_cluster *c);
/* Write to this task's window. Writes become visible in order; eight aligned bytes are written at
   once. */
void copse__window_put(copse_cluster *c, uint64_t offset, const void *bytes, size_t size);
/* Read ranges of another task's window, in any order, after all earlier reads. The owner may be
   writing. Errors as copse__peer_recv. After a failure with the peer's bit in window.stuck, `bytes`
   may be written to as long as the cluster lives: do not free or use them. */
copse_status copse__window_get(copse_cluster *c, uint32_t peer,
                               const struct copse_window_range *parts, uint32_t count,
                               uint64_t timeout_ns, const char *what);

/* Hand over a block that a stuck read or message may write to: the cluster frees it when the group
   has ended in order. */
void copse__window_keep(copse_cluster *c, void *block);
/* Wait for all dropped reads. Returns whether all have ended within the time. The engine's orderly
   close waits for reads without a deadline, so it is only called then. */
bool copse__window_drain(copse_cluster *c, uint64_t timeout_ns);
/* The group is closed. */
void copse__window_end(copse_cluster *c, bool is_orderly);

/* ---- operations and headers (operation.c) ---- */

/* A call in which workers may make collectives, such as a run: these are part of it. Calls within a
   call are part of the outermost one. All workers make the same ones in the same order. */
void copse__operation_begin(copse_cluster *c, const char *call);
/* It returns `s`. After a failure the others are notified, and do not wait for this worker in it. A
   call that ends well with as many collectives as the last one of its name sends nothing: a worker
   that begins one more in it learns so from this worker's next header, which may come as late as its
   next call. Nothing waits. Keeps the text of the last error. */
void copse__operation_end(copse_cluster *c, copse_status s);
/* All workers know, or learn, that the newest collective has failed with `s`, or not. Returns it. */
copse_status copse__operation_fail(copse_cluster *c, copse_status s);
/* Send c->header to all others, and post the receives of theirs. */
copse_status copse__headers_send(copse_cluster *c);
/* Wait for the headers of all at the collective of c->header. Fails where one has failed in the
   operation or has left it, or votes; the cluster can be used then. */
copse_status copse__headers_wait(copse_cluster *c, copse_cluster_busy_fn *busy, void *user);
/* Receive what has arrived, and drop what is of operations before `end`. Returns whether a worker
   may wait in one of these. */
bool copse__headers_drain(copse_cluster *c, uint64_t end);
/* Drop all. */
void copse__headers_drop(copse_cluster *c);

/* ---- collectives (byte_collective.c): all workers, in the same order ---- */

/* Begin a collective: post and send the headers. A `vote` other than COPSE_OK means that this
   worker cannot take part. */
copse_status copse__collective_begin(copse_cluster *c, const char *what, uint64_t size,
                                     copse_status vote);
/* The same for operands whose type and shape (`form`) must be equal on all workers. */
copse_status copse__collective_begin_on(copse_cluster *c, const char *what, const char *form,
                                        uint64_t size, copse_status vote);
/* Wait for the headers of all workers and compare them. All workers return a vote other than
   COPSE_OK, COPSE_ERR_ARGUMENT that names a worker at another collective, or COPSE_ERR_SHAPE where
   forms differ. Nothing was sent then, and the cluster can be used. */
copse_status copse__collective_barrier(copse_cluster *c, copse_cluster_busy_fn *busy, void *user);
/* Tag of the messages of the newest collective; kind 0..3. */
enum { COPSE_KIND_SUMS, COPSE_KIND_RESULTS, COPSE_KIND_BYTES };
uint32_t copse__collective_tag(const copse_cluster *c, uint32_t kind);

/* Begin and barrier. Returns this worker's vote, with its text, if it is not COPSE_OK. */
copse_status copse__cluster_barrier(copse_cluster *c, const char *what, uint64_t size,
                                    copse_status vote);
copse_status copse__cluster_barrier_on(copse_cluster *c, const char *what, const char *form,
                                       uint64_t size, copse_status vote);

/* all[r] receives `mine` of rank r; `size` bytes each. */
copse_status copse__cluster_allgather(copse_cluster *c, const void *mine, void *all, size_t size,
                                      const char *what);
/* Rank 0's bytes for all. */
copse_status copse__cluster_broadcast(copse_cluster *c, void *bytes, size_t size, const char *what);
/* Whether all have the same text; else COPSE_ERR_ARGUMENT on all workers, with the worker that
   differs from rank 0 and the first different line. */
copse_status copse__cluster_agree(copse_cluster *c, const char *what, const char *text);

/* ---- inside a collective, after its barrier: only the cluster can fail here ---- */

/* Rank r has sizes[r] bytes; they follow one another in `all`, this rank's already there. All ranks
   receive all. */
copse_status copse__cluster_allgatherv(copse_cluster *c, void *all, const size_t *sizes);
/* Rank 0's bytes for all. */
copse_status copse__cluster_broadcast_bytes(copse_cluster *c, void *bytes, size_t size);

#endif
