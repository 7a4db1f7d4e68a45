/* SPDX-License-Identifier: MIT */
/* Connected workers from the inside: messages under our own deadlines, and collectives made of them. */
#ifndef COPSE_CORE_CLUSTER_H
#define COPSE_CORE_CLUSTER_H

#include "core/comm/spec.h"
#include "core/comm/transport.h"

/* A message on its way. `op` NULL: there is none. */
struct copse_pending {
    copse_transport_op *op;
    uint32_t peer;
};

#define COPSE_FORM_BYTES 64

/* Exchanged before each collective to verify that all ranks are at the same one. */
struct copse_header {
    uint64_t magic, sequence, size;
    uint32_t vote; /* COPSE_OK, or why this worker cannot take part */
    uint32_t detail;  /* of the operands, such as the batch */
    char what[64];    /* the operation, readable; the same on all workers */
    char form[COPSE_FORM_BYTES]; /* type and shape of the operands; empty where `what` and `size` say all */
};

#define COPSE_NOTICE_TAG 0u
#define COPSE_NOTICE_WHY 400

/* Memory of each task which the others read without it: window.c. */
struct copse_cluster_window {
    copse_one_sided mode;
    uint64_t bytes; /* of each parameter server */
    uint64_t most;  /* values of a larger variable go by messages */
    bool is_open;
    bool is_hung;   /* opening it did not come back: nothing of the engine's works any more but to close */
    uint64_t stuck; /* ranks of which a read, or a message, was given up: what it named may still be written to */
    struct { void **at; size_t count, room; } kept; /* the context's memory that such reads named */
    struct { struct copse_pending *at; size_t count, room; } reads; /* the reads themselves */
    bool is_unknown; /* there was no room to list one */
    bool is_stuck;   /* this task leaves, and some have not ended */
    struct copse_one_sided_info info; /* counts */
    char why[512];  /* where it is not open */
};

struct copse_notice {
    enum {
        COPSE_NOTICE_LEFT = 1,
        COPSE_NOTICE_LOST,
        COPSE_NOTICE_REGROUP, /* would go on without the lost */
        COPSE_NOTICE_DECIDED, /* has heard the same of all others: so it will be */
    } kind;
    uint32_t status; /* of a failure that ended a task, its own or one that it heard of; else COPSE_OK */
    uint64_t lost; /* original ranks */
    uint32_t is_stuck, pad; /* of one that leaves: a read of its own has not ended, so nobody's end is in order */
    char why[COPSE_NOTICE_WHY]; /* what a worker said that gave up or failed; else empty */
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
    uint64_t warn_ns, deadline_ns; /* durations */
    const struct copse_transport_table *table; /* NULL: alone */
    struct copse_transport t;
    const char *addresses[COPSE_MAX_WORKERS];
    uint32_t original[COPSE_MAX_WORKERS]; /* rank in the description, by rank in the group */
    uint32_t epoch;      /* how often it was tried to form the group */
    uint64_t whole;      /* original ranks of the group that was connected last */
    uint64_t sequence;   /* collectives begun */
    uint64_t refused;    /* the last of them that a worker's vote ended, from 1; 0: none was */
    uint32_t detail;     /* of the next collective, else 0 */
    uint64_t notified;       /* group ranks that gave a notice */
    uint64_t reported;    /* group ranks that others have said are lost */
    uint64_t regrouping, decided; /* group ranks that said so */
    uint64_t views[COPSE_MAX_WORKERS]; /* what each of them said last: group ranks that are lost */
    uint64_t polled_ns;
    struct copse_heartbeats *heartbeats; /* heartbeat.h; NULL: none */
    bool is_open, is_failed;
    struct copse_cluster_window window;
    char failure[512], why[COPSE_NOTICE_WHY]; /* the second: what a worker said that gave up or failed, else empty */
    copse_status why_status; /* of one that failed, else COPSE_OK */
    struct copse_notice notice, notices[COPSE_MAX_WORKERS];
    struct copse_notice views_out[COPSE_MAX_WORKERS]; /* on their way while this worker regroups */
    struct copse_pending notice_in[COPSE_MAX_WORKERS];
    struct copse_header header, headers[COPSE_MAX_WORKERS];
    struct copse_pending header_out[COPSE_MAX_WORKERS], header_in[COPSE_MAX_WORKERS];
};

/* module.c: load an engine, or say what to install. */
copse_status copse__module_load(copse_context *ctx, const char *folder, const char *name,
                                const char *package, const struct copse_transport_table **out);

