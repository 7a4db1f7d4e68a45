/* SPDX-License-Identifier: MIT */
/* The flat store: lays trained variables out in pieces, and fills them. */
#include "core/variable/storage.h"

static uint64_t flat_store_padded(const copse_variable *v)
{
    return (v->count + COPSE_UNIT - 1) / COPSE_UNIT * COPSE_UNIT;
}

/* Elements of a piece: what every replica can bind, for all replicas' parts at once, so that
   shared memory stays possible; a larger variable gets a piece of its own. */
static uint64_t piece_limit(const copse_strategy *st)
{
    /* all workers cut the same pieces */
    const uint64_t bytes =
        copse__group_binding_bytes(&st->group, copse__replicas_binding_bytes(st));
    return bytes / 4 / st->group.ranks / COPSE_UNIT * COPSE_UNIT;
}

/* Variables from *next on become a piece, as many as fit, at least one. */
static copse_status make_piece(copse_strategy *st, uint64_t limit, size_t *next)
{
    struct copse_store *store = st->store;
    uint64_t elements = 0;
    uint32_t piece;
    const size_t first = *next;
    for (; *next < store->order.count; ++*next) {
        copse_variable *v = store->order.at[*next];
        if (elements > 0 && elements + flat_store_padded(v) > limit)
            break;
        v->first = elements;
        elements += flat_store_padded(v);
    }
    COPSE_TRY(copse__exchange_piece(store->exchange, elements, &piece));
    for (size_t i = first; i < *next; i++) /* all-reduces of loss functions have pieces, too */
        store->order.at[i]->piece = piece;
    store->piece_count++;
    return COPSE_OK;
}

static copse_status flat_store_fill(copse_strategy *st, size_t begin)
{
    const struct copse_store *store = st->store;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_queue *q = st->replicas[r].queue;
        for (size_t i = begin; i < store->order.count; i++) {
            const copse_variable *v = store->order.at[i];
            const struct copse_binding to = copse__variable_values(v, r);
            COPSE_TRY(copse_queue_write(q, to.buffer, to.offset, v->initial,
                                        (size_t)v->count * sizeof(float)));
        }
        COPSE_TRY(copse_queue_finish(q));
    }
    for (size_t i = begin; i < store->order.count; i++) {
        copse_variable *v = store->order.at[i];
        copse__free(&st->ctx->base.mem, v->initial);
        v->initial = NULL;
        v->is_placed = true;
        if (copse__storage(v)->moved)
            copse__storage(v)->moved(v);
    }
    return COPSE_OK;
}

/* Variables from `begin` on of the order have no place yet. */
static copse_status flat_store_place(copse_strategy *st, size_t begin)
{
    const uint64_t limit = piece_limit(st);
    for (size_t next = begin; next < st->store->order.count;)
        COPSE_TRY(make_piece(st, limit, &next));
    return flat_store_fill(st, begin);
}

static copse_status make_exchange(copse_strategy *st)
{
    struct copse_exchange_rank ranks[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < st->replica_count; r++)
        ranks[r] = (struct copse_exchange_rank){
            .queue = st->replicas[r].queue,
            .step = { st->replicas[r].step, 0, 4 * COPSE_STEP_WORDS },
        };
    const struct copse_exchange_params params = {
        .ctx = st->ctx,
        .ranks = ranks,
        .rank_count = st->replica_count,
        .reduction = st->params.reduction,
        .transfer = st->params.transfer,
        .message_bytes = st->params.message_bytes,
        .group = &st->group,
    };
    return copse__exchange_create(&params, &st->store->exchange);
}

copse_status copse__store_build(copse_strategy *st)
{
    struct copse_store *store = st->store;
    const size_t begin = store->order.count;
    copse_status s = COPSE_OK;
    for (size_t i = st->variables.count; s == COPSE_OK && i-- > 0;)
        if (st->variables.at[i]->is_trained && !st->variables.at[i]->is_sparse &&
            !st->variables.at[i]->is_placed &&
            !COPSE_PUSH(&st->ctx->base.mem, &store->order, st->variables.at[i]))
            s = copse_no_memory("store");
    if (s == COPSE_OK && !store->exchange)
        s = make_exchange(st);
    if (s == COPSE_OK && begin < store->order.count)
        s = flat_store_place(st, begin);
    if (s != COPSE_OK)
        store->order.count = begin; /* pieces without variables do no harm */
    return copse_note(s, "while building the store");
}

copse_status copse__store_create(copse_strategy *st)
{
    st->store = copse__alloc(&st->ctx->base.mem, 1, sizeof *st->store);
    return copse_need_memory(st->store, "strategy");
}

void copse__store_release(copse_strategy *st)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    if (!st->store)
        return;
    copse__exchange_release(&st->store->exchange);
    copse__free(mem, st->store->order.at);
    copse__free(mem, st->store);
    st->store = NULL;
}

static struct copse_binding flat_store_range(struct copse_binding piece, const copse_variable *v)
{
    piece.offset += (size_t)v->first * sizeof(float);
    piece.size = (size_t)v->count * sizeof(float);
    return piece;
}

struct copse_binding copse__variable_values(const copse_variable *v, uint32_t replica)
{
    if (v->components)
        return (struct copse_binding){ v->components[replica], 0, (size_t)v->count * 4 };
    return flat_store_range(copse__exchange_values(v->strategy->store->exchange, v->piece, replica),
                            v);
}

struct copse_binding copse__variable_gradient(const copse_variable *v, uint32_t replica)
{
    if (v->components)
        return (struct copse_binding){ .buffer = NULL };
    return flat_store_range(
        copse__exchange_gradients(v->strategy->store->exchange, v->piece, replica), v);
}

const char *copse_strategy_transfer(const copse_strategy *st)
{
    if (!st)
        return "";
    if (st->replica_count == 1)
        return "one replica, nothing to exchange";
    if (!st->store || !st->store->exchange)
        return "chosen when training starts";
    if (copse__exchange_is_one_queue(st->store->exchange))
        return copse__exchange_is_shared(st->store->exchange) ? "memory of the device, in place"
                                                              : "copies on the device";
    return copse__exchange_is_shared(st->store->exchange)
               ? "shared host memory, no copies between replicas"
               : "staged through host memory";
}
