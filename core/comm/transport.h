/* SPDX-License-Identifier: MIT */
/* The transport seam: how bytes travel between workers. An engine moves bytes and never adds, so that
 * the sum's tree stays ours and no bit depends on the engine.
 *
 * Rules:
 *  - An engine is a shared module of its own that exports one `copse_transport_module`. It includes this
 *    file and core/base headers only for their types, and calls nothing of the library: text, memory
 *    and warnings go through struct copse_transport.
 *  - Nothing waits longer than it is told to: `open` until deadline_ns, and 2 s more for
 *    what others have to say at theirs; `wait` for timeout_ns.
 *  - One thread at a time calls an engine, but not always the same one, unless `open` sets is_one_thread.
 *  - Failures return a status with `text` set. A worker that is known to be gone has its bit in
 *    `lost`; an engine only ever adds bits.
 *  - Messages between two ranks with the same tag arrive in the order in which they were sent, and a
 *    receiver asks for exactly the size that is sent. The layer above sees to that.
 *  - A window is memory of each rank that the others read while its owner does something else. Only its
 *    owner writes there, and nothing waits for a reader; who reads must be able to tell that what it read
 *    has changed meanwhile.
 */
#ifndef COPSE_TRANSPORT_H
#define COPSE_TRANSPORT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "copse/status.h"

#define COPSE_TRANSPORT_VERSION 5
#define COPSE_TRANSPORT_TAGS    (1u << 24) /* tags are below; every MPI has room for them */
#define COPSE_TRANSPORT_BYTES   ((size_t)1 << 30) /* longest message */

struct copse_transport;

/* A message on its way. The memory it names is in use until `wait` has said that it is done, or the
   transport is closed. */
typedef struct copse_transport_op copse_transport_op;

struct copse_transport_table {
    uint32_t version; /* COPSE_TRANSPORT_VERSION */
    const char *name;
    bool ends_together; /* all ranks leave at once, and one that is lost ends the job */
    bool is_ordered;    /* whatever a rank sent before a message is there when that one is, whatever its tag */

    /* Join the others; t->priv is the engine's. COPSE_ERR_TIMEOUT sets t->missing, the same for all that
       came. Once all have come, one that is lost while they connect fails nothing: it is in t->lost, so that
       all that are left have a group in which they can agree. After a failure `close` is called too. */
    copse_status (*open)(struct copse_transport *t);
    /* `is_orderly`: every rank is closing and nothing is on its way. Else whatever is on its way is given up. */
    void (*close)(struct copse_transport *t, bool is_orderly);
    /* Optional: end all processes of the job, this one included, as its launcher can; it ends with `code`, 1 to
       255. */
    void (*end_job)(struct copse_transport *t, int code);

    copse_status (*send)(struct copse_transport *t, uint32_t peer, uint32_t tag, const void *bytes,
                         size_t size, copse_transport_op **op);
    copse_status (*recv)(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                         size_t size, copse_transport_op **op);
    /* COPSE_OK: done. COPSE_ERR_TIMEOUT: not yet. Else it failed. Done and failed ops are given
       back by `wait` itself and must not be used again. */
    copse_status (*wait)(struct copse_transport *t, copse_transport_op *op, uint64_t timeout_ns);
    /* Give an op up that is not waited for any more. Returns whether its memory may still be read or written to until
       the transport is closed, as that of one which the other side has begun. What is sent to the same rank behind a
       message that was given up may never arrive. */
    bool (*drop)(struct copse_transport *t, copse_transport_op *op);

    /* Optional, all three or none. */
    /* A window, of `size` bytes in this rank; all ranks call this at once, after open, once. COPSE_OK in all ranks
       or in none, but for COPSE_ERR_TIMEOUT: then nothing can be done any more but to close. */
    copse_status (*window_open)(struct copse_transport *t, size_t size, uint64_t timeout_ns);
    /* Write to this rank's own. Readers see it after what was put before; eight aligned bytes at once. */
    void (*window_put)(struct copse_transport *t, size_t offset, const void *bytes, size_t size);
    /* Read from another rank's; `wait` waits for it. Reads that begin when this one is done see no older state
       than it did. */
    copse_status (*window_get)(struct copse_transport *t, uint32_t peer, size_t offset, void *bytes,
                               size_t size, copse_transport_op **op);
};

struct copse_transport {
    const struct copse_transport_table *table;
    void *priv;
    uint32_t rank, size;
    const char *const *addresses; /* by rank; entries NULL where a launcher started the job */
    uint64_t job;                 /* the same for all ranks of this group, and for no other */
    uint64_t deadline_ns, warn_ns; /* of open, on the monotonic clock */
    uint64_t lost;                /* bit r: rank r is gone */
    uint64_t missing;             /* bit r: rank r did not come, after open timed out */
    char text[512];
    void *(*resize)(void *user, void *block, size_t size); /* as copse_resize_fn */
    void *resize_user;
    /* Warn that `missing` have not come by warn_ns; a `text` that open has set says why. */
    void (*warn)(struct copse_transport *t, uint64_t missing);
    void *user; /* of the layer above */
    bool is_one_thread; /* set by open: only the thread that opened may call */
};

/* What a module exports under this name. */
#define COPSE_TRANSPORT_SYMBOL "copse_transport_module"

/* Set the text; returns `s`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline copse_status copse_transport_fail(struct copse_transport *t, copse_status s,
                                                const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->text, sizeof t->text, fmt, args);
    va_end(args);
    return s;
}

#endif
