/* SPDX-License-Identifier: MIT */
/* Tower optimizers: creation, gradients of replicas, slots. tower_update.c has the update. */
#include <stdio.h>

#include "core/compat/tower.h"
#include "core/value/cross_device.h"

static const char kind; /* of dependants: its address */

copse_tower_optimizer *copse__tower_next(const copse_strategy *st, const copse_tower_optimizer *t)
{
    return copse__dependant_next(st, t ? &t->dependant : NULL, &kind);
}

/* ---- making ---- */

static bool is_taken(const copse_strategy *st, const char *name)
{
    for (const copse_tower_optimizer *t = NULL; (t = copse__tower_next(st, t));)
        if (strcmp(t->optimizer->name, name) == 0)
            return true;
    return false;
}

/* The given name, or the first of "tower", "tower_1", ... that is free. */
static copse_status choose_name(const copse_strategy *st, const char *wanted,
                                char name[COPSE_OPTIMIZER_NAME])
{
    if (wanted && (!*wanted || strlen(wanted) >= COPSE_OPTIMIZER_NAME))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "tower optimizer: a name has 1 to %d bytes, this one %zu",
                          COPSE_OPTIMIZER_NAME - 1, strlen(wanted));
    if (wanted && copse__utf8_valid(wanted, strlen(wanted)) < strlen(wanted))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "tower optimizer: its name is not UTF-8 at byte %zu, and no checkpoint could "
            "hold it",
            copse__utf8_valid(wanted, strlen(wanted)));
    if (wanted && is_taken(st, wanted))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "tower optimizer: the strategy has another one of the name '%s'", wanted);
    snprintf(name, COPSE_OPTIMIZER_NAME, "%s", wanted ? wanted : "tower");
    for (uint32_t i = 1; is_taken(st, name); i++)
        snprintf(name, COPSE_OPTIMIZER_NAME, "tower_%u", i);
    return COPSE_OK;
}

/* All workers have the same settings. */
static copse_status tower_agree(copse_tower_optimizer *t)
{
    char rule[COPSE_RULE_TEXT], text[COPSE_RULE_TEXT + 256];
    snprintf(text, sizeof text,
             "name %s\nreduction %d\nfactory %d\n%sseed %llu\ncross-device operations %s\n",
             t->optimizer->name, (int)t->params.reduction, t->params.factory != NULL,
             copse__rule_text(&t->params.optimizer, rule), (unsigned long long)t->params.seed,
             copse__cross_text(t->strategy));
    return copse__group_agree(&t->strategy->group, "the settings of the tower optimizer", text);
}

/* Functions of the optimizer's owner. */
static void drop_held(void *tower)
{
    copse__tower_drop_all(tower);
}

static copse_status make_rule(void *tower)
{
    return copse__tower_rule(tower);
}

static copse_status make_optimizer(copse_tower_optimizer *t, const char *name)
{
    COPSE_TRY(copse__optimizer_create(t->strategy, name, &t->optimizer));
    t->optimizer->owner.user = t;
    t->optimizer->owner.drop_held = drop_held;
    t->optimizer->owner.make_rule = make_rule;
    return t->params.factory ? COPSE_OK : copse__optimizer_rule(t->optimizer, &t->params.optimizer);
}

copse_status copse_tower_create(copse_strategy *st, const struct copse_tower_params *params,
                                copse_tower_optimizer **out)
{
    COPSE_TRY(copse_need("tower optimizer", st, params, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_tower_params, params));
    COPSE_TRY(copse_no_reserved(copse_optimizer_params, &params->optimizer));
    COPSE_TRY(copse__require_device(st, "tower optimizer"));
    COPSE_TRY(copse_need_known("tower optimizer", "reduction of losses", params->reduction,
                               COPSE_LOSS_SUM));
    char name[COPSE_OPTIMIZER_NAME];
    COPSE_TRY(copse__callback_check("copse_tower_create", st));
    COPSE_TRY(choose_name(st, params->name, name));
    copse_tower_optimizer *t = copse__alloc(&st->ctx->base.mem, 1, sizeof *t);
    COPSE_TRY(copse_need_memory(t, "tower optimizer"));
    t->params = *params;
    t->params.name = NULL;
    t->reduction = params->reduction;
    t->strategy = copse_strategy_retain(st);
    copse__dependant_add(st, &t->dependant, &kind);
    copse_status s = make_optimizer(t, name);
    copse__tower_computing_init(t);
    if (!s)
        s = tower_agree(t);
    if (s)
        copse_tower_release(&t);
    *out = t;
    return s;
}

