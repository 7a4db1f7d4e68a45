/* SPDX-License-Identifier: MIT */
/* Steps of a run between workers, and their host memory.
 *
 * Use of the memory. Pending messages read `sums_out` and `values` until the next round, which first waits
 * for these messages. The receives into `sums_in` and into the other workers' parts of `values` are posted at
 * the begin of a round: by then this worker has copied their earlier contents to its devices.
 */
#include <stdio.h>

#include "core/reduce/block.h"
#include "core/reduce/exchange_internal.h"

static copse_status grow(copse_exchange *x, unsigned char **block, size_t *room, size_t bytes)
{
    return copse__host_grow(x->mem, block, room, bytes)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for %zu bytes between workers", bytes);
}

copse_status copse__exchange_workers_room(copse_exchange *x, size_t round, size_t own)
{
    /* messages of the last run may still be read from the old blocks */
    if (x->sums_out_room < round || x->values_room < round || x->sums_in_room < own * x->workers.count)
        COPSE_TRY(copse__worker_wait_sends(&x->messages, NULL, NULL));
    COPSE_TRY(grow(x, &x->sums_out, &x->sums_out_room, round));
    COPSE_TRY(grow(x, &x->values, &x->values_room, round));
    return grow(x, &x->sums_in, &x->sums_in_room, own * x->workers.count);
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
    return copse__collective_begin_on(x->messages.group->cluster, name, form, 4 * elements, COPSE_OK);
}

/* Post the receives, then wait until all workers are at this round. Messages are sent only after that. */
static copse_status begin(copse_exchange *x, const struct copse_bucket *b, uint32_t bucket,
                          const struct copse_exchange_step *step)
{
    const struct copse_workers *w = &x->workers;
    const struct copse_share *shares = b->shares.at + step->first;
    const size_t own = shares[w->worker].size;
    COPSE_TRY(copse__worker_wait_sends(&x->messages, x->busy, x->busy_user));
    COPSE_TRY(begin_collective(x, bucket, step->count));
    for (uint32_t v = 0; v < w->count; v++) {
        if (v == w->worker)
            continue;
        if (own > 0 && step->message_kind & COPSE_MESSAGE_SUMS)
            COPSE_TRY(copse__worker_recv(&x->messages, v, COPSE_KIND_PARTS, x->sums_in + v * own, own));
        if (shares[v].size > 0 && step->message_kind & COPSE_MESSAGE_VALUES)
            COPSE_TRY(copse__worker_recv(&x->messages, v, COPSE_KIND_RESULTS, x->values + shares[v].offset,
                                         shares[v].size));
    }
    const copse_status s = copse__collective_barrier(x->messages.group->cluster, x->busy, x->busy_user);
    if (s) /* no message will arrive */
        copse__worker_drop_recvs(&x->messages);
    return s;
}

static copse_status read(copse_exchange *x, const struct copse_bucket *b,
                         const struct copse_exchange_step *step)
{
    unsigned char *block = step->message_kind == COPSE_KIND_PARTS ? x->sums_out : x->values;
    bool is_used[COPSE_MAX_REPLICAS] = { false };
    for (size_t i = step->first; i < step->first + step->count; i++) {
        const struct copse_host_range *c = &b->host_ranges.at[i];
        COPSE_TRY(copse_queue_read(x->ranks[c->rank].queue, c->at.buffer, c->at.offset,
                                   block + c->offset, c->at.size));
        is_used[c->rank] = true;
    }
    for (uint32_t r = 0; r < x->rank_count; r++)
        if (is_used[r])
            COPSE_TRY(copse_queue_submit(x->ranks[r].queue, &x->host_read[r]));
    return COPSE_OK;
}

/* Queues are in order: the newest read of every rank covers those of this step. */
static copse_status send_share(copse_exchange *x, const struct copse_share *shares,
                               const struct copse_exchange_step *step)
{
    const bool is_sum = step->message_kind == COPSE_KIND_PARTS;
    const unsigned char *block = is_sum ? x->sums_out : x->values;
    const struct copse_share *share = &shares[is_sum ? step->worker : x->workers.worker];
    for (uint32_t r = 0; r < x->rank_count; r++)
        if (x->host_read[r])
            COPSE_TRY(copse__rank_wait(x, r, x->host_read[r], "reading for other workers"));
    return copse__worker_send(&x->messages, step->worker, step->message_kind, block + share->offset, share->size);
}

static copse_status receive_share(copse_exchange *x, const struct copse_bucket *b,
                                  const struct copse_exchange_step *step)
{
    const unsigned char *block = step->message_kind == COPSE_KIND_PARTS ? x->sums_in : x->values;
    bool is_used[COPSE_MAX_REPLICAS] = { false };
    COPSE_TRY(copse__worker_wait_recvs(&x->messages, step->message_kind, step->worker, 1, x->busy, x->busy_user));
    for (size_t i = step->first; i < step->first + step->count; i++) {
        const struct copse_host_range *c = &b->host_ranges.at[i];
        COPSE_TRY(copse_queue_write(x->ranks[c->rank].queue, c->at.buffer, c->at.offset,
                                    block + c->offset, c->at.size));
        is_used[c->rank] = true;
    }
    for (uint32_t r = 0; r < x->rank_count; r++)
        if (is_used[r])
            COPSE_TRY(copse_queue_submit(x->ranks[r].queue, NULL));
    return COPSE_OK;
}

copse_status copse__exchange_workers_step(copse_exchange *x, const struct copse_bucket *b, uint32_t bucket,
                                          const struct copse_exchange_step *step)
{
    switch (step->kind) {
    case COPSE_STEP_BEGIN:
        x->round = b->shares.at + step->first;
        return begin(x, b, bucket, step);
    case COPSE_STEP_READ:
        return read(x, b, step);
    case COPSE_STEP_WORKER_SEND:
        return send_share(x, x->round, step);
    default:
        return receive_share(x, b, step);
    }
}
