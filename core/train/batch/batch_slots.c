/* SPDX-License-Identifier: MIT */
/* Batch slots, and how the inputs of a batch reach the devices: from host memory to where a
   recording reads them, or to a slot, and from there. In a slot the inputs that the recording uses
   follow each other, each at a multiple of COPSE_ALIGNMENT. */
#include "core/graph/type.h"
#include "core/train/trainer.h"

/* ---- the ring ---- */

struct copse_batch_slot *copse__feed_slot(const copse_trainer *t, uint32_t i)
{
    return &t->feed.slots[(t->feed.first + i) % t->feed.depth];
}

enum copse_pass copse__feed_pass(const copse_trainer *t, uint32_t i)
{
    return (t->accumulation.parts + i) % t->params.accumulate == 0 ? COPSE_PASS_TRAIN
                                                                   : COPSE_PASS_ADD;
}

bool copse__feed_needs(const copse_trainer *t, const struct copse_step_recording *rec)
{
    for (uint32_t i = 0; i < t->feed.count; i++)
        if (copse__feed_slot(t, i)->shards.recordings[rec->replica] == rec)
            return true;
    return false;
}

/* The names of the columns are those of a recording, which is kept while the batch is fed. Without
   examples on this worker the batch has no columns, and needs none. */
static void fill(const copse_trainer *t, struct copse_batch_slot *slot,
                 const struct copse_host_batch *batch, const struct copse_shards *s)
{
    const uint32_t replicas = t->strategy->replica_count;
    uint32_t r = 0;
    while (r < replicas && s->at[r].count == 0)
        r++;
    copse__shards_copy(s, &slot->shards);
    slot->batch = *batch;
    slot->batch.rows = NULL; /* the caller's, as the columns and their names */
    slot->batch.columns = slot->columns;
    slot->batch.column_count = r < replicas ? batch->column_count : 0;
    for (size_t i = 0; i < slot->batch.column_count; i++) {
        slot->columns[i] = batch->columns[i];
        slot->columns[i].data = NULL;
        slot->columns[i].name = s->recordings[r]->base.inputs[i].is.name;
    }
}

bool copse__batch_has_columns(const struct copse_host_batch *batch,
                              const struct copse_column *columns, size_t count)
{
    bool is_same = batch->column_count == count && batch->columns;
    for (size_t i = 0; is_same && i < count; i++) {
        const struct copse_column *a = &columns[i], *b = &batch->columns[i];
        is_same = a->type == b->type && copse__shape_equal(a->shape, b->shape) && b->name &&
                  strcmp(a->name, b->name) == 0;
    }
    return is_same;
}

/* ---- bytes ---- */

/* Of a slot for the recording's inputs. */
static size_t slot_bytes(const struct copse_step_recording *rec)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < rec->base.input_count; i++)
        if (rec->base.inputs[i].at.buffer)
            bytes += copse__round_up(rec->base.inputs[i].at.size, COPSE_ALIGNMENT);
    return bytes;
}

copse_status copse__feed_check(const copse_trainer *t, const struct copse_shards *s,
                               const struct copse_host_batch *batch)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse__shard_check(&s->recordings[r]->base, batch, &s->at[r]));
    return COPSE_OK;
}

copse_status copse__feed_copy(copse_queue *q, const struct copse_step_recording *rec,
                              const struct copse_binding *slot)
{
    size_t at = slot->offset;
    for (uint32_t i = 0; i < rec->base.input_count; i++) {
        const struct copse_binding *to = &rec->base.inputs[i].at;
        if (!to->buffer)
            continue;
        COPSE_TRY(copse_queue_copy(q, slot->buffer, at, to->buffer, to->offset,
                                   copse__round_up(to->size, 4)));
        at += copse__round_up(to->size, COPSE_ALIGNMENT);
    }
    return COPSE_OK;
}

/* ---- upload ---- */

static copse_status make_room(copse_trainer *t, uint32_t r, size_t bytes, struct copse_binding *at)
{
    if (copse_buffer_size(at->buffer) >= bytes)
        return COPSE_OK;
    copse_buffer_release(&at->buffer);
    return copse_note(
        copse_buffer_create(t->strategy->replicas[r].dev,
                            &(struct copse_buffer_params){ .size = bytes }, &at->buffer),
        "while making memory for a batch ahead; a smaller %s needs less", t->feed.table->depth);
}

/* The step that read the slot last may still be under way. */
static copse_status wait_for_reader(const struct copse_replica *rep, uint64_t ticket)
{
    if (ticket > copse_queue_submissions(rep->queue)) /* a step that failed is not started yet */
        COPSE_TRY(copse_queue_submit(rep->queue, NULL));
    return copse__queue_wait_for(rep->transfer, rep->queue, ticket);
}

static copse_status upload(copse_trainer *t, const struct copse_host_batch *batch,
                           const struct copse_shards *s, uint32_t r, struct copse_batch_slot *slot)
{
    const struct copse_replica *rep = &t->strategy->replicas[r];
    COPSE_TRY(make_room(t, r, slot_bytes(s->recordings[r]), &slot->at[r]));
    if (!t->feed.table->has_transfers)
        return copse__shard_write(rep->queue, &s->recordings[r]->base, batch, &s->at[r],
                                  &slot->at[r]);
    COPSE_TRY(wait_for_reader(rep, slot->read[r]));
    COPSE_TRY(
        copse__shard_write(rep->transfer, &s->recordings[r]->base, batch, &s->at[r], &slot->at[r]));
    return copse_queue_submit(rep->transfer, &slot->written[r]);
}

copse_status copse__feed_upload(copse_trainer *t, const struct copse_host_batch *batch,
                                const struct copse_shards *s, struct copse_batch_slot *slot)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        if (s->at[r].count > 0)
            COPSE_TRY(copse_note(upload(t, batch, s, r, slot),
                                 "while uploading replica %u's part of a batch ahead", r));
    fill(t, slot, batch, s);
    return COPSE_OK;
}
