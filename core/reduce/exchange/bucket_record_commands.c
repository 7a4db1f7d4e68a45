/* SPDX-License-Identifier: MIT */
/* What a recording consists of: steps, commands on the destination of a move, and the memory of its
   elements. */
#include "core/reduce/exchange/bucket_record.h"

copse_status copse__record_no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for a bucket");
}

copse_status copse__record_step(struct copse_recorder *r, const struct copse_exchange_step *step)
{
    return COPSE_PUSH(r->x->mem, &r->bucket->steps, *step) ? COPSE_OK : copse__record_no_memory();
}

copse_status copse__record_command(struct copse_recorder *r, const struct copse_move *m,
                                   const struct copse_command *c)
{
    if (r->pending[m->dst].count == 0)
        r->pending[m->dst].move = *m;
    return COPSE_PUSH(r->x->mem, &r->pending[m->dst], *c) ? COPSE_OK : copse__record_no_memory();
}

struct copse_binding copse__record_values(const struct copse_recorder *r, uint32_t rank,
                                          const struct copse_move *m)
{
    return copse__piece_binding(r->piece, r->piece->values, rank, m->first, m->count);
}

struct copse_binding copse__record_gradients(const struct copse_recorder *r, uint32_t rank,
                                             const struct copse_move *m)
{
    return copse__piece_binding(r->piece, r->piece->gradients, rank, m->first, m->count);
}

copse_status copse__record_copy(struct copse_recorder *r, const struct copse_move *m,
                                struct copse_binding from, struct copse_binding to)
{
    return copse__record_command(r, m,
                                 &(struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                                          .bindings = { from, to },
                                                          .binding_count = 2 });
}

copse_status copse__record_tree(struct copse_recorder *r, const struct copse_move *m,
                                const struct copse_tree_sum *t)
{
    struct copse_command c;
    COPSE_TRY(copse__tree_command(copse__rank_device(r->x, m->dst), t, &c));
    return copse__record_command(r, m, &c);
}

copse_buffer *copse__kept(const struct copse_kept *list, const struct copse_move *m)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].first == m->first)
            return list->at[i].buffer;
    return NULL;
}

copse_status copse__record_keep(struct copse_recorder *r, struct copse_kept *list,
                                const struct copse_move *m, size_t bytes, struct copse_binding *out)
{
    struct copse_slice_memory kept = { m->dst, copse__kept(list, m), m->first, m->count };
    if (!kept.buffer) {
        if (!COPSE_RESERVE(r->x->mem, list, list->count + 1))
            return copse__record_no_memory();
        COPSE_TRY(copse_note(copse_buffer_create(copse__rank_device(r->x, m->dst),
                                                 &(struct copse_buffer_params){ .size = bytes },
                                                 &kept.buffer),
                             "while making memory for the slices of rank %u", m->dst));
        list->at[list->count++] = kept;
    }
    *out = (struct copse_binding){ kept.buffer, 0, bytes };
    return COPSE_OK;
}
