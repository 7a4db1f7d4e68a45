/* SPDX-License-Identifier: MIT */
/* How the inputs of a batch reach the devices: from host memory to where a recording reads them, or to a slot that
   holds one replica's share of a batch, and from there. In a slot the inputs that the recording uses follow each other,
   each at a multiple of COPSE_ALIGNMENT. */
#include "core/graph/type.h"
#include "core/train/execution.h"

size_t copse__feed_bytes(const struct copse_step_recording *rec)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < rec->base.input_count; i++)
        if (rec->base.inputs[i].at.buffer)
            bytes += copse__round_up(rec->base.inputs[i].at.size, COPSE_ALIGNMENT);
    return bytes;
}

copse_status copse__feed_check(const copse_trainer *t, const struct copse_shares *s,
                               const struct copse_host_batch *batch)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        for (uint32_t i = 0; s->at[r].count > 0 && i < batch->column_count; i++)
            if (s->recordings[r]->base.inputs[i].at.buffer && !batch->columns[i].data)
                return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss needs the input '%s', the batch has no data "
                                                      "for it", batch->columns[i].name);
    return COPSE_OK;
}

copse_status copse__feed_write(copse_queue *q, const struct copse_step_recording *rec,
                               const struct copse_host_batch *batch, const struct copse_shard *share,
                               copse_buffer *slot, size_t at)
{
    for (uint32_t i = 0; i < rec->base.input_count; i++) {
        const struct copse_binding *to = &rec->base.inputs[i].at;
        const struct copse_column *from = &batch->columns[i];
        const size_t row = (size_t)copse__elements(from->shape) * copse__type_bytes(from->type);
        if (!to->buffer)
            continue;
        COPSE_TRY(copse__queue_write_bytes(q, slot ? slot : to->buffer, slot ? at : to->offset,
                                           (const char *)from->data + share->first * row, to->size));
        at += copse__round_up(to->size, COPSE_ALIGNMENT);
    }
    return COPSE_OK;
}

copse_status copse__feed_take(copse_queue *q, const struct copse_step_recording *rec, copse_buffer *slot, size_t at)
{
    for (uint32_t i = 0; i < rec->base.input_count; i++) {
        const struct copse_binding *to = &rec->base.inputs[i].at;
        if (!to->buffer)
            continue;
        COPSE_TRY(copse_queue_copy(q, slot, at, to->buffer, to->offset, copse__round_up(to->size, 4)));
        at += copse__round_up(to->size, COPSE_ALIGNMENT);
    }
    return COPSE_OK;
}

/* Column names are those of a recording, which is kept while the batch is fed. Without examples on this worker the
   batch has no columns, and needs none. */
void copse__batch_kind_take(struct copse_batch_kind *kind, const struct copse_host_batch *batch,
                            const struct copse_shares *s, uint32_t replicas)
{
    uint32_t r = 0;
    while (r < replicas && s->at[r].count == 0)
        r++;
    kind->batch = *batch;
    kind->batch.rows = NULL; /* the caller's, as the columns and their names */
    kind->batch.columns = kind->columns;
    kind->batch.column_count = r < replicas ? batch->column_count : 0;
    for (size_t i = 0; i < kind->batch.column_count; i++) {
        kind->columns[i] = batch->columns[i];
        kind->columns[i].data = NULL;
        kind->columns[i].name = s->recordings[r]->base.inputs[i].is.name;
    }
}

bool copse__batch_kind_is(const struct copse_batch_kind *kind, const struct copse_host_batch *batch)
{
    bool is_same = kind->batch.column_count == batch->column_count && batch->columns;
    for (size_t i = 0; is_same && i < batch->column_count; i++) {
        const struct copse_column *a = &kind->columns[i], *b = &batch->columns[i];
        is_same = a->type == b->type && copse__shape_equal(a->shape, b->shape) && b->name &&
                  strcmp(a->name, b->name) == 0;
    }
    return is_same;
}

bool copse__feed_needs(const copse_trainer *t, const struct copse_step_recording *rec)
{
    const struct copse_infeed *in = &t->infeed;
    if (in->count > 0 && in->shares)
        return rec->pass != COPSE_PASS_EVALUATE && in->shares->at[rec->replica].count == rec->examples;
    for (uint32_t i = 0; in->ring && i < in->count; i++)
        if (in->ring[(in->first + i) % in->room].shares.recordings[rec->replica] == rec)
            return true;
    return false;
}
