/* SPDX-License-Identifier: MIT */
/* The values of a step, planned as when its program is made: without and with recomputation. */
#include <stdio.h>

#include "core/graph/recompute.h"
#include "core/graph/type.h"
#include "core/train/memory/step_memory.h"

static size_t count_launched(const copse_graph *g)
{
    size_t count = 0;
    for (size_t n = 0; n < g->nodes.count; n++)
        count += g->nodes.at[n]->op->lower != NULL;
    return count;
}

static copse_status memory_plan_measure(const struct copse_program_params *params,
                                        struct copse_value_memory *out)
{
    struct copse_program_memory m;
    COPSE_TRY(copse__program_measure(params, SIZE_MAX, &m));
    *out = (struct copse_value_memory){ .bytes = m.bytes, .kept = m.kept, .peak = m.peak };
    if (m.at)
        snprintf(out->op, sizeof out->op, "%s %s%s, %s pass", m.at->op->name,
                 copse_type_name(m.at->type), COPSE_SHAPE_TEXT(m.at->shape),
                 m.at->is_backward ? "backward" : "forward");
    return COPSE_OK;
}

/* Marked segments are recomputed with any budget, and without. */
static copse_status plan_plain(void *user, struct copse_program_params *params)
{
    struct copse_value_memory *out = user;
    const size_t before = count_launched(params->graph);
    params->budget = 0;
    COPSE_TRY(copse__recompute_fit(params));
    COPSE_TRY(memory_plan_measure(params, out));
    out->recomputed = (uint32_t)(count_launched(params->graph) - before);
    return COPSE_OK;
}

struct recomputed {
    struct copse_value_memory *out;
    size_t budget;
};

static copse_status plan_recomputed(void *user, struct copse_program_params *params)
{
    const struct recomputed *r = user;
    const size_t before = count_launched(params->graph);
    params->budget = r->budget;
    COPSE_TRY(r->budget > 0 ? copse__recompute_fit(params) : copse__recompute_least(params));
    COPSE_TRY(memory_plan_measure(params, r->out));
    r->out->recomputed = (uint32_t)(count_launched(params->graph) - before);
    return COPSE_OK;
}

copse_status copse__memory_plan_plain(struct copse_step_recordings *all,
                                      const struct copse_memory_shard *s,
                                      struct copse_value_memory *out)
{
    return copse__recording_plan(all, s->replica, s->batch, s->examples, COPSE_PASS_TRAIN,
                                 plan_plain, out);
}

copse_status copse__memory_plan_recomputed(struct copse_step_recordings *all,
                                           const struct copse_memory_shard *s, size_t budget,
                                           struct copse_value_memory *out)
{
    struct recomputed r = { out, budget };
    return copse__recording_plan(all, s->replica, s->batch, s->examples, COPSE_PASS_TRAIN,
                                 plan_recomputed, &r);
}

uint64_t copse__memory_free(copse_device *dev, const struct copse_memory_use *use)
{
    const uint64_t used = use->others + use->recordings;
    uint64_t free_bytes, total;
    if (copse_device_memory(dev, &free_bytes, &total) != COPSE_OK)
        return 0;
    return free_bytes > 0 ? free_bytes : total > used ? total - used : 0;
}
