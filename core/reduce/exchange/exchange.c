/* SPDX-License-Identifier: MIT */
/* The exchange: creation, release, and runs of recorded buckets.
 *
 * Why the recorded waits are enough. Queues are in order, so only transfers between ranks need the
 * host:
 *  - Read after write. Shared: before a rank sums, the host waits until the gradients of all others
 *    are complete (ready[r]); before values are broadcast, until their owner's play is done.
 *    Staged: a message is read in its source's queue, after the work that computed it; the host
 *    waits for the read and writes it in the receiver's queue, before the work that needs it.
 *  - Write after read, gradients. Shared: rank r may write new gradients once the run has returned.
 *    The host has then waited for every owner's update, or in the tree for every pair and so for
 *    its sources, so no rank still reads them. With one owner or several, every owner broadcasts
 *    and is waited for.
 *  - Write after read, values. Shared: an owner writes new values in the next run of the bucket. It
 *    first waits for ready[r] of all others, which their queues reach after this run's copies of
 *    the owner's row. Only a rank's own queue writes the other rows.
 *  - Ranks on one queue need no waits. A read of another rank's data, in place or by a copy into
 *    the inbox, is in the queue after the work that computed the data and before the work that
 *    overwrites it.
 *  - Staged: the inbox belongs to one queue. A read overwrites staging memory only after the
 *    message before the last was written.
 */
#include "core/reduce/exchange/exchange_internal.h"

/* ---- life ---- */

static copse_status exchange_check(const struct copse_exchange_params *p)
{
    if (p->rank_count == 0 || p->rank_count > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "exchange: %u ranks: 1 to %d are possible",
                          p->rank_count, COPSE_MAX_REPLICAS);
    if (p->reduction > COPSE_REDUCE_TO_ONE)
        return copse_fail(COPSE_ERR_ARGUMENT, "exchange: there is no reduction %d",
                          (int)p->reduction);
    if (p->transfer > COPSE_TRANSFER_STAGED)
        return copse_fail(COPSE_ERR_ARGUMENT, "exchange: there is no transfer %d",
                          (int)p->transfer);
    if (p->group && p->group->cluster && p->group->rank_counts[p->group->worker] != p->rank_count)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "exchange: the other workers expect another number "
                          "of ranks here than %u",
                          p->rank_count);
    return COPSE_OK;
}

copse_status copse__exchange_create(const struct copse_exchange_params *params,
                                    copse_exchange **out)
{
    *out = NULL;
    COPSE_TRY(exchange_check(params));
    struct copse_mem *mem = &params->ctx->base.mem;
    copse_exchange *x = copse__alloc(mem, 1, sizeof *x);
    if (!x)
        return copse_no_memory("exchange");
    x->params = *params;
    x->params.ctx = copse_context_retain(params->ctx);
    x->params.ranks = x->ranks;
    if (params->group && params->group->cluster) {
        x->workers = (struct copse_workers){ params->group->worker, params->group->workers,
                                             params->group->rank_counts };
        x->messages.group = params->group;
        x->messages.what[COPSE_KIND_SUMS] = "sums of gradients";
        x->messages.what[COPSE_KIND_RESULTS] = "new values";
    }
    x->mem = mem;
    x->rank_count = params->rank_count;
    copse_queue *queues[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < x->rank_count; r++) {
        x->ranks[r] = params->ranks[r];
        copse_buffer_retain(x->ranks[r].step.buffer);
        queues[r] = x->ranks[r].queue;
    }
    x->is_one_queue = !copse__has_workers(x);
    for (uint32_t r = 1; r < x->rank_count; r++)
        x->is_one_queue &= copse__is_same_queue(x, 0, r);
    /* On one queue nothing runs in parallel: use the fewest launches. */
    if (x->params.reduction == COPSE_REDUCE_AUTO)
        x->params.reduction = x->is_one_queue ? COPSE_REDUCE_TO_ONE : COPSE_REDUCE_SHARDED;
    copse_status s = copse__reducer_create(params->ctx, queues, x->rank_count,
                                           params->message_bytes, &x->reducer);
    if (!s)
        s = copse__exchange_check_sharing(x);
    x->is_shared = x->can_share;
    if (s) {
        copse__exchange_release(&x);
        return s;
    }
    *out = x;
    return COPSE_OK;
}

