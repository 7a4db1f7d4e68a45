/* SPDX-License-Identifier: MIT */
/* Destinations: the ranks that receive a result, and copies of values there. */
#include "core/graph/type.h"
#include "core/value/cross_device.h"

static const uint32_t host = COPSE_HOST;
const struct copse_destinations copse__to_host = { .ranks = &host, .count = 1 };

/* ---- destinations ---- */

static copse_status destinations_add(copse_strategy *st, struct copse_ranks *to, uint32_t rank)
{
    if (rank != COPSE_HOST && rank >= st->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "destinations: there is no replica %u of %u", rank,
                          st->replica_count);
    for (uint32_t i = 0; i < to->count; i++)
        if (to->at[i] == rank)
            return rank == COPSE_HOST
                       ? copse_fail(COPSE_ERR_ARGUMENT, "destinations: the host is listed twice")
                       : copse_fail(COPSE_ERR_ARGUMENT, "destinations: replica %u is listed twice",
                                    rank);
    to->at[to->count++] = rank;
    return COPSE_OK;
}

void copse__destinations_all(const copse_strategy *st, struct copse_ranks *out)
{
    out->count = st->replica_count;
    for (uint32_t r = 0; r < st->replica_count; r++)
        out->at[r] = r;
}

static copse_status ranks_of_value(copse_strategy *st, const copse_value *v,
                                   struct copse_ranks *out)
{
    if (v->strategy && v->strategy != st)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "destinations: the value whose ranks are taken belongs to another strategy");
    if (v->kind == COPSE_VALUE_OBJECT || copse__value_is_structure(v))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "destinations: objects, lists and dictionaries are on no device");
    if (v->rank == COPSE_ALL_RANKS)
        copse__destinations_all(st, out);
    else if (!copse__value_is_distributed(v))
        return destinations_add(st, out, v->rank);
    for (size_t i = 0; copse__value_is_distributed(v) && i < v->count; i++)
        COPSE_TRY(destinations_add(st, out, v->ranks[i]));
    return COPSE_OK;
}

copse_status copse__destinations_of(copse_strategy *st, const struct copse_destinations *to,
                                    struct copse_ranks *out)
{
    out->count = 0;
    if (!to || (!to->like && !to->ranks && to->count == 0))
        return COPSE_OK;
    if (to->like)
        return ranks_of_value(st, to->like, out);
    if (!to->ranks || to->count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "destinations: the list is empty");
    for (size_t i = 0; i < to->count; i++)
        COPSE_TRY(destinations_add(st, out, to->ranks[i]));
    return COPSE_OK;
}

/* ---- copies ---- */

copse_status copse__value_plain(copse_value *v, copse_value **out)
{
    if (v->kind == COPSE_VALUE_VARIABLE)
        return copse__component_read(v->variable, v->rank == COPSE_ALL_RANKS ? 0 : v->rank, out);
    *out = copse_value_retain(v);
    return COPSE_OK;
}

copse_status copse__value_at(copse_strategy *st, copse_value *v, uint32_t rank, copse_value **out)
{
    copse_value *plain;
    *out = NULL;
    COPSE_TRY(copse__value_plain(v, &plain));
    if (plain->kind == COPSE_VALUE_OBJECT || plain->block->queue == copse__queue_of(st, rank)) {
        *out = plain;
        return COPSE_OK;
    }
    const copse_status s = copse__value_copy(plain, st, rank, out);
    copse_value_release(&plain);
    return s;
}

copse_status copse__value_spread(copse_strategy *st, copse_value *v, const struct copse_ranks *to,
                                 copse_value **out)
{
    copse_value *at[COPSE_MAX_REPLICAS + 1] = { NULL }, *on_host = NULL;
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < to->count && !s; i++) {
        copse_value *from = v->kind == COPSE_VALUE_MIRRORED ? copse__component_at(v, to->at[i]) : v;
        /* A value for several devices is read from its own device once. */
        if (!on_host && i + 1 < to->count && v->kind != COPSE_VALUE_MIRRORED)
            s = copse__value_at(st, v, COPSE_HOST, &on_host);
        const bool is_there = from->block && from->block->queue == copse__queue_of(st, to->at[i]);
        if (!s)
            s = copse__value_at(st, on_host && !is_there ? on_host : from, to->at[i], &at[i]);
    }
    copse_value_release(&on_host);
    return copse__value_distributed_of(s, st, COPSE_VALUE_MIRRORED, at, to->at, to->count, out);
}

copse_status copse__value_read_from(copse_strategy *st, uint32_t r, copse_shape shape,
                                    struct copse_binding from, copse_value **out)
{
    copse_queue *q = st->replicas[r].queue;
    const uint64_t count = copse__elements(shape);
    struct copse_block *block;
    COPSE_TRY(copse__block_create(st->ctx, q, COPSE_F32, count, &block));
    const copse_status s = copse_queue_copy(q, from.buffer, from.offset, block->buffer, 0,
                                            (size_t)count * copse__type_bytes(COPSE_F32));
    if (!s)
        return copse__value_from_block(st->ctx, st, r, shape, block, out);
    copse__block_release(&block);
    return s;
}

copse_status copse__value_write_to(copse_strategy *st, uint32_t r, const copse_value *v,
                                   struct copse_binding to)
{
    copse_queue *q = st->replicas[r].queue;
    const size_t bytes = (size_t)v->block->count * copse__type_bytes(v->type);
    struct copse_block *copy;
    if (v->block->queue == q)
        return copse_queue_copy(q, v->block->buffer, 0, to.buffer, to.offset,
                                copse__round_up(bytes, COPSE_WORD_BYTES));
    if (!v->block->queue)
        return copse__queue_write_bytes(q, to.buffer, to.offset, v->block->host, bytes);
    COPSE_TRY(copse__block_copy(v->block, NULL, &copy));
    const copse_status s = copse__queue_write_bytes(q, to.buffer, to.offset, copy->host, bytes);
    copse__block_release(&copy);
    return s;
}
