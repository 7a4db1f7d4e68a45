/* SPDX-License-Identifier: MIT */
/* The reducer: what reductions between the queues of ranks have in common. Its users are the
 * exchange (exchange.h: buckets of the flat store, recorded once and replayed) and value reductions
 * (value_reduce.h: batches of arrays).
 *
 *   arrays of all ranks --copy--> inbox of the owner, a row for each contributor
 *       --tree.h--> sum --update rule, or mean--> result --copy--> arrays of all ranks
 *
 * sum_schedule.h says who owns which elements. A copy within a queue is ordered by the queue. Every
 * other copy goes through host memory: it is read in its source's queue, the host waits for the
 * read, and it is written in its target's queue. Between workers the host memory is sent
 * (worker_messages.h).
 */
#ifndef COPSE_REDUCER_H
#define COPSE_REDUCER_H

#include "copse/distribute/value.h" /* COPSE_HOST */
#include "core/device/device.h"
#include "core/reduce/worker_messages.h"

/* Bytes of a rank's device, or of the host. */
struct copse_view {
    uint32_t rank;           /* or COPSE_HOST */
    struct copse_binding at; /* on a device; on the host only its size is used */
    unsigned char *host;
};

/* Bytes of a device that are read once and written to all targets. Copies of one source that fit
   into a message travel together. */
struct copse_copy {
    struct copse_view from;
    size_t offset;       /* within its message; 0: it begins one */
    size_t first, count; /* targets */
};
struct copse_copies {
    struct {
        struct copse_copy *at;
        size_t count, room;
    } list;
    struct {
        struct copse_view *at;
        size_t count, room;
    } targets;
};

struct copse_host_memory {
    unsigned char *at;
    size_t bytes;
};

typedef struct copse_reducer copse_reducer;
struct copse_reducer {
    copse_context *ctx; /* retained */
    struct copse_mem *mem;
    copse_queue *queues[COPSE_MAX_REPLICAS]; /* retained */
    uint32_t ranks;
    size_t message_bytes;
    copse_buffer *inbox[COPSE_MAX_REPLICAS]; /* rows of contributors, then the row of the sum */
    struct copse_host_memory staging[COPSE_MAX_REPLICAS]; /* two messages of each source */
    uint64_t staged[COPSE_MAX_REPLICAS][2];               /* tickets of the reads into them */
    uint64_t read[COPSE_MAX_REPLICAS]; /* ticket of the newest copse__reducer_read */
    bool is_open[COPSE_MAX_REPLICAS];  /* has work of copies that is not submitted */
    struct copse_copies copies;        /* of copse__reducer_copy */
    size_t fill[COPSE_MAX_REPLICAS];   /* bytes of the newest message of each source */
    copse_busy_fn *busy;               /* called before each wait; may be NULL */
    void *user;
};

/* `message_bytes` 0: the default. */
copse_status copse__reducer_create(copse_context *ctx, copse_queue *const *queues, uint32_t count,
                                   size_t message_bytes, copse_reducer **out);
void copse__reducer_release(copse_reducer **x); /* after copse__reducer_drain */
/* Wait for queued work, after a failure, too. False: a device hangs; staging memory that it may
   still write to is never freed or used again. */
bool copse__reducer_drain(copse_reducer *x);

/* bytes of rows: longer buckets are reduced in chunks */
#define COPSE_MOST_ROWS ((uint64_t)1 << 28)
/* Bytes of rows that every device can bind at once, at most COPSE_MOST_ROWS. */
uint64_t copse__reducer_binding_bytes(const copse_reducer *x);
/* Inbox of at least `bytes`; loses its contents where it grows. Recordings keep the memory that
   they bind. */
copse_status copse__reducer_inbox(copse_reducer *x, uint32_t rank, size_t bytes);
/* Page-aligned host memory of at least `bytes`; likewise. */
copse_status copse__reducer_host(copse_reducer *x, struct copse_host_memory *memory, size_t bytes);
/* Staging memory, which is otherwise made by the first copy. */
copse_status copse__reducer_staging(copse_reducer *x, uint32_t rank);

/* Whether the queue orders transfers between them; false with COPSE_HOST. */
bool copse__reducer_is_local(const copse_reducer *x, uint32_t a, uint32_t b);
/* Wait with the library's deadline; the text names the rank that did not answer. Ends when *stop is
   true; NULL: never. */
copse_status copse__reducer_wait(copse_reducer *x, uint32_t rank, uint64_t ticket, const char *what,
                                 const atomic_bool *stop);

/* ---- copies: lists (reducer.c), and their execution (copies.c) ---- */

/* Add a copy through host memory, in messages. `fill`: bytes of the source's newest message; 0:
   begin one. Targets are as large as `from`. False: no memory. */
bool copse__copies_add(struct copse_mem *mem, struct copse_copies *c, size_t message_bytes,
                       size_t *fill, const struct copse_view *from, const struct copse_view *to,
                       size_t count);
void copse__copies_fini(struct copse_mem *mem, struct copse_copies *c);
/* Run copies [first, first + count), with one read of each source ahead. The last writes are open
   on return. */
copse_status copse__copies_send(copse_reducer *x, const struct copse_copies *c, size_t first,
                                size_t count);

/* Copy now what needs no wait; all else in the next copse__reducer_send, which leaves the last
   writes open. */
copse_status copse__reducer_copy(copse_reducer *x, const struct copse_view *from,
                                 const struct copse_view *to, size_t count);
copse_status copse__reducer_send(copse_reducer *x);
/* Queue a read into memory that outlives a hanging device, or a write. */
copse_status copse__reducer_read(copse_reducer *x, uint32_t rank, const struct copse_binding *from,
                                 void *to);
copse_status copse__reducer_write(copse_reducer *x, uint32_t rank, const struct copse_binding *to,
                                  const void *from);
/* Submit the work of one rank, or all open work; wait for the newest reads. */
copse_status copse__reducer_submit_rank(copse_reducer *x, uint32_t rank, uint64_t *ticket);
copse_status copse__reducer_submit(copse_reducer *x);
copse_status copse__reducer_wait_reads(copse_reducer *x, const char *what);

#endif
