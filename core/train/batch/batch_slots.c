/* SPDX-License-Identifier: MIT */
/* Batch slots, and how the inputs of a batch reach the devices: from host memory to where a
   recording reads them, or to a slot, and from there. In a slot the inputs that the recording uses
   follow each other, each at a multiple of COPSE_ALIGNMENT. */
#include "core/train/batch/batch_slots.h"

#include "core/graph/type.h"

/* ---- the ring ---- */

copse_status copse__batch_slots_init(struct copse_batch_slots *s, copse_strategy *st,
                                     uint32_t depth)
{
    s->strategy = st;
    s->depth = depth;
    s->at = copse__alloc(&st->ctx->base.mem, depth, sizeof *s->at);
    return s->at ? COPSE_OK
                 : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory to take %u batches ahead",
                              depth);
}

void copse__batch_slots_fini(struct copse_batch_slots *s)
{
    for (uint32_t i = 0; s->at && i < s->depth; i++)
        for (uint32_t r = 0; r < s->strategy->replica_count; r++)
            copse_buffer_release(&s->at[i].at[r].buffer);
    if (s->at)
        copse__free(&s->strategy->ctx->base.mem, s->at);
}

struct copse_batch_slot *copse__batch_slot(const struct copse_batch_slots *s, uint32_t i)
{
    return &s->at[(s->first + i) % s->depth];
}

void copse__batch_slots_keep(const struct copse_batch_slots *s, uint64_t use)
{
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t r = 0; r < s->strategy->replica_count; r++)
            copse__batch_slot(s, i)->shards.recordings[r]->used = use;
}

/* The columns borrow their names from a recording, which is kept while the batch is fed. Without
   examples on this worker the batch needs no columns. */
static void batch_slots_fill(struct copse_batch_slot *slot, const struct copse_host_batch *batch,
                             const struct copse_shards *s, uint32_t replicas)
{
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

copse_status copse__batch_slot_copy(copse_queue *q, const struct copse_step_recording *rec,
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

static copse_status make_room(const struct copse_batch_slots *s, uint32_t r, size_t bytes,
                              struct copse_binding *at)
{
    if (copse_buffer_size(at->buffer) >= bytes)
        return COPSE_OK;
    copse_buffer_release(&at->buffer);
    return copse_note(copse_buffer_create(s->strategy->replicas[r].dev,
                                          &(struct copse_buffer_params){ .size = bytes },
                                          &at->buffer),
                      "while making memory for a batch ahead; a smaller %s needs less", s->setting);
}

/* The step that read the slot last may still be under way. */
static copse_status wait_for_reader(const struct copse_replica *rep, uint64_t ticket)
{
    if (ticket > copse_queue_submissions(rep->queue)) /* a step that failed is not started yet */
        COPSE_TRY(copse_queue_submit(rep->queue, NULL));
    return copse__queue_wait_for(rep->transfer, rep->queue, ticket);
}

static copse_status batch_slots_upload(const struct copse_batch_slots *s,
                                       const struct copse_host_batch *batch,
                                       const struct copse_shards *shards, uint32_t r,
                                       struct copse_batch_slot *slot)
{
    const struct copse_replica *rep = &s->strategy->replicas[r];
    const struct copse_step_recording *rec = shards->recordings[r];
    COPSE_TRY(make_room(s, r, slot_bytes(rec), &slot->at[r]));
    if (!s->has_transfers)
        return copse__shard_write(rep->queue, &rec->base, batch, &shards->at[r], &slot->at[r]);
    COPSE_TRY(wait_for_reader(rep, slot->read[r]));
    COPSE_TRY(copse__shard_write(rep->transfer, &rec->base, batch, &shards->at[r], &slot->at[r]));
    return copse_queue_submit(rep->transfer, &slot->written[r]);
}

copse_status copse__batch_slot_upload(const struct copse_batch_slots *s,
                                      const struct copse_host_batch *batch,
                                      const struct copse_shards *shards,
                                      struct copse_batch_slot *slot)
{
    for (uint32_t r = 0; r < s->strategy->replica_count; r++)
        if (shards->at[r].count > 0)
            COPSE_TRY(copse_note(batch_slots_upload(s, batch, shards, r, slot),
                                 "while uploading replica %u's part of a batch ahead", r));
    batch_slots_fill(slot, batch, shards, s->strategy->replica_count);
    return COPSE_OK;
}
