/* SPDX-License-Identifier: MIT */
/* The inputs of a shard: see shard_inputs.h. */
#include "core/train/recording/shard_inputs.h"

#include "core/graph/type.h"

copse_status copse__recording_inputs(const char *user, const struct copse_host_batch *batch,
                                     size_t examples, struct copse_recording_key *key)
{
    key->input_count = 0;
    if (examples == 0)
        return COPSE_OK;
    if (!batch->columns || batch->column_count == 0 || batch->column_count > COPSE_MAX_INPUTS)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "%s: a batch has 1 to %d inputs (COPSE_MAX_INPUTS), this one has %zu; join "
            "inputs of one type along an axis",
            user, COPSE_MAX_INPUTS, batch->columns ? batch->column_count : 0);
    for (size_t i = 0; i < batch->column_count; i++) {
        const struct copse_column *c = &batch->columns[i];
        if (!c->name || c->shape.rank >= COPSE_MAX_RANK)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "%s: input %zu of the batch has no name, or its examples have "
                              "more than %d dimensions",
                              user, i, COPSE_MAX_RANK - 1);
        key->inputs[key->input_count++] =
            (struct copse_input_type){ c->name, c->type, copse__shape_of_rows(examples, c->shape) };
    }
    return COPSE_OK;
}

copse_status copse__shard_check(const struct copse_recording *rec,
                                const struct copse_host_batch *batch,
                                const struct copse_shard *shard)
{
    for (uint32_t i = 0; shard->count > 0 && i < batch->column_count; i++) {
        if (!rec->inputs[i].at.buffer)
            continue;
        const struct copse_column *c = &batch->columns[i];
        const char *user = rec->list->table->name;
        const size_t row = (size_t)copse__elements(c->shape);
        size_t at;
        if (!c->data)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "%s: the function needs the input '%s', the batch has no data for it",
                              user, c->name);
        if (!copse__type_fits(c->type, c->data, shard->first * row, shard->count * row, &at))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "%s: the input '%s' has %.0f in example %zu of the batch; devices "
                              "have %s inputs as %s, from %d to %d",
                              user, c->name, copse__type(c->type)->get(c->data, at), at / row,
                              copse_type_name(c->type),
                              copse_type_name(copse__type_on_devices(c->type)), INT32_MIN,
                              INT32_MAX);
    }
    return COPSE_OK;
}

copse_status copse__shard_write(copse_queue *q, const struct copse_recording *rec,
                                const struct copse_host_batch *batch,
                                const struct copse_shard *shard, const struct copse_binding *slot)
{
    size_t at = slot ? slot->offset : 0;
    for (uint32_t i = 0; i < rec->input_count; i++) {
        const struct copse_binding *to = &rec->inputs[i].at;
        const struct copse_column *from = &batch->columns[i];
        if (!to->buffer)
            continue;
        const size_t first = shard->first * (size_t)copse__elements(from->shape);
        COPSE_TRY(copse__type_write(q, slot ? slot->buffer : to->buffer, slot ? at : to->offset,
                                    from->type, from->data, first, to->size));
        at += copse__round_up(to->size, COPSE_ALIGNMENT);
    }
    return COPSE_OK;
}
