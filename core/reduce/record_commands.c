/* SPDX-License-Identifier: MIT */
/* What recording a bucket is made of: ranges of a move, commands on its destination, and steps. */
#include "core/reduce/record.h"

#define PER 32 /* elements of an invocation of the reduction kernels */

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for a bucket");
}

copse_status copse__record_step(struct copse_recorder *r, const struct copse_exchange_step *step)
{
    return COPSE_PUSH(r->x->mem, &r->bucket->steps, *step) ? COPSE_OK : no_memory();
}

copse_status copse__record_command(struct copse_recorder *r, const struct copse_move *m,
                                   const struct copse_command *c)
{
    if (r->pending[m->dst].count == 0)
        r->pending[m->dst].move = *m;
    return COPSE_PUSH(r->x->mem, &r->pending[m->dst], *c) ? COPSE_OK : no_memory();
}

uint64_t copse__record_row(const struct copse_move *m)
{
    return (m->count + COPSE_UNIT - 1) / COPSE_UNIT * COPSE_UNIT;
}

struct copse_binding copse__record_values(const struct copse_recorder *r, uint32_t rank,
                                          const struct copse_move *m)
{
    return copse__piece_range(r->piece, r->piece->values, rank, m->first, m->count);
}

struct copse_binding copse__record_gradients(const struct copse_recorder *r, uint32_t rank,
                                             const struct copse_move *m)
{
    return copse__piece_range(r->piece, r->piece->gradients, rank, m->first, m->count);
}

copse_status copse__record_copy(struct copse_recorder *r, const struct copse_move *m, struct copse_binding from,
                             struct copse_binding to)
{
    return copse__record_command(r, m,
                                 &(struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                                          .bindings = { from, to },
                                                          .binding_count = 2 });
}

copse_status copse__record_launch(struct copse_recorder *r, const struct copse_move *m,
                                  enum copse_kernel_id id, uint32_t rows, const void *params,
                                  const struct copse_binding *bindings)
{
    copse_device *dev = copse__rank_device(r->x, m->dst);
    const int32_t spec[] = { PER, dev->limits->has_wide_vectors, (int32_t)rows };
    struct copse_kernel *k;
    struct copse_command c;
    COPSE_TRY(copse__kernel_get(dev, id, spec, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * PER;
    COPSE_TRY(copse__dispatch_init(&c, k, bindings, 2, params, (m->count + each - 1) / each, 0));
    return copse__record_command(r, m, &c);
}

copse_status copse__record_hold(struct copse_recorder *r, const struct copse_move *m, struct copse_binding *out)
{
    struct copse_slot_range range = { m->dst, NULL, m->first, m->count };
    const struct copse_buffer_params params = { .size = (size_t)(4 * m->count) };
    if (!COPSE_RESERVE(r->x->mem, &r->bucket->sums, r->bucket->sums.count + 1))
        return no_memory();
    COPSE_TRY(copse_note(copse_buffer_create(copse__rank_device(r->x, m->dst), &params, &range.buffer),
                         "while making memory for the sums of rank %u", m->dst));
    r->bucket->sums.at[r->bucket->sums.count++] = range;
    *out = (struct copse_binding){ range.buffer, 0, params.size };
    return COPSE_OK;
}
