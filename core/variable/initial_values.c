/* SPDX-License-Identifier: MIT */
/* Initial values across workers: all workers start with those of the first one. */
#include <stdio.h>

#include "core/variable/flat_store.h"

/* Names and shapes, in order of creation. */
static copse_status initial_values_describe(const copse_strategy *st, copse_variable *const *list,
                                            size_t count, char **out)
{
    size_t room = 64, used = 0;
    for (size_t i = 0; i < count; i++)
        room += strlen(list[i]->name) + 16 + COPSE_SHAPE_BYTES;
    char *text = copse__alloc(&st->ctx->base.mem, room, 1);
    COPSE_TRY(copse_need_memory(text, "strategy"));
    for (size_t i = count; i-- > 0;)
        used += (size_t)snprintf(text + used, room - used, "%s f32 %s\n", list[i]->name,
                                 COPSE_SHAPE_TEXT(list[i]->tensor.shape));
    snprintf(text + used, room - used, "%zu variables\n", count);
    *out = text;
    return COPSE_OK;
}

copse_status copse__initial_values_broadcast(copse_strategy *st, copse_variable *const *list,
                                             size_t count)
{
    char *text = NULL;
    COPSE_TRY(initial_values_describe(st, list, count, &text));
    copse_status s = copse__group_agree(&st->group, "the variables", text);
    copse__free(&st->ctx->base.mem, text);
    for (size_t i = count; i-- > 0 && !s;)
        s = copse__group_broadcast(&st->group, list[i]->name, list[i]->initial,
                                   (size_t)list[i]->count * sizeof(float), COPSE_OK);
    return s;
}

copse_status copse__initial_value_broadcast(copse_strategy *st,
                                            const struct copse_variable_params *p, void *values,
                                            copse_status mine)
{
    char what[COPSE_WHAT_BYTES];
    uint64_t hash = copse__hash(COPSE_HASH_START, p->name, strlen(p->name));
    const uint32_t kind[] = { (uint32_t)p->synchronization, (uint32_t)p->aggregation };
    hash = copse__hash(hash, kind, sizeof kind);
    snprintf(what, sizeof what, "variable '%.20s' %s %.16s, %08x", p->name,
             copse_type_name(p->type), mine ? "" : COPSE_SHAPE_TEXT(p->shape), (unsigned)hash);
    const size_t bytes = mine ? 0 : (size_t)copse__elements(p->shape) * 4;
    return copse__group_broadcast(&st->group, what, values, bytes, mine);
}
