/* SPDX-License-Identifier: MIT */
/* Which parameter group a variable belongs to. A variable of several parts has the name of the
   whole. */
#include "core/optim/optimizer.h"

uint32_t copse__optimizer_group(const struct copse_optimizer *o, const copse_variable *v)
{
    return copse__groups_find(&o->rule.groups, v->whole ? v->whole->name : v->name);
}

bool copse__optimizer_freezes(const struct copse_optimizer *o, const copse_variable *v)
{
    const uint32_t group = copse__optimizer_group(o, v);
    return group < o->rule.groups.count && o->rule.groups.at[group].is_frozen;
}

copse_status copse__optimizer_check_groups(const struct copse_optimizer *o,
                                           copse_variable *const *list, size_t count)
{
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    if (o->rule.groups.count == 0)
        return COPSE_OK;
    const char **names = copse__alloc(mem, count, sizeof *names);
    if (!names)
        return copse_no_memory("optimizer");
    for (size_t i = 0; i < count; i++)
        names[i] = list[i]->whole ? list[i]->whole->name : list[i]->name;
    const copse_status s = copse__groups_check(&o->rule.groups, names, count);
    copse__free(mem, names);
    return s;
}
