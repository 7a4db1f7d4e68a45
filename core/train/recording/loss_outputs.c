/* SPDX-License-Identifier: MIT */
/* Arrays that a loss function sets as outputs. Each recording has a buffer for each of them, which
   holds what the recording computed last; the outputs of a step are read from the recordings of its
   last micro-batch. */
#include "core/graph/type.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/recording/step_recording.h"
#include "core/value/cross_device.h"

/* ---- the list: the first graph makes it, later graphs must have the same ---- */

static copse_status take_list(struct copse_loss_outputs *list, struct copse_arena *arena,
                              const copse_graph *g)
{
    list->at = copse__arena_alloc(arena, g->output_count, sizeof *list->at);
    COPSE_TRY(copse_need_memory(list->at, "trainer"));
    for (list->count = 0; list->count < g->output_count; list->count++) {
        struct copse_loss_output *o = &list->at[list->count];
        o->name = copse__arena_strdup(arena, g->outputs[list->count].name);
        COPSE_TRY(copse_need_memory(o->name, "trainer"));
        o->reduction = g->outputs[list->count].reduction;
        o->type = g->outputs[list->count].tensor->type;
        o->shape = g->outputs[list->count].tensor->shape;
    }
    list->is_known = true;
    return COPSE_OK;
}

static copse_status check_list(const struct copse_loss_outputs *list, const copse_graph *g)
{
    bool is_same = list->count == g->output_count;
    for (size_t i = 0; is_same && i < g->output_count; i++) {
        const struct copse_loss_output *o = &list->at[i];
        const copse_tensor *x = g->outputs[i].tensor;
        is_same = strcmp(o->name, g->outputs[i].name) == 0 &&
                  o->reduction == g->outputs[i].reduction && o->type == x->type &&
                  o->shape.rank == x->shape.rank;
        if (is_same && o->reduction != COPSE_OUTPUT_NONE && !copse__shape_equal(o->shape, x->shape))
            return copse_fail(
                COPSE_ERR_SHAPE,
                "trainer: output '%s' is %s here and was %s before; an output that is "
                "reduced has one shape, whatever the shard is",
                o->name, COPSE_SHAPE_TEXT(x->shape), COPSE_SHAPE_TEXT(o->shape));
    }
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT,
                                "trainer: the loss function must set the same outputs on every "
                                "call");
}

copse_status copse__loss_outputs_place(struct copse_step_recording *r)
{
    struct copse_loss_outputs *list = &r->all->outputs;
    const copse_graph *g = r->base.graph;
    const uint32_t last = (uint32_t)r->all->optimizer->buckets.count; /* bucket, from 1 */
    COPSE_TRY(list->is_known ? check_list(list, g) : take_list(list, &r->all->names, g));
    if (r->pass == COPSE_PASS_EVALUATE || g->output_count == 0)
        return COPSE_OK;
    r->outputs =
        copse__arena_alloc(&r->base.graph->arena, g->output_count, sizeof(struct copse_block *));
    COPSE_TRY(copse_need_memory(r->outputs, "trainer"));
    for (size_t i = 0; i < g->output_count; i++)
        COPSE_TRY(copse__loss_place(&r->base, g->outputs[i].tensor, COPSE_MAX(last, 1) - 1,
                                    &r->outputs[i]));
    return COPSE_OK;
}

void copse__loss_outputs_free(struct copse_step_recording *r)
{
    struct copse_loss_outputs *list = &r->all->outputs;
    for (size_t i = 0; r->outputs && i < r->base.graph->output_count; i++)
        copse__block_release(&r->outputs[i]);
    list->is_newest = list->is_newest && list->newest[r->replica] != r;
}

void copse__loss_outputs_end(struct copse_step_recordings *all,
                             struct copse_step_recording *const *newest)
{
    for (uint32_t r = 0; r < all->strategy->replica_count; r++)
        all->outputs.newest[r] = newest[r];
    all->outputs.is_newest = true;
}

/* ---- reading ---- */

/* A replica without examples adds zeros, or has no rows. */
static copse_status nothing_of(copse_strategy *st, const struct copse_loss_output *o,
                               copse_value **out)
{
    copse_shape shape = o->shape;
    if (o->reduction == COPSE_OUTPUT_NONE && shape.rank > 0)
        shape.dims[0] = 0;
    struct copse_block *block;
    COPSE_TRY(copse__block_create(st->ctx, NULL, o->type, copse__elements(shape), &block));
    if (block->host)
        memset(block->host, 0, (size_t)copse__elements(shape) * copse__type_bytes(o->type));
    return copse__value_from_block(st->ctx, st, COPSE_HOST, shape, block, out);
}

static copse_status part_of(const struct copse_step_recordings *all, uint32_t replica, size_t i,
                            copse_value **out)
{
    const struct copse_step_recording *r = all->outputs.newest[replica];
    if (!r->base.program)
        return nothing_of(all->strategy, &all->outputs.at[i], out);
    struct copse_block *copy;
    COPSE_TRY(copse__block_copy(r->outputs[i], r->outputs[i]->queue, &copy));
    return copse__value_from_block(all->strategy->ctx, all->strategy, replica,
                                   r->base.graph->outputs[i].tensor->shape, copy, out);
}

/* What this worker's replicas have. */
copse_status copse__loss_output_read(const struct copse_step_recordings *all, size_t i,
                                     copse_value **out)
{
    const uint32_t replicas = all->strategy->replica_count;
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    if (replicas == 1)
        return part_of(all, 0, i, out);
    for (uint32_t r = 0; r < replicas && !s; r++)
        s = part_of(all, r, i, &parts[r]);
    return copse__value_distributed_of(s, all->strategy, COPSE_VALUE_PER_REPLICA, parts, NULL,
                                       replicas, out);
}
