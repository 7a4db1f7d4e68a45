/* SPDX-License-Identifier: MIT */
/* Messages of one collective between the workers of a group: a reduce-scatter, in which each worker
   receives the others' words of its slice, and an all-gather of the results. Each worker sends at
   most one message of each kind to each other worker. The memory of a message is in use until the
   message has been waited for or dropped. */
#ifndef COPSE_WORKER_MESSAGES_H
#define COPSE_WORKER_MESSAGES_H

#include "core/comm/group.h"

/* Called before the host waits: a chance to queue work that does not depend on the message. */
typedef copse_status copse_busy_fn(void *user);

/* COPSE_KIND_SUMS: to the owner of a slice; COPSE_KIND_RESULTS: from the owner */
#define COPSE_MESSAGE_KINDS 2

struct copse_worker_messages {
    struct copse_group *group;             /* not a reference; NULL: there are no other workers */
    const char *what[COPSE_MESSAGE_KINDS]; /* for error texts */
    struct copse_pending out[COPSE_MESSAGE_KINDS][COPSE_MAX_WORKERS],
        in[COPSE_MESSAGE_KINDS][COPSE_MAX_WORKERS];
};

/* Bytes that a worker owns. */
struct copse_worker_slice {
    size_t offset, size;
};

/* `slices` has one for each worker. Receive this worker's slice of the sums of all others: rows
   [worker][its size]; and the slices of all others. */
copse_status copse__worker_recv_sums(struct copse_worker_messages *m,
                                     const struct copse_worker_slice *slices, unsigned char *rows);
copse_status copse__worker_recv_results(struct copse_worker_messages *m,
                                        const struct copse_worker_slice *slices,
                                        unsigned char *bytes);
/* Send its slice to each other worker (COPSE_KIND_SUMS), or this worker's slice to all
   (COPSE_KIND_RESULTS). */
copse_status copse__worker_send(struct copse_worker_messages *m, uint32_t kind,
                                const struct copse_worker_slice *slices,
                                const unsigned char *bytes);
/* Messages from workers [first, first + count) have arrived. `busy` may be NULL. */
copse_status copse__worker_wait_recvs(struct copse_worker_messages *m, uint32_t kind,
                                      uint32_t first, uint32_t count, copse_busy_fn *busy,
                                      void *user);
/* All sent messages have been taken. */
copse_status copse__worker_wait_sends(struct copse_worker_messages *m, copse_busy_fn *busy,
                                      void *user);
/* Forget all messages that are received, or all messages. */
void copse__worker_drop_recvs(struct copse_worker_messages *m);
void copse__worker_drop(struct copse_worker_messages *m);

#endif
