/* SPDX-License-Identifier: MIT */
/* What a tower optimizer computes: calls (core/call/call.h) of a loss function on one replica, and
   its gradients. */
#include "core/compat/tower.h"
#include "core/value/value.h"

void copse__tower_computing_init(copse_tower_optimizer *t)
{
    struct copse_calls *c = &t->computing;
    c->owner = (struct copse_check_owner){ .name = "tower optimizer",
                                           .turn_off = "copse_tower_params.no_cross_check",
                                           .strategy = t->strategy,
                                           .optimizer = t->optimizer };
    c->function = "the loss function of a tower optimizer";
    c->may_report = true;
    c->params.seed = t->params.seed;
    c->params.recordings = t->params.recordings;
    c->params.no_cross_check = t->params.no_cross_check;
    copse__calls_init(c, t, t->strategy);
}

/* The first input without a structure is "x", the second one "y". */
static copse_status take_inputs(struct copse_call *c, const struct copse_tower_loss *of)
{
    COPSE_TRY(copse__call_inputs_take(c, of->x, "x", false));
    COPSE_TRY(copse__call_inputs_take(c, of->y, "y", false));
    c->has_from = of->grad_loss != NULL;
    if (c->has_from && copse__value_is_structure(of->grad_loss))
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: grad_loss must be an array");
    return copse__call_inputs_take(c, of->grad_loss, "grad_loss", false);
}

/* Values of the variables as the next computation sees them. */
static copse_status pull_values(copse_tower_optimizer *t, uint32_t rank)
{
    struct copse_store *store = t->strategy->store;
    const size_t placed = store->order.count;
    COPSE_TRY(copse__store_build(t->strategy));
    return t->optimizer->table->pull(
        t->optimizer, store->order.count > placed ? COPSE_PULL_ALWAYS : COPSE_PULL_REPLICA, rank);
}

static copse_status tower_call(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                               struct copse_call *c, copse_value **result)
{
    const float part = 1.0f / (float)t->strategy->group.ranks,
                scale = copse__scaling_of(t->optimizer);
    c->calls = &t->computing;
    c->fn = of->loss;
    c->user = of->user;
    c->number = t->optimizer->step + 1;
    c->part = part;
    t->computing.recordings[c->rank].is_mean = t->reduction == COPSE_LOSS_MEAN;
    c->share = t->reduction == COPSE_LOSS_SUM ? scale : scale * part;
    copse_status s = take_inputs(c, of);
    if (!s)
        s = pull_values(t, c->rank);
    if (!s)
        s = copse__call_compute(c, result);
    copse__call_inputs_release(c);
    for (size_t i = 0; s && i < c->gradient_count; i++)
        copse_value_release(&c->gradients[i].gradient);
    if (s && result)
        copse_value_release(result);
    return s;
}

/* ---- public ---- */

copse_status copse_tower_compute(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 struct copse_tower_gradient *pairs, size_t count,
                                 copse_value **loss)
{
    struct copse_call c = { .gradients = pairs, .gradient_count = count };
    if (loss)
        *loss = NULL;
    COPSE_TRY(copse_need("tower optimizer", t, of, pairs));
    COPSE_TRY(copse_need("tower optimizer", of->loss));
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: no variables to differentiate by");
    COPSE_TRY(copse__tower_replica(t, &c.rank));
    for (size_t i = 0; i < count; i++) {
        pairs[i].gradient = NULL;
        COPSE_TRY(copse__tower_listed(t, pairs, i));
    }
    COPSE_TRY(copse__tower_rule(t));
    t->is_used = true;
    return copse_note(tower_call(t, of, &c, loss), "while computing gradients on replica %u",
                      c.rank);
}

copse_status copse_tower_forward(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 copse_value **out)
{
    struct copse_call c = { .gradient_count = 0 };
    COPSE_TRY(copse_need("tower optimizer", t, of, out));
    *out = NULL;
    COPSE_TRY(copse_need("tower optimizer", of->loss));
    if (of->grad_loss)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "tower optimizer: copse_tower_forward takes no derivative, and no "
                          "grad_loss");
    COPSE_TRY(copse__tower_replica(t, &c.rank));
    return copse_note(tower_call(t, of, &c, out), "on replica %u", c.rank);
}