void copse__exchange_release(copse_exchange **at)
{
    copse_exchange *x = *at;
    if (!x)
        return;
    *at = NULL;
    const bool is_idle = !x->reducer || copse__reducer_drain(x->reducer);
    for (size_t i = 0; i < x->buckets.count; i++)
        copse__bucket_fini(x, &x->buckets.at[i]);
    for (size_t i = 0; i < x->pieces.count; i++)
        copse__piece_fini(x, &x->pieces.at[i], is_idle);
    for (uint32_t r = 0; r < x->rank_count; r++)
        copse_buffer_release(&x->ranks[r].step.buffer);
    copse__reducer_release(&x->reducer);
    if (copse__has_workers(x))
        copse__exchange_workers_fini(x);
    if (is_idle) {
        copse__free_aligned(x->mem, x->sums_out.at);
        copse__free_aligned(x->mem, x->values.at);
        copse__free_aligned(x->mem, x->sums_in.at);
    }
    copse__free(x->mem, x->buckets.at);
    copse__free(x->mem, x->pieces.at);
    copse_context *ctx = x->params.ctx;
    copse__free(x->mem, x);
    copse_context_release(&ctx);
}

/* ---- a run ---- */

static copse_status exchange_play(copse_exchange *x, const struct copse_exchange_step *step)
{
    const bool is_other = x->other.segment == step->segment;
    COPSE_TRY(copse_note(is_other ? x->other.replay(x->other.user, step->rank, step->segment)
                                  : copse__segment_replay(step->segment),
                         "while starting work of rank %u", step->rank));
    return copse_note(copse_queue_submit(x->ranks[step->rank].queue, &x->last[step->rank]),
                      "while starting work of rank %u", step->rank);
}

static copse_status run_step(copse_exchange *x, uint32_t bucket,
                             const struct copse_exchange_step *step, const uint64_t *ready,
                             const atomic_bool *stop)
{
    const struct copse_bucket *b = &x->buckets.at[bucket];
    switch (step->kind) {
    case COPSE_STEP_AWAIT_READY:
        if (!ready)
            return copse_fail(COPSE_ERR_INTERNAL, "exchange: an update waits for gradients");
        return copse__reducer_wait(x->reducer, step->rank, ready[step->rank],
                                   "computing its gradients", stop);
    case COPSE_STEP_AWAIT_LAST:
        return copse__reducer_wait(x->reducer, step->rank, x->last[step->rank],
                                   "reducing its slices", NULL);
    case COPSE_STEP_PLAY:
        return exchange_play(x, step);
    case COPSE_STEP_SEND:
        COPSE_TRY(copse__copies_send(x->reducer, &b->copies, step->first, step->count));
        return copse__reducer_submit(x->reducer);
    case COPSE_STEP_BEGIN:
    case COPSE_STEP_READ:
    case COPSE_STEP_WORKER_SEND:
    case COPSE_STEP_WORKER_RECV:
        return copse__exchange_workers_step(x, b, bucket, step);
    }
    return copse_fail(COPSE_ERR_INTERNAL, "exchange: there is no step %d", (int)step->kind);
}

static copse_status check_bucket(const copse_exchange *x, uint32_t bucket)
{
    return bucket < x->buckets.count && x->buckets.at[bucket].is_used
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "exchange: there is no bucket %u", bucket);
}

/* Steps [first, end) of a bucket. */
static copse_status run_steps(copse_exchange *x, uint32_t bucket, size_t first, size_t end,
                              const uint64_t *ready)
{
    const struct copse_bucket *b = &x->buckets.at[bucket];
    const atomic_bool *stop = copse__has_workers(x) ? NULL : x->stop;
    for (size_t i = first; i < end; i++) {
        if (b->steps.at[i].kind != COPSE_STEP_AWAIT_READY)
            stop = NULL;
        if (x->params.pause)
            x->params.pause(x->params.user, &b->steps.at[i].move);
        const copse_status s = run_step(x, bucket, &b->steps.at[i], ready, stop);
        const bool has_begun = b->steps.at[i].kind != COPSE_STEP_BEGIN || i > 0;
        if (s && copse__has_workers(x) && has_begun)
            copse__group_abort(x->messages.group);
        COPSE_TRY(copse_note(s, "in bucket %u", bucket));
    }
    return COPSE_OK;
}

