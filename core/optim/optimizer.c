/* SPDX-License-Identifier: MIT */
/* Making and releasing optimizers. */
#include "core/optim/optimizer.h"

#include <stdio.h>

#include "core/variable/servers.h"

/* The only place that decides which implementation a strategy needs. */
static const struct copse_optimizer_table *optimizer_choose(const copse_strategy *st, size_t *bytes)
{
    *bytes = copse__servers_of(st) ? copse__optimizer_ps_bytes() : sizeof(struct copse_optimizer);
    return copse__servers_of(st) ? &copse__optimizer_ps : &copse__optimizer_local;
}

copse_status copse__optimizer_create(copse_strategy *st, const char *name,
                                     struct copse_optimizer **out)
{
    size_t bytes;
    const struct copse_optimizer_table *table = optimizer_choose(st, &bytes);
    struct copse_optimizer *o = copse__alloc(&st->ctx->base.mem, 1, bytes);
    *out = o;
    if (!o)
        return copse_no_memory("optimizer");
    o->table = table;
    o->strategy = st;
    snprintf(o->name, sizeof o->name, "%s", name ? name : "");
    st->check_name = copse__slots_check_name;
    copse__optimizer_join(o);
    return COPSE_OK;
}

copse_status copse__optimizer_rule(struct copse_optimizer *o,
                                   const struct copse_optimizer_params *params)
{
    COPSE_TRY(copse__rule_init(params, &o->rule));
    const uint32_t groups = o->rule.groups.count;
    if (o->name[0] && groups > 0)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "tower optimizer: it has no parameter groups, because its variables join one by "
            "one: use a trainer, or a tower optimizer for each group");
    if (!o->of_group)
        o->of_group =
            copse__alloc(&o->strategy->ctx->base.mem, COPSE_RULE_GROUPS + 1, sizeof *o->of_group);
    if (!o->of_group)
        return copse_no_memory("optimizer");
    for (uint32_t i = 0; i <= groups; i++)
        copse__rule_of_group(&o->rule, i, &o->of_group[i]);
    o->has_rule = true;
    o->scaling = (struct copse_scaling){ .scale = o->rule.params.loss_scale };
    return COPSE_OK;
}

copse_status copse__optimizer_trains(const struct copse_optimizer *o, const copse_variable *v,
                                     const char *what)
{
    COPSE_TRY(copse__variable_of(v, o->strategy, what));
    return v->is_trained ? COPSE_OK
                         : copse_fail(COPSE_ERR_ARGUMENT,
                                      "%s: variable '%s' is not trainable: it is frozen, "
                                      "replica-local or of whole numbers",
                                      what, v->name);
}

void copse__optimizer_release(struct copse_optimizer **at)
{
    struct copse_optimizer *o = *at;
    if (!o)
        return;
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    copse__dependant_remove(o->strategy, &o->dependant);
    if (o->table->release)
        o->table->release(o);
    copse__optimizer_drop(o, 0);
    copse__norms_free(o);
    copse__free(mem, o->buckets.at);
    copse__free(mem, o->kept.at);
    copse__free(mem, o->of_variable.at);
    copse__free(mem, o->of_group);
    copse__free(mem, o);
    *at = NULL;
}

copse_status copse__optimizer_words(const struct copse_optimizer *o, const void *user,
                                    uint64_t step, uint32_t words[])
{
    return copse__rule_step_of(&o->rule, user, o->table->next(o, step), words);
}
