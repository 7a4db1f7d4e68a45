/* SPDX-License-Identifier: MIT */
/* Initial values across workers: all workers start with those of the first one. */
#include <stdio.h>

#include "core/variable/flat_store.h"

static const char *aggregation_text(copse_aggregation aggregation)
{
    static const char *const texts[] = {
        [COPSE_AGGREGATION_NONE] = "",
        [COPSE_AGGREGATION_SUM] = " by sum",
        [COPSE_AGGREGATION_MEAN] = " by mean",
        [COPSE_AGGREGATION_ONLY_FIRST_REPLICA] = " by first",
    };
    return (size_t)aggregation < COPSE_COUNT(texts) ? texts[aggregation] : "";
}

copse_status copse__initial_value_broadcast(copse_strategy *st,
                                            const struct copse_variable_params *p, void *values,
                                            copse_status mine)
{
    char what[COPSE_WHAT_BYTES];
    uint64_t hash = copse__hash(COPSE_HASH_START, p->name, strlen(p->name));
    const uint32_t kind[] = { (uint32_t)p->synchronization, (uint32_t)p->aggregation, p->is_frozen,
                              p->is_sparse };
    if (st->group.workers == 1)
        return mine;
    hash = copse__hash(hash, kind, sizeof kind);
    if (!mine)
        hash = copse__hash(hash, p->shape.dims, p->shape.rank * sizeof *p->shape.dims);
    snprintf(what, sizeof what, "variable '%.16s' %s %.12s%s, %08x", p->name,
             copse_type_name(p->type), mine ? "" : COPSE_SHAPE_TEXT(p->shape),
             aggregation_text(p->aggregation), (unsigned)hash);
    const size_t bytes = mine ? 0 : (size_t)copse__elements(p->shape) * 4;
    return copse__group_broadcast(&st->group, what, values, bytes, mine);
}
