/* SPDX-License-Identifier: MIT */
/* The flat store: lays variables out in pieces and buckets, and fills them. */
#include "core/replica/replica.h"

static uint64_t padded(const copse_variable *v)
{
    return (v->count + COPSE_UNIT - 1) / COPSE_UNIT * COPSE_UNIT;
}

/* Variable i of the store: reverse order of creation. */
static copse_variable *at(const copse_strategy *st, size_t i)
{
    return st->variables.at[st->variables.count - 1 - i];
}

/* Elements of a piece: what every replica can bind, for all replicas' parts at once, so that
   shared memory stays possible; a larger variable gets a piece of its own. */
static uint64_t piece_limit(const copse_strategy *st)
{
    uint64_t bytes = UINT64_MAX;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_limits *l = st->replicas[r].dev->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    return bytes / 4 / st->replica_count / COPSE_UNIT * COPSE_UNIT;
}

/* Variables [begin, end) of the store become a piece, cut into buckets. */
static copse_status make_piece(copse_strategy *st, size_t begin, size_t end, uint64_t *sizes,
                               size_t *cuts)
{
    struct copse_store *store = &st->store;
    uint64_t elements = 0;
    for (size_t i = begin; i < end; i++) {
        sizes[i - begin] = padded(at(st, i));
        at(st, i)->piece = store->piece_count;
        at(st, i)->first = elements;
        elements += padded(at(st, i));
    }
    uint32_t piece;
    COPSE_TRY(copse__exchange_piece(store->exchange, elements, &piece));
    store->piece_count++;

    /* A single replica has nothing to overlap: one update per piece. */
    const size_t bytes = st->params.bucket_bytes ? st->params.bucket_bytes : (size_t)4 << 20;
    const uint64_t wanted = st->replica_count == 1 ? UINT64_MAX : COPSE_MAX(bytes / 4, 1);
    const uint32_t buckets = copse__bucket_plan(sizes, end - begin, wanted, cuts);
    size_t next = 0;
    for (uint32_t b = 0; b < buckets; b++) {
        const uint64_t first = at(st, begin + next)->first;
        uint64_t count = 0;
        for (; next < cuts[b]; next++) {
            at(st, begin + next)->bucket = store->bucket_count;
            count += sizes[next];
        }
        uint32_t bucket;
        COPSE_TRY(copse__exchange_bucket(store->exchange, piece, first, count, &bucket));
        store->bucket_count++;
    }
    return COPSE_OK;
}

static copse_status make_pieces(copse_strategy *st)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t count = st->variables.count;
    const uint64_t limit = piece_limit(st);
    uint64_t *sizes = copse__alloc(mem, count, sizeof *sizes);
    size_t *cuts = copse__alloc(mem, count, sizeof *cuts);
    copse_status s = COPSE_OK;
    if (!sizes || !cuts)
        s = copse_fail(COPSE_ERR_NO_MEMORY, "store: no memory");
    for (size_t begin = 0, end; s == COPSE_OK && begin < count; begin = end) {
        uint64_t elements = padded(at(st, begin));
        for (end = begin + 1; end < count && elements + padded(at(st, end)) <= limit; end++)
            elements += padded(at(st, end));
        s = make_piece(st, begin, end, sizes, cuts);
    }
    copse__free(mem, sizes);
    copse__free(mem, cuts);
    return s;
}

static copse_status fill(copse_strategy *st)
{
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_queue *q = st->replicas[r].queue;
        for (size_t i = 0; i < st->variables.count; i++) {
            const copse_variable *v = st->variables.at[i];
            const struct copse_binding to = copse__variable_values(v, r);
            COPSE_TRY(copse_queue_write(q, to.buffer, to.offset, v->initial,
                                        (size_t)v->count * sizeof(float)));
        }
        COPSE_TRY(copse_queue_finish(q));
    }
    for (size_t i = 0; i < st->variables.count; i++) {
        copse__free(&st->ctx->base.mem, st->variables.at[i]->initial);
        st->variables.at[i]->initial = NULL;
    }
    return COPSE_OK;
}

copse_status copse__store_build(copse_strategy *st, const struct copse_store_rule *rule)
{
    COPSE_TRY(copse__store_unbuild(st));
    if (st->variables.count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "store: the strategy has no variables to train");
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
        .slots = rule->slots,
        .update = rule->update,
        .user = rule->user,
    };
    copse_status s = copse__exchange_create(&params, &st->store.exchange);
    if (s == COPSE_OK)
        s = make_pieces(st);
    if (s == COPSE_OK)
        s = fill(st);
    if (s != COPSE_OK) {
        copse__exchange_release(&st->store.exchange);
        st->store = (struct copse_store){ 0 };
    }
    return copse_note(s, "while building the store");
}

void copse__store_fini(copse_strategy *st)
{
    copse__exchange_release(&st->store.exchange);
    st->store = (struct copse_store){ 0 };
}

copse_status copse__store_unbuild(copse_strategy *st)
{
    if (!st->store.exchange)
        return COPSE_OK;
    for (size_t i = 0; i < st->variables.count; i++) {
        copse_variable *v = st->variables.at[i];
        float *values = copse__alloc(&st->ctx->base.mem, (size_t)v->count, sizeof *values);
        const copse_status s = values ? copse_variable_read(v, 0, values)
                                      : copse_fail(COPSE_ERR_NO_MEMORY, "store: no memory");
        if (s != COPSE_OK) {
            if (s != COPSE_ERR_TIMEOUT) /* a read may still land there */
                copse__free(&st->ctx->base.mem, values);
            while (i-- > 0) {
                copse__free(&st->ctx->base.mem, st->variables.at[i]->initial);
                st->variables.at[i]->initial = NULL;
            }
            return copse_note(s, "while taking the store apart");
        }
        v->initial = values;
    }
    copse__store_fini(st);
    return COPSE_OK;
}

static struct copse_binding range(struct copse_binding piece, const copse_variable *v)
{
    piece.offset += (size_t)v->first * sizeof(float);
    piece.size = (size_t)v->count * sizeof(float);
    return piece;
}

struct copse_binding copse__variable_values(const copse_variable *v, uint32_t replica)
{
    return range(copse__exchange_values(v->strategy->store.exchange, v->piece, replica), v);
}

struct copse_binding copse__variable_gradient(const copse_variable *v, uint32_t replica)
{
    return range(copse__exchange_gradients(v->strategy->store.exchange, v->piece, replica), v);
}
