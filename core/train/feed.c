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

/* Whether devices can have the share's values of a host type. */
static copse_status check_values(const struct copse_column *c, const struct copse_shard *share)
{
    const struct copse_type_row *type = copse__type(c->type);
    const size_t row = (size_t)copse__elements(c->shape);
    if (type->is_on_devices)
        return COPSE_OK;
    for (size_t i = share->first * row; i < (share->first + share->count) * row; i++) {
        const double value = type->get(c->data, i);
        if (value < INT32_MIN || value > INT32_MAX)
            return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the input '%s' has %.0f in example %zu of the batch; devices "
                                                  "have %s inputs as %s, from %d to %d", c->name, value, i / row, type->name,
                              copse__type_name(type->computed), INT32_MIN, INT32_MAX);
    }
    return COPSE_OK;
}

copse_status copse__feed_check(const copse_trainer *t, const struct copse_shares *s,
                               const struct copse_host_batch *batch)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        for (uint32_t i = 0; s->at[r].count > 0 && i < batch->column_count; i++) {
            if (!s->recordings[r]->base.inputs[i].at.buffer)
                continue;
            if (!batch->columns[i].data)
                return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss needs the input '%s', the batch has no data "
                                                      "for it", batch->columns[i].name);
            COPSE_TRY(check_values(&batch->columns[i], &s->at[r]));
        }
    return COPSE_OK;
}

/* The bytes of elements [first, ...) of a column, as devices have its type, to a buffer. */
static copse_status write_column(copse_queue *q, copse_buffer *to, size_t at, const struct copse_column *c, size_t first,
                                 size_t bytes)
{
    enum { CHUNK = 1024 };
    const struct copse_type_row *type = copse__type(c->type), *own = copse__type(copse__type_on_devices(c->type));
    uint32_t chunk[CHUNK];
    if (type == own)
        return copse__queue_write_bytes(q, to, at, (const char *)c->data + first * type->bytes, bytes);
    for (size_t done = 0, count; done < bytes / own->bytes; done += count) {
        count = COPSE_MIN(bytes / own->bytes - done, CHUNK);
        for (size_t i = 0; i < count; i++)
            own->put(chunk, i, type->get(c->data, first + done + i));
        COPSE_TRY(copse__queue_write_bytes(q, to, at + done * own->bytes, chunk, count * own->bytes));
    }
    return COPSE_OK;
}

copse_status copse__feed_write(copse_queue *q, const struct copse_step_recording *rec,
                               const struct copse_host_batch *batch, const struct copse_shard *share,
                               copse_buffer *slot, size_t at)
{
    for (uint32_t i = 0; i < rec->base.input_count; i++) {
        const struct copse_binding *to = &rec->base.inputs[i].at;
        const struct copse_column *from = &batch->columns[i];
        if (!to->buffer)
            continue;
        COPSE_TRY(write_column(q, slot ? slot : to->buffer, slot ? at : to->offset, from,
                               share->first * (size_t)copse__elements(from->shape), to->size));
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
