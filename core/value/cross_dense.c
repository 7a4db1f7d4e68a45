/* SPDX-License-Identifier: MIT */
/* Dense leaves of a batch over the replicas of this worker: those of one type together, or one by
   one with the application's own accumulation. */
#include "core/value/cross_batch.h"

#define SMALL_GROUP 10

/* ---- dense leaves of one type, together ---- */

struct group {
    struct copse_cross_batch *b;
    struct copse_leaf **leaves;
    size_t count;
    struct copse_block **from; /* [contributors][count], references */
    struct copse_block **out;  /* [count][b->to.count], references */
    uint32_t contributors;
};

static bool is_of(const copse_strategy *st, const copse_queue *queue)
{
    bool is_found = queue == NULL;
    for (uint32_t r = 0; r < st->replica_count; r++)
        is_found = is_found || st->replicas[r].queue == queue;
    return is_found;
}

/* The block of a component: its own, a variable's read, or a copy in host memory of another
   strategy's. */
static copse_status block_of(const copse_strategy *st, copse_value *c, struct copse_block **out)
{
    copse_value *plain;
    COPSE_TRY(copse__value_plain(c, &plain));
    copse_status s = COPSE_OK;
    if (is_of(st, plain->block->queue))
        *out = copse__block_retain(plain->block);
    else
        s = copse__block_copy(plain->block, NULL, out);
    copse_value_release(&plain);
    return s;
}

static copse_status cross_dense_collect(struct group *g)
{
    for (size_t i = 0; i < g->count; i++)
        for (uint32_t r = 0; r < g->contributors; r++)
            COPSE_TRY(
                block_of(g->b->st, g->leaves[i]->value->items[r], &g->from[r * g->count + i]));
    return COPSE_OK;
}

static copse_status find_root(const struct copse_cross_batch *b, uint32_t *root)
{
    *root = b->params->has_root ? b->params->root : b->to.at[0];
    if (*root != COPSE_HOST && *root >= b->st->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: root %u; there are %u replicas", *root,
                          b->st->replica_count);
    return COPSE_OK;
}

static copse_status cross_dense_choose(const struct group *g, copse_value_reducer *x,
                                       struct copse_way *way)
{
    static const enum copse_collective algorithms[] = {
        [COPSE_CROSS_TO_ONE] = COPSE_COLLECTIVE_TO_ONE,
        [COPSE_CROSS_ALL_REDUCE] = COPSE_COLLECTIVE_SHARDED,
        [COPSE_CROSS_HIERARCHICAL] = COPSE_COLLECTIVE_HIERARCHICAL,
    };
    const copse_cross_device_kind kind = g->b->params->kind;
    const struct copse_link *links;
    double bytes = 0;
    *way = (struct copse_way){ algorithms[kind], 0 };
    if (kind == COPSE_CROSS_TO_ONE)
        return find_root(g->b, &way->root);
    if (kind != COPSE_CROSS_AUTO)
        return COPSE_OK;
    for (size_t i = 0; i < g->count; i++)
        bytes += 4.0 * (double)g->from[i]->count;
    COPSE_TRY(copse__value_links(x, &links));
    *way = copse__link_choose(links, g->b->st->replica_count, bytes, g->b->to.at, g->b->to.count);
    return COPSE_OK;
}

static struct copse_bucketing bucketing_of(const struct copse_cross_device_params *p)
{
    return (struct copse_bucketing){
        .is_each = p->kind == COPSE_CROSS_TO_ONE,
        .count = p->packs,
        .small_bytes = p->small_bytes,
        .small_group = p->small_group ? p->small_group : SMALL_GROUP,
        .bucket_bytes = p->pack_bytes,
    };
}

static copse_status wrap_result(struct group *g, size_t i)
{
    copse_strategy *st = g->b->st;
    const struct copse_ranks *to = &g->b->to;
    copse_value *at[COPSE_MAX_REPLICAS + 1] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t d = 0; d < to->count && !s; d++) {
        struct copse_block *block = g->out[i * to->count + d];
        g->out[i * to->count + d] = NULL;
        s = copse__value_from_block(st->ctx, st, to->at[d], copse__leaf_first(g->leaves[i])->shape,
                                    block, &at[d]);
    }
    return copse__value_distributed_of(s, st, COPSE_VALUE_MIRRORED, at, to->at, to->count,
                                       &g->leaves[i]->result);
}