void copse_tower_release(copse_tower_optimizer **at)
{
    if (!at || !*at)
        return;
    copse_tower_optimizer *t = *at;
    copse_strategy *st = t->strategy;
    if (!copse__callback_may_release(&st->ctx->base.log, "copse_tower_release", t))
        return;
    struct copse_mem *mem = &st->ctx->base.mem;
    copse__dependant_remove(st, &t->dependant);
    copse__tower_drop_all(t);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse__free(mem, t->kept[r].at);
    copse__calls_fini(&t->computing);
    copse__optimizer_release(&t->optimizer);
    copse__free(mem, t);
    copse_strategy_release(&st);
    *at = NULL;
}

/* ---- gradients ---- */

/* Keep what the caller gives: of its replica, or in the cross-replica context of all. */
static copse_status keep_gradients(copse_tower_optimizer *t,
                                   const struct copse_tower_gradient *pairs, size_t count)
{
    const uint32_t replicas = t->strategy->replica_count;
    const struct copse_frame *f = copse__context_top();
    uint32_t rank = 0, kept = 0;
    if (f && f->handle) {
        COPSE_TRY(copse__tower_replica(t, &rank));
        return copse_note(copse__tower_keep(t, rank, pairs, count),
                          "in the gradients of replica %u", rank);
    }
    copse_status s = COPSE_OK;
    for (; kept < replicas && !s; kept++)
        s = copse_note(copse__tower_keep(t, kept, pairs, count), "in the gradients of replica %u",
                       kept);
    for (uint32_t r = 0; s && r + 1 < kept; r++)
        copse__tower_drop_last(t, r);
    return s;
}

/* In a replica, or in the cross-replica context of the optimizer's strategy. */
static copse_status check_place(const copse_tower_optimizer *t)
{
    const struct copse_frame *f = copse__context_top();
    uint32_t rank;
    return f && f->handle ? copse__tower_replica(t, &rank)
                          : copse__require_cross(t->strategy, "tower optimizer: gradients");
}

copse_status copse_tower_apply(copse_tower_optimizer *t, const struct copse_tower_gradient *pairs,
                               size_t count, bool moves_step)
{
    if (!t || (!pairs && count > 0))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "tower optimizer: it, or the list of gradients, is NULL");
    COPSE_TRY(check_place(t));
    if (t->optimizer->is_torn)
        return copse_fail(COPSE_ERR_DEVICE_LOST,
                          "tower optimizer: an update was cut short by a failed "
                          "device; make new variables from the last checkpoint");
    COPSE_TRY(copse__tower_rule(t));
    t->is_used = true;
    COPSE_TRY(keep_gradients(t, pairs, count));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        if (t->kept[r].count == 0)
            return COPSE_OK;
    return copse_note(copse__tower_update(t, moves_step), "in update %llu of a tower optimizer",
                      (unsigned long long)t->optimizer->step + 1);
}

static size_t list_pairs(const copse_tower_optimizer *t, copse_variable *const *variables,
                         size_t count, struct copse_tower_gradient *pairs)
{
    const copse_strategy *st = t->strategy;
    size_t n = 0;
    for (size_t i = 0; variables && i < count; i++)
        pairs[n++].variable = variables[i];
    for (size_t i = 0; !variables && i < st->variables.count; i++)
        if (st->variables.at[i]->is_trained)
            pairs[n++].variable = st->variables.at[i];
    return n;
}

copse_status copse_tower_minimize(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                  copse_variable *const *variables, size_t count, bool moves_step,
                                  copse_value **loss)
{
    if (loss)
        *loss = NULL;
    COPSE_TRY(copse_need("tower optimizer", t));
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    /* a longer list has one twice, or what is none: the first of them is refused, and the rest is
       not read */
    const size_t all = t->strategy->variables.count,
                 most = variables ? COPSE_MIN(count, all + 1) : all;
    struct copse_tower_call call = { copse__alloc(mem, most, sizeof *call.pairs), 0 };
    COPSE_TRY(copse_need_memory(call.pairs, "tower optimizer"));
    call.count = list_pairs(t, variables, most, call.pairs);
    copse_status s = copse_tower_compute(t, of, call.pairs, call.count, loss);
    if (s == COPSE_OK)
        s = copse_tower_apply(t, call.pairs, call.count, moves_step);
    if (s != COPSE_OK && loss)
        copse_value_release(loss);
    copse__tower_call_free(t, &call);
    return s;
}

