/* SPDX-License-Identifier: MIT */
/* The transport interface: messages between workers. An engine moves bytes and never sums, so that
 * no bit of a result depends on the engine.
 *
 * Rules:
 *  - An engine is a shared module that exports one `copse_transport_module`. It includes this file
 *    and core/base headers only for their types, and calls no function of the library: text, memory
 *    and warnings go through struct copse_transport.
 *  - Every wait is limited: `open` waits until deadline_ns, and 2 s more for replies of ranks with
 *    a later deadline; `wait` waits for timeout_ns.
 *  - One thread at a time calls an engine, but not always the same one, unless `open` sets
 *    is_one_thread.
 *  - Failures return a status with `text` set. A lost worker has its bit in `lost`; an engine only
 *    adds bits.
 *  - Messages between two ranks with the same tag arrive in the order in which they were sent, and
 *    a receiver asks for exactly the size that is sent; the layer above guarantees this.
 *  - A window is memory of each rank that the others read without its help. Only its owner writes
 *    there and never waits for readers; a reader must detect that the memory changed while it was
 *    read.
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
#define COPSE_TRANSPORT_TAGS    (1u << 24)        /* tags are below; every MPI has room for them */
#define COPSE_TRANSPORT_BYTES   ((size_t)1 << 30) /* longest message */

struct copse_transport;

/* A pending message. Its memory is in use until `wait` reports that it is done, or the transport is
   closed. */
typedef struct copse_transport_op copse_transport_op;

struct copse_transport_table {
    uint32_t version; /* COPSE_TRANSPORT_VERSION */
    const char *name;
    bool ends_together; /* all ranks leave together, and a lost rank ends the job */
    bool is_ordered;    /* messages of a rank arrive in order across tags */

    /* Connect all ranks; t->priv is the engine's. COPSE_ERR_TIMEOUT sets t->missing, the same on
       all ranks that arrived. A rank that is lost after all have arrived does not fail `open`: it
       is in t->lost, so that the others have a group in which they can agree. `close` is called
       after a failure, too. */
    copse_status (*open)(struct copse_transport *t);
    /* `is_orderly`: every rank is closing and no message is pending. Else pending messages are
       dropped. */
    void (*close)(struct copse_transport *t, bool is_orderly);
    /* Optional: the launcher ends all processes of the job, this one included, with exit code
       `code`, 1 to 255. */
    void (*end_job)(struct copse_transport *t, int code);

    copse_status (*send)(struct copse_transport *t, uint32_t peer, uint32_t tag, const void *bytes,
                         size_t size, copse_transport_op **op);
    copse_status (*recv)(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                         size_t size, copse_transport_op **op);
    /* COPSE_OK: done. COPSE_ERR_TIMEOUT: pending. Else it failed. `wait` frees ops that are done or
       failed. */
    copse_status (*wait)(struct copse_transport *t, copse_transport_op *op, uint64_t timeout_ns);
    /* Drop a pending op. Returns whether its memory may still be read or written until the
       transport is closed, such as that of a message which the peer has begun. Later messages to
       the same rank may never arrive. */
    bool (*drop)(struct copse_transport *t, copse_transport_op *op);

    /* Optional, all three or none. */
    /* Collective, once, after open: allocate a window of `size` bytes in this rank. COPSE_OK on all
       ranks or on none; after COPSE_ERR_TIMEOUT the transport can only be closed. */
    copse_status (*window_open)(struct copse_transport *t, size_t size, uint64_t timeout_ns);
    /* Write to this rank's window. Writes become visible in order; eight aligned bytes are written
       at once. */
    void (*window_put)(struct copse_transport *t, size_t offset, const void *bytes, size_t size);
    /* Read another rank's window; `wait` waits for it. Reads that begin after this one is done see
       no older state. */
    copse_status (*window_get)(struct copse_transport *t, uint32_t peer, size_t offset, void *bytes,
                               size_t size, copse_transport_op **op);
};

struct copse_transport {
    const struct copse_transport_table *table;
    void *priv;
    uint32_t rank, size;
    const char *const *addresses;  /* by rank; entries NULL where a launcher started the job */
    uint64_t job;                  /* the same for all ranks of this group, and for no other */
    uint64_t deadline_ns, warn_ns; /* of open, on the monotonic clock */
    uint64_t lost;                 /* bit r: rank r is lost */
    uint64_t missing;              /* bit r: rank r did not arrive before open timed out */
    char text[512];
    void *(*resize)(void *user, void *block, size_t size); /* as copse_resize_fn */
    void *resize_user;
    /* Called at warn_ns with the ranks that have not arrived; `text` may hold the reason. */
    void (*warn)(struct copse_transport *t, uint64_t missing);
    void *user;         /* of the layer above */
    bool is_one_thread; /* set by open: only the thread that opened may call */
};

/* Name of the symbol that a module exports. */
#define COPSE_TRANSPORT_SYMBOL "copse_transport_module"

/* Set the text; returns `s`. */
#if defined(__GNUC__) && !defined(__MINGW32__) /* whose printf is another one */
__attribute__((format(printf, 3, 4)))
#endif
static inline copse_status
copse_transport_fail(struct copse_transport *t, copse_status s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->text, sizeof t->text, fmt, args);
    va_end(args);
    return s;
}

#endif
