/* SPDX-License-Identifier: MIT */
/* Sums over replicas by the cross-device operations that the application gave the strategy: of the
   gradients of a step, in one batch, and of the operands of an all-reduce. Each replica's part is
   copied to a value; the result is one value, which is written to all replicas. So they hold the
   same bits whatever the operations return. */
#include "core/train/execution.h"
#include "core/value/cross_device.h"

/* A part of the sums: what each replica gives, and where it takes the sum. */
struct part {
    copse_shape shape;
    struct copse_binding from[COPSE_MAX_REPLICAS], to[COPSE_MAX_REPLICAS];
};

static copse_status take_part(copse_strategy *st, const struct part *p, copse_value **out)
{
    copse_value *each[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count && !s; r++)
        s = copse__value_read_from(st, r, p->shape, p->from[r], &each[r]);
    return copse__value_distributed_of(s, st, COPSE_VALUE_PER_REPLICA, each, NULL,
                                       st->replica_count, out);
}

static copse_status put_part(copse_strategy *st, const struct part *p, const copse_value *sum)
{
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count && !s; r++)
        s = copse__value_write_to(
            st, r, copse__value_is_distributed(sum) ? copse__component_at(sum, r) : sum, p->to[r]);
    return s;
}

/* Where it fails on this worker before the operations begin, it fails on all. */
static copse_status sum_parts(copse_strategy *st, const char *subject, const struct part *parts,
                              copse_value **values, size_t count, copse_status mine)
{
    for (size_t i = 0; i < count && !mine; i++)
        mine = take_part(st, &parts[i], &values[i]);
    if (mine)
        return copse__group_barrier(&st->group, subject, 0, mine);
    COPSE_TRY(copse__cross_reduce_for(subject, st->cross, st, COPSE_REDUCE_SUM, values, NULL, count,
                                      values + count));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && !s; i++)
        s = put_part(st, &parts[i], values[count + i]);
    return s;
}

copse_status copse__sum_gradients(copse_trainer *t)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t most = t->trained.count;
    struct part *parts = copse__alloc(mem, most, sizeof *parts);
    copse_value **values = copse__alloc(mem, most, 2 * sizeof(copse_value *));
    size_t count = 0;
    for (size_t i = 0; parts && i < most; i++) {
        const copse_variable *v = t->trained.at[i];
        if (v->is_sparse) /* its rows have an exchange of their own */
            continue;
        parts[count].shape = v->tensor.shape;
        for (uint32_t r = 0; r < st->replica_count; r++)
            parts[count].from[r] = parts[count].to[r] = copse__variable_gradient(v, r);
        count++;
    }
    const copse_status memory = copse_need_memory(parts && values, "trainer");
    const copse_status s = memory || count > 0
                               ? sum_parts(st, "gradients of a step", parts, values, count, memory)
                               : COPSE_OK;
    if (values)
        copse__values_release(values, 2 * most);
    copse__free(mem, values);
    copse__free(mem, parts);
    return copse_note(s,
                      "in the sum of the gradients by the application's cross-device operations");
}

copse_status copse__sum_all_reduce(copse_trainer *t, const struct copse_graph_all_reduce *c)
{
    copse_strategy *st = t->strategy;
    const copse_exchange *x = st->store->exchange;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct part *part = copse__alloc(mem, 1, sizeof *part);
    copse_value *values[2] = { NULL };
    for (uint32_t r = 0; part && r < st->replica_count; r++) {
        part->shape = c->shape;
        part->from[r] = copse__exchange_gradients(x, c->piece, r);
        part->to[r] = copse__exchange_values(x, c->piece, r);
    }
    const copse_status memory = copse_need_memory(part, "trainer");
    const copse_status s = sum_parts(st, "an all_reduce", part, values, 1, memory);
    copse__values_release(values, 2);
    copse__free(mem, part);
    return copse_note(s, "in a sum by the application's cross-device operations");
}
