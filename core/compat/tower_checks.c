/* SPDX-License-Identifier: MIT */
/* Checks of the calls of a tower optimizer, and the creation of its rule. */
#include "core/compat/tower.h"

copse_status copse__tower_replica(const copse_tower_optimizer *t, uint32_t *rank)
{
    const struct copse_frame *f = copse__context_top();
    if (!f || !f->handle || f->is_graph || f->strategy != t->strategy)
        return copse_fail(COPSE_ERR_CONTEXT, "tower optimizer: gradients are given by replicas of its "
                                             "strategy; the thread is %s%s", copse__context_place(),
                          f && f->is_graph ? ", where a graph is built" : "");
    COPSE_TRY(copse__callback_check("tower optimizer", t));
    *rank = f->rank;
    return COPSE_OK;
}

copse_status copse__tower_rule(copse_tower_optimizer *t)
{
    struct copse_optimizer_params params = { .learning_rate = 0 };
    if (t->optimizer->has_rule)
        return COPSE_OK;
    struct copse_callback here = { .name = "the factory of a tower optimizer", .is_passive = true, .used = { t } };
    COPSE_TRY(copse__callback_check("tower optimizer", t));
    copse__callback_enter(&here);
    const copse_status s = copse__callback_leave(&here, t->params.factory(t->params.factory_user, &params));
    COPSE_TRY(copse_note(s, "in the factory of a tower optimizer"));
    return copse__optimizer_rule(t->optimizer, &params);
}

static copse_status check_trained(const copse_tower_optimizer *t, const copse_variable *v)
{
    COPSE_TRY(copse__variable_of(v, t->strategy, "tower optimizer"));
    return v->is_trained
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: variable '%s' is not trainable: it is "
                                                "frozen, replica-local or of whole numbers", v->name);
}

copse_status copse__tower_listed(const copse_tower_optimizer *t, const struct copse_tower_gradient *pairs, size_t i)
{
    COPSE_TRY(check_trained(t, pairs[i].variable));
    for (size_t k = 0; k < i; k++)
        if (pairs[k].variable == pairs[i].variable)
            return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: variable '%s' is twice in the list",
                              pairs[i].variable->name);
    return COPSE_OK;
}
