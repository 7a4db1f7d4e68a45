/* SPDX-License-Identifier: MIT */
/* Arrays that a loss function sets as outputs. Each recording has a buffer for each of them, which
   holds what the recording computed last; the outputs of a step are read from the recordings of its
   last micro-batch. */
#include "core/graph/type.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/trainer.h"
#include "core/value/cross_device.h"

/* ---- the list of a trainer: the first graph makes it, later graphs must have the same ---- */

static copse_status take_list(copse_trainer *t, const copse_graph *g)
{
    struct copse_loss_outputs *list = &t->outputs;
    list->at = copse__arena_alloc(&t->arena, g->output_count, sizeof *list->at);
    COPSE_TRY(copse_need_memory(list->at, "trainer"));
    for (list->count = 0; list->count < g->output_count; list->count++) {
        struct copse_loss_output *o = &list->at[list->count];
        o->name = copse__arena_strdup(&t->arena, g->outputs[list->count].name);
        COPSE_TRY(copse_need_memory(o->name, "trainer"));
        o->reduction = g->outputs[list->count].reduction;
        o->type = g->outputs[list->count].tensor->type;
        o->shape = g->outputs[list->count].tensor->shape;
    }
    list->is_known = true;
    return COPSE_OK;
}

static copse_status check_list(const copse_trainer *t, const copse_graph *g)
{
    bool is_same = t->outputs.count == g->output_count;
    for (size_t i = 0; is_same && i < g->output_count; i++) {
        const struct copse_loss_output *o = &t->outputs.at[i];
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
    copse_trainer *t = r->trainer;
    const copse_graph *g = r->base.graph;
    const uint32_t last = (uint32_t)t->optimizer->buckets.count; /* bucket, from 1 */
    COPSE_TRY(t->outputs.is_known ? check_list(t, g) : take_list(t, g));
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
    copse_trainer *t = r->trainer;
    for (size_t i = 0; r->outputs && i < r->base.graph->output_count; i++)
        copse__block_release(&r->outputs[i]);
    t->outputs.is_newest = t->outputs.is_newest && t->outputs.newest[r->replica] != r;
}

void copse__loss_outputs_end(copse_trainer *t, const struct copse_shards *s)
{
    memcpy((void *)t->outputs.newest, (void *)s->recordings,
           t->strategy->replica_count * sizeof *t->outputs.newest);
    t->outputs.is_newest = true;
}

/* ---- reading ---- */

/* A replica without examples adds zeros, or has no rows. */
static copse_status nothing_of(const copse_trainer *t, const struct copse_loss_output *o,
                               copse_value **out)
{
    copse_shape shape = o->shape;
    if (o->reduction == COPSE_OUTPUT_NONE && shape.rank > 0)
        shape.dims[0] = 0;
    struct copse_block *block;
    COPSE_TRY(copse__block_create(t->strategy->ctx, NULL, o->type, copse__elements(shape), &block));
    if (block->host)
        memset(block->host, 0, (size_t)copse__elements(shape) * copse__type_bytes(o->type));
    return copse__value_from_block(t->strategy->ctx, t->strategy, COPSE_HOST, shape, block, out);
}

static copse_status part_of(const copse_trainer *t, uint32_t replica, size_t i, copse_value **out)
{
    const struct copse_step_recording *r = t->outputs.newest[replica];
    if (!r->base.program)
        return nothing_of(t, &t->outputs.at[i], out);
    return copse__loss_value(&r->base, r->outputs[i], r->base.graph->outputs[i].tensor->shape, out);
}

/* What this worker's replicas have. */
copse_status copse__loss_output_read(const copse_trainer *t, size_t i, copse_value **out)
{
    const uint32_t replicas = t->strategy->replica_count;
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    if (replicas == 1)
        return part_of(t, 0, i, out);
    for (uint32_t r = 0; r < replicas && !s; r++)
        s = part_of(t, r, i, &parts[r]);
    return copse__value_distributed_of(s, t->strategy, COPSE_VALUE_PER_REPLICA, parts, NULL,
                                       replicas, out);
}