/* Open over a given engine, for tests: see local.h. `user` becomes t.user before open. */
copse_status copse__cluster_open_with(copse_context *ctx, copse_cluster_spec *spec,
                                      const struct copse_cluster_params *params,
                                      const struct copse_transport_table *table, void *user,
                                      copse_cluster **out);

/* The group without those, as original ranks. */
uint64_t copse__cluster_originals(const copse_cluster *c, uint64_t lost);
/* Connect c->original[0..size), of which this worker is `rank`; and part again. */
copse_status copse__cluster_connect(copse_cluster *c, uint32_t rank, uint32_t size, void *user);
void copse__cluster_disconnect(copse_cluster *c, bool is_orderly);

/* ---- messages (message.c) ---- */

typedef copse_status copse_cluster_busy_fn(void *user);

copse_status copse__cluster_send(copse_cluster *c, uint32_t peer, uint32_t tag, const void *bytes,
                                 size_t size, struct copse_pending *out);
copse_status copse__cluster_recv(copse_cluster *c, uint32_t peer, uint32_t tag, void *bytes,
                                 size_t size, struct copse_pending *out);
/* Until all are done. Fails when a worker is lost, whichever, or when the deadline passes; then the
   cluster has failed, and the others are told. `what` says what is waited for. `busy` (may be
   NULL) is called before every wait. */
copse_status copse__cluster_wait(copse_cluster *c, struct copse_pending *list, size_t count,
                                 const char *what, copse_cluster_busy_fn *busy, void *user);
/* Whether all are done; COPSE_ERR_TIMEOUT when not. */
copse_status copse__cluster_test(copse_cluster *c, struct copse_pending *list, size_t count);
/* Nobody waits for them any more. Where their memory may be in use all the same, the peer's bit is in window.stuck. */
void copse__cluster_drop(copse_cluster *c, struct copse_pending *list, size_t count);
/* COPSE_ERR_COMM when the cluster has failed. */
copse_status copse__cluster_check(const copse_cluster *c);
/* The cluster fails with this text: the others are told who is lost. Returns `s`. */
copse_status copse__cluster_fail(copse_cluster *c, copse_status s, uint64_t lost, const char *fmt,
                                 ...) COPSE_PRINTF(4, 5);
/* This worker cannot go on, and the others shall not wait for it: they are told why, and it is lost to them. */
void copse__cluster_abort(copse_cluster *c, const char *why);
/* This task failed: the others are told, and what they wait for fails the same way. */
void copse__cluster_notify_failure(copse_cluster *c, copse_status s, const char *why);
/* What this peer failed with before it left, else COPSE_OK; notices[peer].why says more. */
copse_status copse__peer_failure(const copse_cluster *c, uint32_t peer);
/* "worker 1 (b:1), worker 2 (c:1)" of group ranks. Returns text. */
#define COPSE_WORKERS_TEXT 320
const char *copse__cluster_names(const copse_cluster *c, uint64_t ranks,
                                 char text[COPSE_WORKERS_TEXT]);
/* Ask for the notices of all others, once the group is formed; and look at what came. */
copse_status copse__notices_begin(copse_cluster *c);
copse_status copse__notice_recv(copse_cluster *c, uint32_t peer);
void copse__notices_poll(copse_cluster *c);
void copse__notices_send(copse_cluster *c, int kind, uint64_t lost, uint64_t timeout_ns);
/* This one peer is given up: it is told, and counts as lost. The others do not hear of it. */
void copse__peer_abort(copse_cluster *c, uint32_t peer);

/* ---- messages with one peer (peer.c), whose loss fails nothing but them ---- */

#define COPSE_TAG_PEER 3u

/* Whether it has left or is lost. Looks at notices now and then. */
bool copse__peer_is_gone(copse_cluster *c, uint32_t peer);
/* Bytes in order, both ways; done when they return. COPSE_ERR_COMM when the peer is gone, COPSE_ERR_TIMEOUT
   when it did nothing for `timeout_ns`. */
copse_status copse__peer_send(copse_cluster *c, uint32_t peer, const void *bytes, size_t size,
                              uint64_t timeout_ns, const char *what);
copse_status copse__peer_recv(copse_cluster *c, uint32_t peer, void *bytes, size_t size,
                              uint64_t timeout_ns, const char *what);

/* Until it is done, which sets op to NULL, or one of those. */
copse_status copse__peer_wait(copse_cluster *c, struct copse_pending *p, uint64_t timeout_ns,
                              const char *what);
/* COPSE_ERR_COMM with its name. */
copse_status copse__peer_lost(copse_cluster *c, uint32_t peer, const char *what);

/* ---- windows (window.c): what parameter servers and workers read of each other ---- */

