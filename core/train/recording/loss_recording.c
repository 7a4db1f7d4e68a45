/* SPDX-License-Identifier: MIT */
/* Recordings of a loss function on replicas: see loss_recording.h. */
#include "core/train/recording/loss_recording.h"

#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/variable/flat_store.h"

void copse__loss_recordings_init(struct copse_recordings *lists,
                                 const struct copse_recording_table *table, void *user,
                                 copse_strategy *st, uint32_t limit)
{
    for (uint32_t r = 0; r < st->replica_count; r++)
        lists[r] = (struct copse_recordings){ .table = table,
                                              .user = user,
                                              .ctx = st->ctx,
                                              .strategy = st,
                                              .replica = r,
                                              .limit = limit > 0 ? limit : COPSE_RECORDINGS };
}

void copse__loss_recordings_fini(struct copse_recordings *lists)
{
    for (uint32_t r = 0; r < COPSE_MAX_REPLICAS; r++)
        copse__recordings_fini(&lists[r]);
}

void copse__graph_call_enter(struct copse_graph_call *c, const struct copse_recording *r,
                             const char *name)
{
    c->callback = (struct copse_callback){ .name = name,
                                           .is_passive = true,
                                           .used = { r->list->user, r->graph } };
    copse__context_push_replica(&c->frame, r->list->strategy, r->list->replica);
    c->frame.is_graph = true;
    c->frame.is_mean = r->list->is_mean;
    copse__callback_enter(&c->callback);
}

copse_loss_reduction copse_current_loss_reduction(void)
{
    const struct copse_frame *f = copse__context_top();
    const bool is_mean = f && (f->is_graph ? f->is_mean : f->strategy->has_mean_losses);
    return is_mean ? COPSE_LOSS_MEAN : COPSE_LOSS_SUM;
}

copse_status copse__graph_call_leave(struct copse_graph_call *c, copse_status s)
{
    return copse__callback_leave(&c->callback, copse__context_pop(&c->frame, s));
}

copse_status copse__loss_call(struct copse_recording *r, copse_batch *in, bool is_training,
                              const char *name, copse_loss_fn *loss, void *user)
{
    const struct copse_group *group = &r->list->strategy->group;
    struct copse_graph_call c;
    r->graph->replicas = in->replicas = group->ranks;
    in->replica = group->first + r->list->replica;
    in->is_training = is_training;
    copse__graph_call_enter(&c, r, name);
    r->result = loss(r->graph, in, user);
    return copse__graph_call_leave(&c, copse_graph_status(r->graph));
}

static copse_status loss_recording_locate(void *user, struct copse_variable *v,
                                          struct copse_binding *out)
{
    const struct copse_recording *r = user;
    COPSE_TRY(copse__variable_of(v, r->list->strategy, r->list->table->name));
    COPSE_TRY(copse__store_build(v->strategy)); /* it may have been created after the list */
    *out = copse__variable_values(v, r->list->replica);
    return COPSE_OK;
}

void copse__loss_target(struct copse_recording *r, struct copse_program_params *params)
{
    const copse_strategy *st = r->list->strategy;
    const struct copse_replica *replica = &st->replicas[r->list->replica];
    *params = (struct copse_program_params){
        .queue = replica->queue,
        .step = { replica->step, 0, 4 * COPSE_STEP_WORDS },
        .locate = loss_recording_locate,
        .user = r,
        .choices = st->choices.at,
        .choice_count = st->choices.count,
    };
}

copse_status copse__loss_differentiate(struct copse_recording *r, copse_tensor *from,
                                       copse_tensor *const *x, size_t count, copse_tensor **dx)
{
    r->graph->is_backward = true;
    copse_tensor *seed = copse__step_scalar(r->graph, COPSE_STEP_SHARE);
    if (from)
        seed = copse_mul(r->graph, from, seed);
    else if (r->result->shape.rank > 0)
        seed = copse_reshape(r->graph, seed, r->result->shape);
    copse__gradients(r->graph, r->result, seed, x, count, dx);
    return copse_graph_status(r->graph);
}

copse_status copse__loss_place(struct copse_recording *r, copse_tensor *t, uint32_t bucket,
                               struct copse_block **out)
{
    const uint64_t count = copse__elements(t->shape);
    copse_queue *q = r->list->strategy->replicas[r->list->replica].queue;
    COPSE_TRY(copse__block_create(r->list->ctx, q, t->type, count, out));
    const struct copse_binding at = { (*out)->buffer, 0,
                                      (size_t)count * copse__type_bytes(t->type) };
    return count > 0 ? copse__recording_place(r, t, at, bucket) : COPSE_OK;
}
