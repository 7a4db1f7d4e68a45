/* SPDX-License-Identifier: MIT */
/* Tower optimizers of several workers in step: their collectives besides the exchange of gradients. An update begins with
   a barrier: either all workers begin it or none does. */
#include <stdio.h>

#include "core/value/cross_device.h"
#include "core/compat/tower.h"

copse_status copse__tower_barrier(copse_tower_optimizer *t, const char *what, uint64_t size, copse_status mine)
{
    const struct copse_optimizer *o = t->optimizer;
    const uint64_t hash =
        copse__hash(copse__hash(COPSE_HASH_START, o->name, strlen(o->name)), &o->step, sizeof o->step);
    char line[sizeof ((struct copse_header *)0)->what];
    snprintf(line, sizeof line, "%.32s of '%.12s', %08x", what, o->name, (unsigned)hash);
    return copse__tower_note_shared(t, copse__group_barrier(&t->strategy->group, line, size, mine));
}

copse_status copse__tower_note_shared(copse_tower_optimizer *t, copse_status s)
{
    t->is_shared_failure |= s != COPSE_OK && t->strategy->group.workers > 1;
    return s;
}

copse_status copse__tower_unite(copse_tower_optimizer *t, unsigned char *has, size_t count,
                                copse_status mine)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    size_t sizes[COPSE_MAX_WORKERS];
    struct copse_group *g = &st->group;
    unsigned char *all = copse__alloc(mem, g->workers, COPSE_MAX(count, 1));
    if (!mine && !all)
        mine = copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
    copse_status s = copse__tower_barrier(t, "an update", count, mine);
    for (uint32_t w = 0; w < g->workers; w++)
        sizes[w] = count;
    if (!s) {
        memcpy(all + g->worker * count, has, count);
        s = copse__group_allgatherv(g, all, sizes);
    }
    for (size_t i = 0; i < g->workers * count && !s; i++)
        has[i % count] |= all[i];
    copse__free(mem, all);
    return s;
}

/* Every replica of all workers has slices; those without a gradient have none. */
static copse_status sum_workers(copse_tower_optimizer *t, const copse_variable *v,
                               copse_value *const *gradients, copse_value **out)
{
    copse_strategy *st = t->strategy;
    const struct copse_sparse_params none = { .dense_shape = v->tensor.shape };
    const uint32_t host = COPSE_HOST;
    const struct copse_destinations to = { .ranks = &host, .count = 1 };
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL }, *all = NULL, *sum = NULL;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count && !s; r++)
        if (gradients[r])
            parts[r] = copse_value_retain(gradients[r]);
        else
            s = copse__value_sparse(st->ctx, st, r, &none, &parts[r]);
    if (!s)
        s = copse__value_distributed(st, COPSE_VALUE_PER_REPLICA, parts, NULL, st->replica_count, &all);
    s = s ? copse__group_barrier(&st->group, v->name, 0, s)
          : copse__cross_reduce_for(v->name, NULL, st, COPSE_REDUCE_SUM, &all, &to, 1, &sum);
    if (!s)
        *out = copse_value_retain(sum->kind == COPSE_VALUE_MIRRORED ? sum->items[0] : sum);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse_value_release(&parts[r]);
    copse_value_release(&all);
    copse_value_release(&sum);
    return s;
}

copse_status copse__tower_sum_slices(copse_tower_optimizer *t, const copse_variable *v,
                                     copse_value *const *gradients, copse_value **out)
{
    const struct copse_ranks host = { .at = { COPSE_HOST }, .count = 1 };
    copse_value *there[COPSE_MAX_REPLICAS], *sum;
    size_t count = 0;
    *out = NULL;
    if (t->strategy->group.workers > 1)
        return sum_workers(t, v, gradients, out);
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        if (gradients[r])
            there[count++] = gradients[r];
    COPSE_TRY(copse__sparse_reduce(t->strategy, there, count, 0, &host, &sum));
    *out = copse_value_retain(sum->items[0]);
    copse_value_release(&sum);
    return COPSE_OK;
}
