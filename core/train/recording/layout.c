/* SPDX-License-Identifier: MIT */
/* The all-reduces inside a loss function: memory and exchange of each, and the check that all
   recordings have the same ones. An all-reduce is a bucket of the exchange, in a piece of its own;
   its update is an assignment. */
#include "core/graph/type.h"
#include "core/train/recording/step_recording.h"

static copse_status layout_assign(void *user, copse_device *dev, const struct copse_update *u,
                                  struct copse_command *out)
{
    (void)user, (void)dev;
    *out = (struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                   .bindings = { u->gradients, u->values },
                                   .binding_count = 2 };
    out->bindings[0].size = out->bindings[1].size = (size_t)u->count * copse__type_bytes(COPSE_F32);
    return COPSE_OK;
}

static copse_status add_all_reduce(struct copse_layout *l, copse_strategy *st, copse_shape shape)
{
    copse_exchange *x = st->store->exchange;
    const struct copse_exchange_rule rule = { .update = layout_assign };
    const uint64_t count = copse__elements(shape);
    struct copse_graph_all_reduce c = { .shape = shape };
    COPSE_TRY(copse__exchange_piece(x, copse__round_up((size_t)count, COPSE_UNIT), &c.piece));
    copse_status s = copse__exchange_bucket(x, c.piece, 0, count, &rule, &c.bucket);
    if (s != COPSE_OK) {
        copse__exchange_piece_drop(x, c.piece);
        return s;
    }
    if (COPSE_PUSH(&st->ctx->base.mem, &l->all_reduces, c))
        return COPSE_OK;
    copse__exchange_drop(x, c.bucket);
    copse__exchange_piece_drop(x, c.piece);
    return copse_no_memory("trainer");
}

copse_status copse__layout_all_reduce(void *recording, const copse_tensor *y, uint32_t index,
                                      struct copse_binding *operand, struct copse_binding *result)
{
    const struct copse_step_recording *r = recording;
    copse_strategy *st = r->all->strategy;
    struct copse_layout *l = copse__layout_of(r->all, r->pass);
    if (l->is_known && index >= l->all_reduces.count)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: replica %u's loss on %zu examples has more sums over replicas "
                          "(all_reduce) than the %zu of the first one; all must have the same",
                          r->replica, r->examples, l->all_reduces.count);
    if (index >= l->all_reduces.count)
        COPSE_TRY(copse_note(add_all_reduce(l, st, y->shape), "while making all_reduce %u", index));
    const struct copse_graph_all_reduce *c = &l->all_reduces.at[index];
    if (!copse__shape_equal(c->shape, y->shape)) {
        return copse_fail(
            COPSE_ERR_SHAPE,
            "all_reduce %u: %s in replica %u's loss on %zu examples, %s elsewhere; the "
            "shape must be the same on all replicas, whatever their shards",
            index, COPSE_SHAPE_TEXT(y->shape), r->replica, r->examples, COPSE_SHAPE_TEXT(c->shape));
    }
    const size_t bytes = (size_t)copse__elements(c->shape) * copse__type_bytes(COPSE_F32);
    copse__updates_all_reduce((struct copse_step_recording *)recording, y, index);
    *operand = copse__exchange_gradients(st->store->exchange, c->piece, r->replica);
    *result = copse__exchange_values(st->store->exchange, c->piece, r->replica);
    operand->size = result->size = bytes;
    return COPSE_OK;
}

static copse_status take_layout(struct copse_step_recordings *all, struct copse_layout *l,
                                const copse_program *p)
{
    struct copse_mem *mem = &all->strategy->ctx->base.mem;
    const uint32_t segments = copse__program_segments(p);
    for (uint32_t i = 0; i < segments; i++)
        COPSE_TRY(copse_need_memory(COPSE_PUSH(mem, &l->events, copse__program_all_reduce(p, i)),
                                    "trainer"));
    if (!COPSE_RESERVE(mem, &all->ready, (size_t)segments * all->strategy->replica_count))
        return copse_no_memory("trainer");
    l->is_known = true;
    return COPSE_OK;
}

copse_status copse__layout_settle(struct copse_recording *recording)
{
    const struct copse_step_recording *r = (const struct copse_step_recording *)recording;
    struct copse_layout *l = copse__layout_of(r->all, r->pass);
    if (!l->is_known)
        return take_layout(r->all, l, r->base.program);
    bool is_same = copse__program_segments(r->base.program) == l->events.count;
    for (uint32_t i = 0; is_same && i < l->events.count; i++)
        is_same = copse__program_all_reduce(r->base.program, i) == l->events.at[i];
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT,
                                "trainer: replica %u's loss on %zu examples has other sums over "
                                "replicas (all_reduce) than the first one, or has them in another "
                                "order",
                                r->replica, r->examples);
}

void copse__layout_fini(struct copse_layout *l, copse_strategy *st)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    for (size_t i = 0; i < l->all_reduces.count; i++) {
        copse__exchange_drop(st->store->exchange, l->all_reduces.at[i].bucket);
        copse__exchange_piece_drop(st->store->exchange, l->all_reduces.at[i].piece);
    }
    copse__updates_fini(l, st);
    copse__free(mem, l->all_reduces.at);
    copse__free(mem, l->events.at);
    *l = (struct copse_layout){ .is_known = false };
}
