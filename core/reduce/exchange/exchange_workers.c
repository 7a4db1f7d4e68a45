/* SPDX-License-Identifier: MIT */
/* Steps of a run between workers, and their host memory.
 *
 * Use of the memory. Pending messages read `sums_out` and `values` until the next chunk, which
 * first waits for these messages. The receives into `sums_in` and into the other workers' slices of
 * `values` are posted when a chunk begins: by then this worker has copied their earlier contents to
 * its devices.
 */
#include <stdio.h>

#include "core/reduce/exchange/exchange_internal.h"

copse_status copse__exchange_workers_room(copse_exchange *x, size_t chunk, size_t own)
{
    /* messages of the last run may still be read from the old memory */
    if (x->sums_out.bytes < chunk || x->values.bytes < chunk ||
        x->sums_in.bytes < own * x->workers.count)
        COPSE_TRY(copse__worker_wait_sends(&x->messages, NULL, NULL));
    COPSE_TRY(copse__reducer_host(x->reducer, &x->sums_out, chunk));
    COPSE_TRY(copse__reducer_host(x->reducer, &x->values, chunk));
    return copse__reducer_host(x->reducer, &x->sums_in, own * x->workers.count);
}

/* In a whole job, sent messages still arrive. */
void copse__exchange_workers_fini(copse_exchange *x)
{
    if (!x->messages.group->cluster->is_failed)
        (void)copse__worker_wait_sends(&x->messages, NULL, NULL);
    copse__worker_drop(&x->messages);
}

static copse_status begin_collective(const copse_exchange *x, uint32_t bucket, uint64_t elements)
{
    char name[32], form[40];
    snprintf(name, sizeof name, "bucket %u", bucket);
    snprintf(form, sizeof form, "f32 [%llu]", (unsigned long long)elements);
    return copse__collective_begin_on(x->messages.group->cluster, name, form,
                                      COPSE_WORD_BYTES * elements, COPSE_OK);
}

/* Post the receives, then wait until all workers are at this chunk. Messages are sent only after
   that. */
static copse_status exchange_workers_begin(copse_exchange *x, uint32_t bucket,
                                           const struct copse_exchange_step *step)
{
    copse_reducer *r = x->reducer;
    COPSE_TRY(copse__worker_wait_sends(&x->messages, r->busy, r->user));
    COPSE_TRY(begin_collective(x, bucket, step->count));
    if (step->message_kind & COPSE_MESSAGE_SUMS)
        COPSE_TRY(copse__worker_recv_sums(&x->messages, x->chunk, x->sums_in.at));
    if (step->message_kind & COPSE_MESSAGE_VALUES)
        COPSE_TRY(copse__worker_recv_results(&x->messages, x->chunk, x->values.at));
    const copse_status s = copse__collective_barrier(x->messages.group->cluster, r->busy, r->user);
    if (s) /* no message will arrive */
        copse__worker_drop_recvs(&x->messages);
    return s;
}

/* Between the devices and `host`, which outlives a device that hangs. */
static copse_status exchange_workers_copy(copse_exchange *x, const struct copse_bucket *b,
                                          const struct copse_exchange_step *step,
                                          unsigned char *host)
{
    for (size_t i = step->first; i < step->first + step->count; i++) {
        const struct copse_host_copy *c = &b->host_copies.at[i];
        COPSE_TRY(step->kind == COPSE_STEP_READ
                      ? copse__reducer_read(x->reducer, c->rank, &c->at, host + c->offset)
                      : copse__reducer_write(x->reducer, c->rank, &c->at, host + c->offset));
    }
    return copse__reducer_submit(x->reducer);
}

copse_status copse__exchange_workers_step(copse_exchange *x, const struct copse_bucket *b,
                                          uint32_t bucket, const struct copse_exchange_step *step)
{
    const bool is_sum = step->message_kind == COPSE_KIND_SUMS;
    switch (step->kind) {
    case COPSE_STEP_BEGIN:
        x->chunk = b->worker_slices.at + step->first;
        return exchange_workers_begin(x, bucket, step);
    case COPSE_STEP_READ:
        return exchange_workers_copy(x, b, step, is_sum ? x->sums_out.at : x->values.at);
    case COPSE_STEP_WORKER_SEND:
        COPSE_TRY(copse__reducer_wait_reads(x->reducer, "reading for other workers"));
        return copse__worker_send(&x->messages, step->message_kind, x->chunk,
                                  is_sum ? x->sums_out.at : x->values.at);
    default:
        COPSE_TRY(copse__worker_wait_recvs(&x->messages, step->message_kind, step->worker, 1,
                                           x->reducer->busy, x->reducer->user));
        return exchange_workers_copy(x, b, step, is_sum ? x->sums_in.at : x->values.at);
    }
}