copse_status copse_tower_finish(copse_tower_optimizer *t)
{
    COPSE_TRY(copse_need("tower optimizer", t));
    COPSE_TRY(copse__require_cross(t->strategy, "tower optimizer: the end of a step"));
    uint32_t odd = 0;
    for (uint32_t r = 1; r < t->strategy->replica_count && odd == 0; r++)
        if (t->calls[r] != t->calls[0])
            odd = r;
    copse_status s = COPSE_OK;
    if (odd > 0)
        s = copse_fail(COPSE_ERR_CONTEXT,
                       "tower optimizer: replica %u handed gradients over %llu times, "
                       "replica 0 %llu times; all must do it equally often",
                       t->strategy->group.first + odd, (unsigned long long)t->calls[odd],
                       (unsigned long long)t->calls[0]);
    copse__tower_drop_all(t);
    copse__scaling_end(t->optimizer);
    return copse__tower_barrier(t, "the end of a step", 0, s);
}

/* ---- queries ---- */

COPSE_PROPERTY(bool, copse_tower_is_used, copse_tower_optimizer, x->is_used, false)
COPSE_PROPERTY(float, copse_tower_loss_scale, copse_tower_optimizer, x->optimizer->scaling.scale,
               0.0f)
COPSE_PROPERTY(bool, copse_tower_is_skipped, copse_tower_optimizer,
               x->optimizer->scaling.is_skipped, false)
COPSE_PROPERTY(uint64_t, copse_tower_steps, copse_tower_optimizer, x->optimizer->step, 0)
COPSE_PROPERTY(size_t, copse_tower_slot_count, copse_tower_optimizer,
               x->optimizer->variable_count * x->optimizer->rule.slots, 0)

copse_status copse_tower_name(copse_tower_optimizer *t, const char **name)
{
    COPSE_TRY(copse_need("tower optimizer", t, name));
    COPSE_TRY(copse__tower_rule(t));
    *name = copse__rule_name(&t->optimizer->rule);
    return COPSE_OK;
}

copse_status copse_tower_slot_names(copse_tower_optimizer *t, const char *const **names,
                                    size_t *count)
{
    COPSE_TRY(copse_need("tower optimizer", t, names, count));
    COPSE_TRY(copse__tower_rule(t));
    *names = t->optimizer->rule.slot_names;
    *count = t->optimizer->rule.slots;
    return COPSE_OK;
}

static copse_status make_slot(copse_tower_optimizer *t, const copse_variable *v, uint32_t slot,
                              copse_value **out)
{
    struct copse_block *block;
    COPSE_TRY(copse__slot_read(t->optimizer, v, slot, &block));
    return copse__value_from_block(t->strategy->ctx, NULL, COPSE_HOST, v->tensor.shape, block, out);
}

copse_status copse_tower_slot(copse_tower_optimizer *t, const copse_variable *v, const char *name,
                              copse_value **out)
{
    uint32_t slot;
    COPSE_TRY(copse_need("tower optimizer", t, v, name, out));
    *out = NULL;
    COPSE_TRY(copse__callback_check("copse_tower_slot", t));
    COPSE_TRY(copse__variable_check(v, "copse_tower_slot"));
    if (t->strategy->group.workers > 1)
        COPSE_TRY(copse__require_cross(t->strategy,
                                       "tower optimizer: a slot that all workers have parts of"));
    COPSE_TRY(copse__tower_rule(t));
    if (v->strategy != t->strategy || copse__optimizer_bucket(t->optimizer, v) == COPSE_NO_BUCKET)
        return COPSE_OK;
    if (!copse__slot_find(t->optimizer, name, &slot))
        return COPSE_OK;
    return copse_note(make_slot(t, v, slot, out), "while reading slot '%s' of '%s'", name, v->name);
}
