/* SPDX-License-Identifier: MIT */
/* The feed of a trainer with `prefetch`: batches are uploaded to slots on each replica's transfer
   queue while its own queue computes. A step begins with a copy on the device, from the slot to
   where the recordings read. */
#include "core/train/trainer.h"

static copse_status feed_prefetch_init(copse_trainer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_note(copse__replica_transfer(&t->strategy->replicas[r]),
                             "while making a queue to upload batches ahead"));
    return COPSE_OK;
}

static copse_status feed_prefetch_plan(copse_trainer *t, const struct copse_host_batch *batch,
                                       struct copse_shards *s)
{
    return copse__trainer_take(
        t, batch, copse__accumulation_pass(&t->accumulation, t->feed.slots.count), false, s);
}

/* ---- the step's side ---- */

/* What copse__trainer_take does for a batch in host memory. */
static copse_status prepare_fed(copse_trainer *t, enum copse_pass pass,
                                const struct copse_batch_slot *slot, struct copse_shards *s)
{
    COPSE_TRY(copse__accumulation_check(&t->accumulation));
    copse__recordings_begin(t);
    copse__shards_copy(&slot->shards, s);
    if (t->accumulation.parts == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_STEP));
    /* Recordings may have moved. Behind a flush the pass is another one. */
    return copse__shards_record(&t->recordings, &slot->batch, pass, s);
}

static copse_status feed_prefetch_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                          enum copse_pass pass, struct copse_shards *s,
                                          struct copse_batch_slot **slot)
{
    struct copse_batch_slots *f = &t->feed.slots;
    struct copse_batch_slot *oldest = copse__batch_slot(f, 0);
    *slot = NULL;
    if (!batch && f->count > 0) {
        COPSE_TRY(prepare_fed(t, pass, oldest, s));
        f->count--;
    } else {
        COPSE_TRY(copse__trainer_take(t, batch, pass, true, s));
        if (f->count > 0) /* the batches that are fed keep their slots */
            return COPSE_OK;
        COPSE_TRY(copse__batch_slot_upload(f, batch, s, oldest));
    }
    *slot = oldest;
    f->first = (f->first + 1) % f->depth;
    return COPSE_OK;
}

static copse_status feed_prefetch_take(const struct copse_replica *rep,
                                       struct copse_batch_slot *slot,
                                       const struct copse_step_recording *rec)
{
    const uint32_t r = rec->replica;
    if (rec->examples == 0)
        return COPSE_OK;
    COPSE_TRY(copse_note(copse__queue_wait_for(rep->queue, rep->transfer, slot->written[r]),
                         "while waiting for the upload of replica %u's part of the batch", r));
    slot->read[r] = copse__queue_next(rep->queue);
    return copse__batch_slot_copy(rep->queue, rec, &slot->at[r]);
}

/* Each batch is a step of its own. */
static copse_status feed_prefetch_run(copse_trainer *t, uint32_t *done)
{
    copse_status s = COPSE_OK;
    for (; s == COPSE_OK && t->feed.slots.count > 0; *done += s == COPSE_OK)
        s = copse_trainer_step(t, NULL);
    if (s != COPSE_OK && *done > 0)
        t->feed.slots.count = 0;
    return s;
}

const struct copse_feed_table copse__feed_prefetch = {
    .setting = "prefetch",
    .has_transfers = true,
    .init = feed_prefetch_init,
    .plan = feed_prefetch_plan,
    .prepare = feed_prefetch_prepare,
    .take = feed_prefetch_take,
    .run = feed_prefetch_run,
};
