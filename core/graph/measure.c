/* SPDX-License-Identifier: MIT */
/* The memory of a program, planned as when it is made, without compiling and without memory of the
   device. */
#include "core/graph/recompute.h"
#include "core/graph/recorder.h"

/* The exchange has memory for both. */
static copse_status measure_elsewhere(void *user, const copse_tensor *y, uint32_t index,
                                      struct copse_binding *operand, struct copse_binding *result)
{
    (void)user, (void)y, (void)index;
    *operand = *result = (struct copse_binding){ .size = 0 };
    return COPSE_OK;
}

/* The node at which the most bytes are in use. */
static copse_status find_peak(const struct copse_recorder *r, struct copse_program_memory *out)
{
    int64_t *change = copse__alloc(r->mem, (size_t)r->times + 2, sizeof *change), sum = 0;
    if (!change)
        return copse_no_memory("program");
    for (size_t i = 0; i < r->allocations.count; i++) {
        const struct copse_allocation *a = &r->allocations.at[i];
        change[a->first] += (int64_t)a->size;
        change[a->last + 1] -= (int64_t)a->size;
    }
    for (size_t t = 0; t < r->times; t++) {
        sum += change[t];
        if ((size_t)sum > out->peak) {
            out->peak = (size_t)sum;
            out->at = r->graph->nodes.at[r->node_at ? r->node_at[t] : t];
        }
    }
    copse__free(r->mem, change);
    return COPSE_OK;
}

static void find_kept(const struct copse_recorder *r, struct copse_program_memory *out)
{
    const size_t forward = copse__forward_count(r->graph);
    for (size_t n = 0; n < forward; n++) {
        const struct copse_home *h = &r->homes[n];
        if (h->kind == COPSE_HOME_ARENA && !copse__is_leaf(r->graph->nodes.at[n]) &&
            r->last_use[n] >= forward)
            out->kept += r->allocations.at[h->allocation].size;
    }
}

static copse_status measure_program(struct copse_recorder *r, size_t limit,
                                    struct copse_program_memory *out)
{
    size_t arenas[COPSE_MAX_ARENAS];
    uint32_t count = 0;
    COPSE_TRY(copse__all_reduces_find(r));
    COPSE_TRY(copse__segments_cut(r));
    COPSE_TRY(copse__lower(r));
    COPSE_TRY(find_peak(r, out));
    find_kept(r, out);
    out->bytes = out->peak;
    if (out->peak > limit)
        return COPSE_OK;
    COPSE_TRY(copse__recorder_plan(r, arenas, &count));
    out->bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        out->bytes += copse__buffer_room(r->params->queue->dev, arenas[i]);
    return COPSE_OK;
}

copse_status copse__program_measure(const struct copse_program_params *params, size_t limit,
                                    struct copse_program_memory *out)
{
    struct copse_program_params measured = *params;
    struct copse_recorder r;
    *out = (struct copse_program_memory){ .bytes = 0 };
    if (params->all_reduce)
        measured.all_reduce = measure_elsewhere;
    copse_status s = copse__recorder_begin(&measured, &r);
    if (s == COPSE_OK)
        s = measure_program(&r, limit, out);
    copse__recorder_end(&r);
    return s;
}
