/* SPDX-License-Identifier: MIT */
/* Failures of graphs: a graph keeps the first one; a test takes it off the graph and goes on. */
#ifndef COPSE_GRAPH_RIG_H
#define COPSE_GRAPH_RIG_H

#include "core/graph/op.h"

/* The failure of the call that gave `t`, taken off the graph; without a graph COPSE_ERR_ARGUMENT if
   `t` is a failed tensor. FAILS(COPSE_ERR_SHAPE, rig_failure(g, copse_add(g, a, b)), "add"). */
static inline copse_status rig_failure(copse_graph *g, const copse_tensor *t)
{
    const bool is_failed = copse__is_failed(t);
    const copse_status s = g ? copse__graph_take_failure(g) : COPSE_ERR_ARGUMENT;
    if (is_failed == (s != COPSE_OK))
        return s;
    return is_failed ? copse_fail(COPSE_ERR_INTERNAL, "a failed tensor of a graph without failure")
                     : COPSE_OK;
}

#endif
