/* SPDX-License-Identifier: MIT */
/* The values of a variable as an entry: one array for all replicas. */
#include "core/state/state.h"
#include "core/value/replica_run.h"

copse_status copse__state_read_variable(copse_variable *v, void *values)
{
    copse_value *parts, *all;
    if (!copse__variable_is_local(v) || v->aggregation == COPSE_AGGREGATION_NONE)
        return copse_variable_read(v, 0, values);
    const copse_status mine = copse__components_read(v, &parts);
    copse_status s = copse__variable_aggregate(v, parts, mine, &all);
    copse_value_release(&parts);
    COPSE_TRY(s);
    s = copse_value_read(all, values);
    if (s != COPSE_ERR_TIMEOUT)
        copse_value_release(&all);
    return s;
}

copse_status copse__state_write_variable(copse_variable *v, const void *values)
{
    if (copse__variable_is_local(v) && v->aggregation == COPSE_AGGREGATION_SUM)
        return copse__components_set_sum(v, values);
    return copse_variable_assign(v, values);
}
