/* SPDX-License-Identifier: MIT */
/* Outputs that are values: reduced over the replicas of all workers, or the components of all of
   them. */
#include "copse/distribute/replica.h"
#include "core/loop/outputs.h"
#include "core/value/cross_device.h"
#include "core/value/replica_run.h"

copse_status copse__outputs_keep(copse_outputs *o, const char *name, copse_value *value)
{
    struct copse_named_output *n;
    COPSE_TRY(copse__outputs_named(o, name, &n));
    if (value)
        copse_value_retain(value);
    copse_value_release(&n->value);
    n->value = value;
    n->count = 0;
    return COPSE_OK;
}

static copse_status output_values_reduce(copse_strategy *st, copse_value *value,
                                         copse_output_reduction reduction, copse_value **out)
{
    const copse_reduce_op op = reduction == COPSE_OUTPUT_SUM ? COPSE_REDUCE_SUM : COPSE_REDUCE_MEAN;
    if (st->group.ranks > 1)
        return copse__strategy_reduce_to_host(st, op, value, out);
    *out = copse_value_retain(value);
    return COPSE_OK;
}

copse_status copse__output_combine(copse_strategy *st, copse_value *value,
                                   copse_output_reduction reduction, copse_status mine,
                                   copse_value **out)
{
    *out = NULL;
    if (mine)
        return copse__group_barrier(&st->group, "an output", 0, mine);
    if (reduction != COPSE_OUTPUT_NONE)
        return output_values_reduce(st, value, reduction, out);
    const bool is_own =
        st->group.workers > 1 && st->replica_count == 1 && value->kind == COPSE_VALUE_ARRAY;
    const bool is_each = value->kind == COPSE_VALUE_PER_REPLICA;
    for (size_t i = 0; is_each && i < value->count && !mine; i++)
        if (value->items[i]->kind == COPSE_VALUE_SPARSE)
            mine = copse_fail(COPSE_ERR_ARGUMENT, "outputs: replica %zu has no array", i);
    if (is_each || is_own)
        return copse__value_gather(st, value, "arrays of all replicas", mine, out);
    *out = copse_value_retain(value);
    return COPSE_OK;
}

/* ---- setting one ---- */

struct setting {
    copse_outputs *o;
    const char *name;
    copse_output_reduction reduction;
};

static copse_status set_combined(copse_strategy *st, copse_value *value, const struct setting *s)
{
    copse_value *all;
    COPSE_TRY(copse__output_combine(st, value, s->reduction, COPSE_OK, &all));
    const copse_status status = copse__outputs_keep(s->o, s->name, all);
    copse_value_release(&all);
    return status;
}

/* In the merge call of all replicas. */
static copse_status set_merged(copse_strategy *st, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    (void)count, (void)result;
    return set_combined(st, args[0], user);
}

copse_status copse_outputs_set_value(copse_outputs *o, const char *name, copse_value *value,
                                     copse_output_reduction reduction)
{
    struct copse_named_output *n;
    struct setting setting = { o, name, reduction };
    copse_replica_context *rc = copse_current_replica();
    copse_strategy *st = copse_current_strategy();
    COPSE_TRY(copse_need("outputs", o, name, value));
    COPSE_TRY(copse__outputs_check_reduction(name, reduction));
    COPSE_TRY(copse__outputs_named(o, name, &n));
    /* no context is entered: the strategy of the step, or of the value */
    if (!copse_has_strategy())
        return set_combined(o->strategy       ? o->strategy
                            : value->strategy ? value->strategy
                                              : st,
                            value, &setting);
    if (o->strategy && st != o->strategy)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "outputs: '%s' is set in another strategy than that of its step", name);
    if (!rc)
        return set_combined(st, value, &setting);
    if (reduction == COPSE_OUTPUT_NONE)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': a replica's value needs a reduction",
                          name);
    return copse_note(copse_merge_call(rc, set_merged, &value, 1, &setting, NULL),
                      "while setting output '%s'", name);
}

copse_status copse_outputs_value(const copse_outputs *o, const char *name, copse_value **out)
{
    COPSE_TRY(copse_need("outputs", o, name, out));
    const struct copse_named_output *n = copse__outputs_find(o, name);
    *out = NULL;
    if (n && n->count > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "outputs: '%s' is numbers; take them with copse_outputs_get", name);
    if (!n || !n->value)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s' was not set", name ? name : "(none)");
    *out = copse_value_retain(n->value);
    return COPSE_OK;
}