/* A worker's window: gradients that it leaves there, behind a line of their own. Larger ones are sent: being copied
   once more costs them more than the message does (docs/performance.md). */
#define COPSE_WINDOW_LINE      64u
#define COPSE_WINDOW_GRADIENTS 65536u

/* How many bytes the window of a rank has. */
uint64_t copse__window_size(const copse_cluster *c, uint32_t rank);

/* A part of a task's window. */
struct copse_window_range {
    uint64_t offset;
    void *bytes; /* where it goes to */
    size_t size;
};

/* What the settings say; bytes are whole cache lines. */
copse_status copse__window_check(const struct copse_cluster_params *params);
uint64_t copse__window_bytes(const struct copse_cluster_params *params);
uint64_t copse__window_most(const struct copse_cluster_params *params);
const char *copse__one_sided_name(copse_one_sided mode);
/* Find out whether windows work between all tasks, by use; collective, once the group is formed. Fails where they
   are asked for and do not. */
copse_status copse__window_begin(copse_cluster *c);
/* Write to this task's own. Others see it behind what was written before; eight aligned bytes at once. */
void copse__window_put(copse_cluster *c, uint64_t offset, const void *bytes, size_t size);
/* Read parts of another's; in no order, and behind what was read before. The other may be writing. As
   copse__peer_recv; after a failure with the peer's bit in window.stuck, `bytes` may be written to as long as the
   cluster lives, so that they must be neither freed nor used. */
copse_status copse__window_get(copse_cluster *c, uint32_t peer, const struct copse_window_range *parts,
                               uint32_t count, uint64_t timeout_ns, const char *what);

/* A block that was named by a read or a message that is stuck: it is the cluster's from now on, and freed when the
   group has ended in order. */
void copse__window_keep(copse_cluster *c, void *block);
/* Whether all reads that were given up have ended at last, or do within that time: an orderly end waits for those of
   its own task for as long as they take. */
bool copse__window_drain(copse_cluster *c, uint64_t timeout_ns);
/* The group has ended. */
void copse__window_end(copse_cluster *c, bool is_orderly);

/* ---- collectives (collective.c): all workers, in the same order ---- */

/* Begin one: the headers are on their way. `vote` other than COPSE_OK says that this worker
   cannot take part. */
copse_status copse__collective_begin(copse_cluster *c, const char *what, uint64_t size,
                                     copse_status vote);
/* The same with operands whose type and shape (`form`) must be equal on all workers. */
copse_status copse__collective_begin_on(copse_cluster *c, const char *what, const char *form, uint64_t size,
                                        copse_status vote);
/* All workers are at the same collective, else COPSE_ERR_COMM, which names the worker that differs. Two failures leave
   the cluster as it was, and all workers return them: a worker's vote, and COPSE_ERR_SHAPE where forms differ. */
copse_status copse__collective_barrier(copse_cluster *c, copse_cluster_busy_fn *busy, void *user);
/* Tag of the messages of the collective that was begun last; kind 0..3. */
enum { COPSE_KIND_PARTS, COPSE_KIND_RESULTS, COPSE_KIND_BYTES };
uint32_t copse__collective_tag(const copse_cluster *c, uint32_t kind);

/* Begin and meet. After a vote other than COPSE_OK, that, with the text that it came with. */
copse_status copse__cluster_barrier(copse_cluster *c, const char *what, uint64_t size,
                                    copse_status vote);
copse_status copse__cluster_barrier_on(copse_cluster *c, const char *what, const char *form, uint64_t size,
                                       copse_status vote);

/* all[r] = what rank r had as `mine`; `size` bytes each. */
copse_status copse__cluster_allgather(copse_cluster *c, const void *mine, void *all, size_t size,
                                      const char *what);
/* Rank 0's bytes for all. */
copse_status copse__cluster_broadcast(copse_cluster *c, void *bytes, size_t size, const char *what);
/* Whether all have the same text, line by line; else COPSE_ERR_ARGUMENT on all of them, with the worker that differs from
   rank 0 and the first line that does. */
copse_status copse__cluster_agree(copse_cluster *c, const char *what, const char *text);

/* ---- inside a collective, after its barrier: only the cluster can fail here ---- */

/* Rank r has sizes[r] bytes; they follow one another in `all`, this rank's already there. All ranks receive all. */
copse_status copse__cluster_allgatherv(copse_cluster *c, void *all, const size_t *sizes);
/* Rank 0's bytes for all. */
copse_status copse__cluster_broadcast_bytes(copse_cluster *c, void *bytes, size_t size);

#endif
