/* SPDX-License-Identifier: MIT */
/* The beginning and the end of a recorder, and its memory plan. */
#include "core/graph/recorder.h"

copse_status copse__recorder_begin(const struct copse_program_params *params,
                                   struct copse_recorder *r)
{
    copse_device *dev = params->queue->dev;
    const size_t nodes = params->graph->nodes.count;
    *r = (struct copse_recorder){
        .lowering = { .limits = dev->limits,
                      .choices = params->choices,
                      .choice_count = params->choice_count,
                      .dev = dev },
        .mem = &params->graph->ctx->base.mem,
        .params = params,
        .graph = params->graph,
        .is_plain = params->is_plain,
    };
    r->needed = copse__alloc(r->mem, nodes, sizeof *r->needed);
    r->joined = copse__alloc(r->mem, nodes, sizeof *r->joined);
    r->fused = copse__alloc(r->mem, nodes, sizeof *r->fused);
    r->place = copse__alloc(r->mem, nodes, sizeof *r->place);
    r->homes = copse__alloc(r->mem, nodes, sizeof *r->homes);
    r->last_use = copse__alloc(r->mem, nodes, sizeof *r->last_use);
    if (!r->needed || !r->joined || !r->fused || !r->place || !r->homes || !r->last_use)
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory for %zu nodes", nodes);
    copse__lower_init(r);
    copse__fusions_drop(r);
    return COPSE_OK;
}

void copse__recorder_end(struct copse_recorder *r)
{
    copse__free(r->mem, r->needed);
    copse__free(r->mem, r->joined);
    copse__free(r->mem, r->joins.at);
    copse__free(r->mem, r->fused);
    copse__free(r->mem, r->place);
    copse__free(r->mem, r->fusions.at);
    copse__free(r->mem, r->homes);
    copse__free(r->mem, r->last_use);
    copse__free(r->mem, r->all_reduces.at);
    copse__free(r->mem, r->ends);
    copse__free(r->mem, r->cuts);
    copse__free(r->mem, r->crossings);
    copse__free(r->mem, r->node_at);
    copse__free(r->mem, r->allocations.at);
    copse__free(r->mem, r->scratch.at);
    copse__free(r->mem, r->launches.at);
    copse__free(r->mem, r->commands.at);
}

copse_status copse__recorder_plan(struct copse_recorder *r, size_t *bytes, uint32_t *count)
{
    return copse__plan(r->mem, r->allocations.at, r->allocations.count,
                       (size_t)COPSE_MIN(r->lowering.limits->max_buffer_bytes, SIZE_MAX), bytes,
                       COPSE_MAX_ARENAS, count);
}
