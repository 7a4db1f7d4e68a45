/* SPDX-License-Identifier: MIT */
/* Reading variables by the rules of the thread's context, and values that may be variables. */
#include "core/value/replica_run.h"
#include "core/variable/storage.h"

/* ---- variables ---- */

copse_status copse__require_strategy_of(const copse_variable *v)
{
    const struct copse_frame *f = copse__context_top();
    if (!f || f->strategy == v->strategy)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_CONTEXT,
                      "variable '%s': belongs to another strategy; the thread is %s", v->name,
                      copse__context_place());
}

/* All components as a per-replica value, aggregated. */
static copse_status read_local(copse_variable *v, copse_value **out)
{
    copse_value *all;
    const copse_status mine = copse__components_read(v, &all);
    const copse_status s = copse__variable_aggregate(v, all, mine, out);
    copse_value_release(&all);
    return s;
}

copse_status copse_read(copse_variable *v, copse_value **out)
{
    if (out)
        *out = NULL;
    COPSE_TRY(copse__variable_check(v, "copse_read"));
    COPSE_TRY(copse_need("variable: read", out));
    const struct copse_frame *f = copse__context_top();
    COPSE_TRY(copse__require_strategy_of(v));
    if (f && (f->handle || f->update_rank != COPSE_HOST))
        return copse__component_read(v, f->handle ? f->rank : f->update_rank, out);
    return copse__variable_is_local(v) ? read_local(v, out) : copse__component_read(v, 0, out);
}

copse_status copse_variable_value(copse_variable *v, copse_value **out)
{
    if (out)
        *out = NULL;
    COPSE_TRY(copse__variable_check(v, "copse_variable_value"));
    COPSE_TRY(copse_need("variable: value", out));
    return copse__value_of_variable(v, COPSE_ALL_RANKS, out);
}

/* ---- values ---- */

static copse_status read_variable(const copse_value *v, void *values)
{
    copse_value *seen;
    if (v->rank != COPSE_ALL_RANKS)
        return copse_variable_read(v->variable, v->rank, values);
    COPSE_TRY(copse_read(v->variable, &seen));
    const copse_status s = copse__array_read(seen, values);
    copse_value_release(&seen);
    return s;
}

copse_status copse_value_read(const copse_value *v, void *values)
{
    COPSE_TRY(copse_need("value", v, values));
    if (v->kind == COPSE_VALUE_MIRRORED)
        v = v->items[0];
    return v->kind == COPSE_VALUE_VARIABLE ? read_variable(v, values)
                                           : copse__array_read(v, values);
}

copse_status copse__value_to_host(const copse_value *v, void **values)
{
    struct copse_mem *mem = &v->ctx->base.mem;
    *values = copse__alloc(mem, (size_t)copse__elements(copse_value_shape(v)), 4);
    COPSE_TRY(copse_need_memory(*values, "value"));
    const copse_status s = copse_value_read(v, *values);
    if (s)
        copse__free_read(mem, *values, s);
    return s;
}