copse_status copse__exchange_run(copse_exchange *x, uint32_t bucket, const uint64_t *ready,
                                 copse_busy_fn *busy, void *user)
{
    COPSE_TRY(check_bucket(x, bucket));
    x->reducer->busy = busy;
    x->reducer->user = user;
    return run_steps(x, bucket, 0, x->buckets.at[bucket].half, ready);
}

copse_status copse__exchange_finish(copse_exchange *x, uint32_t bucket)
{
    COPSE_TRY(check_bucket(x, bucket));
    x->reducer->busy = NULL;
    return run_steps(x, bucket, x->buckets.at[bucket].half, x->buckets.at[bucket].steps.count,
                     NULL);
}

copse_status copse__exchange_visit(const copse_exchange *x, uint32_t bucket, copse_replay_fn *visit,
                                   void *user)
{
    COPSE_TRY(check_bucket(x, bucket));
    const struct copse_bucket *b = &x->buckets.at[bucket];
    for (size_t i = 0; i < b->steps.count; i++)
        if (b->steps.at[i].kind == COPSE_STEP_PLAY)
            COPSE_TRY(visit(user, b->steps.at[i].rank, b->steps.at[i].segment));
    return COPSE_OK;
}

void copse__exchange_replay_by(copse_exchange *x, const struct copse_segment *segment,
                               copse_replay_fn *replay, void *user)
{
    x->other.segment = segment;
    x->other.replay = replay;
    x->other.user = user;
}

void copse__exchange_stop_by(copse_exchange *x, const atomic_bool *stop)
{
    x->stop = stop;
}

bool copse__exchange_is_one_queue(const copse_exchange *x)
{
    return x->is_one_queue;
}

copse_status copse__exchange_queue(copse_exchange *x, uint32_t bucket)
{
    COPSE_TRY(check_bucket(x, bucket));
    const struct copse_bucket *b = &x->buckets.at[bucket];
    for (size_t i = 0; i < b->half; i++) {
        const struct copse_exchange_step *step = &b->steps.at[i];
        if (x->params.pause)
            x->params.pause(x->params.user, &step->move);
        if (step->kind != COPSE_STEP_PLAY)
            return copse_fail(COPSE_ERR_INTERNAL, "exchange: step %d needs the host",
                              (int)step->kind);
        COPSE_TRY(copse_note(copse__segment_replay(step->segment),
                             "while queueing work of rank %u, in bucket %u", step->rank, bucket));
    }
    return COPSE_OK;
}

void copse__exchange_drop(copse_exchange *x, uint32_t bucket)
{
    if (bucket >= x->buckets.count || !x->buckets.at[bucket].is_used)
        return;
    struct copse_bucket *b = &x->buckets.at[bucket];
    for (size_t i = 0; i < b->slots.count; i++)
        x->slot_bytes[b->slots.at[i].rank] -= copse_buffer_size(b->slots.at[i].buffer);
    copse__bucket_fini(x, b);
    *b = (struct copse_bucket){ .is_used = false };
}

void copse__exchange_slots(const copse_exchange *x, uint32_t bucket,
                           const struct copse_slice_memory **list, size_t *count)
{
    *list = x->buckets.at[bucket].slots.at;
    *count = x->buckets.at[bucket].slots.count;
}

void copse__exchange_measures(const copse_exchange *x, uint32_t bucket,
                              const struct copse_slice_memory **list, size_t *count)
{
    *list = x->buckets.at[bucket].measures.at;
    *count = x->buckets.at[bucket].measures.count;
}

bool copse__exchange_is_shared(const copse_exchange *x)
{
    return x->is_shared;
}

size_t copse__exchange_slot_bytes(const copse_exchange *x, uint32_t rank)
{
    return x->slot_bytes[rank];
}