/* What is in `from`, to all destinations. */
static copse_status reduce_blocks(struct group *g)
{
    copse_value_reducer *x;
    struct copse_way way;
    COPSE_TRY(copse__strategy_reducer(g->b->st, &x));
    COPSE_TRY(cross_dense_choose(g, x, &way));
    const struct copse_bucketing bucketing = bucketing_of(g->b->params);
    const struct copse_reduction r = {
        .algorithm = way.algorithm,
        .root = way.root,
        .bucketing = &bucketing,
        .type = g->from[0]->type,
        .divisor = g->b->divisor,
        .from = g->from,
        .contributors = g->contributors,
        .arrays = g->count,
        .to = g->b->to.at,
        .to_count = g->b->to.count,
    };
    COPSE_TRY(copse__blocks_reduce(x, &r, g->out));
    for (size_t i = 0; i < g->count; i++)
        COPSE_TRY(wrap_result(g, i));
    return COPSE_OK;
}

/* ---- the application's own accumulation ---- */

static copse_status call_accumulate(const struct copse_cross_batch *b, copse_value *const *parts,
                                    size_t count, copse_value **out)
{
    struct copse_callback here = { .name = "the accumulate function of cross-device operations",
                                   .is_passive = true };
    const uint64_t failures = copse__failures();
    const copse_status s =
        copse_callback_call(&here, b->params->accumulate(b->params->user, parts, count, out));
    COPSE_TRY(copse__returned(s, failures));
    if (!*out)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: the accumulation returned nothing");
    if ((*out)->kind != COPSE_VALUE_ARRAY || (*out)->type != parts[0]->type ||
        !copse__shape_equal((*out)->shape, parts[0]->shape))
        return copse_fail(
            COPSE_ERR_SHAPE,
            "reduce: the accumulation returned another shape or type than it was given");
    return COPSE_OK;
}

copse_status copse__dense_accumulate(const struct copse_cross_batch *b, copse_value *const *parts,
                                     size_t count, copse_value **out)
{
    copse_value *there[COPSE_MAX_REPLICAS] = { NULL };
    uint32_t root;
    *out = NULL;
    COPSE_TRY(find_root(b, &root));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && !s; i++)
        s = copse__value_at(b->st, parts[i], root, &there[i]);
    if (!s)
        s = call_accumulate(b, there, count, out);
    copse__values_release(there, count);
    if (s)
        copse_value_release(out);
    return s;
}

/* Each leaf has one contribution then. */
static copse_status cross_dense_accumulate(struct group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        copse_value *sum;
        COPSE_TRY(copse__dense_accumulate(g->b, g->leaves[i]->value->items, g->contributors, &sum));
        const copse_status s = block_of(g->b->st, sum, &g->from[i]);
        copse_value_release(&sum);
        COPSE_TRY(s);
    }
    g->contributors = 1;
    return COPSE_OK;
}

/* ---- all of it ---- */

copse_status copse__dense_reduce(struct copse_cross_batch *b, enum copse_need need)
{
    struct group g = { .b = b, .contributors = b->st->replica_count };
    struct copse_leaf *leaf = NULL;
    while ((leaf = copse__leaf_next(b, need, leaf)))
        g.count++;
    if (g.count == 0)
        return COPSE_OK;
    const size_t from = g.count * g.contributors, out = g.count * b->to.count;
    g.leaves = copse__alloc(b->mem, g.count, sizeof(struct copse_leaf *));
    g.from = copse__alloc(b->mem, from, sizeof(struct copse_block *));
    g.out = copse__alloc(b->mem, out, sizeof(struct copse_block *));
    copse_status s = copse_need_memory(g.leaves && g.from && g.out, "reduce");
    for (size_t i = 0; i < g.count && !s; i++)
        g.leaves[i] = leaf = copse__leaf_next(b, need, leaf);
    if (!s)
        s = b->params->accumulate ? cross_dense_accumulate(&g) : cross_dense_collect(&g);
    if (!s)
        s = reduce_blocks(&g);
    for (size_t i = 0; g.from && i < from; i++)
        copse__block_release(&g.from[i]);
    for (size_t i = 0; g.out && i < out; i++)
        copse__block_release(&g.out[i]);
    copse__free(b->mem, g.leaves);
    copse__free(b->mem, g.from);
    copse__free(b->mem, g.out);
    return s;
}
